"""Which events of a stream are listed."""

import pytest
from sqlalchemy import Connection

from tests.viewer.conftest import COMPLETE
from viewer.model.exchange import event_filter
from viewer.model.exchange.transcript import Transcript
from viewer.tape import queries


@pytest.mark.parametrize(
    ("text", "fitting"),
    [
        ("", list(range(9))),
        ("kind:content", [1, 3, 4, 5]),
        ("kind:finish,usage", [6, 7]),
        ("kind:ping", [2]),
        ("Δ>20ms", [5]),
        ("gap<15", [1, 2, 6]),
        ("WORLD", [5]),
        ("kind:content lo", [3]),
        ("nothing-like-it", []),
    ],
)
def test_everything_that_is_typed_must_fit(connection: Connection, text: str, fitting: list[int]) -> None:
    transcript = Transcript(queries.decoded(connection, queries.find(connection, COMPLETE)))
    assert list(event_filter.fitting(transcript, event_filter.read(text))) == fitting


@pytest.mark.parametrize(("text", "reason"), [("kind:words", "words is no kind"), ("Δ>fast", "write a duration")])
def test_what_cannot_be_read_is_said(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        event_filter.read(text)


def test_all_that_the_help_offers_can_be_typed_anywhere() -> None:
    assert event_filter.HELP.replace(" · ", " ").isascii()
    assert all(event_filter.mistake(text) is None for text in event_filter.HELP.split(" · "))

"""The events of an exchange: each in a line, and which fit a filter."""

import pytest

from tests.support.cases import each_case
from tests.support.sample_tape import COMPLETE, FAILED, TOOLS
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import events
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.source.tape import queries

FACTS = Exchange(
    status=200,
    content_type="text/event-stream",
    ended_by="end",
    connected_ns=0,
    headers_ns=0,
    end_ns=1,
    path="/v1/chat/completions",
)


def gists(connection: Connection, id: str) -> list[str]:
    transcript = Transcript(queries.observed(connection, queries.find(connection, id))[2])
    return [events.summary(transcript, event) for event in range(len(transcript))]


def test_summary_of_each_kind(connection: Connection) -> None:
    assert gists(connection, COMPLETE) == [
        "assistant", "'Hel'", ": keep-alive", "'lo'", "', '", "'world'", "stop", "5 in, 4 out", "[DONE]",
    ]  # fmt: skip
    assert gists(connection, TOOLS)[1:4] == ["'get_weather{\"city\":'", "'\"Oslo\"}'", "tool_calls"]
    assert gists(connection, FAILED)[1] == "overloaded"


def test_summary_of_a_malformed_event() -> None:
    transcript = Transcript(decode(FACTS, [], b"event: odd\ndata: {not json\n\n" + b"data: " + b"x" * 20_000 + b"\n\n"))
    assert events.summary(transcript, 0) == "no JSON from byte 1: {not json"
    assert events.summary(transcript, 1) == f"no JSON: {'x' * 191}"


def test_nul_is_replaced_as_on_the_tape() -> None:
    assert events.without_nul("a\0b") == "a\ufffdb"


@each_case(
    ("text", "matches"),
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
def test_event_must_fit_every_term(connection: Connection, text: str, matches: list[int]) -> None:
    transcript = Transcript(queries.observed(connection, queries.find(connection, COMPLETE))[2])
    assert list(events.matching(transcript, events.parse_filter(text))) == matches


@pytest.mark.parametrize(("text", "reason"), [("kind:words", "words is no kind"), ("Δ>fast", "write a duration")])
def test_invalid_filter_is_explained(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        events.parse_filter(text)


def test_examples_of_the_help_are_valid() -> None:
    assert events.FILTER_HELP.replace(" · ", " ").isascii()
    assert all(events.filter_error(text) is None for text in events.FILTER_HELP.split(" · "))

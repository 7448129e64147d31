"""An exchange in pieces: together they are what export and show have, each with its timestamp."""

from typing import get_args

import pytest

from tests.support.sample_tape import COMPLETE, COMPLETE_READS, MS, ODD, TOOLS, TRUNCATED
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange.opened import FullExchange
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.wings.replay import pieces


@pytest.fixture
def complete(connection: Connection) -> FullExchange:
    return full(connection, COMPLETE)


def full(connection: Connection, id: str) -> FullExchange:
    return exchange.full(connection, queries.find(connection, id))


def test_a_body_is_played_read_by_read(complete: FullExchange) -> None:
    expected = [(at_ms * MS, data) for at_ms, data in COMPLETE_READS]
    assert pieces.pieces(complete, "sse", terminal=False) == expected


def test_a_pipe_gets_the_content_when_it_came(complete: FullExchange) -> None:
    expected = [(110, b"Hel"), (120, b"lo"), (120, b", "), (170, b"world")]
    assert pieces.pieces(complete, "text", terminal=False) == [(at_ms * MS, text) for at_ms, text in expected]


def test_a_terminal_gets_no_control_that_was_recorded(connection: Connection) -> None:
    for form in get_args(pieces.Form):
        if form != "sse":
            data = b"".join(piece.data for piece in pieces.pieces(full(connection, ODD), form, terminal=True))
            plain = data.replace(b"\x1b[36m", b"").replace(b"\x1b[0m", b"").decode()
            assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u2028"} & set(plain)


@pytest.mark.parametrize(
    ("begin", "end", "expected_ms"),
    [
        (None, None, (0, 181.5)),
        ("110ms", "#3", (110, 120)),
        ("#1", "+20ms", (110, 130)),
        ("world", "100%", (170, 181.5)),
        ("12:00:01.12", None, (120, 181.5)),
    ],
)
def test_positions_are_those_of_go_to(
    complete: FullExchange, begin: str | None, end: str | None, expected_ms: tuple[float, float]
) -> None:
    assert pieces.section(complete, begin, end) == tuple(at_ms * MS for at_ms in expected_ms)


def test_a_place_that_is_not_there_is_an_error(connection: Connection) -> None:
    with pytest.raises(ValueError, match="'#99' is no place in it"):
        pieces.section(full(connection, TOOLS), "#99", None)
    with pytest.raises(ValueError, match="'#1' is before '#2': there is nothing between them"):
        pieces.section(full(connection, TOOLS), "#2", "#1")


def test_a_section_includes_what_came_at_its_ends(connection: Connection) -> None:
    recorded = full(connection, TRUNCATED)
    section = pieces.section(recorded, "#1", "120ms")
    assert [piece.at_ns // MS for piece in section.of(pieces.pieces(recorded, "sse", terminal=False))] == [110, 120]

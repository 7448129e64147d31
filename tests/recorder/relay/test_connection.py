"""One connection, fed by hand: bytes in, reads and endings out, on a clock that is told what time it is."""

import asyncio
from itertools import count
from typing import Any

import pytest
import uvloop

from recorder.errors import UpstreamError
from recorder.relay.upstream import HEAD_BYTES, Connection, Instants

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def fed(*pieces: bytes, lost: Exception | None = None, ends: bool = False, bodiless: bool = False) -> Connection:
    """Give a connection to which these pieces came, at 1, 2, 3 … ns, and which was then perhaps lost."""

    async def main() -> Connection:
        ticks = count(1)
        connection = Connection(lambda: next(ticks), Instants(), bodiless)
        for piece in pieces:
            connection.data_received(piece)
        if ends:
            connection.connection_lost(lost)
        return connection

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


@pytest.mark.parametrize(
    ("pieces", "reads"),
    [
        ((HEAD + b"2\r\nab\r\n",), [(1, b"ab")]),
        ((HEAD, b"2\r\nab\r\n3\r\ncde\r\n"), [(2, b"abcde")]),
        ((HEAD, b"4\r\na", b"b", b"cd\r\n0\r\n\r\n"), [(2, b"a"), (3, b"b"), (4, b"cd")]),
        ((b"HTTP/1.1 103 Early Hints\r\n\r\n" + HEAD, b"1\r\na\r\n"), [(2, b"a")]),
    ],
)
def test_a_read_is_what_came_at_once_and_has_its_instant(pieces: tuple[bytes, ...], reads: list[Any]) -> None:
    assert list(fed(*pieces).queue) == reads


@pytest.mark.parametrize(
    ("pieces", "ended_by"),
    [
        ((), "eof"),
        ((HEAD, b"5\r\nab"), "eof"),
        ((HEAD, b"zz\r\n"), "framing"),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab",), "length"),
        ((b"HTTP/1.1 200 OK\r\nx: \x1b[2J\r\n\r\n",), "protocol"),
        ((b"HTTP/1.1 200 OK\r\nx: " + b"y" * HEAD_BYTES,), "protocol"),
        (
            (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",),
            "protocol",
        ),
    ],
)
def test_each_way_of_breaking_has_its_name(pieces: tuple[bytes, ...], ended_by: str) -> None:
    failure = fed(*pieces, ends=True).failure
    assert isinstance(failure, UpstreamError)
    assert failure.ended_by == ended_by


def test_a_reset_is_told_from_a_close() -> None:
    failure = fed(HEAD, lost=ConnectionResetError(104, "reset"), ends=True).failure
    assert failure is not None
    assert failure.ended_by == "reset"


@pytest.mark.parametrize(
    ("pieces", "bodiless"),
    [
        ((HEAD, b"0\r\n\r\n"), False),
        ((b"HTTP/1.1 200 OK\r\n\r\n", b"to the close"), False),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",), True),
        ((b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n",), False),
    ],
)
def test_a_body_that_came_whole_is_no_failure(pieces: tuple[bytes, ...], bodiless: bool) -> None:
    connection = fed(*pieces, ends=True, bodiless=bodiless)
    assert (connection.ended, connection.failure) == (True, None)

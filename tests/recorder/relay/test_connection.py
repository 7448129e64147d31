"""One connection upstream, fed by hand: bytes in, reads and endings out, on a clock that ticks with each read."""

import asyncio
from typing import Any

import pytest

from tests.support.relay import ByHand, run
from wiretape.recorder.clock import Clock
from wiretape.recorder.relay import providers
from wiretape.recorder.relay.states import RECEIVING, IllegalStep, Receiving
from wiretape.recorder.relay.upstream import HEAD_BYTES, ConnectionFacts, Http1Connection, ResponseHead

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
UPSTREAM = providers.parse("http://upstream.test")


class Exchange:
    """Takes responses of a connection by hand, at 1, 2, 3 … ns; it is its clock, too."""

    def __init__(self) -> None:
        self.now = 0
        self.reads: list[tuple[int, bytes]] = []
        self.chunks: list[bytes] = []
        self.heads: list[ResponseHead] = []
        self.told: list[str] = []
        self.informational: list[tuple[int, list[tuple[bytes, bytes]]]] = []
        self.facts = ConnectionFacts()
        self.socket = ByHand()
        self.connection = Http1Connection(self.socket, Clock(now=lambda: self.now), UPSTREAM)
        self.connection.closed_by_peer = lambda *_: self.told.append("closed by peer")
        self.socket.start(self.connection)

    def begin(self, *, bodiless: bool = False) -> None:
        self.facts = ConnectionFacts()
        self.connection.begin(self, self.facts, bodiless=bodiless)
        self.connection.send(b"request", is_last=True)

    def feed(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.now += 1
            self.socket.stamp = self.now
            self.connection.received(self.now, memoryview(piece))

    def lose(self, error: Exception | None) -> None:
        self.now += 1
        self.socket.stamp = self.now
        self.connection.lost(error)

    def informed(self, head: ResponseHead) -> None:
        self.informational.append((head.status, head.headers))

    def response_received(
        self, at: int, head: ResponseHead | None, body: bytes, ends: bool, chunk: bytes = b""
    ) -> None:
        if head is not None:
            self.heads.append(head)
        if body:
            self.reads.append((at, body))
            self.chunks.append(chunk)
        if ends:
            self.told.append("over")

    def request_progressed(self) -> None:
        self.told.append("progressed")

    def request_refused(self) -> None:
        self.told.append("refused")

    def taker_failed(self, error: Exception) -> None:
        self.told.append(f"failed: {error}")


def fed(*pieces: bytes, lost: Exception | None = None, ends: bool = False, bodiless: bool = False) -> Exchange:
    """Return an exchange that received these pieces, and perhaps lost its connection then."""

    async def main() -> Exchange:
        exchange = Exchange()
        exchange.begin(bodiless=bodiless)
        exchange.feed(*pieces)
        if ends:
            exchange.lose(lost)
        return exchange

    found: Exchange = run(main())
    return found


@pytest.mark.parametrize(
    ("pieces", "reads"),
    [
        ((HEAD + b"2\r\nab\r\n",), [(1, b"ab")]),
        ((HEAD, b"2\r\nab\r\n3\r\ncde\r\n"), [(2, b"abcde")]),
        ((HEAD, b"4\r\na", b"b", b"cd\r\n0\r\n\r\n"), [(2, b"a"), (3, b"b"), (4, b"cd")]),
        ((b"HTTP/1.1 103 Early Hints\r\n\r\n" + HEAD, b"1\r\na\r\n"), [(2, b"a")]),
    ],
)
def test_a_read_is_one_piece_of_data_with_timestamp(pieces: tuple[bytes, ...], reads: list[Any]) -> None:
    assert fed(*pieces).reads == reads


def test_a_read_of_one_chunk_is_passed_on_whole() -> None:
    exchange = fed(
        HEAD, b"2\r\nab\r\n", b"a\r\n0123456789\r\n", b"0A\r\n0123456789\r\n", b"1;x\r\na\r\n", b"1\r\nb\r\n"
    )
    assert exchange.chunks == [b"2\r\nab\r\n", b"a\r\n0123456789\r\n", b"", b"", b"1\r\nb\r\n"]


def test_cutting_a_chunked_body_changes_neither_bytes_nor_end() -> None:
    # The second body looks like chunks itself, and so do its parts.
    bodies = [b"abc", b"a\r\na\r\na\r\na\r\n5\r\na\r\n", b"\r\n", b"1\r\nb\r\n"]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in bodies) + b"0\r\n\r\n"
    for edge in range(len(body) + 1):
        for second in range(edge, len(body) + 1):
            exchange = fed(HEAD, body[:edge], body[edge:second], body[second:])
            assert b"".join(data for _, data in exchange.reads) == b"".join(bodies)
            assert exchange.told[-1] == "over"
            assert exchange.connection.failure is None
            whole_chunks = [
                (data, chunk) for (_, data), chunk in zip(exchange.reads, exchange.chunks, strict=True) if chunk
            ]
            assert all(chunk == b"%x\r\n%b\r\n" % (len(data), data) for data, chunk in whole_chunks)


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
def test_each_break_has_its_name_and_is_reported_once(pieces: tuple[bytes, ...], ended_by: str) -> None:
    exchange = fed(*pieces, ends=True)
    failure = exchange.connection.failure
    assert failure is not None
    assert (failure.ended_by, exchange.told.count("over"), exchange.connection.is_reusable()) == (ended_by, 1, False)
    assert exchange.socket.is_closed


def test_an_illegal_parser_step_is_not_the_servers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RECEIVING, (Receiving.WAITING, "head"))  # type: ignore[arg-type]
    with pytest.raises(IllegalStep, match="WAITING has no step for 'head'"):
        fed(OK)


def test_a_reset_is_distinguished_from_a_close() -> None:
    failure = fed(HEAD, lost=ConnectionResetError(104, "reset"), ends=True).connection.failure
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
    exchange = fed(*pieces, ends=True, bodiless=bodiless)
    assert (exchange.connection.is_over, exchange.connection.failure) == (True, None)
    assert exchange.told == ["over"]


@pytest.mark.parametrize(
    ("response", "keeps"),
    [
        (OK, True),
        (HEAD + b"0\r\n\r\n", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\ncontent-length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 0\r\n\r\n", True),
        (OK + b"x", False),
        (OK + OK, False),
    ],
)
def test_a_connection_is_kept_after_a_clean_end_only(response: bytes, keeps: bool) -> None:
    exchange = fed(response)
    assert (exchange.connection.is_over, exchange.connection.is_reusable()) == (True, keeps)
    assert (exchange.connection.state is Receiving.SURPLUS) == (response.startswith(OK) and response != OK)


def test_a_connection_is_kept_only_after_the_whole_request() -> None:
    async def main() -> None:
        exchange = Exchange()
        exchange.connection.begin(exchange, ConnectionFacts(), bodiless=False)
        exchange.connection.send(b"half", is_last=False)
        exchange.feed(OK)
        assert not exchange.connection.is_reusable()

    run(main())


def test_a_request_is_sent_once_the_kernel_has_it() -> None:
    async def main() -> None:
        exchange = Exchange()
        exchange.connection.begin(exchange, facts := ConnectionFacts(), bodiless=False)
        exchange.socket.takes_all, exchange.now = False, 5
        exchange.connection.send(b"head", is_last=False)
        exchange.connection.send(b"body", is_last=True)
        for unsent, sent in ((3, None), (0, 7)):
            exchange.socket.unsent = unsent
            exchange.now += 1
            exchange.connection.progressed()
            assert facts.sent_ns == sent

    run(main())


@pytest.mark.parametrize("trailing", [b"x", OK, None], ids=["surplus", "response", "close"])
def test_the_end_is_the_responses_despite_later_bytes(trailing: bytes | None) -> None:
    exchange = fed(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\no", b"k")
    if trailing is None:
        exchange.lose(None)
    else:
        exchange.feed(trailing)
        assert exchange.connection.state is Receiving.SURPLUS
        assert exchange.socket.is_closed  # nothing more is read of it
    assert (exchange.connection.ended_at, exchange.told, exchange.reads) == (2, ["over"], [(1, b"o"), (2, b"k")])


def test_the_next_exchange_knows_nothing_of_the_one_before() -> None:
    async def main() -> None:
        exchange = Exchange()
        for number, length in enumerate((b"2", b"3"), 1):
            exchange.begin()
            exchange.feed(
                b"HTTP/1.1 200 OK\r\ncontent-length: %b\r\nx-%d: 1\r\n\r\n" % (length, number), b"abc"[: int(length)]
            )
            assert exchange.connection.is_reusable()
            exchange.connection.keep()
            assert exchange.connection.is_silent()
        assert [head.headers[1][0] for head in exchange.heads] == [b"x-1", b"x-2"]
        assert [body for _, body in exchange.reads] == [b"ab", b"abc"]

    run(main())


@pytest.mark.parametrize("news", [[b" "], [b"HTTP/1.1 408 Timeout\r\n\r\n"]])
def test_a_kept_connection_that_received_data_is_not_silent(news: list[bytes]) -> None:
    exchange = fed(OK)
    exchange.connection.keep()
    exchange.socket.news = news
    assert not exchange.connection.is_silent()
    assert (exchange.socket.is_closed, exchange.told) == (True, ["over", "closed by peer"])


@pytest.mark.parametrize("ending", ["bytes", "close", "reset"])
def test_a_kept_connection_that_its_peer_closes_says_so(ending: str) -> None:
    exchange = fed(OK)
    exchange.connection.keep()
    if ending == "bytes":
        exchange.feed(b"unasked")
    else:
        exchange.lose(None if ending == "close" else ConnectionResetError())
    assert (exchange.socket.is_closed, exchange.told) == (True, ["over", "closed by peer"])


def test_each_informational_response_is_reported_before_the_head() -> None:
    informational = b"HTTP/1.1 100 Continue\r\n\r\n"
    exchange = fed(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", informational, informational, OK)
    assert exchange.informational == [(103, [(b"link", b"x")]), (100, []), (100, [])]
    assert exchange.told == ["over"]
    assert exchange.heads[0].headers == [(b"content-length", b"2")]


@pytest.mark.parametrize(
    ("line", "reason"), [(b"200 All right", b"All right"), (b"200", b""), (b"200 \x1b[2J", b""), (b"200 a\tb", b"a\tb")]
)
def test_a_reason_passes_unless_it_holds_control_characters(line: bytes, reason: bytes) -> None:
    exchange = fed(b"HTTP/1.1 " + line + b"\r\ncontent-length: 0\r\n\r\n")
    assert [head.reason for head in exchange.heads] in ([reason], [])  # or llhttp takes it for no HTTP


def test_a_trailer_is_no_header() -> None:
    exchange = fed(HEAD + b"2\r\nok\r\n0\r\nx-trailer: 1\r\n\r\n")
    assert (exchange.heads[0].headers, exchange.connection.is_reusable()) == (
        [(b"transfer-encoding", b"chunked")],
        True,
    )


def test_the_limit_of_an_exchange_ends_no_later_one() -> None:
    async def main() -> None:
        exchange = Exchange()
        exchange.begin()
        exchange.connection.limit(0.001)
        exchange.feed(OK)
        exchange.connection.keep()
        exchange.begin()
        exchange.now += 10**9
        await asyncio.sleep(0.02)
        assert exchange.told == ["over"]

    run(main())


def test_a_pause_is_counted_and_ends_with_the_exchange() -> None:
    exchange = fed(HEAD)
    exchange.connection.pause()
    exchange.connection.pause()
    assert (exchange.connection.paused, exchange.socket.is_paused) == (1, True)
    exchange.feed(b"0\r\n\r\n")
    exchange.connection.keep()
    assert not exchange.socket.is_paused

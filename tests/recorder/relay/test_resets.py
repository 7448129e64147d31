"""Connections that are reset in the same moment as data comes: no byte is lost, and the other side ends at once."""

import asyncio
import fcntl
import socket
import struct
import termios
import zlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import h2.config
import h2.connection
import pytest
from h2.events import StreamEnded

from tests.support import http2
from tests.support.relay import (
    CHUNKED,
    DONE,
    HEAD,
    LOOPS,
    Relay,
    accepting,
    address,
    chunk,
    fetch,
    fill,
    on_loop,
    post,
    relaying,
    reset_at_once,
    select,
    sip,
    until,
)
from tests.support.websockets import ASK, response, side

Play = Callable[[socket.socket], Coroutine[Any, Any, None]]
LARGE = b"".join(chunk(f"{number:0600}") for number in range(120))
"""An answer of more than a read, and less than what the kernel takes of it at once on a new connection."""
SMALLER = LARGE[:50_000]
"""The same for a connection on which there was traffic."""
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: a\r\n\r\n"
)
UPGRADE = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", "x3JJHMbDL1EzLkh9GBhXDw==")]


@pytest.fixture(scope="module", params=LOOPS, ids=["asyncio", "uvloop"])
def relay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """One recorder on each loop for all tests."""
    with Relay(tmp_path_factory.mktemp("relay"), loop=request.param) as relay:
        yield relay
        assert relay.troubles == []


async def head_of(sock: socket.socket) -> bytes:
    """Receive a head of HTTP/1.1, with the bytes that came with its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await asyncio.get_running_loop().sock_recv(sock, 65536)
    return data


def resetting(data: bytes) -> Play:
    """Return an upstream that answers with these bytes, and resets its connection."""

    async def play(sock: socket.socket) -> None:
        await head_of(sock)
        reset_at_once(sock, data)

    return play


class Silent:
    """An upstream that answers with some bytes, and then only receives, until its client has left or reset."""

    def __init__(self, data: bytes = b"", *, receives: bool = True) -> None:
        self._data, self._receives = data, receives
        self.received = b""
        self.is_left, self.is_reset = asyncio.Event(), False

    async def __call__(self, sock: socket.socket) -> None:
        try:
            self.received = await head_of(sock)
            sock.send(self._data)
            if not self._receives:
                await self.is_left.wait()
            while data := await asyncio.get_running_loop().sock_recv(sock, 65536):
                self.received += data
        except ConnectionError:
            self.is_reset = True
        self.is_left.set()


def framed(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


# Upstream


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(CHUNKED + framed(LARGE), id="chunked"),
        pytest.param(HEAD + b"content-length: 999999\r\n\r\n" + LARGE, id="length"),
        pytest.param(HEAD + b"\r\n" + LARGE, id="eof"),
    ],
)
@on_loop
async def test_all_data_before_an_upstream_reset_is_relayed(relay: Relay, answer: bytes) -> None:
    path = f"/v1/chat/completions?upstream-{len(answer)}"
    async with accepting(resetting(answer)) as port, relaying(relay, port) as base:
        got = await fetch(base, post(path))
    tape = await relay.kept(path)
    assert (got.body, got.complete, "ConnectionResetError" in got.error) == (LARGE, False, True)
    assert (tape.body, tape.outcome) == (LARGE, ("truncated", "reset"))


@pytest.mark.parametrize("answer", [b"", HEAD], ids=["nothing", "half_a_head"])
@on_loop
async def test_a_reset_before_the_head_is_a_connect_error(relay: Relay, answer: bytes) -> None:
    path = f"/v1/chat/completions?head-{len(answer)}"
    async with accepting(resetting(answer)) as port, relaying(relay, port) as base:
        got = await fetch(base, post(path))
    assert (got.status, (await relay.kept(path)).outcome) == (502, ("connect_error", "reset"))


@on_loop
async def test_a_reset_after_the_streams_end_is_only_flagged(relay: Relay) -> None:
    path = "/v1/chat/completions?done"
    body = chunk("a", finish="stop") + DONE
    async with accepting(resetting(CHUNKED + framed(body))) as port, relaying(relay, port) as base:
        assert (await fetch(base, post(path))).body == body
    tape = await relay.kept(path)
    assert (tape.outcome, "unclean_end" in tape.flags) == (("complete", None), True)


@on_loop
async def test_an_answer_that_resets_its_upload_is_passed_on(relay: Relay) -> None:
    path, refusal = "/v1/chat/completions?upload", b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig"
    async with accepting(resetting(refusal)) as port, relaying(relay, port) as base:
        got = await fetch(base, post(path, b"x" * 1_000_000))
    assert (got.status, got.body, (await relay.kept(path)).body) == (413, b"big", b"big")


@on_loop
async def test_websocket_messages_before_an_upstream_reset_are_passed_on(relay: Relay) -> None:
    path = "/v1/responses?upstream"
    server = side()
    data = b"".join(bytes(server.send_data(message)) for message in response(1, *(["Hel"] * 900))[:-1])
    async with accepting(resetting(SWITCH + data)) as port, relaying(relay, port) as base:
        with socket.create_connection(address(base)) as sock:
            sock.setblocking(False)
            sock.send(post(path, b"", UPGRADE, method="GET"))
            got, is_reset = await sip(sock)
    tape = await relay.kept(path)
    assert len(data) > 65536
    assert (got.endswith(data), is_reset) == (True, True)
    assert (tape.body, tape.outcome) == (data, ("truncated", "reset"))


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", framed(bytes(60_000)), id="http_1_1"),
        pytest.param(SWITCH, bytes(side().send_data(bytes(60_000))), id="websocket"),
    ],
)
@on_loop
async def test_a_slow_client_gets_everything_before_an_upstream_reset(relay: Relay, head: bytes, piece: bytes) -> None:
    path, is_reset = f"/slow/{len(head)}", asyncio.Event()

    async def play(sock: socket.socket) -> None:
        await head_of(sock)
        sock.send(head)
        await fill(sock, piece)
        reset_at_once(sock)
        is_reset.set()

    async with accepting(play) as port, relaying(relay, port) as base:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            sock.connect(address(base))
            sock.setblocking(False)
            sock.send(post(path, b"", UPGRADE if head == SWITCH else (), method="GET"))
            await asyncio.wait_for(is_reset.wait(), 60)
            got, is_reset = await sip(sock)
    tape = await relay.kept(path)
    assert (tape.outcome, "backpressure" in tape.flags) == (("truncated", "reset"), True)
    assert got.count(0) == tape.body.count(0) > 1_000_000
    assert is_reset


async def request_of(sock: socket.socket) -> tuple[h2.connection.H2Connection, int]:
    """Receive a request over HTTP/2; return the connection and the stream."""
    loop = asyncio.get_running_loop()
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    while True:
        await loop.sock_sendall(sock, connection.data_to_send())
        for event in connection.receive_data(await loop.sock_recv(sock, 65536)):
            if isinstance(event, StreamEnded):
                return connection, event.stream_id


@pytest.mark.parametrize(
    ("code", "outcome"), [(None, ("truncated", "reset")), (2, ("truncated", "rst_internal_error"))]
)
@on_loop
async def test_http2_frames_before_an_upstream_reset_are_passed_on(
    relay: Relay, code: int | None, outcome: tuple[str, str]
) -> None:
    path = f"/v1/chat/completions?h2-{code}"

    async def play(sock: socket.socket) -> None:
        connection, stream = await request_of(sock)
        connection.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])
        for start in range(0, len(SMALLER), 5_000):
            connection.send_data(stream, SMALLER[start : start + 5_000])
        if code is not None:
            connection.reset_stream(stream, code)
        reset_at_once(sock, connection.data_to_send())

    async with accepting(play) as port, relaying(relay, port) as base, http2.connect(base) as peer:
        stream = peer.request(http2.ask(path), end=True)
        await peer.until(lambda: peer.is_closed)
    tape = await relay.kept(path)
    assert bytes(stream.body) == tape.body == SMALLER
    assert (tape.outcome, stream.is_ended, stream.reset_code) == (outcome, False, code)
    assert (peer.goaway, "ConnectionResetError" in peer.error) == (None, True)


@on_loop
async def test_a_reset_between_http2_requests_reaches_the_client(relay: Relay) -> None:
    path, may_reset = "/v1/chat/completions?h2-idle", asyncio.Event()

    async def play(sock: socket.socket) -> None:
        connection, stream = await request_of(sock)
        connection.send_headers(stream, [(":status", "200")])
        connection.send_data(stream, b"{}", end_stream=True)
        sock.send(connection.data_to_send())
        await may_reset.wait()
        reset_at_once(sock)

    async with accepting(play) as port, relaying(relay, port) as base, http2.connect(base) as peer:
        stream = await peer.request(http2.ask(path), end=True).over()
        await relay.kept(path)
        may_reset.set()
        await peer.until(lambda: peer.is_closed)
    assert (bytes(stream.body), stream.is_ended) == (b"{}", True)
    assert (peer.goaway, "ConnectionResetError" in peer.error) == (None, True)


@on_loop
async def test_a_slow_http2_client_gets_everything_before_a_reset(relay: Relay) -> None:
    path, is_reset = "/v1/chat/completions?h2-slow", asyncio.Event()
    # A client that grants windows meets the reset by a write, and loses its unread bytes.
    wide = http2.Limits(window=1 << 24, connection=1 << 24, is_manual=True)

    async def play(sock: socket.socket) -> None:
        connection, stream = await request_of(sock)
        connection.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])
        frames = http2.frame(http2.DATA, stream, bytes(16_000)) * 15
        await asyncio.get_running_loop().sock_sendall(sock, connection.data_to_send() + frames)
        await until(lambda: not any(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))))  # the relay's kernel has all
        reset_at_once(sock)
        is_reset.set()

    async with accepting(play) as port, relaying(relay, port) as base, http2.connect(base, wide) as peer:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        peer.reading.clear()
        stream = peer.request(http2.ask(path), end=True)
        await asyncio.wait_for(is_reset.wait(), 60)
        peer.reading.set()
        await peer.until(lambda: peer.is_closed)
    tape = await relay.kept(path)
    assert tape.outcome == ("truncated", "reset")
    assert len(stream.body) == len(tape.body) == 240_000
    assert (peer.goaway, "ConnectionResetError" in peer.error) == (None, True)


# The client


async def leave(base: str, data: bytes) -> None:
    """Send bytes, and leave with a reset."""
    sock = socket.create_connection(address(base))
    sock.setblocking(False)
    reset_at_once(sock, data)


@on_loop
async def test_a_client_reset_ends_upstreams_silence(relay: Relay) -> None:
    path, upstream = "/v1/chat/completions?client", Silent()
    async with accepting(upstream) as port, relaying(relay, port) as base:
        await leave(base, post(path))
        await asyncio.wait_for(upstream.is_left.wait(), 60)
    tape = await relay.kept(path)
    assert (tape.outcome, tape.row["request_body"]) == (("client_closed", None), b"{}")
    assert upstream.is_reset


@on_loop
async def test_a_client_that_leaves_in_good_order_resets_nothing(relay: Relay) -> None:
    path, upstream = "/v1/chat/completions?closed", Silent()
    async with accepting(upstream) as port, relaying(relay, port) as base:
        with socket.create_connection(address(base)) as sock:
            sock.send(post(path))
        await asyncio.wait_for(upstream.is_left.wait(), 60)
    assert not upstream.is_reset


@on_loop
async def test_a_client_reset_during_its_upload_keeps_all_data(relay: Relay) -> None:
    path, upstream, piece = "/v1/chat/completions?upload-left", Silent(), b"x" * 80_000
    request = post(path, headers=[("content-length", "1000000")], body=b"") + piece
    async with accepting(upstream) as port, relaying(relay, port) as base:
        await leave(base, request)
        await asyncio.wait_for(upstream.is_left.wait(), 60)
    tape = await relay.kept(path)
    assert (tape.outcome, tape.row["request_body"], tape.row["request_truncated"]) == (
        ("client_closed", None), piece, 1,
    )  # fmt: skip
    assert upstream.received.endswith(piece)


@on_loop
async def test_a_client_reset_is_noticed_while_uploads_are_held(relay: Relay) -> None:
    path, upstream = "/v1/chat/completions?held", Silent(receives=False)
    async with accepting(upstream) as port, relaying(relay, port) as base:
        with socket.create_connection(address(base)) as sock:
            sock.setblocking(False)
            sock.send(post(path, headers=[("content-length", "1000000000")], body=b""))
            await fill(sock, bytes(1 << 20))
            reset_at_once(sock)
        assert (await relay.kept(path)).outcome == ("client_closed", None)
        upstream.is_left.set()


@on_loop
async def test_websocket_messages_before_a_client_reset_are_passed_on(relay: Relay) -> None:
    path, upstream, client = "/v1/responses?client", Silent(SWITCH), side(client=True)
    data = b"".join(bytes(client.send_data(ASK)) for _ in range(len(SMALLER) // len(ASK)))
    async with accepting(upstream) as port, relaying(relay, port) as base:
        with socket.create_connection(address(base)) as sock:
            sock.setblocking(False)
            sock.send(post(path, b"", UPGRADE, method="GET"))
            assert b"101" in await head_of(sock)
            reset_at_once(sock, data)
        await asyncio.wait_for(upstream.is_left.wait(), 60)
    tape = await relay.kept(path)
    packed = select(relay.tape, "SELECT data FROM client_bodies WHERE exchange_no = ?", tape.row["no"])[0][0]
    assert zlib.decompress(packed) == data
    assert upstream.received.endswith(data)
    assert upstream.is_reset
    assert tape.outcome == ("client_closed", None)


@on_loop
async def test_an_http2_client_reset_ends_upstreams_silence(relay: Relay) -> None:
    path, end = "/v1/chat/completions?h2-client", asyncio.get_running_loop().create_future()

    async def play(sock: socket.socket) -> None:
        await request_of(sock)
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        end.set_result(await sip(sock))

    async with accepting(play) as port, relaying(relay, port) as base, http2.connect(base) as peer:
        peer.request(http2.ask(path), end=True)
        is_reset = (await asyncio.wait_for(end, 60))[1]
    assert (await relay.kept(path)).outcome == ("client_closed", None)
    assert is_reset

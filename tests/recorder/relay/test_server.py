"""Sockets, the bounds on a request's head, and the drain."""

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from tests.support.relay import (
    CHUNKED,
    DONE,
    ByHand,
    Relay,
    address,
    chunk,
    dial,
    kept,
    on_loop,
    post,
    raw,
    take,
    until,
)
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.demo.upstream import Scene, answer
from wiretape.recorder.errors import CannotListen
from wiretape.recorder.relay import local, server
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.responder import Responder
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.relay.states import INBOUND, IllegalStep, Inbound


def test_a_taken_port_is_reported_in_one_line() -> None:
    with server.bound("127.0.0.1", 0) as listener:
        listener.listen()
        with pytest.raises(CannotListen) as caught:
            server.bound("127.0.0.1", listener.getsockname()[1])
    assert caught.value.exit_code == 7
    assert "Address already in use" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_foreign_address_cannot_be_listened_on() -> None:
    with pytest.raises(CannotListen):
        server.bound("192.0.2.1", 0)


def test_no_client_connects_before_it_is_served() -> None:
    async def steps() -> None:
        with server.bound("127.0.0.1", 0) as sock:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(sock.getsockname(), timeout=60)
            front = server.Server(nobody, sock)
            socket.create_connection(sock.getsockname(), timeout=60).close()
            front.close()

    asyncio.run(steps())


def test_who_listens_second_is_told_so() -> None:
    async def steps() -> None:
        with server.bound("127.0.0.1", 0) as first, server.bound(*first.getsockname()) as second:
            front = server.Server(nobody, first)
            with pytest.raises(CannotListen, match="Address already in use"):
                server.Server(nobody, second)
            front.close()

    asyncio.run(steps())


async def nobody(request: Request, responder: Responder) -> None:
    raise AssertionError(request)


@pytest.mark.parametrize(("host", "address"), [("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("::", "[::1]")])
def test_the_base_url_is_one_that_can_be_called(host: str, address: str) -> None:
    with server.bound(host, 0) as listening:
        assert server.base_url(listening) == f"http://{address}:{listening.getsockname()[1]}"


def test_only_loopback_is_listened_on(relay: Relay) -> None:
    port = address(relay.base)[1]
    sockets = [line.split()[1:4] for line in Path("/proc/net/tcp").read_text().splitlines()]
    listening = [local for local, _, state in sockets if local.endswith(f":{port:04X}") and state == "0A"]
    assert listening == [f"0100007F:{port:04X}"]


@on_loop
async def test_a_head_that_never_comes_times_out(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    assert await raw(relay.base) == b""
    assert await raw(relay.base, b"POST /x HTTP/1.1\r\nhost: loc") == b""


@on_loop
async def test_only_what_begins_as_tls_does_is_called_tls(relay: Relay) -> None:
    assert b"speaks TLS" in await raw(relay.base, b"\x16\x03\x01\x02\x00")
    async with dial(relay.base) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nx: ")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(b"\x16\x03\x01\x02\x00")
        assert b"not valid HTTP" in await reader.read()


@on_loop
async def test_a_stream_may_outlast_the_head_timeout(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    got, _ = await relay.shows(answer([(0.5, b"late")]))
    assert (got.complete, got.body) == (True, b"late")


FIRST = b"3\r\n:a\n\r\n"
LAST = b"e\r\n" + DONE + b"\r\n0\r\n\r\n"


class Held:
    """A response that stays open in the middle until it is released."""

    def __init__(self, relay: Relay) -> None:
        self.target = relay.plays(Scene([(0, CHUNKED + FIRST), (0.6, LAST)]))

    async def opening(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(post(self.target))
        return await reader.readuntil(FIRST)


NEXT = {
    "a part of a head": (b"POST /x HTTP/1.1\r\nhost: loc", None),
    "a head without end": (b"GET /x HTTP/1.1\r\nx: " + b"y" * (server.HEAD_BYTES + 65_536), 431),
    "no HTTP": (b"\x16\x03\x01 what is this", 400),
    "a body that is broken": (
        b"POST /x HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nZ\r\n",
        400,
    ),
}


@pytest.mark.parametrize("case", NEXT)
@on_loop
async def test_what_follows_a_request_does_not_touch_its_response(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)
    more, status = NEXT[case]
    held_exchange = Held(relay)
    async with dial(relay.base) as (reader, writer):
        head = await held_exchange.opening(reader, writer)
        writer.write(more)
        async with asyncio.timeout(60):
            remainder = await reader.read()  # until the connection is closed: after the response
    assert remainder.startswith(LAST)
    trailing = remainder.removeprefix(LAST)
    assert trailing.startswith(b"HTTP/1.1 %d " % status) if status else trailing == b""
    assert (head + remainder).count(b"HTTP/1.1 ") == (2 if status else 1)
    row = await relay.kept(held_exchange.target)
    assert (row.outcome, row.body, row.row["client_closed_ns"]) == (("complete", None), b":a\n" + DONE, None)


@on_loop
async def test_a_connection_that_wiretape_closes_names_wiretape(relay: Relay) -> None:
    held_exchange, listening = Held(relay), server.bound("127.0.0.1", 0)
    closing = server.Server(relay.recorder.proxy, listening)
    async with dial(server.base_url(listening)) as (reader, writer):
        await held_exchange.opening(reader, writer)
        closing.close()
        await closing.wait_closed(0)
    row = await relay.kept(held_exchange.target)
    assert row.outcome == ("interrupted", "shutdown")
    assert (row.row["ended_detail"], row.row["client_closed_ns"]) == ("wiretape closed the connection", None)


@on_loop
async def test_a_partial_head_may_be_completed_after_the_response(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.4)
    held_exchange, target = Held(relay), relay.plays(answer([(0, b"second")]))
    request = post(target)
    async with dial(relay.base) as (reader, writer):
        await held_exchange.opening(reader, writer)
        writer.write(request[:20])
        await reader.readuntil(LAST)
        writer.write(request[20:])
        assert (await take(reader)).body == b"second"


@on_loop
async def test_endless_trailers_of_a_request_are_refused(relay: Relay) -> None:
    head = b"POST /v1/x HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    trailers = (b"x-%d: " % number + b"y" * 30_000 + b"\r\n" for number in range(400))
    got = await raw(relay.base, head, *trailers)
    assert got == b"" or got.startswith(b"HTTP/1.1 431 ")  # a reset may overtake the answer
    assert not relay.request("/v1/x")


@on_loop
async def test_several_requests_in_one_read_each_count(relay: Relay) -> None:
    target = relay.plays(answer([(0, b"whole")]))
    large = b"z" * 200_000
    head = f"POST {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(large)}\r\n\r\n".encode()
    async with dial(relay.base) as (reader, writer):
        writer.write((head + large) * 2 + head[:40])
        for _ in range(2):
            assert (await take(reader)).body == b"whole"
        writer.write(head[40:] + large)
        assert (await take(reader)).body == b"whole"


@on_loop
async def test_a_client_that_sent_nonsense_may_still_leave(relay: Relay) -> None:
    target = relay.plays(Scene([(0, CHUNKED + b"3\r\nabc\r\n")], "stall"))
    async with dial(relay.base) as (reader, writer):
        writer.write(post(target))
        await reader.readuntil(b"3\r\nabc\r\n")
        writer.write(b"nonsense\r\n\r\n" * 10_000)
        await writer.drain()
    assert (await relay.kept(target)).outcome == ("client_closed", None)


@on_loop
async def test_a_newline_between_requests_keeps_no_connection_open(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)
    async with dial(relay.base) as (reader, writer):
        writer.write(post(relay.plays(answer([(0, b"x")]))))
        await take(reader)
        writer.write(b"\r\n")
        async with asyncio.timeout(60):
            assert await reader.read() == b""


@on_loop
async def test_clients_that_come_all_at_once_are_all_served(relay: Relay) -> None:
    with contextlib.ExitStack() as clients:
        for _ in range(150):  # while the relay's loop, which is this one's, does nothing
            clients.enter_context(socket.create_connection(address(relay.base)))
        assert (await relay.get(relay.plays(answer([(0, b"x")])))).body == b"x"


def test_clients_beyond_the_limit_are_told_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "free_descriptors", lambda: 0)

    async def main() -> None:
        async with dial(relay.base) as (open_reader, _), dial(relay.base) as (refused, _):
            assert (await refused.readline()).startswith(b"HTTP/1.1 503 ")
            await relay.stop()
            assert b"no file descriptors are left" in await refused.read()
            assert await open_reader.read() == b""

    with Relay(tmp_path) as relay:
        relay.runner.run(main())
        assert [refusal.status for refusal in relay.refused] == [503]


class Answering:
    """An app that sends half of the announced body, and then ends the connection."""

    def serve(self, client: Client, request: Request) -> None:
        client.start(200, b"", [(b"content-length", b"9")], chunked=False, closes=False)
        client.add(b"half")
        client.cut()

    def client_failed(self, error: Exception) -> None:
        raise error


@on_loop
async def test_an_unread_last_response_is_not_kept_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "LAST_SECONDS", 0.05)
    closed: list[Client] = []
    sock = ByHand()
    sock.takes_all = False
    client = Http1Client(sock, Answering(), SYSTEM, closed.append)
    client.received(0, memoryview(b"GET / HTTP/1.1\r\n\r\n"))
    assert b"".join(sock.sent).endswith(b"\r\n\r\nhalf")
    assert not closed
    await until(lambda: closed)
    assert sock.is_closed


class Uploading(Responder):
    """An app that takes a request's body by hand, or ends the connection in its middle."""

    def __init__(self) -> None:
        self.socket = ByHand()
        self.closed: list[Client] = []
        self.client = Http1Client(self.socket, self, SYSTEM, self.closed.append)
        self.client.received(0, memoryview(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"))

    def serve(self, client: Client, request: Request) -> Responder:
        self.request = request
        return self

    def client_rejected(self, refusal: Refusal) -> None:
        raise AssertionError(refusal)

    def client_failed(self, error: Exception) -> None:
        raise error

    def body_came(self) -> None:
        if self.socket.unsent:
            self.client.hold_body(True)

    def request_failed(self, refusal: Refusal) -> None:
        self.client.cut()


@on_loop
async def test_an_illegal_parser_step_is_not_the_clients_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Uploading()
    monkeypatch.delitem(INBOUND, (Inbound.BODY, "end"))  # type: ignore[arg-type]
    with pytest.raises(IllegalStep, match="BODY has no step for 'end'"):
        app.client.received(0, memoryview(b"0\r\n\r\n"))


@on_loop
async def test_a_waiting_body_goes_on_when_taken() -> None:
    app = Uploading()
    for _ in range(2):
        app.client.received(0, memoryview(b"%x\r\n%b\r\n" % (server.UPLOAD_BYTES, bytes(server.UPLOAD_BYTES))))
    assert app.socket.is_paused
    app.request.take()
    app.client.hold_body(False)
    assert not app.socket.is_paused


@on_loop
async def test_a_broken_held_body_leaves_no_connection_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "LAST_SECONDS", 0.05)
    app = Uploading()
    app.socket.takes_all = False
    app.client.start(200, b"", [], chunked=True, closes=False)
    app.client.flush()
    app.client.received(0, memoryview(b"1\r\na\r\nno chunk\r\n"))
    await until(lambda: app.closed)


# Faults of an app


class Faulty:
    """An app that raises at one place: in `serve`, when the body comes, or in a callback, before or after the head."""

    def __init__(self, place: str, *, reports: bool = True) -> None:
        self.place, self.reports = place, reports
        self.reported: list[str] = []
        self.is_asked = False

    def serve(self, client: Client, request: Request) -> "Faulty":
        self.is_asked = True
        if self.place == "serve":
            raise RuntimeError(self.place)
        if self.place == "stream":
            client.start(200, b"", [], chunked=True, closes=False)
            client.add(b"half")
            client.flush()
        if self.place in ("callback", "stream"):
            asyncio.get_running_loop().call_soon(client.guarded(self.body_came))
        return self

    def body_came(self) -> None:
        raise RuntimeError(self.place)

    def client_failed(self, error: Exception) -> None:
        self.reported.append(str(error))
        if not self.reports:
            raise OSError("standard error is closed")

    taker_failed = client_failed

    def client_left(self) -> None:
        """Ignore it."""


@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("place", ["serve", "body", "callback", "stream"])
@on_loop
async def test_no_fault_of_an_app_leaves_a_client_waiting(place: str, reports: bool) -> None:
    app = Faulty(place, reports=reports)
    sock = server.bound("127.0.0.1", 0)
    front = server.Server(app, sock)
    if not reports:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    try:
        async with dial(server.base_url(sock)) as (reader, writer), asyncio.timeout(60):
            writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n")
            await until(lambda: app.is_asked)
            if place == "body":
                writer.write(b"{}")
            got = await reader.read()  # until the connection is closed
    finally:
        front.close()
        await front.wait_closed(0)
    assert app.reported == [place]
    if place == "stream":
        assert got.endswith(b"4\r\nhalf\r\n")
    else:
        assert got.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        assert got.endswith(b"\r\n\r\nwiretape: a fault of its own\n")


# Another protocol

UPGRADE = b"GET /ws HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"


class Noting:
    """An app that answers on demand, takes connections over, and records its callbacks."""

    def __init__(self) -> None:
        self.targets: list[bytes] = []
        self.told: list[object] = []
        self.is_idle = False
        self.closed: list[Client] = []
        self.socket = ByHand()
        self.client = Http1Client(self.socket, self, SYSTEM, self.closed.append)
        self.client.open()

    def serve(self, client: Client, request: Request) -> None:
        self.targets.append(request.target)

    def client_failed(self, error: Exception) -> None:
        raise error

    def comes(self, data: bytes) -> None:
        self.client.received(0, memoryview(bytearray(data)))

    def answer(self, closes: bool = False) -> None:
        self.client.start(426, b"", [(b"content-length", b"0")], chunked=False, closes=closes)
        self.client.flush()
        self.client.finish()

    def received(self, at: int, data: memoryview) -> None:
        self.told.append(bytes(data))

    def lost(self, error: Exception | None) -> None:
        self.told.append(error)

    failed = write_failed = lost

    def progressed(self) -> None:
        self.told.append("progressed")


@pytest.mark.parametrize("question", [b"CONNECT a:443 HTTP/1.0\r\n\r\n", UPGRADE])
@on_loop
async def test_a_connection_is_taken_over_with_what_came_meanwhile(question: bytes) -> None:
    app = Noting()
    app.comes(question + b"ear")
    app.comes(b"ly")
    socket, early = app.client.switch(200, b"", [(b"x", b"y")], app)
    assert (socket, early) == (app.socket, b"early")
    assert app.socket.sent == [b"HTTP/1.1 200 OK\r\nx: y\r\n\r\n"]
    app.comes(b"GET / HTTP/1.1\r\n\r\n")
    app.client.progressed()
    assert not app.client.is_idle
    app.is_idle = True
    assert app.client.is_idle
    app.client.lost(None)
    assert app.told == [b"GET / HTTP/1.1\r\n\r\n", "progressed", None]
    assert app.closed == [app.client]
    assert len(app.targets) == 1


@on_loop
async def test_a_connection_without_its_upgrade_stays_http() -> None:
    app = Noting()
    app.comes(UPGRADE + b"GET /2 HTTP/1.1\r\n")
    app.comes(b"\r\nGET /3 HT")
    assert app.targets == [b"/ws"]
    app.answer()
    assert app.targets == [b"/ws", b"/2"]
    app.answer()
    app.comes(b"TP/1.1\r\n\r\n")
    assert app.targets == [b"/ws", b"/2", b"/3"]
    app.answer(closes=True)
    assert app.socket.is_closed


@on_loop
async def test_a_client_waits_with_data_of_an_ungranted_protocol() -> None:
    app = Noting()
    app.comes(UPGRADE)
    app.comes(bytes(server.UPLOAD_BYTES))
    assert not app.socket.is_paused
    app.comes(b"x")
    assert app.socket.is_paused
    app.client.switch(101, b"", [], app)
    assert not app.socket.is_paused


@on_loop
async def test_a_body_before_another_protocol_ends_the_connection() -> None:
    app = Noting()
    app.comes(UPGRADE.replace(b"\r\n\r\n", b"\r\ncontent-length: 30\r\n\r\n") + b"GET /body HTTP/1.1\r\n\r\n")
    app.answer()
    assert app.targets == [b"/ws"]
    assert b"connection: close" in app.socket.sent[0]


# The drain


def test_a_drain_finishes_streams_and_closes_idle_connections(tmp_path: Path) -> None:
    async def main() -> None:
        target = relay.plays(answer([(0.0, chunk("a")), (0.6, chunk("b", finish="stop")), (0.0, DONE)]))
        async with (
            dial(relay.base) as (idle, _),
            dial(relay.base) as (reader, writer),
            dial(relay.base) as (used, more),
        ):
            more.write(post(relay.plays(answer([(0.0, b"x")]))))
            await take(used)
            writer.write(post(target))
            await until(lambda: relay.request(target))
            stopping = asyncio.create_task(relay.stop())
            assert (await idle.read(), await used.read()) == (b"", b"")
            with pytest.raises(ConnectionError):
                await asyncio.open_connection(*address(relay.base))
            got = await take(reader)
            assert (got.complete, got.body) == (True, chunk("a") + chunk("b", finish="stop") + DONE)
            assert await reader.read() == b""
            assert await stopping == 0
        row = kept(relay.tape, target)
        assert row is not None
        assert row.outcome == ("complete", None)

    with Relay(tmp_path) as relay:
        relay.runner.run(main())


@pytest.mark.parametrize("by", ["the end of the drain", "a second signal"])
def test_a_stream_that_outlasts_the_drain_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    async def main() -> None:
        streaming = relay.plays(Scene([(0, CHUNKED + b"3\r\nabc\r\n")], "stall"))
        silent = relay.plays(Scene([], "stall"))
        async with dial(relay.base) as (reader, writer), dial(relay.base) as (patient, asking):
            writer.write(post(streaming))
            asking.write(post(silent))
            await reader.readuntil(b"3\r\nabc")
            await until(lambda: relay.request(silent))
            stopping = asyncio.create_task(relay.stop())
            if by == "a second signal":
                await asyncio.sleep(0)
                relay.recorder.cut()
                relay.recorder.cut()
            assert await reader.read() == b"\r\n"
            assert (await take(patient)).status == 503
            assert await stopping == 0
        for target, body in ((streaming, b"abc"), (silent, b"")):
            row = kept(relay.tape, target)
            assert row is not None
            assert (row.outcome, row.body) == (("interrupted", "shutdown"), body)

    if by == "the end of the drain":
        monkeypatch.setattr("wiretape.recorder.relay.service.DRAIN_SECONDS", 1)
    with Relay(tmp_path) as relay:
        relay.runner.run(main())


def test_a_client_that_reads_nothing_delays_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        target = relay.plays(answer([(0.0, bytes(1 << 20))] * 32))
        async with dial(relay.base) as (_, writer):
            writer.write(post(target))
            await until(lambda: relay.request(target))
            assert await relay.stop() == 0
        row = kept(relay.tape, target)
        assert row is not None
        assert row.outcome == ("interrupted", "shutdown")

    monkeypatch.setattr("wiretape.recorder.relay.service.DRAIN_SECONDS", 1)
    with Relay(tmp_path) as relay:
        relay.runner.run(main())

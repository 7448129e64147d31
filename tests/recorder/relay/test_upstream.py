"""Connecting to API servers, on both event loops: timestamps, TLS, and failures."""

import asyncio
import contextlib
import dataclasses
import errno
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.relay import LOOPS, on_loop, serving, until
from wiretape.recorder.demo.upstream import Scene, ScriptedUpstream, answer
from wiretape.recorder.errors import UpstreamError
from wiretape.recorder.relay import providers
from wiretape.recorder.relay.upstream import (
    ConnectionFacts,
    Http1Connection,
    ResponseHead,
    Timeouts,
    Transport,
    error_text,
    why_not_connected,
)

Loop = Callable[[], asyncio.AbstractEventLoop]
both_loops = pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
REQUEST = b"POST /v1/x HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


class Taken:
    """Takes one response."""

    def __init__(self, connection: Http1Connection, facts: ConnectionFacts) -> None:
        self.connection, self.facts = connection, facts
        self.head: ResponseHead | None = None
        self.reads: list[tuple[int, bytes]] = []
        self.over = asyncio.Event()

    def informed(self, head: ResponseHead) -> None:
        """Ignore it."""

    def response_received(
        self, at: int, head: ResponseHead | None, body: bytes, ends: bool, chunk: bytes = b""
    ) -> None:
        self.head = self.head or head
        if body:
            self.reads.append((at, body))
        if ends:
            self.over.set()

    def request_progressed(self) -> None:
        """Ignore it."""

    def request_refused(self) -> None:
        """Ignore it."""

    def taker_failed(self, error: Exception) -> None:
        raise error

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.reads)

    @property
    def ended_by(self) -> str | None:
        return self.connection.failure and self.connection.failure.ended_by


async def ask(
    url: str, request: bytes = REQUEST, limit: float = 10, on: Http1Connection | None = None, **options: Any
) -> Taken:
    """Send a request over a new connection, or over one; the response may still be coming."""
    facts = ConnectionFacts()
    connection = on or await Transport(**options).connect(providers.parse(url), facts)
    response = Taken(connection, facts)
    connection.begin(response, facts, bodiless=False)
    connection.limit(limit)
    connection.send(request, is_last=True)
    return response


async def fetch(url: str, **more: Any) -> Taken:
    """Ask, and take the whole response."""
    response = await ask(url, **more)
    async with asyncio.timeout(60):
        await response.over.wait()
    if not response.connection.is_reusable():
        response.connection.close()
    return response


@both_loops
@pytest.mark.parametrize(
    ("scene", "body", "ending"),
    [
        pytest.param(Scene([(0, CHUNKED), (0.02, b"3\r\nabc\r\n"), (0.02, b"0\r\n\r\n")]), b"abc", None, id="whole"),
        pytest.param(Scene([(0, CHUNKED + b"3\r\nabc\r\n"), (0.02, b"5\r\nde")], "fin"), b"abcde", "eof", id="fin"),
        pytest.param(Scene([(0, CHUNKED + b"3\r\nabc\r\n"), (0.05, b"")], "reset"), b"abc", "reset", id="reset"),
        pytest.param(Scene([(0, CHUNKED + b"3\r\nabc\r\nx")], "stall"), b"abc", "framing", id="framing"),
        pytest.param(Scene([(0, CHUNKED + b"3\r\nabc\r\n")], "stall"), b"abc", "idle_timeout", id="silence"),
        pytest.param(Scene([(0, OK[:-1])], "fin"), b"o", "length", id="length"),
        pytest.param(Scene([(0, b"HTTP/1.1 200 OK\r\n\r\nab"), (0.02, b"c")], "fin"), b"abc", None, id="close"),
        pytest.param(Scene([], "fin"), b"", "eof", id="no_answer"),
        pytest.param(Scene([(0.02, b"")], "reset"), b"", "reset", id="no_answer_but_a_reset"),
        pytest.param(Scene([], "stall"), b"", "headers_timeout", id="no_answer_at_all"),
    ],
)
@on_loop
async def test_an_ending_is_named(loop: Loop, scene: Scene, body: bytes, ending: str | None) -> None:
    async with ScriptedUpstream(lambda _: scene) as upstream:
        response = await fetch(upstream.url, limit=0.5 if ending in ("idle_timeout", "headers_timeout") else 20)
        assert (response.body, response.ended_by) == (body, ending)
        response.connection.close()


@both_loops
@on_loop
async def test_a_reset_loses_nothing_that_came_before_it(loop: Loop) -> None:
    pieces = [(0.0, b"400\r\n%s\r\n" % bytes(1024))] * 100
    async with ScriptedUpstream(lambda _: Scene([(0, CHUNKED), *pieces, (0.1, b"")], "reset")) as upstream:
        response = await fetch(upstream.url)
        assert (len(response.body), response.ended_by) == (102_400, "reset")


@both_loops
@on_loop
async def test_timestamps_are_ordered_and_only_new_connections_connect(loop: Loop) -> None:
    async with ScriptedUpstream(lambda _: answer([(0.0, b"a"), (0.02, b"b")])) as upstream:
        first = await fetch(upstream.url)
        first.connection.keep()
        assert first.connection.is_silent()
        second = await fetch(upstream.url, on=first.connection)
        second.connection.close()
        assert upstream.connections == 1
    for response in (first, second):
        facts, reads = response.facts, response.reads
        order = [facts.sent_ns, facts.headers_ns, reads[0][0], reads[-1][0], response.connection.ended_at]
        assert None not in order
        assert order == sorted(order)  # type: ignore[type-var]
    assert first.facts.connected_ns is not None
    assert first.facts.sent_ns is not None
    assert first.facts.connected_ns <= first.facts.sent_ns
    assert second.facts.connected_ns is None


@both_loops
@on_loop
async def test_a_request_is_sent_with_its_last_byte(loop: Loop) -> None:
    taking, size = asyncio.Event(), 20 << 20

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await taking.wait()
        await reader.readexactly(size)
        writer.write(OK)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20) as server:
        response = await ask(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", bytes(size))
        await asyncio.sleep(0.05)
        assert (response.facts.sent_ns, response.connection.unsent > 0) == (None, True)
        taking.set()
        await until(response.over.is_set)
        facts = response.facts
        assert facts.connected_ns is not None
        assert facts.sent_ns is not None
        assert facts.headers_ns is not None
        assert facts.connected_ns < facts.sent_ns < facts.headers_ns
        response.connection.close()


@both_loops
@on_loop
async def test_an_answer_during_the_upload_is_taken(loop: Loop) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK.replace(b"200 OK", b"401 No"))
        await writer.drain()
        writer.close()  # on bytes that were never read: a reset follows the answer

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        response = await fetch(url, request=b"POST / HTTP/1.1\r\n\r\n" + bytes(20 << 20))
    assert response.head is not None
    assert (response.head.status, response.body, response.ended_by) == (401, b"ok", None)
    assert not response.connection.is_reusable()


@both_loops
@on_loop
async def test_a_pause_is_not_upstreams_silence(loop: Loop) -> None:
    pieces = [(0.0, b"10000\r\n%s\r\n" % bytes(64 << 10))] * 400
    async with ScriptedUpstream(lambda _: Scene([(0, CHUNKED), *pieces, (0, b"0\r\n\r\n")])) as upstream:
        response = await ask(upstream.url, limit=0.3)
        await until(lambda: response.reads)
        response.connection.pause()
        received = len(response.body)
        await asyncio.sleep(0.5)  # longer than the limit
        assert (len(response.body), response.over.is_set()) == (received, False)
        response.connection.resume()
        await until(response.over.is_set)
        assert (len(response.body), response.ended_by) == (400 << 16, None)
        response.connection.close()


@both_loops
@on_loop
async def test_to_give_up_closes_the_connection(loop: Loop) -> None:
    async with ScriptedUpstream(lambda _: Scene([], "stall")) as upstream:
        response = await ask(upstream.url)
        await until(lambda: upstream.requests)
        response.connection.close()
        await until(lambda: upstream.requests[0].peer_left_ns)


# Connecting


async def refusal(upstream: providers.Upstream, **options: Any) -> str:
    """Return the reason why this upstream cannot be connected to."""
    with pytest.raises(UpstreamError) as caught:
        await Transport(**options).connect(upstream, ConnectionFacts())
    assert str(caught.value)
    return caught.value.ended_by


@both_loops
@on_loop
async def test_a_port_where_nobody_listens_refuses(loop: Loop) -> None:
    async with ScriptedUpstream(lambda _: Scene([])) as upstream:
        url = upstream.url
    assert await refusal(providers.parse(url)) == "refused"


@both_loops
@on_loop
async def test_a_name_that_does_not_resolve_is_dns(loop: Loop) -> None:
    name = ".".join(["long" * 12] * 6)  # too long for any resolver
    assert await refusal(dataclasses.replace(providers.parse("http://x.test"), host=name)) == "dns"


def trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority / "ca.pem"))


@both_loops
@on_loop
async def test_an_endless_handshake_times_out_and_leaves_nothing(loop: Loop, authority: Path) -> None:
    departed = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        departed.set()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        upstream = providers.parse(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert await refusal(upstream, limits=Timeouts(connect=0.1), tls=trusting(authority)) == "connect_timeout"
        await until(departed.is_set)


@both_loops
@on_loop
async def test_an_upstream_of_a_trusted_authority_streams(loop: Loop, authority: Path) -> None:
    scene = answer([(0.02, b"one"), (0.02, b"two")])
    async with ScriptedUpstream(lambda _: scene, serving(authority, "good")) as upstream:
        response = await fetch(upstream.url, tls=trusting(authority))
        assert (response.body, response.ended_by) == (b"onetwo", None)
        order = [response.facts.connected_ns or 0, response.facts.sent_ns or 0, response.facts.headers_ns or 0]
        assert 0 < order[0] <= order[1] < order[2]
        response.connection.close()


@both_loops
@on_loop
async def test_a_large_request_and_answer_pass_tls_whole(loop: Loop, authority: Path) -> None:
    data = bytes(range(256)) * 4096
    scene = answer([(0.0, data)], framing="length")
    async with ScriptedUpstream(lambda _: scene, serving(authority, "good")) as upstream:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(data)
        response = await fetch(upstream.url, request=head + data, tls=trusting(authority))
        assert (response.body == data, upstream.requests[0].body == data, response.ended_by) == (True, True, None)
        assert response.facts.sent_ns is not None
        response.connection.close()


@both_loops
@pytest.mark.parametrize("name", ["good", "wrong", "expired"])
@on_loop
async def test_tls_that_does_not_verify_is_never_spoken_over(loop: Loop, authority: Path, name: str) -> None:
    tls = ssl.create_default_context() if name == "good" else trusting(authority)  # good, but of an unknown authority
    async with ScriptedUpstream(lambda _: answer([(0, b"secret")]), serving(authority, name)) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await Transport(tls=tls).connect(providers.parse(upstream.url), ConnectionFacts())
        assert (caught.value.ended_by, "--ca-file" in str(caught.value)) == ("tls", name == "good")
        assert upstream.requests == []


@both_loops
@on_loop
async def test_a_plain_upstream_behind_tls_is_a_tls_error(loop: Loop, authority: Path) -> None:
    async with ScriptedUpstream(lambda _: Scene([(0, OK)])) as upstream:
        url = upstream.url.replace("http:", "https:")
        assert await refusal(providers.parse(url), tls=trusting(authority)) in ("tls", "reset")
        assert upstream.requests == []


@both_loops
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["tls12", "tls13"])
@on_loop
async def test_the_second_connection_resumes_the_tls_session(
    loop: Loop, authority: Path, version: ssl.TLSVersion
) -> None:
    resumed: list[bool] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        await reader.readuntil(b"{}")
        writer.write(OK)
        await reader.read(-1)
        writer.close()

    context = serving(authority, "good")
    context.maximum_version = version
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        upstream = providers.parse(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        transport = Transport(trusting(authority))
        for _ in range(3):
            connection = await transport.connect(upstream, ConnectionFacts())
            await fetch(upstream.url, on=connection)
            transport.remember(connection)
            connection.close()
    assert resumed == [False, True, True]


@both_loops
@on_loop
async def test_a_late_ticket_on_a_kept_connection_is_nothing(loop: Loop, authority: Path) -> None:
    flags: list[bytes] = []
    peers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = serving(authority, "good").wrap_bio(received, to_send, server_side=True)
        for _ in range(2):
            received.write(await reader.read(1 << 16))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            flags.append(to_send.read())  # the second time, the tickets
            if len(flags) == 1:
                writer.write(flags[0])
        peers.append(writer)
        await reader.read(1 << 16)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        upstream = providers.parse(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        connection = await Transport(trusting(authority)).connect(upstream, ConnectionFacts())
        await until(lambda: peers)
        peers[0].write(flags[1])
        await until(lambda: connection.tls_session is not None and connection.tls_session.has_ticket)
        assert connection.is_silent()
        peers[0].close()
        await until(lambda: not connection.is_silent())


def test_errors_of_connecting_are_distinguished() -> None:
    assert why_not_connected(OSError(errno.ENETUNREACH, "unreachable")) == "refused"
    assert why_not_connected(ConnectionAbortedError("handshake")) == "reset"
    assert why_not_connected(ssl.SSLError("bad")) == "tls"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionResetError(), "ConnectionResetError"),
        (ValueError("7"), "ValueError 7"),
        (ValueError(f"too long: {memoryview(b'x')!r}"), "too long: bytes"),
        (ValueError("no such stream: 7"), "no such stream: 7"),
    ],
)
def test_an_error_is_told_by_words(error: Exception, text: str) -> None:
    assert error_text(error) == text

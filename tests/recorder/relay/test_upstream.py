"""The transport by itself, before a scripted upstream, on both event loops."""

import asyncio
import errno
import itertools
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from recorder.clock import Clock
from recorder.demo.upstream import Scene, ScriptedUpstream, answer
from recorder.errors import UpstreamError
from recorder.relay.upstream import UNSENT_BYTES, Instants, Limits, Reads, Transport, why_not_connected
from tests.relay import LOOPS, on_loop, serving, until

Loop = Callable[[], asyncio.AbstractEventLoop]
both_loops = pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def request(url: str, method: str = "POST", content: bytes = b"{}", **extensions: Any) -> httpx.Request:
    return httpx.Request(method, url, content=content, extensions=extensions)


async def drain(reads: Reads) -> tuple[list[bytes], str | None]:
    """Take all reads: their bytes, and how it ended if it broke."""
    taken: list[bytes] = []
    try:
        while (read := await reads.next()) is not None:
            taken.append(read[1])
    except UpstreamError as error:
        return taken, error.ended_by
    finally:
        await reads.aclose()
    return taken, None


@both_loops
@on_loop
async def test_it_is_a_transport_for_httpx(loop: Loop) -> None:
    async with (
        ScriptedUpstream(lambda _: answer([(0, b"one "), (0.02, b"two")])) as upstream,
        httpx.AsyncClient(transport=Transport(), base_url=upstream.url) as client,
    ):
        async with client.stream("POST", "/v1/x?q=1", content=b"body") as response:
            assert [piece async for piece in response.aiter_raw()] == [b"one ", b"two"]
        assert (await client.get("/again")).text == "one two"
    assert [request.target for request in upstream.requests] == [b"/v1/x?q=1", b"/again"]
    assert upstream.requests[0].body == b"body"


@both_loops
@pytest.mark.parametrize(
    ("scene", "body", "ended"),
    [
        pytest.param(Scene([(0, CHUNKED), (0.02, b"3\r\nabc\r\n"), (0.02, b"0\r\n\r\n")]), [b"abc"], None, id="whole"),
        pytest.param(
            Scene([(0, CHUNKED + b"3\r\nabc\r\n"), (0.02, b"5\r\nde")], "fin"), [b"abc", b"de"], "eof", id="fin"
        ),
        pytest.param(Scene([(0, CHUNKED + b"3\r\nabc\r\n"), (0.05, b"")], "reset"), [b"abc"], "reset", id="reset"),
        pytest.param(Scene([(0, CHUNKED + b"3\r\nabc\r\nx")], "stall"), [b"abc"], "framing", id="framing"),
        pytest.param(Scene([(0, CHUNKED + b"3\r\nabc\r\n")], "stall"), [b"abc"], "idle_timeout", id="silence"),
        pytest.param(Scene([(0, OK[:-1])], "fin"), [b"o"], "length", id="length"),
        pytest.param(Scene([(0, b"HTTP/1.1 200 OK\r\n\r\nab"), (0.02, b"c")], "fin"), [b"ab", b"c"], None, id="close"),
    ],
)
@on_loop
async def test_an_ending_is_named(loop: Loop, scene: Scene, body: list[bytes], ended: str | None) -> None:
    async with ScriptedUpstream(lambda _: scene) as upstream:
        limits = Limits(idle=0.2 if ended == "idle_timeout" else 20)
        response = await Transport(limits=limits).handle_async_request(request(upstream.url))
        taken, how = await drain(response.extensions["reads"])
        assert (b"".join(taken), how) == (b"".join(body), ended)


@both_loops
@on_loop
async def test_a_reset_loses_nothing_that_came_before_it(loop: Loop) -> None:
    pieces = [(0.0, b"400\r\n%s\r\n" % bytes(1024))] * 100
    async with ScriptedUpstream(lambda _: Scene([(0, CHUNKED), *pieces, (0.1, b"")], "reset")) as upstream:
        response = await Transport().handle_async_request(request(upstream.url))
        reads = response.extensions["reads"]
        await until(lambda: reads.connection.ended)  # the reset is here before anything has been taken
        taken, ended = await drain(reads)
        assert (len(b"".join(taken)), ended) == (102_400, "reset")


@both_loops
@on_loop
async def test_an_instant_is_that_of_the_read_and_not_of_its_taking(loop: Loop) -> None:
    ticks = itertools.count(1)
    async with ScriptedUpstream(lambda _: answer([(0.0, b"a"), (0.02, b"b")])) as upstream:
        instants = Instants()
        transport = Transport(clock=Clock(now=lambda: next(ticks)))
        response = await transport.handle_async_request(request(upstream.url, instants=instants))
        reads = response.extensions["reads"]
        await until(lambda: reads.connection.ended)
        await asyncio.sleep(0)
        first, second = await reads.next(), await reads.next()
        assert await reads.next() is None
        assert None not in (instants.connected, instants.sent, instants.headers)
        order = [instants.connected, instants.sent, instants.headers, first[0], second[0], reads.ended_at]
        assert order == sorted(order)
        assert reads.ended_at < next(ticks)
        assert (first[1], second[1]) == (b"a", b"b")


@both_loops
@on_loop
async def test_a_request_is_sent_when_its_last_byte_has_gone_out(loop: Loop) -> None:
    taking = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await taking.wait()
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(20 << 20)
        writer.write(OK)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        instants = Instants()
        asking = asyncio.create_task(
            Transport().handle_async_request(request(url, content=bytes(20 << 20), instants=instants))
        )
        await until(lambda: instants.connected)
        await asyncio.sleep(0.05)
        assert instants.sent is None
        taking.set()
        response = await asking
        assert await drain(response.extensions["reads"]) == ([b"ok"], None)
        assert instants.connected is not None
        assert instants.sent is not None
        assert instants.headers is not None
        assert instants.connected < instants.sent < instants.headers


class Pieces(httpx.AsyncByteStream):
    """A body in pieces; its source fails after them if told."""

    def __init__(self, pieces: list[bytes], error: OSError | None = None) -> None:
        self._pieces, self._error = pieces, error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(0)
            yield piece
        if self._error is not None:
            raise self._error


def in_pieces(url: str, stream: Pieces, size: int, **extensions: Any) -> httpx.Request:
    headers = {"content-length": str(size)}
    return httpx.Request("POST", url, headers=headers, stream=stream, extensions=extensions)


@both_loops
@on_loop
async def test_a_request_in_pieces_arrives_whole_and_is_sent_when_its_last_has_gone_out(loop: Loop) -> None:
    pieces, instants = [bytes([number]) * 300_000 for number in range(20)], Instants()
    async with ScriptedUpstream(lambda _: Scene([(0.0, OK)])) as upstream:
        stream = Pieces(pieces)
        asked = in_pieces(upstream.url, stream, 6_000_000, instants=instants)
        response = await Transport().handle_async_request(asked)
        assert await drain(response.extensions["reads"]) == ([b"ok"], None)
    assert upstream.requests[0].body == b"".join(pieces)
    assert instants.connected is not None
    assert instants.sent is not None
    assert instants.headers is not None
    assert instants.connected < instants.sent < instants.headers


@both_loops
@on_loop
async def test_a_request_that_cannot_be_read_back_is_no_fault_of_upstreams(loop: Loop) -> None:
    async with ScriptedUpstream(lambda _: Scene([(0.0, OK)])) as upstream:
        stream = Pieces([b"begun"], OSError(errno.EIO, "Input/output error"))
        with pytest.raises(UpstreamError, match="cannot be read back") as caught:
            await Transport().handle_async_request(in_pieces(upstream.url, stream, 100))
        assert caught.value.ended_by == "local"
        assert upstream.requests == []


@both_loops
@on_loop
async def test_an_answer_that_comes_while_the_request_is_uploaded_is_taken(loop: Loop) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK.replace(b"200 OK", b"401 No"))
        await writer.drain()
        writer.close()  # on bytes that were never read: a reset follows the answer

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        response = await Transport().handle_async_request(request(url, content=bytes(20 << 20)))
        assert (response.status_code, await drain(response.extensions["reads"])) == (401, ([b"ok"], None))


@both_loops
@on_loop
async def test_upstream_waits_for_a_taker_that_is_slow(loop: Loop) -> None:
    block = bytes(64 << 10)
    pieces = [(0.0, b"10000\r\n%s\r\n" % block)] * 400
    scene = Scene([(0, CHUNKED), *pieces, (0, b"0\r\n\r\n")])
    async with ScriptedUpstream(lambda _: scene) as upstream:
        response = await Transport(limits=Limits(idle=0.3)).handle_async_request(request(upstream.url))
        reads = response.extensions["reads"]
        await until(lambda: reads.paused)
        await asyncio.sleep(0.5)  # longer than the limit: a silence of the taker's is not upstream's
        assert sum(len(data) for _, data in reads.connection.queue) < UNSENT_BYTES + (1 << 20)
        taken, ended = await drain(reads)
        assert (sum(map(len, taken)), ended) == (400 * len(block), None)


@both_loops
@on_loop
async def test_surplus_is_noticed_and_dropped(loop: Loop) -> None:
    async with ScriptedUpstream(lambda _: Scene([(0, OK + b"HTTP/1.1 200 OK\r\n\r\nSTOLEN")])) as upstream:
        response = await Transport().handle_async_request(request(upstream.url))
        reads = response.extensions["reads"]
        assert (await drain(reads), reads.surplus) == (([b"ok"], None), True)


FIRST = b"HTTP/1.1 200 OK\r\nx-first: 1\r\ncontent-length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    "surplus",
    [b" ", b"X", b"HTTP/1.1 418 Teapot\r\nset-cookie: stolen=1\r\ncontent-length: 2\r\n\r\nhi", b"HTTP/1.1 4"],
)
@pytest.mark.parametrize("status", [200, 204])
@on_loop
async def test_what_follows_a_response_in_the_same_read_changes_nothing_of_it(surplus: bytes, status: int) -> None:
    first = FIRST if status == 200 else b"HTTP/1.1 204 No Content\r\nx-first: 1\r\n\r\n"
    async with ScriptedUpstream(lambda _: Scene([(0, first + surplus)])) as upstream:
        response = await Transport().handle_async_request(request(upstream.url))
        reads = response.extensions["reads"]
        head = (response.status_code, response.headers["x-first"], response.extensions["framing"])
        assert head == (status, "1", "length" if status == 200 else "none")
        assert "set-cookie" not in response.headers
        assert (await drain(reads), reads.surplus) == (([b"ok"] if status == 200 else [], None), True)


@both_loops
@on_loop
async def test_reads_that_nobody_took_are_left(loop: Loop) -> None:
    async with ScriptedUpstream(lambda _: answer([(0.0, b"a"), (0.02, b"b")])) as upstream:
        response = await Transport().handle_async_request(request(upstream.url))
        reads = response.extensions["reads"]
        await until(lambda: reads.connection.ended)
        assert (await reads.next())[1] == b"a"
        await reads.aclose()
        assert [data for _, data in reads.left()] == [b"b"]
        assert reads.left() == []


@both_loops
@on_loop
async def test_to_give_up_closes_the_connection(loop: Loop) -> None:
    async with ScriptedUpstream(lambda _: Scene([], "stall")) as upstream:
        asking = asyncio.create_task(Transport().handle_async_request(request(upstream.url)))
        await until(lambda: upstream.requests)
        asking.cancel()
        await asyncio.wait([asking])
        await until(lambda: upstream.requests[0].peer_left_ns)
    assert asking.cancelled()


async def refusal(url: str, **options: Any) -> str:
    """Give what a request to this URL ends by."""
    with pytest.raises(UpstreamError) as caught:
        await Transport(**options).handle_async_request(request(url))
    assert str(caught.value)
    return caught.value.ended_by


@both_loops
@on_loop
async def test_a_port_where_nobody_listens_refuses(loop: Loop) -> None:
    async with ScriptedUpstream(lambda _: Scene([])) as upstream:
        url = upstream.url
    assert await refusal(url) == "refused"


@both_loops
@on_loop
async def test_a_name_that_does_not_resolve_is_dns(loop: Loop) -> None:
    assert await refusal("http://" + ".".join(["long" * 12] * 6)) == "dns"  # too long to be asked for anywhere


@both_loops
@pytest.mark.parametrize("end", ["fin", "reset", "stall"])
@on_loop
async def test_a_silent_upstream_is_named_by_how_it_is_silent(loop: Loop, end: Any) -> None:
    async with ScriptedUpstream(lambda _: Scene([(0.02, b"")], end)) as upstream:
        ended = {"fin": "eof", "reset": "reset", "stall": "headers_timeout"}
        assert await refusal(upstream.url, limits=Limits(headers=0.2)) == ended[end]


# TLS


def trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority / "ca.pem"))


@both_loops
@on_loop
async def test_an_upstream_of_a_trusted_authority_streams(loop: Loop, authority: Path) -> None:
    scene = answer([(0.02, b"one"), (0.02, b"two")])
    async with ScriptedUpstream(lambda _: scene, serving(authority, "good")) as upstream:
        instants = Instants()
        transport = Transport(trusting(authority))
        response = await transport.handle_async_request(request(upstream.url, instants=instants))
        taken, ended = await drain(response.extensions["reads"])
        assert (b"".join(taken), ended) == (b"onetwo", None)  # in two reads, unless this machine is busy
        order = [instants.connected or 0, instants.sent or 0, instants.headers or 0]
        assert 0 < order[0] <= order[1] < order[2]


@both_loops
@pytest.mark.parametrize("name", ["good", "wrong", "expired"])
@on_loop
async def test_tls_that_does_not_verify_is_never_spoken_over(loop: Loop, authority: Path, name: str) -> None:
    tls = ssl.create_default_context() if name == "good" else trusting(authority)  # good, but of an unknown authority
    async with ScriptedUpstream(lambda _: answer([(0, b"secret")]), serving(authority, name)) as upstream:
        assert await refusal(upstream.url, tls=tls) == "tls"
        assert upstream.requests == []


@both_loops
@on_loop
async def test_a_plain_upstream_where_tls_was_expected_is_a_tls_error(loop: Loop, authority: Path) -> None:
    async with ScriptedUpstream(lambda _: Scene([(0, OK)])) as upstream:
        assert await refusal(upstream.url.replace("http:", "https:"), tls=trusting(authority)) in ("tls", "reset")
        assert upstream.requests == []


def test_errors_of_connecting_are_told_apart() -> None:
    assert why_not_connected(OSError(errno.ENETUNREACH, "unreachable")) == "refused"
    assert why_not_connected(ConnectionAbortedError("handshake")) == "reset"
    assert why_not_connected(ssl.SSLError("bad")) == "tls"


@on_loop
async def test_a_trailer_is_no_header() -> None:
    scene = Scene([(0, CHUNKED + b"2\r\nok\r\n0\r\nx-trailer: 1\r\n\r\n")])
    async with ScriptedUpstream(lambda _: scene) as upstream:
        response = await Transport().handle_async_request(request(upstream.url))
        assert await drain(response.extensions["reads"]) == ([b"ok"], None)
        assert "x-trailer" not in response.headers

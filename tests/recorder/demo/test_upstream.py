"""The scripted upstream: it sends its scene's bytes at their times, and logs its peer."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from tests.support.relay import LOOPS, dial, fetch, on_loop, post, raw, reset, take, until
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.demo.upstream import Scene, ScriptedUpstream, answer

BODY = [(0.0, b"one"), (0.05, b"two")]


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@on_loop
async def test_an_answer_is_framed_as_asked(framing: str) -> None:
    async with ScriptedUpstream(lambda _: answer(BODY, framing=framing)) as upstream:  # type: ignore[arg-type]
        got = await fetch(upstream.url, post("/x"))
    assert (got.complete, got.body) == (True, b"onetwo")
    assert ("content-length" in got.headers, "transfer-encoding" in got.headers) == (
        framing == "length",
        framing == "chunked",
    )


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
@on_loop
async def test_what_was_asked_and_sent_is_noted(loop: object) -> None:
    async with ScriptedUpstream(lambda asked: answer([(0.0, asked.body)], status=529)) as upstream:
        got = await fetch(upstream.url, post("/a?b=1", b"body", [("X-Case", "Kept")]))
        (request,) = upstream.requests
    assert (got.status, got.body) == (529, b"body")
    assert (request.method, request.target, request.body) == ("POST", b"/a?b=1", b"body")
    assert (b"x-case", b"Kept") in request.headers
    assert b"".join(piece for _, piece in request.sent).endswith(b"4\r\nbody\r\n0\r\n\r\n")


@on_loop
async def test_no_piece_goes_out_before_its_time() -> None:
    async with ScriptedUpstream(lambda _: answer([(0.02, b"x")] * 20)) as upstream:
        asked_at = SYSTEM.now()
        await fetch(upstream.url, post("/x"))
        instants = [at for at, data in upstream.requests[0].sent if data.startswith(b"1")]
    assert len(instants) == 20
    assert all(at - asked_at > 19_000_000 * number for number, at in enumerate(instants, 1))


@on_loop
async def test_a_connection_serves_several_requests() -> None:
    async with ScriptedUpstream(lambda request: answer([(0.0, request.target)])) as upstream:
        async with dial(upstream.url) as (reader, writer):
            for target in ("/one", "/two"):
                writer.write(post(target))
                assert (await take(reader)).body == target.encode()
        assert upstream.connections == 1


@on_loop
async def test_a_reset_is_a_reset() -> None:
    async with (
        ScriptedUpstream(lambda _: Scene([(0, b"HTTP/1.1 200 OK\r\n\r\n"), (0.05, b"")], "reset")) as upstream,
        dial(upstream.url) as (reader, writer),
    ):
        writer.write(post("/x"))
        got = await take(reader)
    assert (got.status, got.complete) == (200, False)
    assert "ConnectionResetError" in got.error


@pytest.mark.parametrize("leave", [lambda writer: writer.close(), reset], ids=["close", "reset"])
@on_loop
async def test_a_leaving_peer_is_noted_even_in_silence(
    leave: Callable[[asyncio.StreamWriter], None],
) -> None:
    scenes = iter([Scene([], "stall"), answer([(0.01, b"x")] * 1000), answer([(0.2, b"x")] * 50)])
    async with ScriptedUpstream(lambda _: next(scenes)) as upstream:
        for number in range(3):
            async with dial(upstream.url) as (_, writer):
                writer.write(post("/x"))
                await until(lambda: len(upstream.requests) > number)  # noqa: B023 - called at once
                leave(writer)
            await until(lambda: upstream.requests[-1].peer_left_ns)


@on_loop
async def test_what_is_no_http_is_hung_up_on() -> None:
    async with ScriptedUpstream(lambda _: answer(BODY)) as upstream:
        assert await raw(upstream.url, b"\x16\x03\x01garbage\r\n\r\n") == b""
        assert (upstream.requests, upstream.connections) == ([], 1)


@on_loop
async def test_leaving_it_ends_what_still_plays() -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with ScriptedUpstream(lambda _: Scene([], "stall")) as upstream:
            _, writer = await stack.enter_async_context(dial(upstream.url))
            writer.write(post("/x"))
            await until(lambda: upstream.requests)
        assert len(asyncio.all_tasks()) == 1

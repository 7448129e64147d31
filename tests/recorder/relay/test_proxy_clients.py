"""Clients that leave or are slow, and the limits of a recorder."""

import asyncio
import gc
import os
import socket
import time
from collections.abc import Iterator

import pytest

from tests.support.relay import CHUNKED, STREAM, Relay, dial, on_loop, plain, post, reset, take, until
from wiretape.recorder.clock import Clock
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, answer
from wiretape.recorder.relay import providers, server
from wiretape.recorder.relay.proxy import Proxy, RelayedExchange
from wiretape.recorder.relay.upstream import Timeouts, Transport


def leave(writer: asyncio.StreamWriter, ending: str) -> None:
    if ending == "half_close":
        writer.write_eof()
    elif ending == "reset":
        reset(writer)
    else:
        writer.close()


@pytest.mark.parametrize("ending", ["close", "reset", "half_close"])
@pytest.mark.parametrize("pieces", [[], [(0.0, CHUNKED)], [(0.0, CHUNKED + b"3\r\nabc\r\n")]])
@on_loop
async def test_upstream_closes_within_a_second_of_the_client(
    relay: Relay, ending: str, pieces: list[tuple[float, bytes]]
) -> None:
    target = relay.plays(Scene(pieces, "stall"))
    async with dial(relay.base) as (reader, writer):
        writer.write(post(target))
        await until(lambda: relay.request(target))
        if pieces:
            await reader.readuntil(b"3\r\nabc\r\n" if b"abc" in pieces[0][1] else b"\r\n\r\n")
        leave(writer, ending)
        request = relay.request(target)
        assert request is not None
        await until(lambda: request.peer_left_ns)
    tape = await relay.kept(target)
    assert (tape.outcome, tape.row["ended_by"]) == (("client_closed", None), "client")
    assert 0 < tape.row["client_closed_ns"] <= tape.row["end_ns"]
    assert tape.body == (b"abc" if pieces and b"abc" in pieces[0][1] else b"")


@pytest.fixture(scope="module")
def deaf() -> Iterator[str]:
    """A port whose queue of connections is full: to connect to it takes for ever."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        first.connect(listener.getsockname())
        second.setblocking(False)
        second.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory, deaf: str) -> Iterator[Relay]:
    """A relay of little patience."""
    limits = Timeouts(connect=0.7, headers=0.4, idle=0.5)
    with Relay(tmp_path_factory.mktemp("hasty"), others=[f"deaf={deaf}"], limits=limits) as relay:
        yield relay


def test_each_limit_has_its_own_outcome(hasty: Relay) -> None:
    async def main() -> None:
        got = await hasty.get("/deaf/x")
        assert (got.status, got.headers["x-wiretape-error"]) == (504, "connect_timeout")
        assert (await hasty.kept("/x")).outcome == ("timeout", "connect")
        got, tape = await hasty.shows(Scene([], "stall"))
        assert (got.status, tape.outcome, tape.row["ended_by"]) == (504, ("timeout", "headers"), "headers_timeout")
        got, tape = await hasty.shows(answer([(0.0, b"abc")], end="stall"))
        assert (got.status, got.body, got.complete) == (200, b"abc", False)
        assert (tape.outcome, tape.row["ended_by"], tape.body) == (("timeout", "idle"), "idle_timeout", b"abc")
        assert tape.row["end_ns"] - tape.at_ns[-1] > 450_000_000
        got, tape = await hasty.shows(answer([(0.2, b"drip")] * 4))
        assert (got.complete, tape.body) == (True, b"drip" * 4)

    hasty.runner.run(main())


def test_streams_that_a_get_opens_never_idle_out(hasty: Relay) -> None:
    async def main() -> None:
        got, tape = await hasty.shows(answer([(0.0, b"abc"), (0.7, b"def")]), method="GET", body=b"")
        assert (got.body, got.complete, tape.row["ended_by"]) == (b"abcdef", True, "end")
        got, tape = await hasty.shows(
            answer([(0.0, b"abc")], content_type="text/plain", end="stall"), method="GET", body=b""
        )
        assert (got.body, tape.outcome) == (b"abc", ("timeout", "idle"))

    hasty.runner.run(main())


def test_a_client_may_leave_while_upstream_connects(hasty: Relay) -> None:
    async def main() -> None:
        async with dial(hasty.base) as (_, writer):
            writer.write(post("/deaf/left"))
            await until(lambda: hasty.recorder.live)
        tape = await hasty.kept("/left")
        assert (tape.outcome, tape.row["connected_ns"]) == (("client_closed", None), None)

    hasty.runner.run(main())


async def settled(request: ReceivedRequest) -> None:
    """Wait until upstream can send no more: in 20 turns of the event loop, however long they take, it sends nothing."""
    sent = turns = 0
    while turns < 20:
        turns = turns + 1 if sent == len(request.sent) else 0
        sent = len(request.sent)
        await asyncio.sleep(0.01)


@on_loop
async def test_a_slow_reader_slows_upstream_and_not_our_memory(relay: Relay) -> None:
    size, block = 24 << 20, bytes(64 << 10)
    pieces = [(0.0, b"%x\r\n%s\r\n" % (len(block), block))] * (size // len(block))
    target = relay.plays(Scene([(0, CHUNKED), *pieces, (0, b"0\r\n\r\n")]))
    async with dial(relay.base) as (reader, writer):
        writer.write(post(target))
        request = await until(lambda: relay.request(target))
        await settled(request)
        assert len(request.sent) < len(pieces)
        got = await take(reader)
    tape = await relay.kept(target)
    assert (got.complete, len(got.body), len(tape.body)) == (True, size, size)
    assert "backpressure" in tape.flags


def test_a_client_that_stops_reading_is_cut_off(relay: Relay) -> None:
    late = 0
    clock = Clock(now=lambda: time.monotonic_ns() + late)
    block = bytes(64 << 10)
    target = relay.plays(Scene([(0, CHUNKED), *[(0.0, b"10000\r\n%s\r\n" % block)] * 400], "stall"))

    async def main() -> None:
        nonlocal late
        proxy = Proxy([providers.parse(relay.upstream.url)], Transport(clock=clock), relay.recorder.tap, clock=clock)
        listening = server.bound("127.0.0.1", 0)
        base = server.base_url(listening)
        served = server.Server(proxy, listening)
        async with dial(base) as (_, writer):
            writer.write(post(target))
            request = await until(lambda: relay.request(target))
            await settled(request)
            proxy.end_stalled()
            assert proxy.live
            late = 61_000_000_000
            proxy.end_stalled()
            tape = await relay.kept(target)
        served.close()
        assert tape.outcome == ("client_closed", "stalled")
        assert None in tape.relayed_ns

    relay.runner.run(main())


@on_loop
async def test_clients_that_come_and_go_leave_nothing_behind(relay: Relay) -> None:
    async def visit(number: int) -> None:
        target = relay.plays(Scene([(0, CHUNKED + b"1\r\na\r\n")] if number % 2 else [], "stall"))
        async with dial(relay.base) as (_, writer):
            writer.write(post(target))
            await until(lambda: relay.request(target))
            reset(writer) if number % 3 else writer.close()

    def in_use() -> tuple[int, int]:
        return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))

    await until(lambda: not relay.recorder.live)
    baseline = await until(in_use)
    await asyncio.gather(*(visit(number) for number in range(60)))
    await until(lambda: all(now <= then for now, then in zip(in_use(), baseline, strict=True)))


@on_loop
async def test_an_ended_exchange_is_freed_without_a_garbage_collection(relay: Relay) -> None:
    def exchanges() -> list[RelayedExchange]:
        return [item for item in gc.get_objects() if type(item) is RelayedExchange]

    opening = [(0.0, CHUNKED + b"1\r\na\r\n")]
    scenes = [plain(b"{}"), answer(STREAM, framing="close"), Scene(opening, "fin"), Scene(opening, "stall")]
    gc.collect()
    of_other_tests = exchanges()
    gc.disable()
    try:
        for scene in scenes:
            async with dial(relay.base) as (reader, writer):
                writer.write(post(relay.plays(scene)))
                assert await reader.read(1)
        await until(lambda: len(exchanges()) == len(of_other_tests))
    finally:
        gc.enable()

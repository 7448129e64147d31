"""Sockets, the bounds on a request's head, and the drain."""

import asyncio
import socket
from pathlib import Path

import pytest

from recorder import server
from recorder.errors import CannotListen
from recorder.scripted import Scene, answer
from tests.relay import DONE, Relay, address, chunk, dial, kept, on_loop, post, raw, take, until

CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def test_a_port_that_is_taken_is_said_in_one_line() -> None:
    with server.listen("127.0.0.1", 0) as taken, pytest.raises(CannotListen) as caught:
        server.listen("127.0.0.1", taken.getsockname()[1])
    assert caught.value.exit_code == 7
    assert "Address already in use" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_address_that_is_not_ours_cannot_be_listened_on() -> None:
    with pytest.raises(CannotListen):
        server.listen("192.0.2.1", 0)


def test_clients_may_connect_from_the_moment_of_listening() -> None:
    with server.listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname(), timeout=1):
        assert server.base_url(listening) == "http://127.0.0.1:{}".format(*listening.getsockname()[1:])


@pytest.mark.parametrize(("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("::", "[::1]")])
def test_the_base_url_is_one_that_can_be_called(host: str, shown: str) -> None:
    with server.listen(host, 0) as listening:
        assert server.base_url(listening) == f"http://{shown}:{listening.getsockname()[1]}"


def test_only_loopback_is_listened_on(relay: Relay) -> None:
    port = address(relay.base)[1]
    sockets = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if f":{port:04X} 0" in line]
    assert sockets == [f"0100007F:{port:04X}"]


@on_loop
async def test_a_head_that_does_not_come_is_not_waited_for(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    assert await raw(relay.base) == b""
    assert await raw(relay.base, b"POST /x HTTP/1.1\r\nhost: loc") == b""


@on_loop
async def test_a_stream_may_last_longer_than_a_head_may_take(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    got, _ = await relay.shows(answer([(0.5, b"late")]))
    assert (got.complete, got.body) == (True, b"late")


@on_loop
async def test_a_next_head_that_is_too_large_writes_nothing_into_a_running_answer(relay: Relay) -> None:
    target = relay.plays(Scene([(0, CHUNKED + b"3\r\nabc\r\n")], "stall"))
    async with dial(relay.base) as (reader, writer):
        writer.write(post(target))
        await reader.readuntil(b"3\r\nabc\r\n")
        writer.write(b"GET /x HTTP/1.1\r\nx: " + b"y" * 70_000)
        assert await reader.read() == b""
    assert (await relay.kept(target)).outcome == ("client_closed", None)


# The drain


def test_a_drain_lets_streams_end_and_closes_what_is_idle(tmp_path: Path) -> None:
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
            await until(lambda: relay.asked(target))
            stopping = asyncio.create_task(relay.stop())
            assert (await idle.read(), await used.read()) == (b"", b"")
            with pytest.raises(ConnectionError):
                await asyncio.open_connection(*address(relay.base))
            got = await take(reader)
            assert (got.complete, got.body) == (True, chunk("a") + chunk("b", finish="stop") + DONE)
            assert await reader.read() == b""
            assert await stopping == 0
        found = kept(relay.tape, target)
        assert found is not None
        assert found.outcome == ("complete", None)

    with Relay(tmp_path) as relay:
        relay.runner.run(main())


@pytest.mark.parametrize("by", ["the end of the drain", "a second signal"])
def test_a_stream_that_outlasts_the_drain_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    async def main() -> None:
        streaming = relay.plays(Scene([(0, CHUNKED + b"3\r\nabc\r\n")], "stall"))
        silent = relay.plays(Scene([], "stall"))
        async with dial(relay.base) as (reader, writer), dial(relay.base) as (waiting, asking):
            writer.write(post(streaming))
            asking.write(post(silent))
            await reader.readuntil(b"3\r\nabc")
            await until(lambda: relay.asked(silent))
            stopping = asyncio.create_task(relay.stop())
            if by == "a second signal":
                await asyncio.sleep(0)
                relay.recorder.cut()
                relay.recorder.cut()
            assert await reader.read() == b"\r\n"
            assert (await take(waiting)).status == 503
            assert await stopping == 0
        for target, body in ((streaming, b"abc"), (silent, b"")):
            found = kept(relay.tape, target)
            assert found is not None
            assert (found.outcome, found.body) == (("interrupted", "shutdown"), body)

    if by == "the end of the drain":
        monkeypatch.setattr("recorder.service.DRAIN_SECONDS", 1)
    with Relay(tmp_path) as relay:
        relay.runner.run(main())

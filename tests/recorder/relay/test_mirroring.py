"""Connections upstream mirror the client's: opened, kept and closed with it; and what happens when that races."""

import asyncio
import contextlib
import gc
import os
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.relay import Answer, Kept, Relay, dial, on_loop, post, reset, serving, serving_raw, take, until
from wiretape.recorder.demo.upstream import Scene, ScriptedUpstream, answer
from wiretape.recorder.relay import server
from wiretape.recorder.relay.server import Http1Client
from wiretape.recorder.relay.upstream import Http1Connection

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n3\r\n:a\n\r\n"
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Server:
    """An upstream under the test's control: `respond` is awaited for each request, and returns True to continue."""

    respond: Callable[["Server", bytes, asyncio.StreamWriter], Awaitable[bool]]
    connections: int = 0
    targets: list[bytes] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    left: int = 0
    resets: int = 0
    """Those of the connections left that the relay has reset."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while await self._serve_one(reader, writer):
                pass
        except ConnectionError:
            self.resets += 1
        except asyncio.IncompleteReadError:
            pass
        self.left += 1

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        self.targets.append(head.split(b" ", 2)[1])
        if b"content-length: 2\r\n" in head.lower():
            await reader.readexactly(2)
        return await self.respond(self, self.targets[-1], writer)


async def respond_ok(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
    writer.write(OK)
    return True


async def ask(peer: Peer, target: str, **request: Any) -> Answer:
    """Send one request over a client's connection."""
    reader, writer = peer
    async with asyncio.timeout(60):
        writer.write(post(target, **request))
        return await take(reader, request.get("method", "POST"))


async def ends(peer: Peer) -> bytes:
    """Return the bytes received until the connection ends."""
    async with asyncio.timeout(60):
        try:
            return await peer[0].read(-1)
        except ConnectionError:
            return b"reset"


def names() -> Iterator[str]:
    number = 0
    while True:
        yield f"/v1/mirrored-{(number := number + 1)}"


fresh = names()


@contextlib.asynccontextmanager
async def served(relay: Relay, respond: Any = respond_ok) -> AsyncIterator[tuple[Server, str]]:
    upstream = Server(respond)
    async with serving_raw(relay, upstream) as base:
        yield upstream, base


# Kept


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_forty_requests_of_one_client_go_over_one_connection(tmp_path: Path, authority: Path, tls: bool) -> None:
    async def main() -> None:
        async with dial(relay.base) as peer:
            for target in targets:
                assert (await ask(peer, target)).complete
        tapes = [await relay.kept(target) for target in targets]
        assert relay.upstream.connections == 1
        assert [tape.row["connection_reused"] for tape in tapes] == [0] + [1] * 39
        assert tapes[0].row["connected_ns"] > 0
        assert [tape.row["connected_ns"] for tape in tapes[1:]] == [None] * 39
        assert all(0 < tape.row["sent_ns"] <= tape.row["headers_ns"] <= tape.row["end_ns"] for tape in tapes)

    options = {"tls": serving(authority, "good"), "ca_file": authority / "ca.pem"} if tls else {}
    with Relay(tmp_path, **options) as relay:
        targets = [relay.plays(answer([(0.0, b"data: x\n\n"), (0.0, b"data: [DONE]\n\n")])) for _ in range(40)]
        relay.runner.run(main())


@on_loop
async def test_answers_without_a_body_keep_the_connection(relay: Relay) -> None:
    async def respond(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
        status = {b"/204": b"204 No Content", b"/304": b"304 Not Modified"}.get(target, b"200 OK")
        writer.write(
            b"HTTP/1.1 %b\r\ncontent-length: 12\r\n\r\n" % status if target != b"/204" else b"HTTP/1.1 204 N\r\n\r\n"
        )
        return True

    async with served(relay, respond) as (upstream, base), dial(base) as peer:
        for method, target, status in [("HEAD", "/h", 200), ("POST", "/204", 204), ("GET", "/304", 304)] * 2:
            got = await ask(peer, target, method=method, body=b"")
            assert (got.status, got.body, got.complete) == (status, b"", True)
        assert (upstream.connections, len(upstream.targets)) == (1, 6)


@on_loop
async def test_pipelined_requests_are_answered_in_order_over_one_connection(relay: Relay) -> None:
    targets = [next(fresh) for _ in range(5)]

    async def respond(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(target), target))
        return True

    async with served(relay, respond) as (upstream, base), dial(base) as (reader, writer), asyncio.timeout(60):
        writer.write(b"".join(map(post, targets)))
        for target in targets:
            assert await reader.readuntil(b"\r\n\r\n") != b""
            assert await reader.readexactly(len(target)) == target.encode()
        assert (upstream.connections, upstream.targets) == (1, [target.encode() for target in targets])
    tapes = [await relay.kept(target) for target in targets]
    assert [tape.row["connection_reused"] for tape in tapes] == [0, 1, 1, 1, 1]
    assert {tape.row["protocol"] for tape in tapes} == {"http/1.1"}


@on_loop
async def test_each_named_upstream_has_a_connection_of_its_own(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(lambda _: Scene([(0, OK)])) as upstream,
        ScriptedUpstream(lambda _: Scene([(0, OK)])) as second_upstream,
    ):
        relay = Relay(tmp_path, others=[f"one={upstream.url}", f"two={second_upstream.url}"])
        await relay.start()
        async with dial(relay.base) as peer:
            for name in ("one", "two", "one", "two", "one"):
                assert (await ask(peer, f"/{name}/x")).status == 200
            assert (upstream.connections, second_upstream.connections) == (1, 1)
            await upstream.__aexit__()
            await asyncio.sleep(0.05)
            assert (await ask(peer, "/two/x")).status == 200  # the other one's end has not closed the client's
            assert second_upstream.connections == 1
        await relay.stop()
        relay.runner.close()


@on_loop
async def test_a_client_keeps_few_connections_upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_CONNECTIONS", 1)
    async with (
        ScriptedUpstream(lambda _: Scene([(0, OK)])) as upstream,
        ScriptedUpstream(lambda _: Scene([(0, OK)])) as second_upstream,
    ):
        relay = Relay(tmp_path, others=[f"one={upstream.url}", f"two={second_upstream.url}"])
        await relay.start()
        async with dial(relay.base) as peer:
            for name in ("one", "two", "one", "one"):
                assert (await ask(peer, f"/{name}/x")).status == 200
            assert (upstream.connections, second_upstream.connections) == (2, 1)
        await relay.stop()
        relay.runner.close()


# Closed


@pytest.mark.parametrize("ending", ["close", "reset", "half_close"])
@on_loop
async def test_when_the_client_closes_its_connection_upstream_is_closed(relay: Relay, ending: str) -> None:
    async with served(relay) as (upstream, base), dial(base) as peer:
        await ask(peer, next(fresh))
        {"close": peer[1].close, "reset": lambda: reset(peer[1]), "half_close": peer[1].write_eof}[ending]()
        await until(lambda: upstream.left)
        assert upstream.resets == (ending == "reset")
        assert await ends(peer) in (b"", b"reset")


@on_loop
async def test_closed_connections_need_no_garbage_collection(relay: Relay) -> None:
    def count() -> int:
        return sum(isinstance(item, Http1Client | Http1Connection) for item in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        baseline = count()
        async with served(relay) as (_, base):
            async with dial(base) as peer:
                await ask(peer, next(fresh))
            await until(lambda: count() <= baseline)
    finally:
        gc.enable()


@pytest.mark.parametrize("ending", ["close", "reset", "bytes"])
@on_loop
async def test_when_upstream_closes_while_idle_the_clients_connection_closes(relay: Relay, ending: str) -> None:
    target = next(fresh)
    async with served(relay) as (upstream, base), dial(base) as peer:
        await ask(peer, target)
        writer = upstream.writers[0]
        {"close": writer.close, "reset": lambda: reset(writer), "bytes": lambda: writer.write(OK)}[ending]()
        assert await ends(peer) == (b"reset" if ending == "reset" else b"")
        await until(lambda: upstream.left)
    tape = await relay.kept(target)
    assert (tape.outcome, tape.row["ended_by"], tape.flags & {"surplus_bytes"}) == (("complete", None), "end", set())


@on_loop
async def test_connection_close_of_the_client_reaches_upstream(relay: Relay) -> None:
    async with served(relay) as (upstream, base), dial(base) as peer:
        got = await ask(peer, next(fresh), headers=[("connection", "close")])
        assert (got.headers["connection"], await ends(peer)) == ("close", b"")
        await until(lambda: upstream.left)
        assert b"\r\nconnection: close\r\n" in upstream.heads[0]


@on_loop
async def test_connection_close_of_upstream_reaches_the_client(relay: Relay) -> None:
    async def respond(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\nkeep-alive: timeout=5\r\n\r\n"))
        return True  # it says so, and waits

    async with served(relay, respond) as (upstream, base), dial(base) as peer:
        got = await ask(peer, next(fresh))
        assert (got.headers["connection"], "keep-alive" in got.headers, await ends(peer)) == ("close", False, b"")
        await until(lambda: upstream.left)


@on_loop
async def test_an_answer_ended_by_closing_closes_the_clients_connection(relay: Relay) -> None:
    async def respond(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nto the end")
        return False

    async with served(relay, respond) as (_, base), dial(base) as peer:
        got = await ask(peer, next(fresh))
        assert (got.body, got.complete, got.headers["connection"]) == (b"to the end", True, "close")
        assert await ends(peer) == b""


@on_loop
async def test_an_idle_connection_is_kept_for_a_bounded_time(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiretape.recorder.relay.proxy.KEEP_ALIVE_SECONDS", 0.1)
    async with served(relay) as (upstream, base), dial(base) as peer:
        await ask(peer, next(fresh))
        assert await ends(peer) == b""
        await until(lambda: upstream.left)


@on_loop
async def test_upstreams_promise_about_its_connection_is_kept(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("proxy", "server"):
        monkeypatch.setattr(f"wiretape.recorder.relay.{module}.KEEP_ALIVE_SECONDS", 0.1)

    async def respond(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(OK.replace(b"\r\n\r\n", b"\r\nKeep-Alive: timeout=5, max=100\r\n\r\n"))
        return True

    async with served(relay, respond) as (upstream, base), dial(base) as peer:
        assert (await ask(peer, next(fresh))).headers["keep-alive"] == "timeout=5, max=100"
        await asyncio.sleep(0.3)
        assert (await ask(peer, next(fresh))).status == 200
        assert upstream.connections == 1


# Broken


async def broken_second(relay: Relay, says: bytes, ending: str = "close") -> tuple[Answer, Kept, Server]:
    """Make upstream answer one request, and close after only these bytes for the second on the same connection."""

    async def respond(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
        if len(server.targets) != 2:
            return await respond_ok(server, target, writer)
        if says:
            writer.write(says)
            await asyncio.sleep(0.02)  # so that it is read before the end
        if ending == "reset":
            reset(writer)
        return False

    targets = next(fresh), next(fresh)
    async with served(relay, respond) as (upstream, base):
        async with dial(base) as peer:
            assert (await ask(peer, targets[0])).status == 200
            got = await ask(peer, targets[1])
            assert await ends(peer) in (b"", b"reset")
        assert upstream.targets == [target.encode() for target in targets]  # and never again
        async with dial(base) as peer:
            assert (await ask(peer, next(fresh))).status == 200
        assert upstream.connections == 2
    return got, await relay.kept(targets[1]), upstream


@pytest.mark.parametrize(("ending", "ended_by"), [("close", "eof"), ("reset", "reset")])
@on_loop
async def test_a_kept_connections_break_after_the_request_is_mirrored(relay: Relay, ending: str, ended_by: str) -> None:
    got, tape, _ = await broken_second(relay, b"", ending)
    assert (got.status, got.complete) == (0, False)
    assert (tape.outcome, tape.row["ended_by"]) == (("connect_error", "reset"), ended_by)
    assert (tape.row["connection_reused"], tape.row["connected_ns"], tape.row["sent_ns"] > 0) == (1, None, True)


@pytest.mark.parametrize(("ending", "ended_by"), [("close", "eof"), ("reset", "reset")])
@on_loop
async def test_half_a_response_on_a_kept_connection_is_cut(relay: Relay, ending: str, ended_by: str) -> None:
    got, tape, _ = await broken_second(relay, STREAM, ending)
    assert (got.status, got.body, got.complete) == (200, b":a\n", False)
    assert (tape.outcome, tape.body, tape.row["connection_reused"]) == (("truncated", ended_by), b":a\n", 1)


@on_loop
async def test_surplus_ends_both_connections_and_reaches_nobody(relay: Relay) -> None:
    async def respond(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(OK + (OK if len(server.targets) == 1 else b""))
        return True

    targets = next(fresh), next(fresh)
    async with served(relay, respond) as (upstream, base), dial(base) as peer:
        for target in targets:
            assert (await ask(peer, target)).body == b"{}"
        assert upstream.connections == 2
    tapes = [await relay.kept(target) for target in targets]
    assert ["surplus_bytes" in tape.flags for tape in tapes] == [True, False]
    assert [tape.row["connection_reused"] for tape in tapes] == [0, 0]


@on_loop
async def test_after_an_early_response_neither_connection_is_used_again(relay: Relay) -> None:
    async def respond(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(OK)
        await asyncio.sleep(0.2)  # in silence: the rest of the request is not read
        return True

    early = next(fresh)
    async with served(relay, respond) as (upstream, base):
        async with dial(base) as peer:
            got = await ask(peer, early, body=b"", headers=[("content-length", "9000000")])
            assert (got.status, got.complete) == (200, True)
            with contextlib.suppress(ConnectionError):
                peer[1].write(bytes(500_000))
                await peer[1].drain()
            assert await ends(peer) in (b"", b"reset")
        async with dial(base) as peer:
            assert (await ask(peer, next(fresh))).status == 200
        assert upstream.connections == 2
    tape = await relay.kept(early)
    assert (tape.row["ended_by"], tape.row["request_truncated"], tape.row["sent_ns"]) == ("end", 1, None)


@on_loop
async def test_an_upload_may_wait_for_an_early_responses_end(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_PAUSE_SECONDS", 0.1)

    async def respond(server: Server, target: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM)
        await asyncio.sleep(0.4)
        writer.write(b"0\r\n\r\n")
        return True

    async with served(relay, respond) as (_, base), dial(base) as peer:
        peer[1].write(post(target := next(fresh), b"", [("content-length", "9000000")]))
        await peer[0].readuntil(b"\r\n\r\n")
        peer[1].write(b"a little more")
        assert await peer[0].readuntil(b"0\r\n\r\n") == b"3\r\n:a\n\r\n0\r\n\r\n"
    assert (await relay.kept(target)).row["ended_by"] == "end"


# Races


def same_socket(writer: asyncio.StreamWriter) -> socket.socket:
    """Return a socket whose calls do not wait for an iteration of the event loop."""
    return socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno()))


@pytest.mark.parametrize("closer", ["upstream", "client"])
@on_loop
async def test_a_request_during_upstreams_close_gets_a_new_connection(relay: Relay, closer: str) -> None:
    async with served(relay) as (upstream, base):
        targets = [next(fresh) for _ in range(10)]
        for target in targets:
            async with dial(base) as peer:
                await ask(peer, next(fresh))
                with same_socket(peer[1]) as client, same_socket(upstream.writers[-1]) as api:
                    if closer == "client":
                        client.send(post(target))
                    api.shutdown(socket.SHUT_RDWR)
                    if closer == "upstream":
                        client.send(post(target))
                got = await take(peer[0])
                assert (got.status, got.body) == (200, b"{}")
        assert [upstream.targets.count(target.encode()) for target in targets] == [1] * 10
        assert upstream.connections == 20
    assert (await relay.kept(targets[-1])).row["connection_reused"] == 0


MOMENTS = ("idle", "head", "body", "whole", "response")


class Race:
    """An upstream that closes or resets a kept connection at a moment before, in or after its second request."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.moment, self.resets = chance.choice(MOMENTS), chance.random() < 0.5
        self.waits, self.client_waits = chance.random() / 500, chance.random() / 500
        self.target = next(fresh)
        self.posted = 0

    async def second(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.moment == "idle":
            await asyncio.sleep(self.waits)
        elif self.moment == "head":
            await reader.readexactly(20)
        else:
            await self.head(reader)
            if self.moment != "body":
                await reader.readexactly(2)
            if self.moment == "response":
                writer.write(STREAM)
                await asyncio.sleep(self.waits)
        if self.resets:
            reset(writer)

    async def head(self, reader: asyncio.StreamReader) -> None:
        assert self.target.encode() in await reader.readuntil(b"\r\n\r\n")
        self.posted += 1

    async def ask(self, base: str, closer: str) -> tuple[int, bool]:
        async with dial(base) as peer:
            assert (await ask(peer, closer)).complete
            await asyncio.sleep(self.client_waits)
            if peer[1].is_closing():  # it was reset before the request
                return 0, False
            got = await ask(peer, self.target)
            return got.status, got.complete


SEEN = {
    "idle": {(200, True), (0, False)},  # over another connection; or it was closed under the request
    "head": {(0, False)},
    "body": {(0, False)},
    "whole": {(0, False)},
    "response": {(200, False), (0, False)},  # a reset may overtake earlier bytes
}


@on_loop
async def test_no_request_is_sent_twice_however_upstream_closes(relay: Relay) -> None:
    races = {f"/v1/race-{seed}": Race(seed) for seed in range(100)}
    by_target = {race.target: race for race in races.values()}

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            target = (await reader.readuntil(b"{}")).split(b" ", 2)[1].decode()
            writer.write(OK)
            if target in races:
                await races[target].second(reader, writer)
            else:
                by_target[target].posted += 1
                await reader.read(-1)

    async with serving_raw(relay, upstream) as base:
        for start in range(0, 100, 10):
            firsts = list(races)[start : start + 10]
            for closer, seen in zip(
                firsts, await asyncio.gather(*(races[party].ask(base, party) for party in firsts)), strict=True
            ):
                assert seen in SEEN[races[closer].moment], races[closer].moment
    for race in by_target.values():
        assert race.posted <= 1
        if race.posted:
            assert (await relay.kept(race.target)).outcome[0] in ("connect_error", "truncated", "complete")

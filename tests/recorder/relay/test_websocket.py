"""WebSockets: both directions are relayed verbatim and recorded; a refused WebSocket is answered by 426."""

import asyncio
import os
import random
import signal
import sqlite3
import time
import zlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.support.relay import Relay, dial, on_loop, post, select, serving_raw, until
from tests.support.websockets import ASK, response, side
from wiretape.recorder.demo.upstream import Scene, answer
from wiretape.recorder.tape import packing

UPGRADE = [
    ("connection", "keep-alive, Upgrade"),
    ("upgrade", "WebSocket"),
    ("sec-websocket-key", "x3JJHMbDL1EzLkh9GBhXDw=="),
    ("sec-websocket-version", "13"),
    ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits"),
]
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: a\r\n\r\n"
)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def ask(path: str) -> bytes:
    return post(path, b"", UPGRADE, method="GET")


def switching(
    then: Callable[..., Coroutine[Any, Any, None]], early: bytes = b""
) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return an upstream that switches protocols, and then does this."""

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert b"connection: upgrade\r\n" in head
        assert b"\r\nsec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n" in head
        writer.write(SWITCH + early)
        await then(reader, writer)

    return upstream


async def switched(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    return head.lower()


def bodies(tape: Path, path: str) -> tuple[sqlite3.Row, bytes, bytes] | None:
    """Return a WebSocket on the tape, once it has ended: its row, and the data from upstream and from the client."""
    rows = select(tape, "SELECT e.*, m.outcome, m.outcome_detail, m.content, m.ttft_ns FROM exchanges e"
                        " JOIN measures m ON m.exchange_no = e.no WHERE e.path = ?", path)  # fmt: skip
    if not rows:
        return None
    tables = ("bodies", "client_bodies")
    packed = [select(tape, f"SELECT data FROM {table} WHERE exchange_no = ?", rows[0]["no"])[0][0] for table in tables]
    return rows[0], zlib.decompress(packed[0]), zlib.decompress(packed[1])


async def recorded(relay: Relay, path: str) -> tuple[sqlite3.Row, bytes, bytes]:
    row: tuple[sqlite3.Row, bytes, bytes] = await until(lambda: bodies(relay.tape, path))
    return row


@on_loop
async def test_a_conversation_is_on_the_tape_with_its_measures(relay: Relay) -> None:
    upstream_side, client_side, received, sent = side(), side(client=True), list[bytes](), list[bytes]()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.append(await reader.read(65536))
        for message in response(1, "Hel", "lo"):
            received.append(bytes(upstream_side.send_data(message)))
            writer.write(received[-1])
            await asyncio.sleep(0.01)
        sent.append(await reader.read(65536))
        received.append(bytes(upstream_side.close(1000)))
        writer.write(received[-1])

    early = bytes(upstream_side.ping(b"early"))
    async with serving_raw(relay, switching(converse, early)) as base, dial(base) as (reader, writer):
        writer.write(ask("/v1/responses?conversation"))
        head = await switched(reader)
        assert b"upgrade: websocket\r\n" in head
        assert b"x-wiretape-id: " in head
        writer.write(request := bytes(client_side.send_data(ASK)))
        got = await reader.readexactly(len(early) + 1)
        while not got.endswith(received[-1]) or len(received) < 4:
            got += await reader.read(65536)
        writer.write(closing := bytes(client_side.close(1000)))
        got += await reader.read()
    row, body, client = await recorded(relay, "/v1/responses?conversation")
    assert body == early + b"".join(received) == got
    assert client == request + closing == b"".join(sent)
    assert (row["status"], row["framing"], row["ended_by"], row["outcome"]) == (101, "websocket", "end", "complete")
    assert (row["content"], row["client_bytes"], row["client_gap_bytes"]) == ("Hello", len(client), 0)
    assert row["ttft_ns"] > 0
    (relayed_ns,) = select(relay.tape, "SELECT relayed_ns FROM client_bodies WHERE exchange_no = ?", row["no"])[0]
    assert [lag > 0 for lag in packing.numbers_of(relayed_ns)] == [True, True]


@on_loop
async def test_client_data_before_the_switch_comes_first(relay: Relay) -> None:
    data, is_sent = random.Random(2).randbytes(1 << 20), asyncio.Event()

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await is_sent.wait()
        writer.write(SWITCH)
        assert await reader.readexactly(len(data)) == data

    async with serving_raw(relay, upstream) as base, dial(base) as (reader, writer):
        writer.write(ask("/early") + data)
        await writer.drain()
        is_sent.set()
        await switched(reader)
        assert await reader.read() == b""
    row, _, client = await recorded(relay, "/early")
    assert client == data
    (at_ns,) = select(relay.tape, "SELECT at_ns FROM client_bodies WHERE exchange_no = ?", row["no"])[0]
    differences = packing.numbers_of(at_ns)  # but for the first
    assert len(differences) > 1
    assert min(differences) >= 0


@pytest.mark.parametrize("is_client_slow", [False, True])
@on_loop
async def test_a_slow_reader_holds_the_sender_and_gets_everything(relay: Relay, is_client_slow: bool) -> None:
    data = random.Random(1).randbytes(6 << 20)
    done, path = asyncio.Event(), f"/slow/{is_client_slow}"

    async def send(streams: Streams) -> None:
        streams[1].write(data)
        await streams[1].drain()

    async def take(streams: Streams) -> bytes:
        await asyncio.sleep(0.1)
        data_read = await streams[0].readexactly(len(data))
        done.set()
        return data_read

    async def converse(*streams: Any) -> None:
        if is_client_slow:
            await send(streams)
        else:
            assert await take(streams) == data
        await done.wait()

    async with serving_raw(relay, switching(converse)) as base, dial(base) as streams:
        streams[1].write(ask(path))
        await switched(streams[0])
        if is_client_slow:
            assert await take(streams) == data
        else:
            await send(streams)
            await done.wait()
    row, body, client = await recorded(relay, path)
    assert (body if is_client_slow else client) == data
    assert (row["paused"] > 0) == is_client_slow


@pytest.mark.parametrize(("closer", "ended_by"), [("upstream", "end"), ("client", "client")])
@on_loop
async def test_a_close_passes_and_the_tape_names_its_side(relay: Relay, closer: str, ended_by: str) -> None:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if closer == "client":
            assert await reader.read() == b"bye"
        else:
            writer.write(b"bye")

    async with serving_raw(relay, switching(converse)) as base, dial(base) as (reader, writer):
        writer.write(ask(f"/closed/{closer}"))
        await switched(reader)
        if closer == "client":
            writer.write(b"bye")
            writer.write_eof()
        assert await reader.read() == (b"bye" if closer == "upstream" else b"")
    row, body, client = await recorded(relay, f"/closed/{closer}")
    assert (row["ended_by"], body, client) == (ended_by, *((b"bye", b"") if closer == "upstream" else (b"", b"bye")))


def test_a_killed_writer_loses_neither_direction(tmp_path: Path) -> None:
    chance = random.Random(7)
    pieces = [chance.randbytes(chance.randrange(1, 5000)) for _ in range(60)]

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)

    async def converse(relay: Relay) -> bytes:
        async with serving_raw(relay, switching(echo)) as base, dial(base) as (reader, writer):
            writer.write(ask("/killed"))
            await switched(reader)
            got = b""
            for number, piece in enumerate(pieces):
                if number in (20, 40):
                    pid = await until(lambda: relay.recorder.tap.pid)
                    os.kill(pid, signal.SIGKILL)
                writer.write(piece)
                await asyncio.sleep(0.003)
                got += await reader.readexactly(len(piece))
        await recorded(relay, "/killed")
        return got

    with Relay(tmp_path) as relay:
        got = relay.runner.run(converse(relay))
        assert relay.runner.run(relay.stop()) == 0
        assert [trouble for trouble in relay.troubles if "writer ended" in trouble]
    row = bodies(relay.tape, "/killed")
    assert row is not None
    assert row[1] == row[2] == got == b"".join(pieces)


@pytest.mark.parametrize(
    ("scene", "status"),
    [
        (answer([(0, b"{}")], content_type="application/json", framing="length"), 426),
        (Scene([(0, b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nnot found")]), 426),
        (Scene([(0, b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")]), 426),
        (Scene([(0, b"HTTP/1.1 403 Forbidden\r\ncontent-length: 6\r\n\r\nbanned")]), 403),
        (Scene([(0, b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}")]), 401),
    ],
)
@pytest.mark.parametrize(
    "agent", [("user-agent", "codex_cli_rs/0.1"), ("originator", "codex_exec"), ("user-agent", "x")]
)
@on_loop
async def test_a_refused_websocket_keeps_its_status_except_for_codex(
    relay: Relay, scene: Scene, status: int, agent: tuple[str, str]
) -> None:
    target = relay.plays(scene)
    got = await relay.get(target, body=b"", headers=[*UPGRADE, agent], method="GET")
    tape = await relay.kept(target)
    is_changed = status == 426 and agent[1] != "x"
    assert (got.status, got.body) == (status if is_changed else tape.row["status"], tape.body)
    assert got.headers.get("x-wiretape-upstream-status") == (str(tape.row["status"]) if is_changed else None)


def test_without_websockets_an_upgrade_is_refused_before_upstream(tmp_path: Path) -> None:
    with Relay(tmp_path, websocket=False) as relay:
        got = relay.runner.run(relay.get("/v1/responses", body=b"", headers=UPGRADE, method="GET"))
        assert relay.upstream.requests == []
    assert got.status == 426
    assert b"--no-websocket" in got.body


def test_a_quiet_websocket_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def converse(relay: Relay) -> float:
        async with dial(relay.base) as (reader, writer):
            writer.write(ask(relay.plays(Scene([(0, SWITCH)], end="stall"))))
            await switched(reader)
            started = time.monotonic()
            await relay.stop()
            return time.monotonic() - started

    with Relay(tmp_path) as relay:
        assert relay.runner.run(converse(relay)) < 5
    assert select(relay.tape, "SELECT ended_by FROM exchanges")[0][0] == "shutdown"

"""`wiretape record --workers N`: several processes relay on one port, to one tape."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.relay import (
    DONE,
    chunk,
    dial,
    fetch,
    finish,
    on_loop,
    post,
    recording,
    select,
    until,
    wiretape,
    writer_of,
)
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer
from wiretape.recorder.errors import CannotListen
from wiretape.recorder.relay import server

STREAM = [(0.0, chunk("a")), (0.03, chunk("b", finish="stop")), (0.0, DONE)]
LONG = answer([*((0.02, chunk(str(number))) for number in range(40)), (0.0, DONE)])
HELD = Scene([(0, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")], "stall")
CLIENTS = 24
"""That all of their connections come to the same of two processes is as likely as 1 in 8 million."""


def choose(request: ReceivedRequest) -> Scene:
    return {b"/held": HELD, b"/long": LONG}.get(request.target) or answer(STREAM)


def children(pid: int, program: str) -> list[int]:
    """Return the processes that `pid` started and that run `program`."""
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in started if program in Path(f"/proc/{child}/cmdline").read_text().split("\0")]


@contextlib.asynccontextmanager
async def streaming(base: str, target: str) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Ask for a stream over many connections, and wait until each has begun."""
    async with contextlib.AsyncExitStack() as connections:
        readers = []
        for _ in range(CLIENTS):
            reader, writer = await connections.enter_async_context(dial(base))
            writer.write(post(target))
            readers.append(reader)
        for reader in readers:
            await reader.readuntil(b"abc\r\n" if target == "/held" else b"\r\n\r\n")
        yield readers


async def broken(readers: Sequence[asyncio.StreamReader], tape: Path) -> int:
    """Wait until as many connections have ended as exchanges of the tape died, and return their number."""

    def count() -> int:
        ended_count = sum(reader.at_eof() or reader.exception() is not None for reader in readers)
        died = select(tape, "SELECT count(*) FROM exchanges WHERE ended_by = 'died'")[0][0]
        return ended_count if ended_count == died else 0

    number: int = await until(count)
    return number


@on_loop
async def test_a_killed_worker_loses_only_its_own_streams(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    query = "SELECT id FROM exchanges WHERE ended_by IS NULL"
    async with (
        ScriptedUpstream(choose) as upstream,
        recording(tape, upstream.url, "--workers", "2", is_fresh=True) as (process, base),
    ):
        async with streaming(base, "/held") as readers:
            await until(lambda: select(tape, "SELECT count(*) FROM segments")[0][0] == CLIENTS)
            (worker,) = children(process.pid, "wiretape.recorder.relay.worker")
            os.kill(worker, signal.SIGKILL)
            count = await broken(readers, tape)
            assert count < CLIENTS
            assert len(select(tape, query)) == CLIENTS - count
            await until(lambda: children(process.pid, "wiretape.recorder.relay.worker"))
            answers = await asyncio.gather(*(fetch(base, post("/x")) for _ in range(CLIENTS)))
            assert all(got.complete for got in answers)
        code, _, err = await finish(process, signal.SIGTERM)  # a cut would not wait for a loaded machine
    cause = "died (signal SIGKILL): its exchanges are interrupted; starting another"
    assert f"wiretape: storing: worker process {worker} {cause}\n" in err
    assert err.splitlines()[-2:] == [
        "wiretape: a worker process died 1 time: its unstored data is lost",
        f"{CLIENTS} generations: {CLIENTS} complete · {CLIENTS} other requests · "
        "not stored: 0 bytes, 0 frames, 0 exchanges",
    ]
    assert code == 1
    outcomes = select(tape, "SELECT outcome, count(*) FROM exchanges JOIN measures ON exchange_no = no GROUP BY 1")
    assert {row[0]: row[1] for row in outcomes} == {
        "complete": CLIENTS, "interrupted": count, "client_closed": CLIENTS - count,
    }  # fmt: skip
    assert len(select(tape, "SELECT * FROM sessions")) == 1


@on_loop
async def test_a_killed_writer_costs_workers_nothing_and_signals_drain(tmp_path: Path) -> None:
    tape, may_end = tmp_path / "tape.db", asyncio.Event()

    def pieces() -> Iterator[tuple[float, bytes]]:
        """Go on sending nothing in the middle of a stream until it may end."""
        opening, ending = LONG.pieces[:20], LONG.pieces[20:]
        yield from opening
        while not may_end.is_set():
            yield 0.02, b""
        yield from ending

    async with (
        ScriptedUpstream(lambda _: Scene(pieces())) as upstream,
        recording(tape, upstream.url, "--workers", "3", is_fresh=True) as (process, base),
    ):
        assert process.stderr is not None
        await until(lambda: len(children(process.pid, "wiretape.recorder.relay.worker")) == 2)
        async with streaming(base, "/long") as readers, asyncio.timeout(60):
            # By then it has told the recorder that it is ready: the death of one that has not is reported otherwise.
            await until(lambda: select(tape, "SELECT count(*) FROM exchanges")[0][0] == CLIENTS)
            os.kill(await writer_of(tape, process.pid), signal.SIGKILL)
            message = await process.stderr.readuntil(b"starting another")
            process.send_signal(signal.SIGTERM)
            message += await process.stderr.readuntil(b"draining ")
            may_end.set()
            code, _, err = await finish(process)
            err = message.decode() + err
            bodies = [await reader.read() for reader in readers]
    assert code == 0
    assert all(body.endswith(b"0\r\n\r\n") for body in bodies)
    assert err.count("the writer ended; starting another") == 1
    closing = f"{CLIENTS} generations: {CLIENTS} complete · not stored: 0 bytes, 0 frames, 0 exchanges"
    assert err.splitlines()[-1] == closing
    statement = "SELECT outcome, count(*), count(DISTINCT sha256) FROM measures JOIN bodies USING (exchange_no)"
    assert [tuple(row) for row in select(tape, statement)] == [("complete", CLIENTS, 1)]
    assert not (tmp_path / "tape.db.unstored").exists()


@on_loop
async def test_workers_killed_with_the_writer_interrupt_only_their_exchanges(
    tmp_path: Path,
) -> None:
    tape = tmp_path / "tape.db"
    query = "SELECT id FROM exchanges WHERE ended_by IS NULL"
    async with (
        ScriptedUpstream(choose) as upstream,
        recording(tape, upstream.url, "--workers", "3") as (process, base),
        streaming(base, "/held") as readers,
    ):
        await until(lambda: select(tape, "SELECT count(*) FROM segments")[0][0] == CLIENTS)
        for pid in (children(process.pid, "wiretape.recorder.relay.worker")[0], await writer_of(tape, process.pid)):
            os.kill(pid, signal.SIGKILL)
        count = await broken(readers, tape)
        assert count < CLIENTS
        assert len(select(tape, query)) == CLIENTS - count
        process.send_signal(signal.SIGTERM)
        await finish(process, signal.SIGTERM)


@on_loop
async def test_a_killed_recorder_takes_its_workers_along(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with (
        ScriptedUpstream(choose) as upstream,
        recording(tape, upstream.url, "--workers", "2", is_fresh=True) as (process, base),
        streaming(base, "/held"),
    ):
        await until(lambda: select(tape, "SELECT count(*) FROM segments")[0][0] == CLIENTS)
        processes = [*children(process.pid, "wiretape.recorder.relay.worker"), await writer_of(tape, process.pid)]
        process.kill()
        await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes))
    outcomes = select(tape, "SELECT outcome, count(*) FROM exchanges LEFT JOIN measures ON exchange_no = no GROUP BY 1")
    assert [tuple(row) for row in outcomes] == [("interrupted", CLIENTS)]


@on_loop
async def test_a_number_of_workers_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for value in ("0", "65", "many"):
        async with wiretape("record", "--db", tmp_path / "tape.db", "--workers", value) as process:
            code, _, err = await finish(process)
        assert code == 2
        assert "--workers" in err


def test_a_port_that_others_share_is_taken() -> None:
    with server.bound("127.0.0.1", 0, shares=True) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        for shares in (False, True):
            with pytest.raises(CannotListen):
                server.bound("127.0.0.1", port, shares=shares)
        with server.bound("127.0.0.1", port, joins=True) as second:
            assert second.getsockname() == listener.getsockname()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))

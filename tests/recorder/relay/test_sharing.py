"""Several taps on one writer, and the sum of their states."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.frames import SESSION, STREAM, begin, bodies_of, body, damage, exchange, head, outcomes_of
from tests.support.relay import on_loop, select, until
from tests.support.writers import loading
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.process import boot_id, is_gone
from wiretape.recorder.relay import link, sharing
from wiretape.recorder.relay.recording import ExchangeFrames
from wiretape.recorder.relay.sharing import RelayShare, WorkerPlace
from wiretape.recorder.relay.tap import Tap
from wiretape.recorder.tape import lock, losses
from wiretape.recorder.tape.losses import Counts, Relayed, Totals, Unstored


def taps(tape: Path, queue_bytes: int = 1 << 20) -> tuple[Tap, Tap]:
    """Return the tap that ends a session, and one of its workers."""
    session = msgspec.structs.replace(SESSION, pid=os.getpid(), boot_id=boot_id())
    worker = Tap(tape, session, "", place=WorkerPlace(is_worker=True), queue_bytes=queue_bytes)
    place = WorkerPlace(worker_shares=lambda: [worker.share()], workers=lambda: [os.getpid()])
    return Tap(tape, session, "a test", place=place), worker


def recorder(tape: Path, uuid: str, **more: Any) -> Tap:
    """Return the tap of another recorder, in this process."""
    session = msgspec.structs.replace(SESSION, uuid=uuid, pid=os.getpid(), boot_id=boot_id())
    return Tap(tape, session, f"recorder {uuid} (pid {os.getpid()})", **more)


@on_loop
async def test_each_relay_gets_its_own_acknowledgements_and_reports(tape: Path) -> None:
    first, joined = taps(tape)
    for tap, ids in ((first, ("a1", "a2")), (joined, ("b1",))):
        await tap.start()
        for frame in [frame for id in ids for frame in exchange(id)]:
            tap.put(frame)
    await until(lambda: (first.counts.recorded, joined.counts.recorded) == (2, 1))
    assert (await joined.close(), await first.close()) == (0, 0)
    assert (first.totals().recorded, first.totals().is_whole) == (3, True)
    assert sorted(bodies_of(tape)) == ["a1", "a2", "b1"]


@on_loop
async def test_unstored_data_is_counted_and_kept_beside_the_tape(tape: Path) -> None:
    first, joined = taps(tape, queue_bytes=1000)
    await first.start()
    await joined.start()
    await joined.ready()
    await first.ready()  # only now it has opened the file for what is not stored
    os.kill(first.pid or 0, signal.SIGSTOP)
    recording = ExchangeFrames(joined, SYSTEM, "b1")
    recording.begin(begin("b1"))
    for _ in range(10):
        recording.put_read(SYSTEM.now(), None, bytes(300))
    dropped = joined.counts.dropped_bytes
    assert 0 < dropped < 3000
    await until(
        lambda: (unstored := losses.read(tape)) and [(exchange.id, exchange.bytes) for exchange in unstored.exchanges]
    )
    assert losses.read(tape) == Unstored(SESSION.uuid, [recording.relayed()])
    os.kill(first.pid or 0, signal.SIGCONT)
    recording.end("end", None, SYSTEM.now())
    assert (await joined.close(), await first.close()) == (0, 0)
    assert (first.totals().recorded, first.totals().missing_bytes) == (1, dropped)


@on_loop
async def test_only_the_exchanges_of_a_broken_relay_are_interrupted(tape: Path) -> None:
    statement = "SELECT id, ended_by FROM exchanges ORDER BY id"
    first, joined = taps(tape)
    await first.start()
    await joined.start()
    await joined.ready()
    first.put(begin("a1"))
    joined.put(begin("b1"))
    await until(lambda: first.counts.stored_exchanges and joined.counts.stored_exchanges)
    await joined.close()  # without an end of b1
    await until(lambda: [tuple(row) for row in select(tape, statement)] == [("a1", None), ("b1", "died")])
    await first.close()


@on_loop
async def test_recorders_of_one_tape_share_a_writer(tape: Path) -> None:
    first, second = recorder(tape, "a"), recorder(tape, "b")
    await first.start()
    await first.ready()
    await second.start()
    await second.ready()
    assert (first.joined, second.joined, second.pid) == (None, os.getpid(), None)
    for tap, ids in ((first, ("a1", "a2")), (second, ("b1",))):
        for frame in [frame for id in ids for frame in exchange(id, STREAM if id != "b1" else [b"cut"])]:
            tap.put(frame)
    assert (await second.close(), await first.close()) == (0, 0)
    assert (first.totals(), second.totals()) == (Totals(2, 0, 0, 0), Totals(1, 1, 0, 0))
    assert {path.name for path in tape.parent.iterdir()} == {"tape.db", "tape.db.lock"}
    statement = (
        "SELECT uuid, id, ended_at NOT NULL FROM exchanges JOIN sessions ON session_no = sessions.no ORDER BY id"
    )
    assert [tuple(row) for row in select(tape, statement)] == [("a", "a1", 1), ("a", "a2", 1), ("b", "b1", 1)]


@on_loop
async def test_a_recorder_that_ends_first_leaves_its_writer(tape: Path) -> None:
    first, second = recorder(tape, "a"), recorder(tape, "b")
    await first.start()
    await second.start()
    await second.ready()
    writer = first.pid
    for frame in [*exchange("a1"), begin("b1"), head("b1"), *body("b1", STREAM[:1])]:
        (first if frame in exchange("a1") else second).put(frame)
    assert await first.close() == 0
    assert first.totals() == Totals(1, 0, 0, 0)
    await until(lambda: lock.holder(tape) == f"recorder b (pid {os.getpid()})")
    third = recorder(tape, "c")  # the socket is still there
    await third.start()
    await third.ready()
    assert (third.joined, third.pid) == (os.getpid(), None)
    assert await third.close() == 0
    for frame in exchange("b1")[3:]:
        second.put(frame)
    assert await second.close() == 0
    assert (second.totals(), second.counts.restarts) == (Totals(1, 0, 0, 0), 0)
    assert outcomes_of(tape) == {"a1": "complete", "b1": "complete"}
    await until(lambda: is_gone(writer, boot_id()))
    assert not lock.holder(tape)


@on_loop
async def test_a_killed_shared_writer_is_replaced_once_without_losses(tape: Path) -> None:
    taps = [recorder(tape, uuid) for uuid in "abc"]
    await asyncio.gather(*(tap.start() for tap in taps))  # on a tape that is not there yet
    assert sorted(tap.pid is None for tap in taps) == [False, True, True]
    for tap, id in zip(taps, ("a1", "b1", "c1"), strict=True):
        for frame in exchange(id)[:3]:
            tap.put(frame)
    await until(lambda: all(tap.counts.stored_exchanges for tap in taps))
    os.kill(next(tap.pid for tap in taps if tap.pid), signal.SIGKILL)
    for tap, id in zip(taps, ("a1", "b1", "c1"), strict=True):
        for frame in exchange(id)[3:]:
            tap.put(frame)
    await until(lambda: all(tap.counts.recorded for tap in taps))
    assert [tap.counts.restarts for tap in taps] == [1, 1, 1]
    assert sorted(tap.pid is None for tap in taps) == [False, True, True]
    assert [await tap.close() for tap in taps] == [0, 0, 0]
    assert [tap.totals() for tap in taps] == [Totals(1, 0, 0, 0)] * 3
    assert bodies_of(tape) == dict.fromkeys(("a1", "b1", "c1"), b"".join(STREAM))


@on_loop
async def test_a_recorder_waits_for_anothers_loading_writer(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, script, loaded = tmp_path / "python", tmp_path / "loading.py", tmp_path / "loaded"
    script.write_text(loading(loaded))
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr("wiretape.recorder.relay.writers.READY_SECONDS", 5)
    troubles = list[str]()
    first, second, third = (recorder(tape, uuid, on_trouble=troubles.append) for uuid in "abc")
    await first.start()
    await second.start()
    await asyncio.sleep(5.5)  # longer than a writer may take that says nothing
    loaded.touch()
    await second.ready()
    assert (second.joined, troubles) == (os.getpid(), [])
    os.kill(first.pid or 0, signal.SIGSTOP)
    await third.start()
    await until(lambda: any("cannot be joined (it does not answer)" in line for line in troubles))
    os.kill(first.pid or 0, signal.SIGCONT)
    assert [await tap.close() for tap in (third, second, first)] == [0, 0, 0]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
@on_loop
async def test_surviving_recorders_lose_nothing_if_other_processes_end(tape: Path, seed: int) -> None:
    chance = random.Random(seed)
    streams = {uuid: [chance.randbytes(chance.randrange(1, 400)) for _ in range(150)] for uuid in "abcdef"}
    taps: dict[str, Tap] = {}

    async def record(uuid: str) -> None:
        await asyncio.sleep(chance.random())
        tap = taps[uuid] = recorder(tape, uuid)
        await tap.start()
        for frame in exchange(f"{uuid}1", streams[uuid]):
            tap.put(frame)
            await asyncio.sleep(chance.random() * 0.02)
        assert await tap.close() == 0
        totals = tap.totals()
        assert (totals.recorded, totals.is_whole) == (1, True)

    recording = asyncio.gather(*map(record, streams))
    while not recording.done():
        await asyncio.sleep(chance.random())
        # Not one that is just starting: its starter waits longer each time, and not for ever.
        ready = [tap.pid for tap in taps.values() if tap.pid and tap.counts.lag_ns and not tap.counts.trouble]
        for pid in ready:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    await recording
    final = recorder(tape, "z")  # which tidies up after a writer that was killed at its very end
    await final.start()
    await final.ready()
    assert await final.close() == 0
    assert {path.name for path in tape.parent.iterdir()} == {"tape.db", "tape.db.lock"}
    assert bodies_of(tape) == {f"{uuid}1": b"".join(pieces) for uuid, pieces in streams.items()}


def test_sums_cover_all_relays_with_the_longest_lag() -> None:
    parts = [
        RelayShare(
            Counts(recorded=1, dropped_bytes=5, restarts=1, lag_ns=3), Unstored("s", [Relayed(id="a", bytes=1)]), live=2
        ),
        RelayShare(
            Counts(recorded=2, lag_ns=7), Unstored("s", [Relayed(id="b", bytes=2)], 1, 9), 4, lacking=True, live=3
        ),
    ]
    assert sharing.total(parts) == RelayShare(
        Counts(recorded=3, dropped_bytes=5, restarts=1, lag_ns=7),
        Unstored("s", [Relayed(id="a", bytes=1), Relayed(id="b", bytes=2)], 1, 9),
        waiting_ns=4,
        lacking=True,
        live=5,
    )


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as directory:
        yield Path(directory)


def test_sockets_of_killed_recorders_are_removed_and_nothing_else(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {name: short / f"wiretape-{name}" / "writer" for name in ("left", "alive", "young", "file", "full")}
    places["elsewhere"] = short / "elsewhere" / "writer"
    with contextlib.ExitStack() as stack:
        for name, place in places.items():
            place.parent.mkdir()
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            if name != "file":
                sock.bind(str(place))
            if name == "alive":
                sock.listen()
        places["file"].write_text("precious")
        (places["full"].parent / "other").write_text("precious")
        (short / "wiretape-link").symlink_to(short / "elsewhere")
        for name, place in places.items():
            if name != "young":
                os.utime(place.parent, (1, 1))
        monkeypatch.setattr(tempfile, "tempdir", str(short))
        listener = stack.enter_context(link.listen(short / "tape.db"))
        directory_name = Path(listener.getsockname()).parent.name
    names = ["wiretape-alive", "wiretape-file", "wiretape-link", "wiretape-young"]
    assert (
        sorted(path.parent.name for path in short.glob("wiretape-*/writer") if path.parent.name != directory_name)
        == names
    )
    assert not places["left"].parent.exists()
    assert (places["full"].parent / "other").read_text() == "precious"


def test_without_a_temporary_directory_the_socket_joins_the_tape(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", read_only)
    with link.listen(short / "tape.db") as listener:
        place = Path(listener.getsockname())
    assert place.parent.parent == short
    lock.remove_socket(place)
    with pytest.raises(OSError, match="set TMPDIR"):
        link.listen(short / ("x" * 99) / "tape.db")


@on_loop
async def test_a_worker_starts_a_missing_writer(tape: Path) -> None:
    first, worker = taps(tape)
    await worker.start()
    assert worker.pid is not None
    for frame in [*exchange("b1"), begin("b2")]:
        worker.put(frame)
    await until(lambda: worker.counts.recorded == 1)
    await first.start()
    assert (first.pid, first.joined) == (None, None)
    first.put(begin("a1"))
    await until(lambda: first.counts.stored_exchanges)
    os.kill(worker.pid, signal.SIGKILL)
    for frame in exchange("b2")[1:]:
        worker.put(frame)
    for frame in exchange("a1")[1:]:
        first.put(frame)
    await until(lambda: (first.counts.recorded, worker.counts.recorded) == (1, 2))
    assert (await worker.close(), await first.close()) == (0, 0)
    assert (first.totals().recorded, first.totals().is_whole) == (3, True)
    assert set(outcomes_of(tape).values()) == {"complete"}


@pytest.mark.damages
@on_loop
async def test_each_recorder_gets_counts_from_a_refusing_writer(tape: Path) -> None:
    first, second = recorder(tape, "a"), recorder(tape, "b")
    for tap, ids in ((first, ("a1",)), (second, ("b1", "b2", "b3"))):
        await tap.start()
        for frame in [frame for id in ids for frame in exchange(id)]:
            tap.put(frame)
    await until(lambda: (first.counts.recorded, second.counts.recorded) == (1, 3))
    # A busy machine may look at no exchange in the time for that, but at all sessions.
    damage(tape, "UPDATE bodies SET data=zeroblob(10) WHERE exchange_no=1", "UPDATE sessions SET listen=x'00'")
    os.kill(first.pid or 0, signal.SIGKILL)
    await until(lambda: first.gave_up and second.gave_up)
    assert min(await first.close(), await second.close()) >= 1  # the session's end, and heartbeats if that took long
    totals = first.totals(), second.totals()
    assert [(total.recorded, total.missing_exchanges, total.is_whole) for total in totals] == [
        (1, 0, False),
        (3, 0, False),
    ]


@on_loop
async def test_taking_a_removed_lock_file_stops_no_recorder(tape: Path) -> None:
    first = recorder(tape, "a")
    await first.start()
    lock.lock_of(tape).unlink()
    claimed = lock.claim(tape)
    assert isinstance(claimed, lock.Claim)
    for id in ("a1", "a2"):
        for frame in exchange(id):
            first.put(frame)
        await until(lambda: first.counts.recorded == int(id[1]))  # noqa: B023 - waited for at once
        if id == "a1":
            claimed.close()
    second = recorder(tape, "b")
    await second.start()
    await second.ready()
    assert (second.joined, first.counts.restarts) == (os.getpid(), 0)
    assert (await second.close(), await first.close()) == (0, 0)
    assert (first.totals(), second.totals().is_whole) == (Totals(2, 0, 0, 0), True)

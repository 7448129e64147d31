"""Losses of a tap: data not stored, or no longer on the tape, is counted."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.frames import (
    SESSION,
    STREAM,
    Source,
    begin,
    damage,
    end,
    exchange,
    head,
    opened,
    other_session,
    outcomes_of,
)  # fmt: skip
from tests.support.taps import PURPOSE, is_alive, kill, play, started, until
from tests.support.writers import PROGRAM
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.relay import tap
from wiretape.recorder.relay.recording import ExchangeFrames
from wiretape.recorder.relay.tap import Tap
from wiretape.recorder.tape import journal, losses
from wiretape.recorder.tape.losses import Totals, Unstored
from wiretape.recorder.tape.recover import count_missing, recover


def test_reads_past_the_bound_are_dropped_not_the_others(tape: Path) -> None:
    pieces = [b"x" * 1000] * 100

    async def scenario() -> None:
        async with started(tape, queue_bytes=50_000) as relay_tap:
            os.kill(relay_tap.pid or 0, signal.SIGSTOP)
            for frame in (begin("e1"), head("e1")):
                relay_tap.put(frame)
            source = Source("e1")
            accepted = [
                relay_tap.frames.put_read(source, seq, None, piece, len(piece)) for seq, piece in enumerate(pieces)
            ]
            assert accepted == sorted(accepted, reverse=True)
            assert 40 < sum(accepted) < 50
            relay_tap.put(end("e1", pieces[: sum(accepted)], gap=1000 * accepted.count(False)))
            os.kill(relay_tap.pid or 0, signal.SIGCONT)
            await until(lambda: relay_tap.counts.recorded == 1)
            assert relay_tap.frames.put_read(Source("e2"), 0, None, b"", 50_000)

    play(scenario())


def test_closing_counts_and_ends_a_stuck_writer(tape: Path) -> None:
    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        pid = relay_tap.pid or 0
        os.kill(pid, signal.SIGSTOP)
        relay_tap.put(begin("e1"))
        assert await relay_tap.close(grace=0.05) == 2  # and the farewell
        assert relay_tap.counts.trouble == "2 frames could not be stored: for 0.05 s the writer acknowledged nothing"
        await until(lambda: not is_alive(pid))

    play(scenario())


def test_the_totals_are_those_of_the_tape_across_writers(tape: Path) -> None:
    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        for place in range(2):
            for frame in exchange(f"e{place}", STREAM if place else [b"cut"]):
                relay_tap.put(frame)
            await until(partial(lambda place: relay_tap.counts.stored_exchanges > place, place))
            kill(relay_tap)
            await until(lambda: relay_tap.pid is None)
        assert await relay_tap.close() == 0
        assert relay_tap.totals() == Totals(recorded=2, failed=1, missing_bytes=0, missing_exchanges=0)

    play(scenario())


@pytest.mark.damages
def test_stored_data_that_left_the_tape_is_missing(tape: Path) -> None:
    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        for id in ("e1", "e2"):
            for frame in exchange(id):
                relay_tap.put(frame)
        await until(lambda: relay_tap.counts.recorded == 2)
        damage(tape, *(f"DELETE FROM {name} WHERE exchange_no=1" for name in ("bodies", "measures", "settlements")))
        damage(tape, "DELETE FROM exchanges WHERE no=1")
        assert await relay_tap.close() == 0
        totals = relay_tap.totals()
        size = len(b"".join(STREAM))
        assert (totals.recorded, totals.missing_bytes, totals.missing_exchanges) == (1, size, 1)
        assert totals.problems == [
            f"1 exchange and {size} bytes had been stored and cannot be read from the tape any more:"
            " something else changed it"
        ]

    play(scenario())


def overwrite(tape: Path) -> None:
    tape.write_bytes(random.Random(1).randbytes(tape.stat().st_size))


def replace_by_another(tape: Path) -> None:
    other_tape = tape.with_name("other")
    with opened(other_tape):
        pass
    other_tape.replace(tape)
    tape.with_name(tape.name + "-wal").unlink()  # it would be read as the other's


@pytest.mark.damages
@pytest.mark.parametrize(("fault", "with_writer"), [(overwrite, True), (replace_by_another, False)])
def test_unreadable_data_at_the_end_is_missing(tape: Path, fault: Callable[[Path], None], with_writer: bool) -> None:
    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        for frame in exchange("e1"):
            relay_tap.put(frame)
        await until(lambda: relay_tap.counts.recorded == 1)
        if not with_writer:
            os.kill(relay_tap.pid or 0, signal.SIGSTOP)
        fault(tape)
        if not with_writer:
            kill(relay_tap)
            await until(lambda: not relay_tap.frames.admits())
        await relay_tap.close()
        totals = relay_tap.totals()
        assert (totals.recorded, totals.missing_exchanges) == (0, 1)
        assert totals.missing_bytes == len(b"".join(STREAM))
        assert "cannot be read from the tape any more" in totals.problems[0]

    play(scenario())


def test_a_cut_leaves_a_second_to_store(tape: Path) -> None:
    late, troubles = 0, list[str]()

    async def scenario() -> None:
        nonlocal late
        clock = Clock(now=lambda: time.monotonic_ns() + late)
        relay_tap = Tap(tape, SESSION, PURPOSE, on_trouble=troubles.append, clock=clock)
        await relay_tap.start()
        await relay_tap.ready()  # the second is for storing, not for the writer to load
        for frame in exchange("e1"):
            relay_tap.put(frame)
        relay_tap.cut()
        late = 2_000_000_000
        assert await relay_tap.close() == 0
        assert troubles == []

    play(scenario())


@pytest.mark.damages
@pytest.mark.parametrize("fault", ["overwritten", "cut"])
def test_damage_during_recording_is_found_at_the_end(tape: Path, fault: str) -> None:
    with opened(tape) as store:
        for number in range(20):
            store.settle(store.append(exchange(f"before{number}")))

    async def scenario() -> None:
        relay_tap = Tap(tape, other_session("session-2"), PURPOSE)
        await relay_tap.start()
        for frame in exchange("e1"):
            relay_tap.put(frame)
        await until(lambda: relay_tap.counts.recorded == 1)
        if fault == "cut":
            os.truncate(tape, 0)
        else:
            overwrite(tape)
        await relay_tap.close()
        assert not relay_tap.totals().is_whole
        assert relay_tap.totals().problems

    play(scenario())


FULL_DISK = f"""
import signal, sys
del sys.argv[1:4]  # options of Python, and the module
{PROGRAM}
writer.RETRY_SECONDS = 0.02
with tapefile.writing(tape, sys.argv[4], claimed=claimed) as connection:
    driver = connection.connection.dbapi_connection
    limit = lambda *_: driver.execute(f"PRAGMA max_page_count={{driver.execute('PRAGMA page_count').fetchone()[0]}}")
    signal.signal(signal.SIGUSR1, limit)
    writer.Writer(Store(connection), tape, relays).run()
"""
"""A writer whose disk is full from SIGUSR1 on; its arguments are those of Python."""


def on_a_small_disk(directory: Path) -> Path:
    program = directory / "python"
    (directory / "full_disk.py").write_text(FULL_DISK)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {directory}/full_disk.py "$@"\n')
    program.chmod(0o700)
    return program


FAILING = """
import socket, sys
from wiretape.recorder.tape import channels, journal
relays = channels.Channels(socket.socket(fileno=int(sys.argv[5])))
relays.wait_for_first()
relays.answer(journal.Loading())
relays.answer(journal.Fatal(1, "the disk is full"))
relays.part()
"""
"""A writer that loads, and cannot make the tape."""


def test_a_close_does_not_wait_for_failing_writers(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    (tmp_path / "failing.py").write_text(FAILING)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/failing.py "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(tap.sys, "executable", str(program))
    troubles = list[str]()

    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE, on_trouble=troubles.append)
        await relay_tap.start()
        relay_tap.put(begin("e1"))
        assert await relay_tap.close(grace=0.1) == 2  # with the session's end

    play(scenario())
    assert "the disk is full" in troubles
    assert "2 frames could not be stored: for 0.1 s the writer acknowledged nothing" in troubles


DIES_AFTER_DELETING = """
import os, signal, socket, sys
from pathlib import Path
from wiretape.recorder.tape import channels, journal, writer
answer, first = channels.Channel.answer, Path(__file__).with_suffix(".first")
def dying(channel, what):
    if isinstance(what, journal.Deleted):
        os.kill(os.getpid(), signal.SIGKILL)
    answer(channel, what)
if not first.exists():
    first.touch()
    channels.Channel.answer = dying
sys.exit(writer.main(sys.argv[4:], channels.Channels(socket.socket(fileno=int(sys.argv[5])))))
"""
"""A writer that is killed, the first time, when it has deleted exchanges and has not reported it."""


def test_data_deleted_before_a_kill_is_not_lost(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    (tmp_path / "dies.py").write_text(DIES_AFTER_DELETING)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/dies.py "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(tap.sys, "executable", str(program))
    totals: list[Totals] = []

    async def scenario() -> None:
        async with started(tape, keep=journal.Keep(age_seconds=60.0)) as relay_tap:
            for number in (1, 2):
                for frame in exchange(f"e{number}", [b"broken"]):
                    relay_tap.put(frame)
                await until(lambda: relay_tap.counts.deleted == number)  # noqa: B023 - waited for at once
            assert relay_tap.counts.restarts == 1
        totals.append(relay_tap.totals())

    play(scenario())
    assert totals == [Totals(recorded=2, failed=2, missing_bytes=0, missing_exchanges=0)]


def test_the_next_recorder_enters_a_full_disks_gaps(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = random.Random(5).randbytes(50_000)
    messages: list[str] = []

    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE, on_trouble=messages.append)
        with monkeypatch.context() as patch:
            patch.setattr(tap.sys, "executable", str(on_a_small_disk(tmp_path)))
            await relay_tap.start()
        first, late = (ExchangeFrames(relay_tap, SYSTEM, id) for id in ("e1", "e2"))
        first.begin(begin("e1"))
        first.put_read(SYSTEM.now(), None, STREAM[0])
        await until(lambda: relay_tap.counts.stored_bytes)
        os.kill(relay_tap.pid or 0, signal.SIGUSR1)
        first.put_read(SYSTEM.now(), None, noise)
        first.end("end", None, SYSTEM.now())
        late.begin(begin("e2", body=noise))
        late.put_read(SYSTEM.now(), None, b"12345")
        await until(lambda: "database or disk is full" in messages)
        await until(lambda: losses.read(tape) == Unstored(SESSION.uuid, [first.relayed(), late.relayed()]))
        late.end("end", None, SYSTEM.now())
        assert await relay_tap.close(grace=0.1) > 0
        assert relay_tap.counts.unrecorded == 1

    play(scenario())
    with opened(tape, other_session("session-2")) as store:
        unstored = losses.read(tape)
        assert unstored is not None
        assert count_missing(store.connection, [unstored]) == (1, 5)
        recover(store.appending, [unstored])
        store.settle(store.settling.unsettled())
        assert count_missing(store.connection, [unstored]) == (0, 0)
    assert outcomes_of(tape) == {"e1": "interrupted", "e2": "connect_error"}


def test_a_stalled_writer_is_reported_at_start_and_end(tape: Path) -> None:
    messages: list[str] = []

    async def scenario() -> None:
        async with started(tape, queue_bytes=10_000, on_trouble=messages.append) as relay_tap:
            os.kill(relay_tap.pid or 0, signal.SIGSTOP)
            recording = ExchangeFrames(relay_tap, SYSTEM, "e1")
            recording.begin(begin("e1"))
            for _ in range(20):
                recording.put_read(SYSTEM.now(), None, b"x" * 1000)
            await until(lambda: messages)
            lost = relay_tap.counts.dropped_bytes
            assert messages == [f"{lost:,} bytes could not be stored; streams go on"]
            recording.end("end", None, SYSTEM.now())
            os.kill(relay_tap.pid or 0, signal.SIGCONT)
            await until(lambda: len(messages) > 1)
            assert messages[1:] == [f"nothing is lost any more; in all, {lost:,} bytes could not be stored"]

    play(scenario())


def test_a_gap_is_kept_while_its_stream_runs(tape: Path) -> None:
    async def scenario() -> None:
        async with started(tape, queue_bytes=10_000) as relay_tap:
            os.kill(relay_tap.pid or 0, signal.SIGSTOP)
            recording = ExchangeFrames(relay_tap, SYSTEM, "e1")
            recording.begin(begin("e1"))
            for _ in range(20):
                recording.put_read(SYSTEM.now(), None, b"x" * 1000)
            os.kill(relay_tap.pid or 0, signal.SIGCONT)
            await until(lambda: (losses.read(tape) or Unstored("")).exchanges == [recording.relayed()])
            recording.end("end", None, SYSTEM.now())
            await until(lambda: losses.read(tape) == Unstored(SESSION.uuid))

    play(scenario())
    assert not losses.path_of(tape).exists()

"""A tap and its writer: starting, restarting, answering and closing."""

import asyncio
import fcntl
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import uvloop

from tests.support.frames import (
    SESSION,
    STREAM,
    begin,
    bodies_of,
    exchange,
    opened,
    outcomes_of,
    reads_of,
)  # fmt: skip
from tests.support.taps import PURPOSE, is_alive, kill, play, started, until
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.errors import ForeignFile, SchemaMismatch, TapeBusy, WiretapeError, WriterFailed
from wiretape.recorder.relay import link, tap
from wiretape.recorder.relay.recording import ExchangeFrames
from wiretape.recorder.relay.tap import Tap
from wiretape.recorder.tape import file, journal, lock, window
from wiretape.recorder.tape.losses import Totals


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_what_is_put_is_stored_and_reported(tape: Path, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    finished: list[journal.Finished] = []

    async def scenario() -> None:
        async with started(tape, on_finished=finished.append) as relay_tap:
            for frame in [*exchange("e1"), *exchange("e2", [b"no stream"])]:
                relay_tap.put(frame)
            await until(lambda: relay_tap.counts.recorded == 2)
            assert relay_tap.counts.failed == 1
            assert relay_tap.counts.lag_ns > 0
            assert lock.holder(tape) == PURPOSE

    play(scenario(), loop)
    assert [(one.id, one.outcome) for one in finished] == [("e1", "complete"), ("e2", "truncated")]
    assert bodies_of(tape) == {"e1": b"".join(STREAM), "e2": b"no stream"}
    assert lock.holder(tape) == ""


@pytest.mark.parametrize(
    ("seed", "loop"),
    [
        (0, uvloop.new_event_loop),
        pytest.param(1, uvloop.new_event_loop, marks=pytest.mark.nightly),
        pytest.param(2, asyncio.new_event_loop, marks=pytest.mark.nightly),
    ],
)
def test_killed_writers_lose_and_double_nothing(
    tape: Path, seed: int, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    chance = random.Random(seed)
    streams = {f"e{no}": [chance.randbytes(chance.randrange(1, 400)) for _ in range(200)] for no in range(4)}
    pending = [frame for parts in zip(*(exchange(*item) for item in streams.items()), strict=True) for frame in parts]
    kills = sorted(chance.sample(range(len(pending)), 2))
    finished: list[str] = []
    broken: list[object] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: broken.append(context))
        async with started(tape, on_finished=lambda one: finished.append(one.id)) as relay_tap:
            for place, frame in enumerate(pending):
                relay_tap.put(frame)
                if chance.random() < 0.05:
                    await asyncio.sleep(chance.random() * 0.02)
                if place in kills:  # the stream goes on while another writer starts
                    await until(lambda: relay_tap.pid is not None)
                    kill(relay_tap)
            await until(lambda: relay_tap.counts.recorded >= len(streams))
            assert relay_tap.counts.restarts == len(kills)
            assert relay_tap.counts.trouble == ""

    play(scenario(), loop)
    assert broken == []
    assert sorted(finished) == sorted(streams)
    assert bodies_of(tape) == {id: b"".join(pieces) for id, pieces in streams.items()}
    assert all(len(reads_of(tape, id)) == 200 for id in streams)


def test_a_writer_killed_between_commit_and_acknowledgement_reports_again(tape: Path) -> None:
    """The acknowledgement of committed frames is lost: they are sent again, and acknowledged again."""
    with opened(tape) as store:
        store.append(exchange("e1"))
    finished: list[str] = []

    async def scenario() -> None:
        async with started(tape, on_finished=lambda one: finished.append(one.outcome)) as relay_tap:
            for frame in exchange("e1"):
                relay_tap.put(frame)
            await until(lambda: relay_tap.counts.recorded == 1)

    play(scenario())
    assert finished == ["complete"]


def foreign(tape: Path) -> None:
    tape.write_text("dear diary")


def newer(tape: Path) -> None:
    with file.writing(tape, "a test"):
        pass
    with closing(sqlite3.connect(tape)) as connection:
        connection.execute("UPDATE alembic_version SET version_num='9999'")
        connection.commit()


def read_only(tape: Path) -> None:
    tape.touch(0o400)


@pytest.mark.damages
@pytest.mark.parametrize(("make", "error"), [(foreign, ForeignFile), (newer, SchemaMismatch), (read_only, TapeBusy)])
def test_a_tape_that_cannot_be_written_stops_the_start(
    tape: Path, make: Callable[[Path], None], error: type[WiretapeError]
) -> None:
    make(tape)

    async def scenario() -> None:
        with pytest.raises(error):
            await Tap(tape, SESSION, PURPOSE).start()

    play(scenario())


def test_a_holder_of_an_unjoinable_tape_is_named(tape: Path) -> None:
    async def scenario() -> None:
        with opened(tape), pytest.raises(TapeBusy, match=r"is being written by a test \(pid \d+\): stop it"):
            await Tap(tape, SESSION, PURPOSE).start()
        lock.lock_of(tape).write_text(f"wiretape record (pid 1)\n1\n0.0.9-00000000 {tape.parent}/writer\n")
        with lock.lock_of(tape).open() as other_lock:
            fcntl.flock(other_lock, fcntl.LOCK_EX)
            with pytest.raises(TapeBusy, match="is being written by another version of wiretape, wiretape record"):
                await Tap(tape, SESSION, PURPOSE).start()

    play(scenario())


def test_a_writer_that_cannot_start_is_reported(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []

    async def scenario() -> None:
        monkeypatch.setattr(tap.sys, "executable", "/nowhere/python")
        with pytest.raises(WriterFailed, match="cannot be started"):
            await Tap(tape, SESSION, PURPOSE).start()
        monkeypatch.setattr(tap.sys, "executable", "/bin/true")
        relay_tap = Tap(tape, SESSION, PURPOSE, on_trouble=messages.append)
        await relay_tap.start()
        await until(lambda: any("ended before it was ready" in line for line in messages))
        relay_tap.put(begin("e1"))
        assert await relay_tap.close(grace=0.01) == 2  # with the session's end

    play(scenario())


def test_a_check_is_advised_after_three_early_deaths(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []

    async def scenario() -> None:
        monkeypatch.setattr(tap.sys, "executable", "/bin/true")
        relay_tap = Tap(tape, SESSION, PURPOSE, on_trouble=messages.append)
        await relay_tap.start()
        await until(lambda: len(messages) == 3)
        await relay_tap.close(grace=0.01)

    play(scenario())
    assert messages[:2] == ["the writer ended before it was ready; starting another"] * 2
    assert messages[2] == "the writer process ended before it was ready: run 'wiretape db check'"


def slow_python(directory: Path) -> tuple[Path, Path]:
    """Make a program that stands for a Python which begins when a file is there, and return both."""
    program, signal = directory / "python", directory / "begin"
    program.write_text(f'#!/bin/sh\nuntil [ -e {signal} ]; do sleep 0.01; done\nexec {sys.executable} "$@"\n')
    program.chmod(0o700)
    return program, signal


def test_frames_are_kept_while_the_first_writer_loads(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, signal = slow_python(tmp_path)
    monkeypatch.setattr(tap.sys, "executable", str(program))

    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        for frame in exchange("e1"):
            relay_tap.put(frame)
        assert relay_tap.counts.stored_exchanges == 0
        signal.touch()
        await relay_tap.ready()
        assert await relay_tap.close(grace=20) == 0
        assert relay_tap.totals().recorded == 1

    play(scenario())
    assert outcomes_of(tape) == {"e1": "complete"}


def test_an_empty_recording_does_not_wait_for_its_writer(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, signal = slow_python(tmp_path)
    monkeypatch.setattr(tap.sys, "executable", str(program))

    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        pid = relay_tap.pid or 0
        assert await relay_tap.close(grace=20) == 0
        assert is_alive(pid)
        signal.touch()
        await until(lambda: not is_alive(pid))

    play(scenario())
    with closing(sqlite3.connect(tape)) as connection:
        assert connection.execute("SELECT ended_at IS NOT NULL FROM sessions").fetchall() == [(1,)]


def test_a_recorder_does_not_wait_for_anothers_loading_writer(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, signal = slow_python(tmp_path)
    monkeypatch.setattr(tap.sys, "executable", str(program))

    async def scenario() -> None:
        second_session = msgspec.structs.replace(SESSION, uuid="session-2")
        first, second = Tap(tape, SESSION, PURPOSE), Tap(tape, second_session, PURPOSE)
        await first.start()
        await second.start()
        assert second.pid is None
        for frame in exchange("e2"):
            second.put(frame)
        signal.touch()
        await second.ready()
        assert [await second.close(grace=20), await first.close(grace=20)] == [0, 0]

    play(scenario())
    assert outcomes_of(tape) == {"e2": "complete"}


def test_a_writer_that_ends_before_it_answers_is_replaced(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, first = tmp_path / "python", tmp_path / "started"
    program.write_text(f'#!/bin/sh\n[ -e {first} ] || {{ touch {first}; exit 0; }}\nexec {sys.executable} "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(tap.sys, "executable", str(program))

    async def scenario() -> None:
        async with started(tape) as relay_tap:
            for frame in exchange("e1"):
                relay_tap.put(frame)
            await until(lambda: relay_tap.counts.recorded == 1)

    play(scenario())
    assert first.exists()


def test_a_removed_tape_is_retried_until_it_is_free(tape: Path) -> None:
    messages: list[str] = []

    async def scenario() -> None:
        async with started(tape, on_trouble=messages.append) as relay_tap:
            await relay_tap.ready()
            kill(relay_tap)
            while lock.holder(tape):
                time.sleep(0.005)  # noqa: ASYNC251 - the tap must not start another writer first
            with opened(tape):
                for frame in exchange("e1"):
                    relay_tap.put(frame)
                await until(lambda: any("is being written by a test" in line for line in messages))
            await until(lambda: relay_tap.counts.recorded == 1)

    play(scenario())
    assert messages[-1] == ""
    assert outcomes_of(tape) == {"e1": "complete"}


def test_all_reads_that_are_gathered_together_are_one_entry(tape: Path) -> None:
    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        await relay_tap.ready()
        os.kill(relay_tap.pid or 0, signal.SIGSTOP)
        exchanges = [ExchangeFrames(relay_tap, SYSTEM, id) for id in ("e1", "e2")]
        for recording in exchanges:
            recording.begin(begin(recording.id))
        for place in range(100):
            for recording in exchanges:
                recording.put_read(SYSTEM.now(), None, b"%02d" % place)
        exchanges[0].end("end", None, SYSTEM.now())
        exchanges[1].put_read(SYSTEM.now(), None, b"more")
        assert await relay_tap.close(grace=0.05) == 2 + 1 + 1 + 1  # begun, read, ended, closed

    play(scenario())


def test_killing_both_processes_costs_under_a_fifth_second() -> None:
    assert tap.GATHER_SECONDS * 1e9 + window.WINDOW_NS < 200_000_000


def test_an_end_does_not_wait_for_gathered_reads(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap, "GATHER_SECONDS", 3600)

    async def scenario() -> None:
        async with started(tape) as relay_tap:
            exchanges = [ExchangeFrames(relay_tap, SYSTEM, id) for id in ("e1", "e2")]
            for recording in exchanges:
                recording.begin(begin(recording.id))
                recording.put_read(SYSTEM.now(), None, b"data")
            exchanges[0].end("end", None, SYSTEM.now())
            await until(lambda: relay_tap.counts.recorded == 1)
            assert relay_tap.counts.stored_bytes == 8  # those of the other one went with it

    play(scenario())


def test_an_exchange_that_ends_while_writers_load_is_stored(tape: Path) -> None:
    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        for frame in exchange("e1"):
            relay_tap.put(frame)
        assert await relay_tap.close(grace=20) == 0

    play(scenario())
    assert outcomes_of(tape) == {"e1": "complete"}


def test_a_tap_that_was_never_started_has_stored_nothing(tape: Path) -> None:
    async def scenario() -> None:
        assert await Tap(tape, SESSION, PURPOSE).close(grace=0.01) == 1  # its session

    play(scenario())
    assert not tape.exists()


def test_closing_while_another_writer_starts_leaves_no_process(tape: Path) -> None:
    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        await relay_tap.ready()  # else the tape may have no schema yet
        first_pid = relay_tap.pid
        kill(relay_tap)
        await until(lambda: relay_tap.pid not in (None, first_pid))
        pid = relay_tap.pid or 0
        await relay_tap.close(grace=0.001)
        await until(lambda: not is_alive(pid))

    play(scenario())


def test_a_truncated_acknowledgement_ends_the_writer() -> None:
    async def scenario() -> None:
        reader = asyncio.StreamReader()
        line = journal.encode_answer(journal.Trouble("full"))
        reader.feed_data(line + line[:-3])
        reader.feed_eof()
        assert await link.read_answer(reader) == journal.Trouble("full")
        assert await link.read_answer(reader) is None

    play(scenario())


def test_an_idle_tap_says_that_it_is_alive(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap, "HEARTBEAT_SECONDS", 0.01)

    async def scenario() -> None:
        async with started(tape) as relay_tap:
            await until(lambda: relay_tap.counts.lag_ns > 0)

    play(scenario())
    with closing(sqlite3.connect(tape)) as connection:
        ((started_at, heartbeat_at, ended_at),) = connection.execute(
            "SELECT started_at, heartbeat_at, ended_at FROM sessions"
        )
    assert started_at < heartbeat_at == ended_at


def test_a_busy_tap_says_that_it_is_alive(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap, "HEARTBEAT_SECONDS", 0.05)

    async def scenario() -> None:
        async with started(tape) as relay_tap:
            with closing(sqlite3.connect(tape)) as connection:
                beaten = "SELECT count(*) FROM sessions WHERE heartbeat_at > started_at"
                for number in range(3_000):
                    relay_tap.put(exchange(f"e{number}")[0])
                    await asyncio.sleep(0.002)
                    if number % 20 == 0 and connection.execute(beaten).fetchone() == (1,):
                        return
        raise AssertionError("there was no heartbeat")

    play(scenario())


def impostor(directory: Path, answers: bytes) -> Path:
    """Make a program that stands for Python: its first run answers so and stays, later ones are the real writer."""
    program, first = directory / "python", directory / "first.py"
    first.write_text(
        "import socket, sys, time\n"
        "connection = socket.socket(fileno=int(sys.argv[5])).accept()[0]\n"
        f"connection.sendall({answers!r})\n"
        "time.sleep(60)\n"
    )
    began = f'{{ touch {directory}/started; exec {sys.executable} {first} "$@"; }}'
    program.write_text(f'#!/bin/sh\n[ -e {directory}/started ] || {began}\nexec {sys.executable} "$@"\n')
    program.chmod(0o700)
    return program


READY = journal.encode_answer(journal.Ready("", []))


@pytest.mark.parametrize(
    "line", [b"x" * 100_000, b"junk\n", b'{"type":"ack","seq":"x"}\n'], ids=["long", "junk", "ack"]
)
def test_a_line_without_an_acknowledgement_fails_the_writer(line: bytes) -> None:
    async def scenario() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(line)
        with pytest.raises(WriterFailed):
            await link.read_answer(reader)

    play(scenario())


def test_unreadable_acknowledgements_kill_the_writer_without_losses(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = impostor(tmp_path, READY + b"junk\n")
    messages: list[str] = []

    async def scenario() -> None:
        monkeypatch.setattr(tap.sys, "executable", str(program))
        async with started(tape, on_trouble=messages.append) as relay_tap:
            for frame in exchange("e1"):
                relay_tap.put(frame)
            await until(lambda: relay_tap.counts.recorded == 1)

    play(scenario())
    (cause,) = (
        place for place, line in enumerate(messages) if line.startswith("the writer's answers cannot be read (the")
    )
    assert "starting another" in messages[cause + 1]
    assert bodies_of(tape) == {"e1": b"".join(STREAM)}


def test_an_observer_that_fails_costs_nothing_but_a_restart(tape: Path) -> None:
    messages: list[str] = []

    def fail(one: journal.Finished) -> None:
        if one.id == "e1":
            raise RuntimeError("no such luck")

    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE, on_finished=fail, on_trouble=messages.append)
        await relay_tap.start()
        for frame in exchange("e1"):
            relay_tap.put(frame)
        await until(lambda: messages)
        for frame in exchange("e2"):
            relay_tap.put(frame)
        assert await relay_tap.close() == 0
        assert relay_tap.totals() == Totals(2, 0, 0, 0)

    play(scenario())
    assert messages[0] == "the writer's answers cannot be read (no such luck)"
    assert set(bodies_of(tape)) == {"e1", "e2"}


def test_a_tape_removed_without_a_writer_stays_removed(tape: Path) -> None:
    messages: list[str] = []

    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE, on_trouble=messages.append)
        await relay_tap.start()
        for frame in exchange("e1"):
            relay_tap.put(frame)
        await until(lambda: relay_tap.counts.recorded == 1)
        os.kill(relay_tap.pid or 0, signal.SIGSTOP)
        os.unlink(tape)
        kill(relay_tap)
        relay_tap.put(begin("e2"))
        await until(lambda: any("was removed or replaced while no writer ran" in line for line in messages))
        assert not relay_tap.frames.admits()
        await relay_tap.close()
        assert (relay_tap.counts.unrecorded, relay_tap.totals().is_whole) == (1, False)

    play(scenario())
    assert not tape.exists()


def test_a_hurried_close_leaves_measuring_to_the_next_writer(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap, "MEASURING_SECONDS", 0)

    async def scenario() -> None:
        relay_tap = Tap(tape, SESSION, PURPOSE)
        await relay_tap.start()
        for number in range(300):
            for frame in exchange(f"{number:016x}"):
                relay_tap.put(frame)
        relay_tap.hurry()
        assert await relay_tap.close(grace=20) == 0
        totals = relay_tap.totals()
        assert (totals.recorded, totals.is_whole) == (300, True)
        assert 0 < totals.unmeasured <= 300
        async with started(tape):
            await until(lambda: list(outcomes_of(tape).values()).count("complete") == 300)

    play(scenario())


def test_closing_waits_while_the_writer_still_acknowledges(tape: Path) -> None:
    count, grace, late = 100, 60.0, 0

    def pass_time(_: journal.Finished) -> None:
        """Spend two graces on all exchanges, which are more than the writer reports at a time."""
        nonlocal late
        late += int(2 * grace * 1e9) // count

    async def scenario() -> None:
        began = time.monotonic_ns()
        clock = Clock(now=lambda: began + late)  # a loaded machine's own time counts for nothing
        relay_tap = Tap(tape, SESSION, PURPOSE, on_finished=pass_time, clock=clock)
        await relay_tap.start()
        await relay_tap.ready()
        for number in range(count):
            recording = ExchangeFrames(relay_tap, SYSTEM, f"{number:016x}")
            recording.begin(begin(recording.id))
            recording.end("client", None, SYSTEM.now())
        assert await relay_tap.close(grace=grace) == 0
        assert late >= grace * 1e9
        assert (relay_tap.counts.recorded, relay_tap.totals().unmeasured) == (count, 0)

    play(scenario())

"""Several taps on one writer, and the sum of what they know."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from recorder.clock import SYSTEM
from recorder.errors import TapeBusy
from recorder.relay import sharing
from recorder.relay.recording import Recording
from recorder.relay.sharing import Place, Share
from recorder.relay.tap import Tap
from recorder.tape import channels, journal, losses
from recorder.tape.losses import Counts, Relayed, Unstored
from tests.recorder.frames import SESSION, begin, bodies_of, exchange, other_session
from tests.relay import on_loop, select, until


@contextmanager
def taps(tape: Path, session: journal.Session = SESSION, queue_bytes: int = 1 << 20) -> Iterator[tuple[Tap, Tap]]:
    """Give a tap that is to start a writer, and one of `session` that is to join it."""
    with closing(sharing.listener()) as listener:
        try:
            place = Place(joins=Path(listener.getsockname()))
            joined = Tap(tape, session, "", place=place, queue_bytes=queue_bytes)
            yield Tap(tape, SESSION, "a test", place=Place(listener, lambda: [joined.share()])), joined
        finally:
            channels.remove(listener)


@on_loop
async def test_each_is_acknowledged_and_told_of_its_own(tape: Path) -> None:
    with taps(tape) as both:
        for tap, ids in zip(both, (("a1", "a2"), ("b1",)), strict=True):
            await tap.start()
            for frame in [frame for id in ids for frame in exchange(id)]:
                tap.put(frame)
        first, joined = both
        await until(lambda: (first.counts.recorded, joined.counts.recorded) == (2, 1))
        assert (await joined.close(), await first.close()) == (0, 0)
        assert (first.totals().recorded, first.totals().is_whole) == (3, True)
    assert sorted(bodies_of(tape)) == ["a1", "a2", "b1"]


@on_loop
async def test_what_one_could_not_store_is_counted_and_kept_beside_the_tape(tape: Path) -> None:
    with taps(tape, queue_bytes=1000) as (first, joined):
        await first.start()
        await joined.start()
        os.kill(first.pid or 0, signal.SIGSTOP)
        recording = Recording(joined, SYSTEM, "b1")
        recording.begin(begin("b1"))
        for _ in range(10):
            recording.read(SYSTEM.now(), None, bytes(300))
        dropped = joined.counts.dropped_bytes
        assert 0 < dropped < 3000
        await until(lambda: (kept := losses.read(tape)) and [(one.id, one.bytes) for one in kept.exchanges])
        assert losses.read(tape) == Unstored(SESSION.uuid, [recording.relayed()])
        os.kill(first.pid or 0, signal.SIGCONT)
        recording.end("end", None, SYSTEM.now())
        assert (await joined.close(), await first.close()) == (0, 0)
        assert (first.totals().recorded, first.totals().missing_bytes) == (1, dropped)


@on_loop
async def test_the_exchanges_of_one_that_breaks_off_are_interrupted_and_those_of_others_go_on(tape: Path) -> None:
    statement = "SELECT id, ended_by FROM exchanges ORDER BY id"
    with taps(tape) as (first, joined):
        await first.start()
        await joined.start()
        first.put(begin("a1"))
        joined.put(begin("b1"))
        await until(lambda: first.counts.stored_exchanges and joined.counts.stored_exchanges)
        await joined.close()  # without an end of b1
        await until(lambda: [tuple(row) for row in select(tape, statement)] == [("a1", None), ("b1", "died")])
        await first.close()


@on_loop
async def test_only_relays_of_the_same_recorder_can_join(tape: Path) -> None:
    with taps(tape, other_session("another")) as (first, joined):
        await first.start()
        with pytest.raises(TapeBusy, match="is being written for another recorder"):
            await joined.start()
        await first.close()


def test_sums_are_of_all_and_the_lag_is_the_longest() -> None:
    parts = [
        Share(Counts(recorded=1, dropped_bytes=5, restarts=1, lag_ns=3), Unstored("s", [Relayed("a", 1)]), live=2),
        Share(Counts(recorded=2, lag_ns=7), Unstored("s", [Relayed("b", 2)], 1, 9), 4, lacking=True, live=3),
    ]
    assert sharing.total(parts) == Share(
        Counts(recorded=3, dropped_bytes=5, restarts=1, lag_ns=7),
        Unstored("s", [Relayed("a", 1), Relayed("b", 2)], 1, 9),
        waiting_ns=4,
        lacking=True,
        live=5,
    )

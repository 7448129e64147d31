"""The state of an exchange that may still run."""

import dataclasses
from array import array

from tests.support.exchanges import opened
from tests.support.sample_tape import COMPLETE, LIVE, MS
from wiretape.recorder.clock import Clock
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange.pulse import Pulse
from wiretape.viewer.exchange.states import Silence

STARTED = "2026-03-01T12:00:07.000000Z"
STARTED_NS = 1_772_366_407 * 10**9


class Watch:
    """A clock that is moved by hand, from the instant at which the exchange began."""

    def __init__(self) -> None:
        self.ns = 0
        self.clock = Clock(lambda: self.ns, lambda: STARTED_NS + self.ns)


def test_pulse_is_unknown_before_anything_is_opened() -> None:
    pulse = Pulse(Watch().clock)
    assert (pulse.runs, pulse.end_ns, pulse.died) == (False, 0, False)
    assert (pulse.silence(0), pulse.longest_silence) == (None, None)
    pulse.know(STARTED, died=False)
    assert (pulse.runs, pulse.end_ns, pulse.silence(0)) == (False, 0, None)


def test_running_exchange_extends_to_now_and_shows_its_silence(connection: Connection) -> None:
    watch = Watch()
    pulse = Pulse(watch.clock)
    pulse.know(STARTED, died=False)
    pulse.take(opened(connection, LIVE))
    assert (pulse.runs, pulse.end_ns, pulse.silence(110 * MS)) == (True, 110 * MS, None)
    watch.ns = 2_000 * MS
    assert (pulse.end_ns, str(pulse.silence(2_000 * MS))) == (2_000 * MS, "silent for 1.9 s")
    watch.ns = 60_000 * MS
    assert pulse.silence(60_000 * MS) == pulse.silence(pulse.end_ns) == Silence(59_890 * MS, stalled=True)
    assert str(pulse.silence(1_000 * MS)) == "silent for 0.9 s"
    assert pulse.silence(60_001 * MS) is None
    assert pulse.longest_silence is not None
    assert pulse.longest_silence.lasted_ns == 59_890 * MS


def test_exchange_without_a_recorder_ends_with_its_last_read(connection: Connection) -> None:
    watch = Watch()
    pulse = Pulse(watch.clock)
    pulse.know(STARTED, died=False)
    pulse.take(opened(connection, LIVE))
    watch.ns = 60_000 * MS
    pulse.know(STARTED, died=True)
    assert (pulse.died, pulse.runs, pulse.end_ns, pulse.silence(110 * MS)) == (True, False, 110 * MS, None)


def test_ended_exchanges_stand_still_and_times_need_starts(connection: Connection) -> None:
    watch = Watch()
    finished, unknown = Pulse(watch.clock), Pulse(watch.clock)
    finished.know(STARTED, died=False)
    finished.take(opened(connection, COMPLETE))
    unknown.know("no time", died=False)
    unknown.take(opened(connection, LIVE))
    watch.ns = 60_000 * MS
    assert (finished.runs, finished.silence(finished.end_ns), finished.longest_silence) == (False, None, None)
    assert (unknown.runs, unknown.end_ns, unknown.silence(110 * MS)) == (True, 110 * MS, None)


def test_silence_is_unknown_where_bytes_are_missing(connection: Connection) -> None:
    pulse = Pulse(Watch().clock)
    pulse.know(STARTED, died=False)
    pulse.take(dataclasses.replace(opened(connection, COMPLETE), missing=1))
    assert (pulse.silence(100 * MS), pulse.longest_silence) == (None, None)
    waited = dataclasses.replace(opened(connection, COMPLETE), reads_at=array("q", (900 * MS,)), end_ns=1_000 * MS)
    pulse.take(waited)
    assert (str(pulse.silence(800 * MS)), str(pulse.longest_silence)) == ("waiting for 0.8 s", "waiting for 0.9 s")
    pulse.take(dataclasses.replace(waited, missing=1))
    assert (pulse.silence(800 * MS), pulse.longest_silence) == (None, None)


def test_setting_the_wall_clock_does_not_move_the_end(connection: Connection) -> None:
    at = [0, STARTED_NS]
    pulse = Pulse(Clock(lambda: at[0], lambda: at[1]))
    pulse.know(STARTED, died=False)
    pulse.take(opened(connection, LIVE))
    at[1] += 3_600_000 * MS
    pulse.know(STARTED, died=False)
    assert pulse.end_ns == 110 * MS  # that of its last read
    at[0] += 300 * MS
    assert pulse.end_ns == 300 * MS


def test_silence_depends_on_the_position(connection: Connection) -> None:
    pulse = Pulse(Watch().clock)
    reads_at = array("q", (700 * MS, 800 * MS, 4_000 * MS))
    pulse.take(dataclasses.replace(opened(connection, COMPLETE), reads_at=reads_at, end_ns=4_600 * MS))
    silences = [pulse.silence(ms * MS) for ms in (600, 700, 1_400, 2_800, 3_999, 4_000, 4_600)]
    assert [None if silence is None else str(silence) for silence in silences] == [
        "waiting for 0.6 s", None, "silent for 0.6 s", "silent for 2.0 s", "silent for 3.2 s", None, "silent for 0.6 s"
    ]  # fmt: skip
    assert [silence.stalled for silence in silences if silence is not None] == [False, False, False, True, False]
    assert pulse.longest_silence == Silence(3_200 * MS, awaits_first=True, stalled=True)

"""For how long nothing has come."""

import pytest

from recorder.clock import Clock
from viewer.model.silence import Silence, Stopwatch, at, longest_ns, silence

MS = 1_000_000
NOON_NS = 1_772_366_400 * 10**9
STARTED = "2026-03-01T12:00:00.000000Z"


def test_time_passes_from_the_start_on_the_tape_and_is_never_before_the_last_read() -> None:
    at = [7_000 * MS, NOON_NS + 250 * MS]
    watch = Stopwatch(STARTED, Clock(lambda: at[0], lambda: at[1]))
    assert watch.passed_ns(0) == 250 * MS
    at[0] += 100 * MS
    assert watch.passed_ns(0) == 350 * MS
    assert watch.passed_ns(400 * MS) == 400 * MS


def test_a_wall_clock_that_is_set_does_not_move_it() -> None:
    at = [0, NOON_NS]
    watch = Stopwatch(STARTED, Clock(lambda: at[0], lambda: at[1]))
    at[1] += 3_600_000 * MS
    assert watch.passed_ns(0) == 0


def test_without_a_start_there_is_no_time() -> None:
    with pytest.raises(ValueError, match="no time"):
        Stopwatch("no time", Clock())


@pytest.mark.parametrize(
    ("passed", "last", "told"),
    [
        (1_000, 600, None),
        (1_100, 600, "silent for 0.5 s"),
        (2_500, 600, "silent for 1.9 s"),
        (1_900, None, "waiting for 1.9 s"),
        (400, None, None),
    ],
)
def test_a_silence_is_told_from_half_a_second_on(passed: int, last: int | None, told: str | None) -> None:
    found = silence(passed * MS, None if last is None else last * MS, 2_000 * MS)
    assert (None if found is None else str(found)) == told


def test_a_silence_is_that_of_the_position_in_a_stream() -> None:
    reads_at = [700 * MS, 800 * MS, 4_000 * MS]
    told = [at(reads_at, ms * MS, 2_000 * MS) for ms in (600, 700, 1_400, 2_800, 3_999, 4_000, 4_600)]
    assert [None if one is None else str(one) for one in told] == [
        "waiting for 0.6 s", None, "silent for 0.6 s", "silent for 2.0 s", "silent for 3.2 s", None, "silent for 0.6 s"
    ]  # fmt: skip
    assert [one.stalled for one in told if one is not None] == [False, False, True, True, False]
    assert longest_ns(reads_at, 4_600 * MS) == 3_200 * MS
    assert longest_ns([], 4_600 * MS) == 4_600 * MS


def test_from_the_limit_on_it_is_a_stall() -> None:
    assert silence(2_600 * MS, 600 * MS, 2_000 * MS) == Silence(2_000 * MS, stalled=True)
    assert silence(2_599 * MS, 600 * MS, 2_000 * MS) == Silence(1_999 * MS)

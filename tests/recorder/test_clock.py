"""The clock: one that counts, one that is shown."""

import pytest

from wiretape.recorder.clock import SYSTEM, Clock, KernelTime


def test_wall_time_is_utc_with_microseconds() -> None:
    assert Clock(wall_ns=lambda: 1_772_366_400_000_000_000).wall() == "2026-03-01T12:00:00.000000Z"
    assert Clock(wall_ns=lambda: 1_772_366_400_123_456_999).wall() == "2026-03-01T12:00:00.123456Z"


def test_wall_times_sort_as_text() -> None:
    times = [
        Clock(wall_ns=lambda at=at: at).wall() for at in range(0, 2_000_000_000_000_000_000, 86_399_999_999_999_999)
    ]  # type: ignore[misc]
    assert times == sorted(times)


def test_the_monotonic_clock_never_goes_back() -> None:
    instants = [SYSTEM.now() for _ in range(1000)]
    assert instants == sorted(instants)
    assert all(isinstance(instant, int) for instant in instants)


class Stepped:
    """Two clocks that run at the same rate; the wall clock can be set."""

    def __init__(self) -> None:
        self.elapsed, self.wall = 1_000_000_000, 1_772_366_400_000_000_000
        self.clock = Clock(now=lambda: self.elapsed, wall_ns=lambda: self.wall + self.elapsed)


def test_a_receive_time_is_put_on_the_monotonic_clock() -> None:
    clocks = Stepped()
    times = KernelTime(clocks.clock)
    received = clocks.wall + clocks.elapsed
    clocks.elapsed += 50_000_000
    assert times.at(received, clocks.elapsed) == 1_000_000_000
    assert times.at(received + 50_000_001, clocks.elapsed) == clocks.elapsed  # the clocks are not read at one moment


@pytest.mark.parametrize("step", [3_600_000_000_000, 1_000_000, -1_000_000, -3_600_000_000_000])
def test_receive_times_before_a_clock_step_are_unused(step: int) -> None:
    clocks = Stepped()
    times = KernelTime(clocks.clock)
    received = clocks.wall + clocks.elapsed
    clocks.elapsed += 100_000
    clocks.wall += step
    assert [times.at(received, clocks.elapsed) for _ in range(3)] == [None] * 3  # those of other sockets, too
    clocks.elapsed += 100_000
    assert times.at(clocks.wall + clocks.elapsed, clocks.elapsed + 5) == clocks.elapsed


@pytest.mark.parametrize("ahead", [10_000_000_000, 3_000_000, -3_000_000, -10_000_000_000])
def test_an_impossible_receive_time_reveals_another_clock(ahead: int) -> None:
    clocks = Stepped()
    times = KernelTime(clocks.clock)
    clocks.elapsed += 3_000_000_000
    sent, kernel_wall = clocks.elapsed, clocks.wall - ahead
    clocks.elapsed += 1_000_000
    assert times.at(kernel_wall + clocks.elapsed, clocks.elapsed, sent) is None
    assert times.error_ns == pytest.approx(abs(ahead), abs=1_100_000)
    clocks.elapsed += 30_000_000_000  # now it seems possible
    assert times.at(kernel_wall + clocks.elapsed, clocks.elapsed, sent) is None
    clocks.wall = kernel_wall
    assert times.at(kernel_wall + clocks.elapsed, clocks.elapsed, sent) == clocks.elapsed
    assert times.error_ns == 0


def test_a_slightly_early_receive_time_becomes_the_requests() -> None:
    clocks = Stepped()
    times = KernelTime(clocks.clock)
    clocks.elapsed += 3_000_000_000
    assert (
        times.at(clocks.wall + clocks.elapsed - 500_000, clocks.elapsed, clocks.elapsed - 100) == clocks.elapsed - 100
    )
    assert times.error_ns == 0


def test_a_wall_clock_set_back_is_the_same_clock() -> None:
    clocks = Stepped()
    times = KernelTime(clocks.clock)
    clocks.elapsed += 3_000_000_000
    received = clocks.wall + clocks.elapsed
    clocks.wall -= 10_000_000_000
    clocks.elapsed += 50_000_000
    assert times.at(received, clocks.elapsed, clocks.elapsed - 60_000_000) is None
    assert times.error_ns == 0


def test_the_thread_last_ran_at_the_read_before_waiting() -> None:
    clocks = Stepped()
    times, began = KernelTime(clocks.clock), clocks.elapsed

    def read_clock(after_ms: int) -> None:
        clocks.elapsed = began + after_ms * 1_000_000
        times.at(clocks.wall + clocks.elapsed, clocks.elapsed)

    def ran_before(after_ms: int) -> int:
        return (times.ran_before(began + after_ms * 1_000_000) - began) // 1_000_000

    read_clock(20)
    assert ran_before(90) == 20  # nothing has been read yet when the delay is noticed …
    read_clock(100)
    read_clock(101)
    assert [ran_before(at) for at in (20, 90, 100, 101, 500)] == [20, 20, 20, 101, 101]  # … or the reads come first
    assert ran_before(10) == 10  # nothing is known any more


def test_lateness_counts_from_when_the_thread_ran() -> None:
    clocks = Stepped()
    times, began = KernelTime(clocks.clock), clocks.elapsed
    times.at(clocks.wall + clocks.elapsed, clocks.elapsed)
    for after_ms in (9_750, 10_000, 10_070):  # the last one is late, and comes before the reads
        clocks.elapsed = began + after_ms * 1_000_000
        times.note_run()
    assert times.ran_before(began + 10_050_000_000) == began + 10_000_000_000

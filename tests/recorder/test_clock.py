"""The clock: one that counts, one that is shown."""

from recorder.clock import SYSTEM, Clock


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

"""The only module that reads a clock.

Durations are differences of the monotonic clock, in integer nanoseconds; wall time is read once per exchange and only
ever shown. Everything else takes a `Clock`, so that a test can hand in its own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Clock:
    """A monotonic clock (`now`, ns) and a wall clock (`wall_ns`, ns since the epoch)."""

    now: Callable[[], int] = time.monotonic_ns
    wall_ns: Callable[[], int] = time.time_ns

    def wall(self) -> str:
        """Return the wall time as ISO 8601 in UTC with microseconds, such as `2026-03-01T12:00:00.000000Z`."""
        seconds, nanoseconds = divmod(self.wall_ns(), 1_000_000_000)
        moment = datetime.fromtimestamp(seconds, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1000:06d}Z"


SYSTEM = Clock()

THREAD = Clock(time.thread_time_ns)
"""Counts only while the thread that asks is at work: for limits that others on the machine must not use up."""

"""The only module that reads a clock.

Durations are differences of the monotonic clock, in integer nanoseconds. Wall time is read once per exchange and is
only for display. All other modules take a `Clock` as an argument, so that a test can pass its own.
"""

import functools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

YEARS: Final = range(1970, 9000)
"""Years of a wall time on a tape: `Clock.wall` writes them with four digits, and any reader can parse them."""

_STEP_NS = 20_000
_DISAGREEMENT_NS = 1_000_000
_LATE_NS = 2_000_000
"""Age of received data, in ns, that shows that they have waited for the thread that reads them."""

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)
_BOOT_NS = time.monotonic_ns if _BOOTTIME is None else functools.partial(time.clock_gettime_ns, _BOOTTIME)


@dataclass(frozen=True, slots=True)
class Clock:
    """A monotonic clock (`now`, ns), a wall clock (`wall_ns`, ns since the epoch), and waiting (`sleep`, seconds).

    `boot_ns` is the time since the machine's boot, which goes on while it sleeps, where the system has such a clock.
    """

    now: Callable[[], int] = time.monotonic_ns
    wall_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], None] = time.sleep
    boot_ns: Callable[[], int] = _BOOT_NS

    def wall(self, at_ns: int | None = None) -> str:
        """Return a wall time, now's or `at_ns`, as ISO 8601 in UTC, such as `2026-03-01T12:00:00.000000Z`."""
        seconds, nanoseconds = divmod(self.wall_ns() if at_ns is None else at_ns, 1_000_000_000)
        return f"{_second(seconds)}.{nanoseconds // 1000:06d}Z"


@functools.lru_cache(8)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def wall_ns(text: str) -> int | None:
    """Return a wall time, as `Clock.wall` writes it, in ns since the epoch; None if it is none."""
    try:  # a tape may be damaged
        return round(datetime.fromisoformat(text).timestamp() * 1e6) * 1000
    except (TypeError, ValueError, OverflowError):
        return None


def zone() -> str:
    """Return the names of the local time zone, such as `CET/CEST`."""
    return "/".join(dict.fromkeys(time.tzname[: 2 if time.daylight else 1]))


def local_offsets() -> list[tuple[int, int]]:
    """Return the offsets of local time from UTC, in seconds, each with the time from which it holds.

    Times are seconds since the epoch, in ascending order, from the year 2000 to 2050.
    """
    previous, until = 946_684_800, 2_524_608_000
    week = 7 * 86_400  # no zone changes its offset twice in a week
    offsets = [(previous, time.localtime(previous).tm_gmtoff)]
    for at in range(previous + week, until, week):
        if time.localtime(at).tm_gmtoff != offsets[-1][1]:
            low, high = previous, at
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if time.localtime(middle).tm_gmtoff == offsets[-1][1] else (low, middle)
            offsets.append((high, time.localtime(high).tm_gmtoff))
        previous = at
    return offsets


SYSTEM = Clock()

THREAD = Clock(time.thread_time_ns)
"""Counts only the CPU time of the calling thread: for limits that do not depend on other programs."""


class KernelTime:
    """Converts the kernel's receive times, which are wall times, to the monotonic clock.

    Both clocks run at the same rate; their difference changes only when the wall clock is set. A receive time from
    before such a step is useless, and is not used. An impossible receive time (off by `error_ns`) shows that the
    kernel's wall clock is not the one read here, as under libfaketime. Then none is used until the wall clock is set
    again.

    `on_late` is called when data have waited to be read: with the time from which they have, and for how long, in ns.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._distance = self._measure_distance()
        self._set_at = self._look_at = self._looked_at = 0
        self._quiet = 0, 0
        """The last longer time without a look: its begin and end."""
        self.error_ns = 0
        self.on_late: Callable[[int, int], None] = lambda since, late_ns: None

    def _measure_distance(self) -> int:
        """Return wall minus monotonic time: of several samples, the one with the least delay between both readings."""
        samples = []
        for _ in range(3):
            start, wall, end = self._clock.now(), self._clock.wall_ns(), self._clock.now()
            samples.append((end - start, wall - (start + end) // 2))
        return min(samples)[1]

    def at(self, wall_ns: int, now: int, since: int = 0, free_at: int = sys.maxsize) -> int | None:
        """Return the monotonic time at `wall_ns`, which is just before `now`, and not before `since`.

        None if the wall clock was set since, or is not the kernel's. Only data received after `free_at` can have waited
        for the thread alone.
        """
        at = wall_ns - self._distance
        if now < self._look_at and since <= at and self._set_at <= at and now - _LATE_NS <= at <= now + _STEP_NS:
            return at if at < now else now
        return self._convert_carefully(wall_ns, now, since, free_at)

    def _convert_carefully(self, wall_ns: int, now: int, since: int, free_at: int) -> int | None:
        """Return the monotonic time as `at` does, and notice a wall clock that was set and a thread that was late."""
        self.note_run(now)
        self._look_at = 0
        if abs(self._clock.wall_ns() - now - self._distance) > 200_000:  # set, or this thread was delayed
            distance = self._distance
            self._distance = self._measure_distance()
            if abs(self._distance - distance) > _STEP_NS:
                self._set_at, self.error_ns = now, 0
        at = wall_ns - self._distance
        if at < since or at > now + _STEP_NS or self.error_ns:
            return self._corrected(at, now, since)
        if at < self._set_at:  # stamped by the clock as it was before it was set
            return None
        self._look_at = now + 1_000_000  # a look for each read would add a tenth to the read's cost
        if at > free_at and now - at > _LATE_NS:
            self.on_late(at, now - at)
        return min(at, now)

    def note_run(self, now: int | None = None) -> None:
        """Note that the reading thread runs."""
        now = self._clock.now() if now is None else now
        if now - self._looked_at > _LATE_NS:
            self._quiet = self._looked_at, now
        self._looked_at = now

    def ran_before(self, at: int) -> int:
        """Return the last time before `at` at which the reading thread is known to have run, in ns."""
        if self._looked_at <= at:
            return self._looked_at
        since, until = self._quiet
        return since if since <= at <= until else at

    def _corrected(self, at: int, now: int, since: int) -> int | None:
        """Return the earliest possible time if this one is only slightly earlier, else None, with the error noted."""
        error_ns = max(since - at, at - now)
        is_after_step = now - self._set_at <= 1_000_000_000  # data from before a step of the wall clock may come yet
        if error_ns > _DISAGREEMENT_NS and not is_after_step:
            self.error_ns = max(self.error_ns, error_ns)
        return since if 0 < since - at <= _DISAGREEMENT_NS and since >= self._set_at and not self.error_ns else None

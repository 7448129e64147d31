"""Calls at absolute deadlines, exact to some 50 µs, for any number of streams and without burning a processor.

The timers of event loops count in milliseconds. Here the kernel's own timer (`timerfd`, Linux) wakes the loop at the
earliest of all deadlines, on the clock in which they are given; elsewhere the loop's timer does. `Lateness` counts how
late the writes were.

Deadlines are absolute, so lateness does not add up. After a late write, the next one is put off by at most `APART_NS`
(`spaced`): at its own time it would follow at once, and the client would take both in one read, which was two.
"""

import asyncio
import contextlib
import ctypes
import errno
import heapq
import os
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil

from wiretape.recorder.clock import Clock

Paced = Callable[[int], int | None]
"""A callback for the time now, in ns; returns the time of its next call, or None to wait until it is added again."""

APART_NS = 300_000
"""Distance kept between separate writes, in ns, as long as the later one is less than a millisecond late."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def spaced(due: int, gap: int, now: int) -> int:
    """Return the time of a write due `gap` after the one before it, which was done now: late, but not merged."""
    # A write more than a millisecond late keeps half of its distance to the one before: late writes do not merge.
    latest = max(due + 1_000_000, now + min(gap // 2, APART_NS))
    return max(due, min(now + APART_NS, latest))


class _Timespecs(ctypes.Structure):
    """`struct itimerspec`: the interval, which is 0, and the deadline."""

    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "seconds", "nanoseconds")]


class Pacer:
    """Calls callbacks when they are due, earliest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._due: list[tuple[int, int, Paced]] = []
        self._count = 0
        self._armed: int | None = None
        self._is_running = False
        self._handle: asyncio.Handle | None = None
        self._timer = _timer()
        if self._timer is not None:
            self._loop.add_reader(self._timer, self._wake)

    def add(self, due: int, paced: Paced) -> None:
        self._count += 1
        heapq.heappush(self._due, (due, self._count, paced))
        if not self._is_running:
            self._arm()

    def _wake(self) -> None:
        if self._timer is not None:
            with contextlib.suppress(BlockingIOError):  # it was set again meanwhile
                os.read(self._timer, 8)  # the count of ticks, without which the descriptor stays readable
        self._run()

    def _run(self) -> None:
        self._armed, self._handle, self._is_running = None, None, True
        try:
            # After this many calls in a row, the event loop looks after its sockets.
            for _ in range(64):
                if not self._due or self._due[0][0] > (now := self._clock.now()):
                    break
                _, _, paced = heapq.heappop(self._due)
                if (due := paced(now)) is not None:
                    self.add(due, paced)  # `_is_running`: one setting of the timer is enough for all
        finally:
            self._is_running = False
            self._arm()

    def _arm(self) -> None:
        """Set the timer to the earliest deadline, unless it is set to that or an earlier one."""
        if not self._due or (self._armed is not None and self._armed <= self._due[0][0]):
            return
        due = self._armed = self._due[0][0]
        left_ns = due - self._clock.now()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if left_ns <= 0:
            self._handle = self._loop.call_soon(self._run)
        elif self._timer is not None:
            # 1, `TFD_TIMER_ABSTIME`: the time until this call takes effect makes the tick no later.
            spec = _Timespecs(0, 0, *divmod(due, 1_000_000_000))
            if _LIBC.timerfd_settime(self._timer, 1, ctypes.byref(spec), None):
                raise OSError(ctypes.get_errno() or errno.EINVAL, "a timer could not be set")
        else:
            self._handle = self._loop.call_later(left_ns / 1e9, self._run)

    def close(self) -> None:
        """Call nothing more."""
        self._due.clear()
        if self._handle is not None:
            self._handle.cancel()
        if self._timer is not None:
            self._loop.remove_reader(self._timer)
            os.close(self._timer)
            self._timer = None


def _timer() -> int | None:
    """Return a file descriptor that can be read when a deadline is over; None where the system has none."""
    if not sys.platform.startswith("linux"):
        return None
    # `os.timerfd_create` is there from Python 3.13 on; 1 is `CLOCK_MONOTONIC` of Linux.
    timer = _LIBC.timerfd_create(1, os.O_NONBLOCK | os.O_CLOEXEC)
    return timer if timer >= 0 else None


_STEP_NS = 10_000
_MOST_STEPS = 100_000
"""Cap on counted lateness, one second: later writes count as one second late."""


@dataclass(slots=True)
class Lateness:
    """Counts of how late writes were, to 10 µs; `most_ns` is exact."""

    counts: Counter[int] = field(default_factory=Counter)
    most_ns: int = 0

    def add(self, lateness: "Lateness") -> None:
        """Count the writes that another has counted."""
        self.counts.update(lateness.counts)
        self.most_ns = max(self.most_ns, lateness.most_ns)

    def percentile(self, percent: float) -> int:
        """Return a percentile of the lateness of the writes, in ns."""
        steps = sorted(self.counts)
        reached = list(accumulate(self.counts[step] for step in steps))
        if not reached:
            return 0
        place = bisect_left(reached, ceil(reached[-1] * percent / 100))
        return min(steps[place] * _STEP_NS, self.most_ns)

    def __str__(self) -> str:
        percentiles = [f"p{percent} {self.percentile(percent) / 1e6:.2f}" for percent in (50, 99)]
        return f"late {', '.join(percentiles)}, at most {self.most_ns / 1e6:.2f} ms"


def lateness(late_ns: Sequence[int]) -> Lateness:
    """Return the lateness of one answer's writes; fast, because other answers wait for it."""
    most_ns = max(late_ns, default=0)
    steps = [-(-late // _STEP_NS) for late in late_ns]
    if most_ns > _STEP_NS * _MOST_STEPS:
        steps = [min(step, _MOST_STEPS) for step in steps]
    return Lateness(Counter(steps), most_ns)

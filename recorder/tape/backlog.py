"""The finished exchanges that a writer has not measured yet, and the time to measure the next of them. No I/O."""

from collections import deque
from collections.abc import Iterable

from wiretape.recorder.clock import Clock


class Backlog:
    """Finished exchanges by their numbers: first those that a relay waits for, then what earlier recorders left.

    Some of them are settled at a time; `is_reported`: those are of the first kind. The next ones follow after a pause
    of `spacing_ns`, as many exchanges that ended share a transaction.
    """

    def __init__(self, clock: Clock, spacing_ns: int) -> None:
        self._clock, self._spacing_ns = clock, spacing_ns
        self._reported: deque[int] = deque()
        self._leftover: deque[int] = deque()
        self._due = 0
        self.is_settling = self.is_reported = False

    def add(self, numbers: Iterable[int]) -> None:
        """Add exchanges that a relay waits for."""
        self._reported.extend(numbers)

    def add_leftover(self, numbers: Iterable[int]) -> None:
        """Add exchanges that no relay waits for."""
        self._leftover.extend(numbers)

    @property
    def due(self) -> int | None:
        """The time of the next ones, in ns; None while some are being settled, or without any."""
        return None if self.is_settling or not (self._reported or self._leftover) else self._due

    def begin(self, *, is_busy: bool, at_end: bool) -> deque[int] | None:
        """Return the queue to settle exchanges from now; None if it is too early. `is_busy`: frames wait."""
        if (due := self.due) is None:
            return None
        busy_ns = 200_000_000 if is_busy else 0  # frames may never stop coming
        if not at_end and self._clock.now() < due + busy_ns:
            return None
        exchanges = self._reported or self._leftover
        self.is_settling, self.is_reported = True, exchanges is self._reported
        return exchanges

    def end(self) -> None:
        """Note that those that were begun are settled."""
        self.is_settling, self._due = False, self._clock.now() + self._spacing_ns


def limit(backlog_size: int, *, is_full: bool) -> int:
    """Return the number of exchanges to settle in one transaction: few if frames wait, since bytes may be lost."""
    quarter = 0 if is_full else backlog_size // 4
    return min(max(quarter, 32), 512)  # 512 take about as long as the spacing of commits

"""Pure: what a recorder could not store, counted and put into words."""

from dataclasses import dataclass, field

from recorder.plurals import counted
from recorder.tape.journal import Verified

REPORT_NS = 10_000_000_000
"""Losses that go on are reported no oftener than this."""
LATE_NS = 500_000_000
"""Storing is held up when a frame has waited this long."""


@dataclass(slots=True)
class Counts:
    """What has happened so far.

    `recorded` and `failed` are the exchanges that the writers reported as finished. `stored_*` is what they
    acknowledged and have not deleted since, as past what the tape keeps; `deleted` counts exchanges of all recorders,
    `own_…` those of this one. `dropped_bytes` and `unrecorded` (exchanges) are what is known to be missing. `lag_ns` is
    the time from a frame's birth to its acknowledgement.
    """

    recorded: int = 0
    failed: int = 0
    deleted: int = 0
    own_deleted: int = 0
    own_failed_deleted: int = 0
    stored_exchanges: int = 0
    stored_bytes: int = 0
    dropped_bytes: int = 0
    unrecorded: int = 0
    restarts: int = 0
    trouble: str = ""
    lag_ns: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """How a recording ended: from the tape, as far as it could be read; `problems` are sentences."""

    recorded: int
    failed: int
    missing_bytes: int
    missing_exchanges: int
    problems: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Say whether everything is on the tape, and the tape is undamaged as far as it was checked."""
        return not (self.missing_bytes or self.missing_exchanges or self.problems)


def reconcile(counts: Counts, verified: Verified | None) -> Totals:
    """Compare what was acknowledged with what the tape holds; where that is unknown, believe the acknowledgements."""
    if verified is None or verified.exchanges is None or verified.failed is None:
        recorded = max(counts.recorded, counts.stored_exchanges + counts.own_deleted)  # measuring may be far behind
        return Totals(recorded, counts.failed, counts.dropped_bytes, counts.unrecorded, _damage(verified))
    exchanges = counts.stored_exchanges - verified.exchanges
    size = 0 if verified.bytes is None else counts.stored_bytes - verified.bytes
    problems = _damage(verified)
    if exchanges > 0 or size > 0:
        lost = _amount(max(exchanges, 0), max(size, 0))
        problems.insert(
            0, f"{lost} had been stored and cannot be read from the tape any more: something else changed it"
        )
    return Totals(
        recorded=verified.exchanges + counts.own_deleted,
        failed=verified.failed + counts.own_failed_deleted,
        missing_bytes=max(counts.dropped_bytes + size, 0),
        missing_exchanges=max(counts.unrecorded + exchanges, 0),
        problems=problems,
    )


def _damage(verified: Verified | None) -> list[str]:
    return [f"the tape is damaged: {problem}" for problem in verified.problems] if verified else []


def _amount(exchanges: int, size: int) -> str:
    parts = [counted(exchanges, "exchange")] if exchanges else []
    return " and ".join([*parts, counted(size, "byte")] if size else parts)


@dataclass(slots=True)
class LossReporter:
    """Decides when a recorder says that it loses something: at once, then every 10 s at most, and when it is over."""

    _reported: tuple[int, int] = (0, 0)
    _next_ns: int = 0
    _ongoing: bool = False
    _waiting: bool = False

    def report(self, now: int, counts: Counts, lag_ns: int, *, lacking: bool) -> str | None:
        """Return the line that is due. `lacking`: an exchange that is running lacks a part of what was relayed."""
        lost = (counts.dropped_bytes, counts.unrecorded)
        if self._ongoing and not lacking and lag_ns < LATE_NS:
            self._reported, self._ongoing, self._waiting = lost, False, False
            return f"nothing is lost any more; in all, {_amount(lost[1], lost[0])} could not be stored"
        if lost != self._reported and now >= self._next_ns:
            self._reported, self._next_ns, self._ongoing = lost, now + REPORT_NS, True
            return f"{_amount(lost[1], lost[0])} could not be stored so far; streams go on"
        return self._waits(lag_ns)

    def _waits(self, lag_ns: int) -> str | None:
        """Say once that the writer does not answer, though nothing is lost yet, and once that it does."""
        if lag_ns > REPORT_NS and not (self._waiting or self._ongoing):
            self._waiting = True
            return f"nothing could be written for {lag_ns // 1_000_000_000} s; what comes meanwhile is kept in memory"
        if self._waiting and lag_ns < LATE_NS:
            self._waiting = False
            return "works again, nothing was lost meanwhile"
        return None

"""Pure: milliseconds of nanoseconds, and wall times."""

from datetime import datetime
from typing import Final

from wiretape.recorder.errors import TapeDamaged

EXACT: Final = 1 << 52
"""Limit in ns below which the quotient by a million is the float nearest to the decimal: no need to round."""


def ms(ns: float | None) -> float | None:
    """Return nanoseconds as milliseconds, exact to the nanosecond. Raises `TapeDamaged` where they are no number."""
    if type(ns) is int and -EXACT < ns < EXACT:
        return ns / 1e6
    try:
        return None if ns is None else round(ns / 1e6, 6)
    except TypeError as error:  # SQLite keeps a text in any column
        reason = "the tape is damaged (a duration that is no number): run 'wiretape db check'"
        raise TapeDamaged(reason) from error


def ns(ms: float | None) -> int | None:
    """Return milliseconds as whole nanoseconds."""
    return None if ms is None else round(ms * 1e6)


def timestamp(text: str) -> datetime:
    """Parse a wall time of the tape. Raises `TapeDamaged`."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise TapeDamaged("the tape is damaged (a time that is none): run 'wiretape db check'")
    return parsed

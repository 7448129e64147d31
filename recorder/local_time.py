"""Pure: wall times for people: local, as filters take them, so that a time that is copied selects what it showed.

What machines read has the tape's own times, in UTC. Where a local time does not say itself which it is, because a clock
change repeats it, its offset stands behind it; where a time stands alone, it always does.
"""

from datetime import date, datetime
from typing import Literal

from wiretape.recorder.sanitize import safe

Precision = Literal["minutes", "seconds", "milliseconds"]


def local(text: str) -> datetime | None:
    """Return a wall time of the tape in local time; None if it is none."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (TypeError, ValueError, OverflowError):  # a tape may be damaged
        return None


def offset(time: datetime) -> str:
    """Return the offset of a local time from UTC: `+05:30`, or `UTC` without one."""
    return time.isoformat(timespec="minutes")[16:] if time.utcoffset() else "UTC"


def distinction(time: datetime) -> str:
    """Return the offset of a local time that a clock change repeats, with a blank before it; else ""."""
    earlier, later = (time.replace(tzinfo=None, fold=fold).astimezone() for fold in (0, 1))
    return "" if earlier.utcoffset() == later.utcoffset() else f" {offset(time)}"


def day(time: datetime, today: date) -> str:
    """Return the day of a local time: without its year if it is the newest of that name."""
    newest = today.year - ((time.month, time.day) > (today.month, today.day))
    return f"{time:%m-%d}" if time.year == newest else f"{time:%Y-%m-%d}"


def moment(text: str, precision: Precision = "milliseconds") -> str:
    """Return a wall time of the tape with its offset, such as `2026-03-01 13:00:00.000 +01:00`."""
    time = local(text)
    if time is None:
        return safe(text)[:23]
    return f"{time.replace(tzinfo=None).isoformat(' ', precision)} {offset(time)}"


def period(first: str, last: str, precision: Precision = "seconds") -> str:
    """Return two wall times of the tape, the offset of both only once."""
    begin, end = moment(first, precision), moment(last, precision)
    shared_offset = f" {end.rpartition(' ')[2]}"
    return end if begin == end else f"{begin.removesuffix(shared_offset)} – {end}"


def of_day(text: str) -> str:
    """Return the time of day of a wall time of the tape with its offset: `13:00:00+01:00`, or `12:00:00Z` in UTC."""
    time = local(text)
    return safe(text)[11:19] if time is None else f"{time:%H:%M:%S}{offset(time).replace('UTC', 'Z')}"

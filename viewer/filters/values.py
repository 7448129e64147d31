"""Pure: the values of a filter, as people write them: numbers with units, instants, patterns.

Every function raises a `ValueError` that says what was expected. Times of day and dates are local, as people mean them;
the tape's instants are UTC. Where a value stands in a filter is left to `filters.parser`, regular expressions to
`filters.patterns`.
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from wiretape.viewer.filters.fields import DURATIONS, Kind
from wiretape.viewer.filters.syntax import Number, Pattern

Period = tuple[str, str | None]
"""An instant and None, or the first instant of a period and the first after it."""

_AMOUNT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})([A-Za-zµ%]*)")
_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_COUNTS = {"": 1, "b": 1, "B": 1, "k": 10**3, "K": 10**3, "M": 10**6}
_SHARES = {"": Decimal(1), "%": Decimal("0.01")}
_LARGEST = 2**63
EXPECTED: Final = {
    **dict.fromkeys(DURATIONS, "a duration with its unit (us, ms, s, m, h), such as 800ms"),
    "count": "a number, such as 400 or 10k (b, k, M)",
    "rate": "a plain number, such as 20.5",
    "share": "a share, such as 10% or 0.1",
    "time": "a time, such as 2h (ago), now, today, yesterday, 14:00, 2026-11-21 or 2026-11-21T14:00Z",
}
"""What the value of each kind of field looks like."""

_AGO = re.compile(r"-?(\d{1,9}(?:\.\d{1,9})?)(s|m|h|d)")
_AGO_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DAY, _MINUTE, _SECOND = timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1)
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?")


def number(text: str, kind: Kind, *, in_ms: bool = False) -> Number:
    """Parse a number: of a duration whole ns, of a share a fraction of 1. A duration needs a unit, unless `in_ms`."""
    match = _AMOUNT.fullmatch(text)
    factor = _factor(kind, match[2], in_ms or Decimal(match[1]) == 0) if match else None
    if match is None or factor is None:
        raise ValueError(f"expected {EXPECTED[kind]}")
    exact = Decimal(match[1]) * factor
    if exact >= _LARGEST:
        raise ValueError("expected a smaller number")
    if kind in DURATIONS:
        return round(exact)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def _factor(kind: Kind, unit: str, in_ms: bool) -> Decimal | int | None:
    if kind in DURATIONS:
        return _UNITS.get("ms" if in_ms and not unit else unit)
    if kind == "share":
        return _SHARES.get(unit)
    return _COUNTS.get(unit) if kind == "count" or not unit else None


def period(text: str, now: datetime) -> Period:
    """Read a time: a day, a minute or a second is a period; `now`, `2h` and a time with a fraction are an instant.

    `2h` and `-2h` are two hours ago. A time of day is that of today, also if it is still to come.
    """
    try:
        start, length = _moment(text, now)
        # A day is as long as the clocks of its place make it: its end is the next day's beginning.
        end = start.astimezone(UTC) + length if length < _DAY else _midnight(start + _DAY)
        return _iso(start), None if not length else _iso(end)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"expected {EXPECTED['time']}") from None


def is_relative(text: str) -> bool:
    """Return whether a time is counted from now: `2h`, `-2h` or `now`."""
    return text.lower() == "now" or _AGO.fullmatch(text) is not None


def _moment(text: str, now: datetime) -> tuple[datetime, timedelta]:
    """Return the beginning of a period, and its length; local times are naive."""
    local = now.astimezone().replace(tzinfo=None)
    if match := _AGO.fullmatch(text):
        return now - timedelta(**{_AGO_UNITS[match[2]]: float(match[1])}), timedelta()
    if text.lower() == "now":
        return now, timedelta()
    if text.lower() in ("today", "yesterday"):
        return _midnight(local - (_DAY if text.lower() == "yesterday" else timedelta())), _DAY
    if match := _TIME_OF_DAY.fullmatch(text):
        padded = text if text[2] == ":" else f"0{text}"
        return datetime.fromisoformat(f"{local:%Y-%m-%d}T{padded}"), _SECOND if match[1] else _MINUTE
    if _DATE.fullmatch(text):
        return datetime.fromisoformat(text), _DAY
    if match := _ISO.fullmatch(text):
        length = timedelta() if match[2] else _SECOND if match[1] else _MINUTE
        return datetime.fromisoformat(text), length
    raise ValueError


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def pattern(text: str) -> Pattern:
    """Read a text in which `*` stands for anything."""
    return tuple(text.split("*"))

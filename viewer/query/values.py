"""Pure: the values in a filter: numbers with units, timestamps, patterns, and regular expressions.

Every parser raises a `ValueError` that names the expected syntax. Times of day and dates are local; the tape's
timestamps are UTC. `Searches` bounds the time that regular expressions may take on recorded texts.
"""

import functools
import re
import warnings
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from wiretape.recorder.clock import THREAD, Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.query.operators import DURATIONS, KINDS, Kind, Number
from wiretape.viewer.query.syntax import Pattern

if TYPE_CHECKING:
    import regex


Period = tuple[str, str | None]
"""A timestamp and None, or the first timestamp of a period and the first after it."""

_AMOUNT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})([A-Za-zµ%]*)")
_LARGEST = 2**63
"""SQLite's integers are smaller."""

_AGO = re.compile(r"-?(\d{1,9}(?:\.\d{1,9})?)(s|m|h|d)")
_AGO_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_MICROSECONDS = 6
_DATE = r"(?:(?P<year>\d{4})-)?(?P<day>\d\d-\d\d)"
_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?)?"
_ZONE = r"(?: ?(?P<zone>Z|UTC|[+-]\d\d:?\d\d(?::\d\d)?))?"
_TIMES = [re.compile(expression) for expression in (_DATE, rf"(?=\d+:){_CLOCK}{_ZONE}", rf"{_DATE}[T ]{_CLOCK}{_ZONE}")]


def number(text: str, kind: Kind, *, in_ms: bool = False) -> Number:
    """Parse a number: of a duration whole ns, of a share a fraction of 1. A duration needs a unit, unless `in_ms`."""
    match = _AMOUNT.fullmatch(text)
    units = KINDS[kind].units or {}
    is_bare = match is not None and kind in DURATIONS and not match[2] and (in_ms or Decimal(match[1]) == 0)
    if match is None or (factor := units.get("ms" if is_bare else match[2])) is None:
        raise ValueError(f"expected {KINDS[kind].expected}")
    exact = Decimal(match[1]) * factor
    if exact >= _LARGEST:
        raise ValueError("expected a smaller number")
    if kind in DURATIONS:
        return round(exact)
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def period(text: str, now: datetime) -> Period:
    """Parse a time: a period of its precision, from a day to 10 µs; `now`, `2h` and one to 1 µs are timestamps.

    `2h` and `-2h` are two hours ago. A time of day is that of today, also if it is still to come; a day without its
    year is the newest. A blank may stand for the `T`, and before the offset, as screens show times.
    """
    try:
        start, length = _moment(text, now)
        # A local day may have 23 or 25 hours, and an hour occur twice: the end is the beginning of the next.
        end = _utc(start) + length if length < _HOUR else start + length
        return _iso(start), None if not length else _iso(end)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"expected {KINDS['time'].expected}") from None


def is_relative(text: str) -> bool:
    """Return True if a time is counted from now: `2h`, `-2h` or `now`."""
    return text.lower() == "now" or _AGO.fullmatch(text) is not None


def _moment(text: str, now: datetime) -> tuple[datetime, timedelta]:
    """Return the beginning of a period, and its length; local times are naive."""
    local = now.astimezone().replace(tzinfo=None)
    if match := _AGO.fullmatch(text):
        return now - timedelta(**{_AGO_UNITS[match[2]]: float(match[1])}), timedelta()
    if text.lower() == "now":
        return now, timedelta()
    if text.lower() in ("today", "yesterday"):
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight - (_DAY if text.lower() == "yesterday" else timedelta()), _DAY
    match = next(filter(None, (expression.fullmatch(text) for expression in _TIMES)), None)
    if match is None:
        raise ValueError
    parts = match.groupdict()
    zone, hour, minute, second, fraction = map(parts.get, ("zone", "hour", "minute", "second", "fraction"))
    # Days that follow from now are those of the zone.
    today = local if zone is None else now.astimezone(datetime.strptime(zone.replace("UTC", "Z"), "%z").tzinfo)
    day = parts.get("day") or f"{today:%m-%d}"
    year = parts.get("year") or f"{today.year - (day > f'{today:%m-%d}')}"
    of_day = f"{hour or '0':0>2}:{minute or '00'}:{second or '00'}.{fraction or '':0<6}"
    start = datetime.fromisoformat(f"{year}-{day}T{of_day}").replace(tzinfo=None if zone is None else today.tzinfo)
    if fraction:
        return start, timedelta(seconds=10 ** -len(fraction)) if len(fraction) < _MICROSECONDS else timedelta()
    return start, _DAY if hour is None else _HOUR if minute is None else timedelta(seconds=1 if second else 60)


def _iso(moment: datetime) -> str:
    return _utc(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _utc(moment: datetime) -> datetime:
    """Return a time in UTC; of a local one that occurs twice, the first, and of one that is skipped, that of the skip.

    By timestamps: for skipped times, `astimezone` takes the offset before the skip or behind it by Python's version.
    """
    if moment.tzinfo is not None:
        return moment.astimezone(UTC)
    seconds = moment.replace(microsecond=0).timestamp()
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=moment.microsecond)


def pattern(text: str) -> Pattern:
    """Parse a text with `*` as its wildcard."""
    return tuple(text.split("*"))


REGEX_CHARACTERS: Final = 200
"""The longest regular expression, in characters."""
SEARCH_CHARACTERS: Final = 64 << 10
"""Length of the beginning of a text that a regular expression searches, in characters."""
SEARCH_SECONDS: Final = 0.25
"""Timeout of a search in one text, in seconds of the processor: a thousand times the usual duration."""
QUERY_SECONDS: Final = 5.0
"""Time allowed for all searches of a query, in seconds, in addition to `SEARCH_CHARACTER_NS` for each character."""
SEARCH_CHARACTER_NS: Final = 50
"""Time allowed for each character of a text, in ns.

A single pass takes less; an expression that starts again at many positions, such as `error.*timeout` in a long line,
may take ten times as much.
"""


class TooSlow(WiretapeError):
    """A regular expression exceeds its time limit on a recorded text; SQLite does not name the expression."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            "a regular expression of the filter takes too long on recorded texts: write it without repeats of "
            "repeats, or put a term before it that fewer exchanges fit, such as since:-1h"
        )


@functools.lru_cache(maxsize=64)
def compiled_regex(text: str) -> "regex.Pattern[str]":
    """Compile a regular expression; it ignores case. Raises a `ValueError` that names the expected syntax."""
    import regex  # so that a command without a filter does not load it

    if len(text) > REGEX_CHARACTERS:
        raise ValueError(f"expected a regular expression of at most {REGEX_CHARACTERS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about later versions do not help the user
            return regex.compile(text, regex.IGNORECASE)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"expected a regular expression: {error}") from None


class Searches:
    """The searches of a query, one after the other; their time is that of a clock."""

    def __init__(self, clock: Clock = THREAD) -> None:
        self._now = clock.now
        self.begin()

    def begin(self) -> None:
        """Reset the time limit for another query."""
        self._left_ns = round(QUERY_SECONDS * 1e9)
        self._failure: TooSlow | None = None

    def failure(self) -> TooSlow | None:
        """Return the error that ended a search of the query, or None if none failed."""
        return self._failure

    def _too_slow(self) -> TooSlow:
        self._failure = TooSlow()
        return self._failure

    def search(self, expression: str, text: str | bytes | None) -> bool | None:
        """Return True if the first `SEARCH_CHARACTERS` of a text match an expression, or None without a text.

        Raises `TooSlow` if one text takes longer than `SEARCH_SECONDS`, or the query longer than its limit.
        """
        if text is None:
            return None
        self._left_ns += min(len(text), SEARCH_CHARACTERS) * SEARCH_CHARACTER_NS
        if self._left_ns <= 0:
            raise self._too_slow()
        if isinstance(text, bytes):
            text = text[: 4 * SEARCH_CHARACTERS].decode("utf-8", "replace")  # four bytes a character at most
        limit, began = min(self._left_ns / 1e9, SEARCH_SECONDS), self._now()
        try:
            match = compiled_regex(expression).search(text[:SEARCH_CHARACTERS], timeout=limit, concurrent=True)
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            self._left_ns -= self._now() - began
        return match is not None

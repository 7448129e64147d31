"""Pure: the clock of a screen: every time on it is displayed by `Times`, and every time that is typed is parsed by it.

Timestamps are in ns since T0. They are displayed as the time since the request, since the first byte or since an event
(the reference), or as wall time. A column of events can also show the time since the event or the row before; all other
times of the screen then count from the request.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from wiretape.viewer.exchange.transcript import UNKNOWN, Transcript
from wiretape.viewer.text import formatting, sparkline

Format = Literal["request", "first byte", "reference", "wall", "event", "row"]

FORMATS: Final[tuple[Format, ...]] = ("request", "first byte", "reference", "wall", "event", "row")
"""The formats in the order in which they follow each other."""

REFERENCE: Final = "*REF*"
"""Stands for the time of the event that others count from."""

SAME: Final = "same"
"""Stands for the time between two events that one read brought."""

_TITLES: Final[dict[Format, str]] = {
    "request": "t s", "first byte": "t s", "reference": "t s", "wall": "UTC", "event": "Δ ms", "row": "Δ row ms",
}  # fmt: skip
_NAMES: Final[dict[Format, str]] = {
    "request": "since request", "first byte": "since first byte", "wall": "wall clock, UTC",
    "event": "Δ previous event", "row": "Δ previous row",
}  # fmt: skip
_MS: Final = 1_000_000
_DAY_NS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class Times:
    """A format of times, and their zero.

    `first_byte_ns` is the timestamp of the first byte, None if none came; `started_at` the wall time of T0 as on the
    tape; `reference` the event that times count from in the format of that name, and `reference_ns` its timestamp.
    """

    format: Format = "request"
    first_byte_ns: int | None = None
    started_at: str = ""
    reference: int | None = None
    reference_ns: int = 0

    def following(self, transcript: Transcript, event: int) -> "Times":
        """Return the next format; `event` is the one to count from where that is the reference.

        A format that has nothing to count from is left out: there is no first byte, or the event has no timestamp.
        """
        can_refer = 0 <= event < len(transcript) and bool(transcript.timed[event])
        missing = {
            "first byte": self.first_byte_ns is None,
            "reference": not can_refer,
            "wall": _datetime(self.started_at) is None,
        }
        at = FORMATS.index(self.format) + 1
        following = next(one for one in (*FORMATS[at:], *FORMATS) if not missing.get(one, False))
        if following == "reference":
            return replace(self, format=following, reference=event, reference_ns=transcript.at[event])
        return replace(self, format=following, reference=None, reference_ns=0)

    @property
    def is_plain(self) -> bool:
        """True if times count from the request, which is the default."""
        return self.format == "request"

    @property
    def title(self) -> str:
        """The title of a column of times, with its unit."""
        return _TITLES[self.format]

    @property
    def name(self) -> str:
        """The name of the times."""
        return f"since #{self.reference:,}" if self.reference is not None else _NAMES[self.format]

    @property
    def clock_name(self) -> str:
        """The name of the zero of timestamps that are not differences between two events."""
        return _NAMES["request"] if self.format in ("event", "row") else self.name

    @property
    def origin_ns(self) -> int:
        """The timestamp that is displayed as 0: that of T0 where times are no times since something."""
        if self.format == "first byte":
            return self.first_byte_ns or 0
        return self.reference_ns if self.format == "reference" else 0

    def of(self, transcript: Transcript, event: int, above: int | None = None) -> str:
        """Return the time of an event; `above` is the event that is shown before it, None if none is."""
        if event == self.reference:
            return REFERENCE
        if not transcript.timed[event]:
            return formatting.UNKNOWN
        if self.format == "event":
            return between(transcript, event - 1 if event else None, event)
        if self.format == "row":
            return between(transcript, above, event)
        return self.instant(transcript.at[event])

    def instant(self, at_ns: int, beside_ns: int | None = None) -> str:
        """Return a timestamp as it is displayed, without its unit; without a first byte there is no time since it.

        `beside_ns` is a later timestamp that it is shown with: both are in minutes if one is.
        """
        if self.format == "wall":
            return wall(self.started_at, at_ns)
        if self.format == "first byte" and self.first_byte_ns is None:
            return formatting.UNKNOWN
        return formatting.timestamp(at_ns - self.origin_ns, 0 if beside_ns is None else beside_ns - self.origin_ns)

    def with_unit(self, at_ns: int, plus: str = "") -> str:
        """Return a timestamp with its unit, and `plus` before it unless it is negative; an unknown one has neither."""
        text = self.instant(at_ns)
        if self.format == "wall" or text == formatting.UNKNOWN:
            return text
        return f"{'' if text.startswith(formatting.MINUS) else plus}{text}{formatting.unit(text)}"

    def axis(self, axis_ns: int, room: int) -> str:
        """Draw an axis from T0 on that is `axis_ns` long, in `room` cells: its ticks are round times of this clock."""
        began_ns = _time_of_day(self.started_at) if self.format == "wall" else None
        if began_ns is None:
            return sparkline.axis(axis_ns, room, self.origin_ns)
        return sparkline.clock_axis(axis_ns, room, began_ns)

    def at(self, typed_ns: int) -> int:
        """Return the timestamp of a typed time, given in ns from the zero of the displayed times."""
        return self.origin_ns + typed_ns

    def at_time_of_day(self, typed_ns: int) -> int | None:
        """Return the timestamp of a time of day in UTC, in ns since midnight; None if the wall time is not known.

        It is the nearest to the start of the exchange: one that runs past midnight is found there.
        """
        began_ns = _time_of_day(self.started_at)
        return None if began_ns is None else (typed_ns - began_ns + _DAY_NS // 2) % _DAY_NS - _DAY_NS // 2

    def position(self, transcript: Transcript, at_ns: int) -> int:
        """Return the number of events displayed up to a timestamp: displayed times are cut to milliseconds."""
        text = self.instant(at_ns)
        low, high = bisect_right(transcript.at, at_ns), bisect_right(transcript.at, at_ns + _MS)
        return bisect_left(transcript.at, True, low, high, key=lambda at: self.instant(at) != text)

    def width(self, transcript: Transcript) -> int:
        """Return the maximum width of a column of all times of a transcript, including its title."""
        ends = (transcript.at[0], transcript.at[-1]) if len(transcript) else (0, 0)
        shown = [self.instant(end) for end in ends]
        if self.format in ("event", "row"):
            shown = [SAME, milliseconds(ends[1] - ends[0])]
        return max(map(len, (self.title, REFERENCE, *shown)))


SINCE_REQUEST: Final = Times()
"""The clock that screens begin with."""


def milliseconds(ns: int) -> str:
    """Return a time in milliseconds, to a tenth where it is short."""
    return f"{ns / 1e6:,.0f}" if ns >= 10_000_000 else f"{ns / 1e6:,.1f}"


def wall(started_at: str, at_ns: int) -> str:
    """Return the time of day, in UTC, of a timestamp after `started_at`, cut to a millisecond."""
    began = _datetime(started_at)
    if began is None:
        return formatting.UNKNOWN
    try:
        at = began + timedelta(microseconds=at_ns // 1000)
    except OverflowError:
        return formatting.UNKNOWN
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"


def between(transcript: Transcript, before: int | None, event: int) -> str:
    """Return the time between two events in ms; of two that one read brought it is not known: they are the `SAME`."""
    if before is None or not (transcript.timed[before] and transcript.timed[event]):
        return formatting.UNKNOWN
    if transcript.reads[before] == transcript.reads[event] != UNKNOWN:
        return SAME
    return milliseconds(transcript.at[event] - transcript.at[before])


def _datetime(started_at: str) -> datetime | None:
    """Parse the wall time of T0; None if it is none."""
    try:
        began = datetime.fromisoformat(started_at)
        return began.replace(tzinfo=UTC) if began.tzinfo is None else began.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _time_of_day(started_at: str) -> int | None:
    """Return the time of day of T0 in ns since midnight, UTC; None if its wall time is none."""
    began = _datetime(started_at)
    if began is None:
        return None
    return (began - began.replace(hour=0, minute=0, second=0, microsecond=0)) // timedelta(microseconds=1) * 1000

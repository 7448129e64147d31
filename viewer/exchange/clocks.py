"""Pure: the clock of a screen: every time on it is displayed by `Times`, and every time that is typed is parsed by it.

Timestamps are in ns since T0. They are displayed as the time since the request, or as wall time. A column of events can
also show the time since the event before; all other times of the screen then count from the request.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from wiretape.recorder.local_time import local, offset
from wiretape.viewer.exchange.transcript import UNKNOWN, Transcript
from wiretape.viewer.text import formatting, sparkline

Format = Literal["request", "event", "wall"]

FORMATS: Final[tuple[Format, ...]] = ("request", "event", "wall")
"""The formats in the order in which they follow each other."""

SAME: Final = "same"
"""Stands for the time between two events that one read brought."""

_NAMES: Final[dict[Format, str]] = {
    "request": "since request", "event": "Δ previous event", "wall": "wall clock",
}  # fmt: skip
_DAY_NS: Final = 86_400 * 10**9
_TITLES: Final[dict[Format, str]] = {"request": "t s", "event": "Δ ms", "wall": "local"}


@dataclass(frozen=True, slots=True)
class Times:
    """A format of times; `started_at` is the wall time of T0 as on the tape."""

    format: Format = "request"
    started_at: str = ""

    @property
    def with_next_format(self) -> "Times":
        order = [format for format in FORMATS if format != "wall" or _datetime(self.started_at) is not None]
        return replace(self, format=order[(order.index(self.format) + 1) % len(order)])

    @property
    def is_plain(self) -> bool:
        """True if times count from the request, which is the default."""
        return self.format == "request"

    @property
    def title(self) -> str:
        began = _datetime(self.started_at)
        return offset(began) if self.format == "wall" and began is not None else _TITLES[self.format]

    @property
    def name(self) -> str:
        return f"{_NAMES[self.format]}, {self.title}" if self.format == "wall" else _NAMES[self.format]

    @property
    def clock_name(self) -> str:
        """The name of the zero of timestamps that are not differences between two events."""
        return _NAMES["request"] if self.format == "event" else self.name

    def of(self, transcript: Transcript, event: int) -> str:
        if not transcript.timed[event]:
            return formatting.UNKNOWN
        if self.format == "event":
            return between(transcript, event - 1 if event else None, event)
        return self.instant(transcript.at[event])

    def instant(self, at_ns: int, beside_ns: int | None = None) -> str:
        """Return a timestamp as it is displayed, without its unit.

        `beside_ns` is a later timestamp that it is shown with: both are in minutes if one is.
        """
        return wall(self.started_at, at_ns) if self.format == "wall" else formatting.timestamp(at_ns, beside_ns or 0)

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
            return sparkline.axis(axis_ns, room)
        return sparkline.day_axis(axis_ns, room, began_ns)

    def at_time_of_day(self, typed_ns: int) -> int | None:
        """Return the timestamp of a local time of day, in ns since midnight; None if the wall time is not known.

        It is the nearest to the start of the exchange: one that runs past midnight is found there.
        """
        began_ns = _time_of_day(self.started_at)
        return None if began_ns is None else (typed_ns - began_ns + _DAY_NS // 2) % _DAY_NS - _DAY_NS // 2

    def position(self, transcript: Transcript, at_ns: int) -> int:
        """Return the number of events displayed up to a timestamp: displayed times are cut to milliseconds."""
        text = self.instant(at_ns)
        # Displayed times are cut to a millisecond: only events within the next one can have the same text.
        low, high = bisect_right(transcript.at, at_ns), bisect_right(transcript.at, at_ns + 1_000_000)
        return bisect_left(transcript.at, True, low, high, key=lambda at: self.instant(at) != text)

    def width(self, transcript: Transcript) -> int:
        """Return the maximum width of a column of all times of a transcript, including its title."""
        ends = (transcript.at[0], transcript.at[-1]) if len(transcript) else (0, 0)
        texts = [self.instant(end) for end in ends]
        if self.format == "event":
            texts = [SAME, milliseconds(ends[1] - ends[0])]
        return max(map(len, (self.title, *texts)))


SINCE_REQUEST: Final = Times()
"""The clock that screens begin with."""


def milliseconds(ns: int) -> str:
    """Return a time in milliseconds, to a tenth where it is short."""
    return f"{ns / 1e6:,.0f}" if ns >= 10_000_000 else f"{ns / 1e6:,.1f}"


def wall(started_at: str, at_ns: int) -> str:
    """Return the time of day of a timestamp after `started_at`, in its local offset, cut to a millisecond."""
    began = _datetime(started_at)
    if began is None:
        return formatting.UNKNOWN
    try:
        at = began + timedelta(microseconds=at_ns // 1000)
    except OverflowError:
        return formatting.UNKNOWN
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"


def between(transcript: Transcript, previous: int | None, event: int) -> str:
    """Return the time between two events in ms; of two that one read brought it is not known: they are the `SAME`."""
    if previous is None or not (transcript.timed[previous] and transcript.timed[event]):
        return formatting.UNKNOWN
    if transcript.reads[previous] == transcript.reads[event] != UNKNOWN:
        return SAME
    return milliseconds(transcript.at[event] - transcript.at[previous])


def _datetime(started_at: str) -> datetime | None:
    """Parse the wall time of T0, in local time; None if it is none. Its offset is that of all times of an exchange."""
    return local(started_at if started_at.endswith("Z") else f"{started_at}Z")


def _time_of_day(started_at: str) -> int | None:
    """Return the local time of day of T0 in ns since midnight; None if its wall time is none."""
    began = _datetime(started_at)
    if began is None:
        return None
    return (began - began.replace(hour=0, minute=0, second=0, microsecond=0)) // timedelta(microseconds=1) * 1000

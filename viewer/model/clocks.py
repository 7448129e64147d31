"""Pure: the instants of events as they are told: since the request or the first byte, by the wall clock, or as the time
since what stands before them; and what they count from, if somebody has set one of them as the reference.

Instants are in ns since T0. How wide a column is, and what the time since the event before is in it, is the widget's.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from viewer import cells
from viewer.model.transcript import UNKNOWN, Transcript

Format = Literal["request", "first byte", "wall", "event", "row"]

FORMATS: Final[tuple[Format, ...]] = ("request", "first byte", "wall", "event", "row")
"""How times are told, in the order in which they follow each other."""

REFERENCE: Final = "*REF*"
"""Stands for the time of the event that others count from."""

SAME: Final = "same"
"""Stands for the time between two events that one read brought."""

_SINCE: Final = frozenset({"request", "first byte"})
_TITLES: Final[dict[Format, str]] = {
    "request": "t s", "first byte": "t s", "wall": "UTC", "event": "Δ ms", "row": "Δ row ms",
}  # fmt: skip
_NAMES: Final[dict[Format, str]] = {
    "request": "since request", "first byte": "since first byte", "wall": "wall clock, UTC",
    "event": "Δ previous event", "row": "Δ previous row",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Times:
    """How times are told.

    `first_byte_ns` is when the first byte came, None if none did; `started_at` the wall time of T0 as on the tape,
    `reference` the event whose instant the times since something count from instead.
    """

    format: Format = "request"
    first_byte_ns: int | None = None
    started_at: str = ""
    reference: int | None = None

    @property
    def following(self) -> Format:
        """The format after this one; after the last, the first."""
        return FORMATS[(FORMATS.index(self.format) + 1) % len(FORMATS)]

    @property
    def is_plain(self) -> bool:
        """Whether they are told as they are if nobody asks for anything else."""
        return self.format == "request" and self.reference is None

    @property
    def title(self) -> str:
        """The title of a column of times, with its unit."""
        return _TITLES[self.format]

    @property
    def name(self) -> str:
        """What the times are."""
        if self.reference is not None and self.format in _SINCE:
            return f"since #{self.reference:,}"
        return _NAMES[self.format]

    def of(self, transcript: Transcript, event: int, above: int | None = None) -> str:
        """Give the time of an event; `above` is the event that is shown before it, None if none is."""
        if event == self.reference:
            return REFERENCE
        if not transcript.timed[event]:
            return cells.UNKNOWN
        if self.format == "event":
            return between(transcript, event - 1 if event else None, event)
        if self.format == "row":
            return between(transcript, above, event)
        return self.instant(transcript, transcript.at[event])

    def instant(self, transcript: Transcript, at_ns: int) -> str:
        """Give an instant; one of no event, as that of a read, has no time since another and is told since T0.

        Without a first byte there is none since that.
        """
        if self.format == "wall":
            return wall(self.started_at, at_ns)
        if self.format == "first byte" and self.reference is None and self.first_byte_ns is None:
            return cells.UNKNOWN
        return seconds(at_ns - self._origin(transcript))

    def told(self, transcript: Transcript, at_ns: int, plus: str = "") -> str:
        """Give an instant with its unit, and `plus` before it if it is not earlier; what is unknown has neither."""
        told = self.instant(transcript, at_ns)
        if self.format == "wall" or told == cells.UNKNOWN:
            return told
        return f"{'' if told.startswith(cells.MINUS) else plus}{told} s"

    def width(self, transcript: Transcript) -> int:
        """Give how wide a column of all times of a transcript, and its title, is at most."""
        ends = (transcript.at[0], transcript.at[-1]) if len(transcript) else (0, 0)
        told = [self.instant(transcript, end) for end in ends]
        if self.format in ("event", "row"):
            told = [SAME, milliseconds(ends[1] - ends[0])]
        return max(map(len, (self.title, REFERENCE, *told)))

    def _origin(self, transcript: Transcript) -> int:
        if self.format not in _SINCE:
            return 0
        if self.reference is not None:
            return transcript.at[self.reference]
        return (self.first_byte_ns or 0) if self.format == "first byte" else 0


def seconds(ns: int) -> str:
    """Give a time in seconds, to a millisecond; before what it counts from, with a minus."""
    text = f"{abs(ns) / 1e9:.3f}"
    return f"{cells.MINUS}{text}" if ns < 0 and text.strip("0.") else text


def milliseconds(ns: int) -> str:
    """Give a time in milliseconds, to a tenth where it is short."""
    return f"{ns / 1e6:,.0f}" if ns >= 10_000_000 else f"{ns / 1e6:,.1f}"


def wall(started_at: str, at_ns: int) -> str:
    """Give the time of day, in UTC, of an instant after `started_at`, cut to a millisecond."""
    try:
        at = datetime.fromisoformat(started_at) + timedelta(microseconds=at_ns // 1000)
    except (ValueError, OverflowError):
        return cells.UNKNOWN
    return at.strftime("%H:%M:%S.") + f"{at.microsecond // 1000:03}"


def between(transcript: Transcript, before: int | None, event: int) -> str:
    """Give the time between two events in ms; of two that one read brought it is not known: they are the `SAME`."""
    if before is None or not (transcript.timed[before] and transcript.timed[event]):
        return cells.UNKNOWN
    if transcript.reads[before] == transcript.reads[event] != UNKNOWN:
        return SAME
    return milliseconds(transcript.at[event] - transcript.at[before])

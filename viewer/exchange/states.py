"""Pure: the state or the ending of an exchange, in signs, words and tones."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Final

from wiretape.recorder import local_time
from wiretape.recorder.decode import exchange, rpc
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.text.waterfall import UNKNOWN, Axis

TIME_FORMATS: Final = ("clock", "date", "utc", "ago")
"""Formats of times: time of day, with its date, time of day in UTC, or age."""

SHORTEST_SILENCE_NS: Final = 500_000_000
"""The shortest silence shown: recorders commit, and screens poll, at intervals."""


@dataclass(frozen=True, slots=True)
class ExchangeState:
    """The state or ending of an exchange: its sign, its tone, its word, and the sign where there is only ASCII."""

    sign: str
    tone: Tone
    word: str
    ascii: str


STATES: Final[dict[exchange.Standing, ExchangeState]] = {
    "open": ExchangeState("●", "accent", "open", "o"),
    "complete": ExchangeState("✓", "success", "complete", "+"),
    "truncated": ExchangeState("■", "error", "truncated", "#"),
    "timeout": ExchangeState("■", "error", "timeout", "#"),
    "error_event": ExchangeState("!", "error", "error_event", "!"),
    "malformed": ExchangeState("!", "warning", "malformed", "!"),
    "http_error": ExchangeState("✗", "error", "http_error", "x"),
    "connect_error": ExchangeState("✗", "error", "connect_error", "x"),
    "client_closed": ExchangeState("⊘", "warning", "client_closed", "-"),
    "interrupted": ExchangeState("?", "warning", "interrupted", "?"),
}
"""By outcome, which is its word, too."""

ORPHAN: Final = ExchangeState("?", "warning", "orphan", "?")
"""An exchange that is open although nothing records it any more."""

_WARNING: Final = frozenset({"stall", "buffered_by_compression", "burst", "malformed", "empty", "backpressure"})
NOTABLE: Final[dict[str, Tone]] = {
    flag: "error" if flag == "storage_gap" else "warning" if flag in _WARNING else "muted" for flag in exchange.NOTABLE
}
"""The flags that the list shows, the gravest first; the preview has them all."""


@dataclass(frozen=True, slots=True)
class Look:
    """The inputs of a line of the list besides its row.

    `times` is one of `TIME_FORMATS`, `needs_dates` is true if not all starts are today's, `start_cells` is the room of
    the dates and offsets of times of day, `wall_ns` is the time since the epoch, `recording` whether a recorder runs;
    `axis` is that of all timelines, None gives each its own.
    """

    times: str = "clock"
    wall_ns: int = 0
    recording: bool = False
    axis: Axis | None = UNKNOWN
    needs_dates: bool = False
    start_cells: int = 0

    @property
    def is_dated(self) -> bool:
        """True if all times are shown with their dates."""
        return self.times == "date" or self.needs_dates

    @property
    def today(self) -> date:
        """The day that it is, in the zone of the times."""
        now = datetime.fromtimestamp(self.wall_ns / 1e9, UTC)
        return (now if self.times == "utc" else now.astimezone()).date()

    @property
    def next_times(self) -> str:
        """The format after this one; that with dates only where it differs from the time of day."""
        formats = [name for name in TIME_FORMATS if name != "date" or not self.needs_dates]
        at = formats.index(self.times) if self.times in formats else 0
        return formats[(at + 1) % len(formats)]


def state(row: ListRow, *, recording: bool = True) -> ExchangeState:
    """Return the state of an exchange; its outcome may be that of an orphan already."""
    is_lost = row.outcome == "open" and not recording and row.ended_by is None
    if is_lost or row.outcome == "orphan":
        return ORPHAN
    # The outcomes that say nothing of a stream that is not decoded: nobody knows if it succeeded.
    if row.outcome in ("complete", "truncated") and exchange.UNDECODED in row.flags and row.api not in rpc.FRAMINGS:
        return ExchangeState("?", "muted", row.outcome, "?")
    return STATES.get(row.outcome, ExchangeState("?", "muted", formatting.line(row.outcome), "?"))


def ending(row: ListRow, *, recording: bool = True) -> str:
    """Return the outcome of an exchange with its detail, verbatim; an orphan is named so."""
    stands = state(row, recording=recording)
    return stands.word if stands is ORPHAN else row.ending


def elapsed_ms(row: ListRow, look: Look) -> float | None:
    """Return the duration of an exchange until now; if it is no longer recorded, until its last read."""
    if row.outcome != "open" or row.duration_ms is not None:
        return row.duration_ms
    if not look.recording:
        return row.last_read_ms
    try:
        started = datetime.fromisoformat(row.started_at).timestamp()
    except ValueError:
        return None
    return max((look.wall_ns / 1e9 - started) * 1000, row.last_read_ms or 0.0)


def ranked(flags: Collection[str]) -> list[str]:
    """Return all flags, the gravest first, those that the list does not show last."""
    return [flag for flag in NOTABLE if flag in flags] + [flag for flag in flags if flag not in NOTABLE]


@dataclass(frozen=True, slots=True)
class Silence:
    """The duration of a silence; before the first byte, the time waited for it."""

    lasted_ns: int
    awaits_first: bool = False
    stalled: bool = False

    def __str__(self) -> str:
        return f"{'waiting' if self.awaits_first else 'silent'} for {self.lasted_ns / 1e9:.1f} s"


def silence(passed_ns: int, last_ns: int | None, limits: Thresholds) -> Silence | None:
    """Return the silence since the last read, None if it is too short."""
    lasted = passed_ns - (last_ns or 0)
    return Silence(lasted, last_ns is None, limits.is_stall(lasted)) if lasted >= SHORTEST_SILENCE_NS else None


def moment(started_at: str, look: Look, width: int) -> str:
    """Return the time of a start in the format asked for, to a millisecond or to a minute as there is room.

    It has its date unless that is today's, and its offset where it is no local time, or a repeated one.
    """
    time = _time(started_at, look)
    if time is None:
        return "?"
    if look.times == "ago":
        return formatting.span(max(look.wall_ns / 1e9 - time.timestamp(), 0) * 1000)
    is_dated = look.is_dated or time.date() != look.today
    of_day = f"{local_time.day(time, look.today)} {time:%H:%M:%S}" if is_dated else f"{time:%H:%M:%S}"
    behind = "Z" if look.times == "utc" else local_time.distinction(time)
    texts = (f"{of_day}.{time.microsecond // 1000:03}", of_day, of_day[:-3])
    return formatting.first_that_fits([f"{text}{behind}" for text in texts], width)


def with_room(look: Look, starts: Collection[str]) -> Look:
    """Return a look with the dates that times of day need, and the room for all that is beside them.

    `starts` are the first and the last of those shown.
    """
    times = [time for start in starts if (time := _time(start, look)) is not None]
    look = replace(look, needs_dates=look.times != "ago" and any(time.date() != look.today for time in times))
    shortest = max((len(moment(start, look, 0)) for start in starts), default=0)
    return replace(look, start_cells=0 if look.times == "ago" else max(shortest - len("00:00"), 0))


def _time(started_at: str, look: Look) -> datetime | None:
    """Return a start in the zone of the times; None if it is none."""
    try:
        started = datetime.fromisoformat(started_at)
        return started.astimezone(UTC) if look.times == "utc" else started.astimezone()
    except (TypeError, ValueError, OverflowError):  # on a damaged tape
        return None

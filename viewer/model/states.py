"""Pure: how an exchange stands or ended, in signs, words and tones, and texts cut to the cells of a screen.

A tone says what a text means (`success`, `warning`, …); which colour that is, the theme decides.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from rich.cells import cell_len, set_cell_size

from wiretape.recorder.decode import outcome
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer import formatting
from wiretape.viewer.rows import ListRow

Tone = Literal["plain", "strong", "muted", "accent", "success", "warning", "error"]
Part = tuple[str, Tone]
"""A piece of a line and its tone."""

TIME_FORMATS: Final = ("clock", "date", "utc", "ago")
"""How times can be shown: time of day, with its date, time of day in UTC, or how long ago."""

SHORTEST_SILENCE_NS: Final = 500_000_000
"""A shorter silence is not shown: a recorder commits, and a screen looks, only so often."""

_MOST_MS: Final = 9_999.5
_JOINERS: Final = dict.fromkeys((0x200D, 0xFE0E, 0xFE0F))


@dataclass(frozen=True, slots=True)
class State:
    """How an exchange stands, or ended: its sign, its tone, its word, and the sign where there is only ASCII."""

    sign: str
    tone: Tone
    word: str
    ascii: str


STATES: Final[dict[str, State]] = {
    "open": State("●", "accent", "open", "o"),
    "complete": State("✓", "success", "complete", "+"),
    "truncated": State("■", "error", "truncated", "#"),
    "timeout": State("■", "error", "timeout", "#"),
    "error_event": State("!", "error", "error_event", "!"),
    "malformed": State("!", "warning", "malformed", "!"),
    "http_error": State("✗", "error", "http_error", "x"),
    "connect_error": State("✗", "error", "connect_error", "x"),
    "client_closed": State("⊘", "warning", "client_closed", "-"),
    "interrupted": State("?", "warning", "interrupted", "?"),
}
"""By outcome, which is its word, too."""

ORPHAN: Final = State("?", "warning", "orphan", "?")
"""An exchange that is open although nothing records it any more."""

_WARNING: Final = frozenset({"stall", "burst", "malformed", "empty", "backpressure"})
NOTABLE: Final[dict[str, Tone]] = {
    flag: "error" if flag == "storage_gap" else "warning" if flag in _WARNING else "muted" for flag in outcome.NOTABLE
}
"""The flags that the list shows, the gravest first; the preview has them all."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a line of the list depends on besides its row.

    `times` is one of `TIME_FORMATS`, `spans_days` says that a time of day needs its date, `wall_ns` is the time since
    the epoch, `recording` whether a recorder runs; `worded` asks for the outcome's word before the flags, as where it
    has no column; `axis_ns` is how long the axis is that gaps are drawn on.
    """

    times: str = "clock"
    wall_ns: int = 0
    recording: bool = False
    worded: bool = True
    axis_ns: int = 0
    spans_days: bool = False

    @property
    def is_dated(self) -> bool:
        """Whether times are shown with their dates."""
        return self.times == "date" or (self.spans_days and self.times != "ago")

    @property
    def next_times(self) -> str:
        """The format after this one; that with dates only where it differs from the time of day."""
        formats = [name for name in TIME_FORMATS if name != "date" or not self.spans_days]
        at = formats.index(self.times) if self.times in formats else 0
        return formats[(at + 1) % len(formats)]


def state(row: ListRow, *, recording: bool = True) -> State:
    """Return how an exchange stands; its outcome may be that of an orphan already."""
    is_lost = row.outcome == "open" and not recording and row.ended_by is None
    if is_lost or row.outcome == ORPHAN.word:
        return ORPHAN
    return STATES.get(row.outcome, State("?", "muted", formatting.line(row.outcome), "?"))


def elapsed_ms(row: ListRow, look: Look) -> float | None:
    """Return how long an exchange has lasted; one that nothing records any more, until its last read."""
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
    """How long nothing has come; before the `first` byte, that is how long one has waited for it."""

    lasted_ns: int
    first: bool = False
    stalled: bool = False

    def __str__(self) -> str:
        return f"{'waiting' if self.first else 'silent'} for {self.lasted_ns / 1e9:.1f} s"


def silence(passed_ns: int, last_ns: int | None, limits: Thresholds) -> Silence | None:
    """Return the silence since the last read, None if it is too short."""
    lasted = passed_ns - (last_ns or 0)
    return Silence(lasted, last_ns is None, limits.is_stall(lasted)) if lasted >= SHORTEST_SILENCE_NS else None


def moment(started_at: str, look: Look, width: int) -> str:
    """Return the time of a start in the format asked for, to a millisecond where there is room."""
    try:
        started = datetime.fromisoformat(started_at)
    except ValueError:
        return "?"
    if look.times == "ago":
        return span(max(look.wall_ns / 1e9 - started.timestamp(), 0) * 1000)
    local = started.astimezone(UTC) if look.times == "utc" else started.astimezone()
    of_day = f"{local:%m-%d %H:%M:%S}" if look.is_dated else f"{local:%H:%M:%S}"
    exactly = f"{of_day}.{local.microsecond // 1000:03}"
    return exactly if len(exactly) <= width else of_day


def spans_days(first: str, last: str) -> bool:
    """Return whether two starts, ISO 8601, are on different local days; False if either cannot be read."""
    try:
        days = [datetime.fromisoformat(start).astimezone().date() for start in (first, last)]
    except (TypeError, ValueError):  # on a damaged tape
        return False
    return days[0] != days[1]


def span(ms: float | None) -> str:
    """Return a duration in few characters: ms up to 9,999, then s, minutes, hours, days."""
    if ms is None:
        return formatting.UNKNOWN
    if ms < _MOST_MS:
        return f"{ms:,.0f} ms"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if ms / 1000 < limit:
            return f"{ms / 1000 / size:,.{1 if unit == 's' else 0}f} {unit}"
    return f"{ms / 86_400_000:,.0f} d"


def short_ms(ms: float) -> str:
    """Return milliseconds for a narrow column: from 10 s on in seconds, as `10.0s`."""
    return f"{ms:,.0f}" if ms < _MOST_MS else f"{ms / 1000:,.1f}s"


def cut(text: str, width: int) -> str:
    """Return the beginning of a text that fits a width in cells, `…` standing for the rest."""
    if text.isascii() and len(text) <= width:
        return text  # nearly all of what a list shows, at a tenth of the cost
    text = text[: 4 * width + 4].translate(_JOINERS)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip(" ") + "…" if width > 0 else ""


def laid_out(parts: Sequence[Part], width: int, *, right: bool) -> Iterator[Part]:
    """Cut parts to a width in cells, `…` standing for the rest, and fill it up with blanks."""
    room = width
    shown: list[Part] = []
    for text, tone in parts:
        text = cut(text, room)
        shown.append((text, tone))
        room -= len(text) if text.isascii() else cell_len(text)
    blank: Part = (" " * room, "plain")
    yield from (blank, *shown) if right else (*shown, blank)


def joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Join neighbouring parts of one tone; blanks, whose tone is not visible, go with what is before them."""
    pending = ""
    its_tone: Tone = "plain"
    for text, tone in parts:
        if tone == its_tone or not text.strip(" "):
            pending += text
        elif not pending.strip(" "):
            pending, its_tone = pending + text, tone
        else:
            yield pending, its_tone
            pending, its_tone = text, tone
    yield pending, its_tone

"""Pure: one exchange as a line of the viewer's list: its columns, and what stands in each, with its tone.

A tone says what a text means (`success`, `warning`, …); which colour that is, the theme says. It never says it alone:
how an exchange ended has a sign and a word, too. Which exchanges there are is `catalog`'s, drawing is the widget's.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final, Literal

from rich.cells import cell_len, set_cell_size

from recorder.decode import outcome
from viewer import formatting, sparkline
from viewer.rows import Row

Tone = Literal["plain", "strong", "muted", "accent", "success", "warning", "error"]
Part = tuple[str, Tone]

TIME_FORMATS: Final = ("clock", "date", "utc", "ago")
"""How instants can be shown: time of day, with its date, time of day in UTC, or how long ago."""


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
"""By outcome, which is its word, too: on every screen the same."""

ORPHAN: Final = State("?", "warning", "orphan", "?")
"""One that is open although nothing records it any more."""

_WARNING: Final = frozenset({"stall", "burst", "malformed", "empty", "backpressure"})
NOTABLE: Final[dict[str, Tone]] = {
    flag: "error" if flag == "storage_gap" else "warning" if flag in _WARNING else "muted" for flag in outcome.NOTABLE
}
"""The flags that the list shows, the gravest first, as a recorder does; the preview has them all."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a line depends on besides its row.

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
        """Whether instants are shown with their dates."""
        return self.times == "date" or (self.spans_days and self.times != "ago")

    @property
    def next_times(self) -> str:
        """The format after this one; that with dates only where it differs from the time of day."""
        formats = [one for one in TIME_FORMATS if one != "date" or not self.spans_days]
        at = formats.index(self.times) if self.times in formats else 0
        return formats[(at + 1) % len(formats)]


Shown = Callable[[Row, Look, int], Sequence[Part]]
"""What a column shows of a row, given its width in cells."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: how wide it is at least and at most, its rank (0 goes last when there is no room), what it shows.

    `field` is what its order goes by, None where there is none; `letter` chooses that order. `unit` stands behind the
    title where there is room.
    """

    name: str
    title: str
    least: int
    most: int
    rank: int
    shown: Shown
    field: str | None = None
    letter: str | None = None
    right: bool = False
    unit: str = ""

    @property
    def full_title(self) -> str:
        """The title with its unit."""
        return f"{self.title} {self.unit}".rstrip()


def state(row: Row, *, recording: bool = True) -> State:
    """Say how an exchange stands; one may be called an orphan already."""
    is_lost = row["outcome"] == "open" and not recording and row.get("ended_by") is None
    if is_lost or row["outcome"] == ORPHAN.word:
        return ORPHAN
    return STATES.get(row["outcome"], State("?", "muted", formatting.line(str(row["outcome"])), "?"))


def laid_out(parts: Sequence[Part], width: int, *, right: bool) -> Iterator[Part]:
    """Cut the parts of a cell to its width, `…` standing for the rest, and fill it up."""
    room = width
    kept: list[Part] = []
    for text, tone in parts:
        shown = cut(text, room)
        kept.append((shown, tone))
        room -= len(shown) if shown.isascii() else cell_len(shown)
    blank: Part = (" " * room, "plain")
    yield from (blank, *kept) if right else (*kept, blank)


def joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Join neighbouring parts of one tone; blanks, which have none to be seen, go with what is before them."""
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


def cut(text: str, width: int) -> str:
    """Give the beginning of a text that fits a width in cells, `…` standing for the rest."""
    if text.isascii() and len(text) <= width:
        return text  # nearly all of what a list shows, at a tenth of the cost
    text = text[: 4 * width + 4].translate(_JOINERS)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip(" ") + "…" if width > 0 else ""


def moment(started_at: str, look: Look, width: int) -> str:
    """Give the instant of a start in the format asked for, as exactly as there is room."""
    try:
        found = datetime.fromisoformat(started_at)
    except ValueError:
        return "?"
    if look.times == "ago":
        return span(max(look.wall_ns / 1e9 - found.timestamp(), 0) * 1000)
    local = found.astimezone(UTC) if look.times == "utc" else found.astimezone()
    day = f"{local:%m-%d} " if look.is_dated else ""
    of_day = f"{day}{local:%H:%M:%S}"
    exactly = f"{of_day}.{local.microsecond // 1000:03}"
    return exactly if len(exactly) <= width else of_day


def spans_days(first: str, last: str) -> bool:
    """Return whether two starts, ISO 8601, are on different local days; False if either cannot be read."""
    try:
        days = [datetime.fromisoformat(one).astimezone().date() for one in (first, last)]
    except (TypeError, ValueError):  # on a damaged tape
        return False
    return days[0] != days[1]


def span(ms: float | None) -> str:
    """Give a duration shortly: ms up to 9,999, then s, minutes, hours, days."""
    if ms is None:
        return formatting.UNKNOWN
    if ms < _MOST_MS:
        return f"{ms:,.0f} ms"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if ms / 1000 < limit:
            return f"{ms / 1000 / size:,.{1 if unit == 's' else 0}f} {unit}"
    return f"{ms / 86_400_000:,.0f} d"


def elapsed_ms(row: Row, look: Look) -> float | None:
    """Give how long an exchange has lasted; one that nothing records any more, until its last read."""
    if row["outcome"] != "open" or row["duration_ms"] is not None:
        return float(row["duration_ms"]) if row["duration_ms"] is not None else None
    if not look.recording:
        return float(row["last_read_ms"]) if row.get("last_read_ms") is not None else None
    try:
        started = datetime.fromisoformat(row["started_at"]).timestamp()
    except ValueError:
        return None
    return max((look.wall_ns / 1e9 - started) * 1000, row.get("last_read_ms") or 0.0)


def longest_ns(rows: Iterable[Row]) -> int:
    """Return how long the longest of some exchanges lasted, as far as that is known."""
    lasted = (row["duration_ms"] if row["duration_ms"] is not None else row.get("last_read_ms") for row in rows)
    return round(max((ms for ms in lasted if ms is not None), default=0) * 1e6)


def gaps(row: Row, look: Look, width: int) -> list[Part]:
    """Draw the gaps of an exchange on the axis of all lines, with the slow ones toned."""
    if look.axis_ns <= 0:
        return []
    first, end = _ns(row["ttft_ms"]), _ns(row["duration_ms"])
    last = _ns(row["latency_ms"] if row["latency_ms"] is not None else row.get("last_read_ms"))
    if row.get("gaps") is not None or first is None or last is None:
        drawn = sparkline.line(first, row.get("gaps"), end, look.axis_ns, width)
    else:
        drawn = sparkline.placed(row["sparkline"] or "", first, last, end, look.axis_ns, width)
    return [("".join(signs), tone) for tone, signs in groupby(drawn, _gap_tone)]


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1e6)


def notable(row: Row) -> list[Part]:
    """Give the flags that matter, the gravest first."""
    return [(flag, tone) for flag, tone in NOTABLE.items() if flag in row["flags"]]


def ranked(flags: Collection[str]) -> list[str]:
    """Give all flags, the gravest first, those that the list does not show last."""
    return [flag for flag in NOTABLE if flag in flags] + [flag for flag in flags if flag not in NOTABLE]


def _gap_tone(sign: str) -> Tone:
    if sign in sparkline.STALLED:
        return "error"
    return "warning" if sign == sparkline.SLOW else "muted" if sign in (sparkline.FIRST, sparkline.END) else "accent"


def _ms(ms: float) -> str:
    return f"{ms:,.0f}" if ms < _MOST_MS else f"{ms / 1000:,.1f}s"


def _timed(name: str, slow_ms: float, bad_ms: float, *, grows: bool = True) -> Shown:
    def shown(row: Row, look: Look, width: int) -> Sequence[Part]:
        value = row[name]
        if value is None or row["outcome"] == "open":
            return [_unended(value, _ms, row, look, width, grows=grows)]
        return [(_ms(value), "error" if value >= bad_ms else "warning" if value >= slow_ms else "plain")]

    return shown


def _unended(
    value: Any, written: Callable[[Any], str], row: Row, look: Look, width: int, *, grows: bool = True
) -> Part:
    """Show what is not known, or only for the time being.

    Of an exchange that still runs a figure is dim, and has a `+` if it may grow; one that may come yet is `…`.
    """
    runs = state(row, recording=look.recording).word == "open"
    if value is None:
        return _LATER if runs else formatting.UNKNOWN, "muted"
    text = written(value)
    return f"{text}+" if runs and grows and len(text) < width else text, "muted"


def _text(name: str, tone: Tone = "plain") -> Shown:
    return lambda row, look, width: [(formatting.line(row[name]), tone if row[name] is not None else "muted")]


def _count(name: str) -> Shown:
    def shown(row: Row, look: Look, width: int) -> Sequence[Part]:
        value = row[name]
        if value is None or row["outcome"] == "open":
            return [_unended(value, formatting.count, row, look, width)]
        return [(formatting.count(value), "plain")]

    return shown


def _rate(row: Row, look: Look, width: int) -> Sequence[Part]:
    rate = row["tps_user"]
    return [_unended(None, formatting.count, row, look, width)] if rate is None else [(f"{rate:,.1f}", "plain")]


def _status(row: Row, look: Look, width: int) -> Sequence[Part]:
    status = row["status"]
    if status is None:
        return [_unended(None, formatting.count, row, look, width)]
    return [(formatting.cell(status), "muted" if status < 300 else "error")]


def _outcome(row: Row, look: Look, width: int) -> Sequence[Part]:
    found = state(row, recording=look.recording)
    if found is ORPHAN:
        return [(found.word, found.tone)]
    return [(formatting.outcome(row), "muted" if row["outcome"] == "complete" else found.tone)]


def _duration(row: Row, look: Look, width: int) -> Sequence[Part]:
    ms = elapsed_ms(row, look)
    if ms is None:
        return [(formatting.UNKNOWN, "muted")]
    growing: list[Part] = [("+", "accent")] if state(row, recording=look.recording).word == "open" else []
    return [(f"{ms / 1000:,.1f}", "plain"), *growing]


def _flags(row: Row, look: Look, width: int) -> Sequence[Part]:
    return _flagged(row, look, formatting.cell(row["status"]))


def flags_beside_status(row: Row, look: Look, width: int) -> Sequence[Part]:
    """Show flags where a status stands before them: of a refusal, they say its kind."""
    return _flagged(row, look, formatting.line(row["outcome_detail"] or row["outcome"]))


def _flagged(row: Row, look: Look, refusal: str) -> list[Part]:
    """Say what is odd: `refusal` where upstream refused, else how it ended; the flags; or a finish other than stop."""
    found = state(row, recording=look.recording)
    word = refusal if row["outcome"] == "http_error" else found.word
    told = look.worded and row["outcome"] != "complete"  # its sign says enough
    parts: list[Part] = [(word, found.tone)] if told else []
    parts += [flag for flag in notable(row) if flag[0] != word]
    if not parts and row["outcome"] == "complete" and row["finish_reason"] not in (None, "stop"):
        parts.append((formatting.line(row["finish_reason"]), "muted"))
    return [(f" {text}" if at else text, tone) for at, (text, tone) in enumerate(parts)]


def _host(row: Row, look: Look, width: int) -> Sequence[Part]:
    return [(formatting.line(formatting.host(row["upstream"])), "muted")]


_MOST_MS: Final = 9_999.5
_LATER: Final = "…"
_JOINERS: Final = dict.fromkeys((0x200D, 0xFE0E, 0xFE0F))
COLUMNS: Final = (
    Column("id", "ID", 8, 8, 1, lambda row, look, width: [(formatting.line(row["id"])[:8], "strong")]),
    Column("start", "START", 8, 12, 2, lambda row, look, width: [(moment(row["started_at"], look, width), "muted")],
           "started_at", "s"),
    Column("model", "MODEL", 10, 26, 0, _text("model"), "model", "m"),
    Column("host", "HOST", 12, 26, 13, _host, "upstream", "h"),
    Column("path", "PATH", 16, 30, 15, _text("path", "muted"), "path", "p"),
    Column("status", "HTTP", 4, 4, 11, _status, "status", "c", right=True),
    Column("outcome", "OUTCOME", 13, 24, 12, _outcome, "outcome", "e"),
    Column("ttft", "TTFT", 6, 7, 3, _timed("ttft_ms", 2000, 10_000, grows=False), "ttft_ms", "t", right=True,
           unit="ms"),
    Column("icl50", "ICL50", 6, 6, 9, _timed("icl_p50_ms", 100, 500), "icl_p50_ms", "5", right=True,
           unit="ms"),
    Column("gapmax", "GAPMAX", 6, 7, 6, _timed("max_stall_ms", 500, 2000), "max_stall_ms", "g", right=True,
           unit="ms"),
    Column("silence", "SILENCE", 7, 8, 16, _timed("max_silence_ms", 500, 2000), "max_silence_ms", "l", right=True,
           unit="ms"),
    Column("events", "EV", 5, 6, 14, _count("events"), "events", "n", right=True),
    Column("tokens", "TOK", 5, 6, 8, _count("completion_tokens"), "completion_tokens", "k", right=True),
    Column("rate", "TOK/s", 6, 6, 10, _rate, "tps_user", "r", right=True),
    Column("duration", "DUR", 6, 7, 4, _duration, "duration_ms", "d", right=True, unit="s"),
    Column("flags", "FLAGS", 11, 24, 5, _flags, "flags", "f"),
    Column("gaps", "GAPS", 8, 24, 7, gaps),
)  # fmt: skip
"""Every column, in the order in which they stand."""

"""Pure: several exchanges in a table, one a line: their figures, the best of each marked, and their gaps on one axis.

What may be judged, and what figures are called, is `scoreboard`'s. The lines say what stands where and in which tone;
drawing them is left to a widget.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from rich.cells import cell_len

from recorder.clock import Clock
from recorder.process import Run
from viewer import formatting, sparkline
from viewer.model import states
from viewer.model.listing import scoreboard
from viewer.model.listing.scoreboard import BETTER, HIGH_IS_GOOD, LABELS
from viewer.model.states import ORPHAN, Look, Part, Tone
from viewer.rows import Row

ORDERS: Final = (None, *(name for name in LABELS if name not in ("outcome", "finish_reason")))
"""What the lines may go by: None is the order in which the exchanges were marked."""

_FIRST: Final = (
    "id", "ttft_ms", "model", "max_stall_ms", "duration_ms", "tps_user", "outcome", "icl_p50_ms", "upstream",
    "tpot_ms", "icl_p99_ms", "completion_tokens", "finish_reason",
)  # fmt: skip
_ORDER: Final = tuple(dict.fromkeys(("id", "model", "upstream", "outcome", "finish_reason", *LABELS)))
"""Words before figures: the last cell of a figure is its sign."""

_WORD_HEADS: Final = {"id": "ID", "model": "MODEL", "upstream": "HOST"}
_WORDS: Final = {"id": 8, "model": 26, "upstream": 22, "outcome": 13, "finish_reason": 10}
_NARROW: Final = 100
_NARROW_MODEL: Final = 12
_SIGN: Final = 2
_LEAST_DRAWN: Final = 0.2


@dataclass(frozen=True, slots=True)
class Entry:
    """One exchange: its number and its row, of one that runs as far as it is, and the gaps between its output chunks.

    `run` is the one that records it.
    """

    no: int
    row: Row
    run: Run
    gaps: bytes = field(repr=False, default=b"")

    def by_now(self, clock: Clock) -> "Entry":
        """Give it as it stands now: while it runs with how long it has lasted; an orphan if nothing records it."""
        if self.row["outcome"] != "open" or self.row["ended_by"] is not None:
            return self
        lost = self.run.state(clock.wall_ns()) != "running"
        lasted = states.elapsed_ms(self.row, Look(wall_ns=clock.wall_ns(), recording=not lost))
        called = {"outcome": ORPHAN.word} if lost else {}
        return replace(self, row=self.row | {"duration_ms": lasted} | called)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns there are, how wide each is, how many cells are left for the gaps, and if titles have units."""

    widths: dict[str, int]
    drawn: int
    with_units: bool


def best(entries: Sequence[Entry]) -> dict[str, frozenset[int]]:
    """Give, by figure, the numbers of those that have the best; none where nothing is better than anything."""
    found = {}
    for name in LABELS:
        fair = [one for one in entries if scoreboard.is_fair(name, one.row)]
        values = [one.row[name] for one in fair]
        top = (max if name in HIGH_IS_GOOD else min)(values, default=None)
        if top is None:
            continue
        first = {one.no for one in fair if formatting.ms(one.row[name]) == formatting.ms(top)}
        if len(first) < len(fair):
            found[name] = frozenset(first)
    return found


def ordered(entries: Sequence[Entry], by: str | None, *, reverse: bool = False) -> list[Entry]:
    """Give the exchanges in the order of a figure, the best first, or the worst; unknown last."""
    if by is None:
        return list(reversed(entries)) if reverse else list(entries)
    known = [one for one in entries if one.row[by] is not None]
    falling = (by in HIGH_IS_GOOD) != reverse
    return sorted(known, key=lambda one: one.row[by], reverse=falling) + [one for one in entries if one.row[by] is None]


def layout(entries: Sequence[Entry], width: int) -> Layout:
    """Choose the columns for so many cells: by rank as many as fit beside the drawing, which has a fifth at least.

    What is unknown of all of them has none. Units stand behind the titles if that costs no column.
    """
    full, plain = (_layout(entries, width, with_units=units) for units in (True, False))
    return full if full.widths.keys() == plain.widths.keys() else plain


def _layout(entries: Sequence[Entry], width: int, *, with_units: bool) -> Layout:
    most = _WORDS | ({"model": _NARROW_MODEL} if width < _NARROW else {})
    room = width - _SIGN - round(width * _LEAST_DRAWN)
    widths: dict[str, int] = {}
    known = [name for name in _FIRST if any(one.row[name] is not None for one in entries)]
    for name in known:
        # A figure's column has a cell more than a word's, for its sign.
        texts = [_text(name, one.row) for one in entries]
        size = min(max(map(cell_len, (_head(name, with_units), *texts))), most.get(name, width))
        needed = size + 1 + (name not in _WORDS)
        if needed <= room:
            widths[name] = needed
            room -= needed
    shown = {name: widths[name] for name in _ORDER if name in widths}
    return Layout(shown, max(width - _SIGN - sum(shown.values()) - 1, 0), with_units)


def axis_ns(entries: Sequence[Entry]) -> int:
    """Give how long the axis of all drawings is: as the longest of the exchanges."""
    return max((_ns(one.row["duration_ms"]) or 0 for one in entries), default=0)


def head(laid: Layout, by: str | None, axis: int, *, reverse: bool = False) -> Iterator[Part]:
    """Give the parts of the first line: what the columns are called, `▲` or `▼` on the one gone by, and the axis."""
    yield " " * _SIGN, "muted"
    for name, width in laid.widths.items():
        falls = (name in HIGH_IS_GOOD) != reverse
        title = f"{_head(name, laid.with_units)}{('▼' if falls else '▲') if name == by else ''}"
        tone: Tone = "accent" if name == by else "muted"
        room = width - 1
        yield from states.laid_out([(title[-room:], tone)], room, right=name not in _WORDS)
        yield " ", "plain"
    yield f" {sparkline.axis(axis, laid.drawn)}", "muted"


def line(entry: Entry, laid: Layout, winners: dict[str, frozenset[int]], axis: int) -> Iterator[Part]:
    """Give the parts of an exchange's line."""
    row, found = entry.row, states.state(entry.row)
    yield f"{found.sign} ", found.tone
    for name, width in laid.widths.items():
        if name in _WORDS:
            tone: Tone = found.tone if name == "outcome" else "strong" if name == "id" else "plain"
            yield from states.laid_out([(_text(name, row), tone)], width - 1, right=False)
            yield " ", "plain"
        else:
            wins = entry.no in winners.get(name, ())
            text = scoreboard.shown(name, row, is_better=wins)
            tone = "success" if text.endswith(BETTER) else "muted" if row[name] is None else "plain"
            yield from states.laid_out([(text, tone)], width, right=True)
    yield " ", "plain"
    yield from _drawing(entry, axis, laid.drawn)


def _head(name: str, with_unit: bool) -> str:
    return _WORD_HEADS.get(name) or scoreboard.label(name, with_unit=with_unit)


def _drawing(entry: Entry, axis: int, width: int) -> Iterator[Part]:
    row = entry.row
    ended = None if row["outcome"] in ("open", ORPHAN.word) else _ns(row["duration_ms"])
    drawn = sparkline.line(_ns(row["ttft_ms"]), entry.gaps, ended, axis, max(width, 1))
    for tone, signs in groupby(drawn, _tone):
        yield "".join(signs), tone


def _tone(sign: str) -> Tone:
    return "error" if sign in sparkline.STALLED else "warning" if sign == sparkline.SLOW else "accent"


def _text(name: str, row: Row) -> str:
    if name == "id":
        return formatting.line(row["id"])[: _WORDS["id"]]
    if name == "upstream":
        return formatting.line(formatting.host(row["upstream"]))
    return formatting.line(row[name]) if name in _WORDS else scoreboard.shown(name, row)[:-1]


def _ns(ms: float | None) -> int | None:
    return None if ms is None else round(ms * 1e6)

"""Pure: the figures of exchanges that are compared: of two side by side, and of several in a table.

Only durations and speeds are judged, and only where that is fair: the wait for the first output wherever there was one,
as nothing that comes later changes it; all else where the answer is complete. A longer answer is not a better one, and
short gaps are not better where output came many chunks at once.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import Final

from rich.cells import cell_len

from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.exchange import Standing
from wiretape.recorder.process import RecorderRun
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.exchange import states
from wiretape.viewer.exchange.states import Look
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.record.units import ns
from wiretape.viewer.text import cells, formatting, sparkline
from wiretape.viewer.text.cells import Part, Tone

LABELS: Final = {
    "ttft_ms": "TTFT ms", "icl_p50_ms": "ICL p50", "icl_p99_ms": "ICL p99", "max_gap_ms": "MAX GAP",
    "tps_user": "TPS", "tpot_ms": "TPOT", "duration_ms": "DUR ms", "output_tokens": "TOKENS",
    "outcome": "OUTCOME", "finish_reason": "FINISH",
}  # fmt: skip
"""The figures, with their names: a gap is between reads with output, ICL the time between output chunks."""

ORDERS: Final = (None, *(name for name in LABELS if name not in ("outcome", "finish_reason")))
"""The figures by which a table can be sorted: None is the order in which the exchanges were marked."""

HIGH_IS_GOOD: Final = frozenset({"tps_user"})
BETTER: Final = "<"
"""Stands behind the better figure, where others have a space, so that numbers stand below each other."""
_SETTLED: Final = frozenset({"ttft_ms"})
_SAME: Final = "same"

_WORDS: Final = {"id": 8, "model": 26, "upstream": 22, "outcome": 13, "finish_reason": 10}
_SIGN: Final = 2
_UNITS: Final = dict.fromkeys(("icl_p50_ms", "icl_p99_ms", "max_gap_ms", "tpot_ms"), " ms")
"""The units that stand behind the names of figures where there is room."""


def label(name: str, *, with_unit: bool) -> str:
    return LABELS[name] + (_UNITS.get(name, "") if with_unit else "")


_OF_GAPS: Final = frozenset({"icl_p50_ms", "icl_p99_ms", "max_gap_ms", "tpot_ms", "tps_user"})
_UNPACED: Final = frozenset({"burst", "coalesced", "single_chunk"})
_JUDGED: Final = frozenset(name for name in LABELS if name.endswith("_ms")) | HIGH_IS_GOOD


def is_fair(name: str, row: ListRow) -> bool:
    """Return True if a figure of an exchange may be judged beside others."""
    if name not in _JUDGED or getattr(row, name) is None:
        return False
    flags = set(row.flags)
    is_whole = row.outcome == "complete" and "empty" not in flags
    return name in _SETTLED or (is_whole and not (name in _OF_GAPS and flags & _UNPACED))


def figure_text(name: str, row: ListRow, *, is_better: bool = False) -> str:
    """Return a figure as a text that ends in `<` if it is better, in `+` if it may still change, else in a space."""
    value = getattr(row, name)
    is_growing = row.outcome == "open" and isinstance(value, int | float) and name not in _SETTLED
    return f"{_text(value)}{'+' if is_growing else BETTER if is_better else ' '}"


def _text(value: object) -> str:
    if isinstance(value, float):
        return formatting.ms(value)
    return formatting.count(value) if isinstance(value, int) else clipped(formatting.cell(value), 14)


@dataclass(frozen=True, slots=True)
class Score:
    """A figure of A and of B and their difference, B − A, as texts; `better` is 0 for A, 1 for B, None for neither.

    `full_label` is its name with its unit.
    """

    label: str
    a: str
    b: str
    difference: str
    better: int | None
    full_label: str = field(default="", compare=False)

    @property
    def width(self) -> int:
        return max(map(len, (self.label, self.a, self.b, self.difference)))


def scores(a: ListRow, b: ListRow) -> list[Score]:
    """Return the figures of two exchanges side by side, the most telling first."""
    return [_score(name, (a, b)) for name in LABELS]


def _score(name: str, sides: tuple[ListRow, ListRow]) -> Score:
    a, b = (getattr(side, name) for side in sides)
    difference = b - a if all(isinstance(value, int | float) for value in (a, b)) else None
    is_visible = difference is not None and formatting.ms(abs(difference)) != formatting.ms(0.0)
    better = None
    if difference is not None and is_visible and all(is_fair(name, side) for side in sides):
        better = int((difference < 0) != (name in HIGH_IS_GOOD))
    if difference is None:
        change = formatting.UNKNOWN if a is None or b is None else _SAME if a == b else "differs"
    elif not difference:
        change = _SAME
    elif not is_visible:
        change = formatting.ms(0.0)
    else:
        change = f"{formatting.MINUS if difference < 0 else '+'}{_text(abs(difference))}"
    texts = [figure_text(name, side, is_better=better == at) for at, side in enumerate(sides)]
    plain, full = (f"{label(name, with_unit=unit)} " for unit in (False, True))
    return Score(plain, texts[0], texts[1], f"{change} ", better, full)


def text_score(lengths: tuple[int, int], divergence: int | None, *, growing: bool = False) -> Score:
    """Return the lengths of both texts, and the first character that differs, if any: `divergence` are the same.

    An exchange without text is not compared.
    """
    a, b = (f"{length:,} ch" if length else "none" for length in lengths)
    if not all(lengths):
        difference = (
            f"only {'A' if lengths[0] else 'B'}" if any(lengths) and divergence is not None else formatting.UNKNOWN
        )
    elif divergence is None:
        difference = f"{_SAME} so far" if growing else _SAME
    else:
        difference = f"differ at {divergence + 1:,}"
    return Score("TEXT", a, b, difference, None)


def fitting_scores(scores: Sequence[Score], width: int, between: int = 1) -> list[Score]:
    """Return as many of the scores as fit beside each other; the last, which is the text's, always does.

    Their labels have units if that costs none of the scores.
    """
    full = _scores_that_fit([replace(score, label=score.full_label or score.label) for score in scores], width, between)
    plain = _scores_that_fit(scores, width, between)
    return full if len(full) == len(plain) else plain


def _scores_that_fit(scores: Sequence[Score], width: int, between: int) -> list[Score]:
    *figure_scores, text_figure = scores
    ends = list(accumulate(score.width + between for score in figure_scores))
    return [*figure_scores[: bisect_right(ends, width - text_figure.width - between)], text_figure]


@dataclass(frozen=True, slots=True)
class RankedExchange:
    """One exchange of a table: its number and its row, and the packed gaps between its output chunks.

    `run` is the one that records it.
    """

    no: int
    row: ListRow
    run: RecorderRun
    gaps: bytes = field(repr=False, default=b"")

    def by_now(self, clock: Clock) -> "RankedExchange":
        """Return the exchange as of now: with its duration until now, or as an orphan if nothing records it."""
        if self.row.outcome != "open" or self.row.ended_by is not None:
            return self
        is_lost = self.run.state(clock.wall_ns()) != "running"
        lasted_ms = states.elapsed_ms(self.row, Look(wall_ns=clock.wall_ns(), recording=not is_lost))
        outcome: Standing = "orphan" if is_lost else self.row.outcome
        return replace(self, row=replace(self.row, duration_ms=lasted_ms, outcome=outcome))


@dataclass(frozen=True, slots=True)
class Layout:
    """The widths of a table's columns, the number of cells left for the gaps, and whether titles have units."""

    widths: dict[str, int]
    gap_cells: int
    with_units: bool


def best(entries: Sequence[RankedExchange]) -> dict[str, frozenset[int]]:
    """Return, by figure, the numbers of those that have the best; none where nothing is better than anything."""
    winners = {}
    for name in LABELS:
        fair = [entry for entry in entries if is_fair(name, entry.row)]
        top = (max if name in HIGH_IS_GOOD else min)((getattr(entry.row, name) for entry in fair), default=None)
        # Compare the displayed values: nobody sees the reason of a smaller difference.
        best_numbers = {entry.no for entry in fair if formatting.ms(getattr(entry.row, name)) == formatting.ms(top)}
        if 0 < len(best_numbers) < len(fair):
            winners[name] = frozenset(best_numbers)
    return winners


def ordered(entries: Sequence[RankedExchange], by: str | None, *, reverse: bool = False) -> list[RankedExchange]:
    if by is None:
        return list(reversed(entries)) if reverse else list(entries)
    measured = [entry for entry in entries if getattr(entry.row, by) is not None]
    measured.sort(key=lambda entry: getattr(entry.row, by), reverse=(by in HIGH_IS_GOOD) != reverse)
    return measured + [entry for entry in entries if getattr(entry.row, by) is None]


def layout(entries: Sequence[RankedExchange], width: int) -> Layout:
    """Choose the columns for a width in cells: by rank as many as fit beside the drawing, which has a fifth at least.

    A figure that all lack has no column. Units stand behind the titles if that costs no column.
    """
    full, plain = (_layout(entries, width, with_units=units) for units in (True, False))
    return full if full.widths.keys() == plain.widths.keys() else plain


_BY_RANK: Final = (
    "id", "ttft_ms", "model", "max_gap_ms", "duration_ms", "tps_user", "outcome", "icl_p50_ms", "upstream",
    "tpot_ms", "icl_p99_ms", "output_tokens", "finish_reason",
)  # fmt: skip
_IN_PLACE: Final = tuple(dict.fromkeys(("id", "model", "upstream", "outcome", "finish_reason", *LABELS)))
"""Words before figures: the last cell of a figure is its sign."""


def _layout(entries: Sequence[RankedExchange], width: int, *, with_units: bool) -> Layout:
    most = _WORDS | ({"model": 12} if width < 100 else {})
    least_drawn_share = 0.2
    room = width - _SIGN - 1 - round(width * least_drawn_share)
    widths: dict[str, int] = {}
    for name in _BY_RANK:
        if all(getattr(entry.row, name) is None for entry in entries):
            continue
        texts = [_title(name, with_units), *(_cell(name, entry.row) for entry in entries)]
        # A figure's column has a cell more than a word's, for its sign.
        needed = min(max(map(cell_len, texts)), most.get(name, width)) + 1 + (name not in _WORDS)
        if needed <= room:
            widths[name] = needed
            room -= needed
    in_place = {name: widths[name] for name in _IN_PLACE if name in widths}
    return Layout(in_place, max(width - _SIGN - sum(in_place.values()) - 1, 0), with_units)


def axis_ns(entries: Sequence[RankedExchange]) -> int:
    """Return the length of the axis of all drawings: the longest duration of the exchanges."""
    return max((ns(entry.row.duration_ms) or 0 for entry in entries), default=0)


def head(layout: Layout, by: str | None, axis: int, *, reverse: bool = False) -> Iterator[Part]:
    """Yield the parts of the first line: the titles of the columns, `▲` or `▼` on the one sorted by, and the axis."""
    yield " " * _SIGN, "muted"
    for name, width in layout.widths.items():
        falls = (name in HIGH_IS_GOOD) != reverse
        title = f"{_title(name, layout.with_units)}{('▼' if falls else '▲') if name == by else ''}"
        tone: Tone = "accent" if name == by else "muted"
        # Cut at the beginning: the sign of the order stands at the end.
        yield from cells.laid_out([(title[1 - width :], tone)], width - 1, right=name not in _WORDS)
        yield " ", "plain"
    yield f" {sparkline.axis(axis, layout.gap_cells)}", "muted"


def line(entry: RankedExchange, layout: Layout, winners: dict[str, frozenset[int]], axis: int) -> Iterator[Part]:
    """Yield the parts of an exchange's line."""
    row, state = entry.row, states.state(entry.row)
    yield f"{state.sign} ", state.tone
    for name, width in layout.widths.items():
        if name in _WORDS:
            tone: Tone = state.tone if name == "outcome" else "strong" if name == "id" else "plain"
            yield from cells.laid_out([(_cell(name, row), tone)], width - 1, right=False)
            yield " ", "plain"
        else:
            text = figure_text(name, row, is_better=entry.no in winners.get(name, ()))
            tone = "success" if text.endswith(BETTER) else "muted" if getattr(row, name) is None else "plain"
            yield from cells.laid_out([(text, tone)], width, right=True)
    yield " ", "plain"
    ended_ns = None if row.outcome in ("open", "orphan") else ns(row.duration_ms)
    at = sparkline.timestamps(ns(row.ttft_ms), entry.gaps)
    for tone, signs in groupby(sparkline.line(at, ended_ns, axis, max(layout.gap_cells, 1)), _gap_tone):
        yield "".join(signs), tone


def _title(name: str, with_unit: bool) -> str:
    word_titles = {"id": "ID", "model": "MODEL", "upstream": "UPSTREAM"}
    return word_titles.get(name) or label(name, with_unit=with_unit)


def _gap_tone(sign: str) -> Tone:
    return "error" if sign in sparkline.LONG else "warning" if sign == sparkline.SLOW else "accent"


def _cell(name: str, row: ListRow) -> str:
    if name == "id":
        return formatting.line(row.id)[: _WORDS["id"]]
    if name == "upstream":
        return formatting.line(formatting.server(row.upstream, row.upstream_name))
    return formatting.line(getattr(row, name)) if name in _WORDS else figure_text(name, row)[:-1]

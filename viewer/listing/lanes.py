"""Pure: exchanges in lanes on the wall clock: in a lane, one follows the other, and each is a bar of its phases.

Exchanges with one name stand one below the other, in as many lanes as ran at once. The axis is that of
`wiretape.viewer.text.clock_axis`, with idle times cut; the signs are those of the list's timelines.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

from wiretape.recorder.clock import wall_ns
from wiretape.recorder.decode.turns import union
from wiretape.recorder.plurals import counted
from wiretape.viewer.exchange.states import Look, state
from wiretape.viewer.listing.layout import bar as row_bar
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.text import clock_axis, formatting, sparkline, waterfall
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.text.clock_axis import ClockAxis, ClockLine, ClockView
from wiretape.viewer.text.waterfall import SIGNS, TONES, Phase, PhaseBar

_SELECTED: Final[Mapping[Phase, Tone]] = TONES | {"content": "strong", "wait": "plain"}

_DATED_NS: Final = range(250_000_000_000 * 10**9)
"""Timestamps that have a date in every time zone, in ns since the epoch."""

LEGEND: Final[Sequence[Part]] = [
    part for phase, sign in SIGNS.items() for part in ((f" {sign}", TONES[phase]), (f" {phase}", "muted"))
]
"""The signs of the phases."""


@dataclass(frozen=True, slots=True)
class ClockBar:
    """An exchange on the wall clock: its row, its begin in ns since the epoch, its phases, and how it ended."""

    row: ListRow
    start_ns: int
    phases: PhaseBar
    ending: Part

    @property
    def end_ns(self) -> int:
        """The end, or the present of a running exchange."""
        # An exchange of unknown length takes a millisecond: without any, all of them would share one lane.
        return self.start_ns + max(self.phases.end_ns, 1_000_000)

    @property
    def busy(self) -> list[tuple[int, int]]:
        """The times of its turns since its begin, or the whole of it without turns."""
        turns = [(start_ns, end_ns) for start_ns, _, _, end_ns in self.phases.turns]
        return union(turns) if turns else [(0, self.end_ns - self.start_ns)]


@dataclass(frozen=True, slots=True)
class ClockLane:
    """Exchanges that follow each other; the first lane of a name is `leading`."""

    name: str
    leading: bool
    bars: list[ClockBar] = field(default_factory=list)

    def seen(self, start_ns: int, end_ns: int) -> Sequence[ClockBar]:
        first_index = bisect_left(self.bars, start_ns, key=attrgetter("end_ns"))
        return self.bars[first_index : bisect_right(self.bars, end_ns, key=attrgetter("start_ns"))]


@dataclass(frozen=True, eq=False)
class ClockLanes:
    """The lanes of some exchanges, and their axis."""

    lanes: Sequence[ClockLane] = ()
    axis: ClockAxis = clock_axis.EMPTY
    is_growing: bool = False

    @cached_property
    def bars(self) -> list[ClockBar]:
        return sorted((bar for lane in self.lanes for bar in lane.bars), key=lambda bar: (bar.start_ns, bar.row.no))

    @cached_property
    def places(self) -> dict[int, int]:
        return {bar.row.no: place for place, lane in enumerate(self.lanes) for bar in lane.bars}

    @property
    def length_ns(self) -> int:
        """The length of the axis; while an exchange runs, it is rounded up, so that bars grow and the axis stays."""
        return waterfall.rounded(self.axis.length_ns) if self.is_growing else self.axis.length_ns

    def beside(self, bar: ClockBar, lanes: int) -> ClockBar:
        """Return the exchange that is nearest in time to another one, some lanes below it, or above."""
        place = self.places[bar.row.no]
        neighbour = max(0, min(place + lanes, len(self.lanes) - 1))
        candidates = self.lanes[neighbour].bars if neighbour != place else [bar]
        return min(
            candidates, key=lambda candidate: (_time_between(candidate, bar), abs(candidate.start_ns - bar.start_ns))
        )

    def following(self, bar: ClockBar, by: int) -> ClockBar:
        """Return the exchange that follows another one in its lane, some places later, or earlier."""
        bars = self.lanes[self.places[bar.row.no]].bars
        return bars[max(0, min(bars.index(bar) + by, len(bars) - 1))]

    def span(self, bar: ClockBar, view: ClockView) -> tuple[int, int]:
        """Return the first cell of an exchange, and the one after its last; they may be outside of the view."""
        start = self.axis.at(bar.start_ns)
        first_cell = view.cell(start)
        return first_cell, max(view.cell(start + bar.phases.end_ns), first_cell + 1)

    def line(self, place: int, ground: ClockLine, selected: int | None = None) -> list[Part]:
        """Return the cells of a lane; where several exchanges share a cell, it has the one selected, or that failed."""
        view = ground.view
        cells: list[Part] = [(sign, "muted") for sign in ground.ground]

        def rank(bar: ClockBar) -> tuple[bool, bool]:  # the highest is drawn last, over the others
            return bar.row.no == selected, bar.ending[1] == "error"

        for bar in sorted(self.lanes[place].seen(*self._visible_ns(view)), key=rank):
            bar_cells, parts = self._bar_cells(bar, view, selected)
            cells[bar_cells] = parts
        return cells

    def _bar_cells(self, bar: ClockBar, view: ClockView, selected: int | None) -> tuple[slice, list[Part]]:
        """Return the cells of an exchange in the view, and their parts: the last is the sign of how it ended."""
        start_ns, (first_cell, end_cell) = self.axis.at(bar.start_ns), self.span(bar, view)
        visible = range(max(first_cell, 0), max(min(end_cell, view.cells), 0))
        signs = waterfall.signs(bar.phases, lambda at_ns: view.cell(start_ns + at_ns), visible)
        tones = TONES if bar.row.no != selected else _SELECTED
        parts: list[Part] = [(sign, tones[phase]) for sign, phase in signs]
        return slice(visible.start, visible.stop), [
            *parts[:-1],
            bar.ending,
        ] if parts and end_cell <= view.cells else parts

    def above(self, place: int, ground: ClockLine) -> str:
        """Return the line above a lane: the time to first token of each exchange where there is room for it."""
        line, free, view = list(ground.ground), 0, ground.view
        bars = [(self.span(bar, view)[0], bar) for bar in self.lanes[place].seen(*self._visible_ns(view))]
        for at, (first_cell, bar) in enumerate(bars):
            next_cell = bars[at + 1][0] if at + 1 < len(bars) else view.cells
            room = next_cell - max(first_cell, 0) - (at + 1 < len(bars))
            if bar.phases.first_ns is None or first_cell < free:
                continue
            figure = formatting.duration(bar.phases.first_ns)
            text = next((text for text in (f"TTFT {figure}", figure) if len(text) <= room), "")
            line[first_cell : first_cell + len(text)] = text
            free = first_cell + len(text) + 1
        return "".join(line)

    def at_once(self, view: ClockView) -> list[int]:
        """Return the most exchanges that ran at the same time in each cell."""
        most = [0] * view.cells
        for (start, count), (end, _) in zip(self._counts, self._counts[1:], strict=False):
            first_cell, end_cell = view.cell(start), view.cell(end - 1) + 1
            for cell in range(max(first_cell, 0), min(end_cell, view.cells)):
                most[cell] = max(most[cell], count)
        return most

    @cached_property
    def _counts(self) -> list[tuple[int, int]]:
        """The positions at which the number of running exchanges changes, and that number from each on."""
        busy = [(bar.start_ns + from_ns, bar.start_ns + to_ns) for bar in self.bars for from_ns, to_ns in bar.busy]
        ends = [(self.axis.at(start_ns), 1) for start_ns, _ in busy]
        ends += [(self.axis.at(end_ns), -1) for _, end_ns in busy]
        counts, running_count = list[tuple[int, int]](), 0
        for at, by in sorted(ends):
            running_count += by
            counts.append((at, running_count))
        return counts

    def _visible_ns(self, view: ClockView) -> tuple[int, int]:
        """Return the timestamps between which a view is."""
        return self.axis.wall_ns(view.start), self.axis.wall_ns(view.start + view.length)


def lanes(rows: Iterable[ListRow], look: Look, name: Callable[[ListRow], str | None]) -> ClockLanes:
    """Return exchanges in lanes, by their names; those whose start cannot be read are left out."""
    bars = [bar for row in rows if (bar := _clock_bar(row, look)) is not None]
    groups: dict[str, list[ClockLane]] = {}
    for bar in sorted(bars, key=lambda bar: (bar.start_ns, bar.row.no)):
        lane_name = formatting.line(name(bar.row))
        group = groups.setdefault(lane_name, [])
        lane = next((lane for lane in group if lane.bars[-1].end_ns <= bar.start_ns), None)
        if lane is None:
            lane = ClockLane(lane_name, not group)
            group.append(lane)
        lane.bars.append(bar)
    runs = look.recording and any(bar.row.outcome == "open" for bar in bars)
    axis = clock_axis.clock_axis(((bar.start_ns, bar.end_ns) for bar in bars), grows=runs)
    return ClockLanes([lane for _, group in sorted(groups.items()) for lane in group], axis, runs)


def heading(clock_lanes: ClockLanes, label: str | None, match_count: int, filter_text: str) -> list[Part]:
    """Return the title of lanes: how many of the `match_count` exchanges they show, the label, the filter."""
    count, running_count = (
        len(clock_lanes.bars),
        sum(bar.row.outcome == "open" for bar in clock_lanes.bars) if clock_lanes.is_growing else 0,
    )
    size = counted(count, "exchange") + (f" of {match_count:,}" if count < match_count else "")
    parts: list[Part] = [("lanes", "strong"), (f" · {size}", "plain")]
    parts += [(f", {running_count:,} open", "accent")] if running_count else []
    parts += [(f" · by {formatting.line(label)}", "accent")] if label is not None else []
    parts += [(f" · {formatting.line(filter_text)}", "accent")] if filter_text else []
    return parts


def heights(counts: Sequence[int], rows: int) -> list[str]:
    most = max(counts, default=0)
    return sparkline.bars([-(-8 * rows * count // most) if count else 0 for count in counts], rows)


def _clock_bar(row: ListRow, look: Look) -> ClockBar | None:
    start_ns, stands = wall_ns(row.started_at), state(row, recording=look.recording)
    if start_ns is None or start_ns not in _DATED_NS:
        return None
    phases = row_bar(row, look)
    if turns := _turns(row.turn_spans or (), phases.end_ns):
        phases = replace(phases, end_ns=max(end_ns for *_, end_ns in turns), turns=turns)
    return ClockBar(row, start_ns, phases, (stands.sign, stands.tone))


def _turns(spans: Sequence[Sequence[Any]], sum_ns: int) -> list[tuple[int, int | None, int | None, int]]:
    """Return the turns of an exchange; of the sum of their durations, `sum_ns`, one without an end has the rest."""
    left_ns = max(sum_ns - sum(end_ns - start_ns for start_ns, _, _, end_ns, *_ in spans if end_ns is not None), 0)
    return [
        (start_ns, first_ns, last_ns, max(start_ns + left_ns, last_ns or 0) if end_ns is None else end_ns)
        for start_ns, first_ns, last_ns, end_ns, *_ in spans
    ]


def _time_between(bar: ClockBar, neighbour: ClockBar) -> int:
    """Return the time between two exchanges; 0 where they overlap."""
    return max(bar.start_ns - neighbour.end_ns, neighbour.start_ns - bar.end_ns, 0)

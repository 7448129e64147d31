"""Pure: an axis of the wall clock from which idle times are cut, each with a sign and its length.

Positions are in ns from the beginning of the axis; timestamps are in ns since the epoch. Within a busy time the axis is
linear; every idle time that is cut has the same short length on it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from wiretape.viewer.text import formatting, sparkline

CUT: Final = "┆"
"""The sign of an idle time that is cut."""

POINTER: Final = "▼"
"""The sign of a place on an axis."""


_SECOND_NS: Final = 10**9


class Period(NamedTuple):
    """A time in which something ran, from `start_ns` to `end_ns`, and the position of its beginning."""

    start_ns: int
    end_ns: int
    at: int


class IdleCut(NamedTuple):
    """An idle time that is cut: its positions, and its length in ns."""

    start: int
    end: int
    idle_ns: int


@dataclass(frozen=True, slots=True)
class ClockAxis:
    """The busy periods of an axis, in order, without the idle times between them."""

    periods: Sequence[Period] = ()

    @property
    def length_ns(self) -> int:
        return self.periods[-1].at + self.periods[-1].end_ns - self.periods[-1].start_ns if self.periods else 0

    @property
    def cuts(self) -> Iterator[IdleCut]:
        for period, following in pairwise(self.periods):
            start = period.at + period.end_ns - period.start_ns
            yield IdleCut(start, following.at, following.start_ns - period.end_ns)

    def at(self, wall_ns: int) -> int:
        """Return the position of a timestamp; one in an idle time has that of the period's end before it."""
        place = bisect_right(self.periods, wall_ns, key=itemgetter(0)) - 1
        if place < 0:
            return 0
        start_ns, end_ns, at = self.periods[place]
        return at + min(wall_ns, end_ns) - start_ns

    def wall_ns(self, at: int) -> int:
        """Return the timestamp at a position; in a cut, that of the end of the period before it."""
        if not self.periods:
            return 0
        place = max(bisect_right(self.periods, at, key=itemgetter(2)) - 1, 0)
        start_ns, end_ns, begin = self.periods[place]
        return start_ns + at - begin if place == len(self.periods) - 1 else min(start_ns + at - begin, end_ns)


EMPTY: Final = ClockAxis()
"""The axis of nothing."""


def clock_axis(spans: Iterable[tuple[int, int]], *, grows: bool = False) -> ClockAxis:
    """Return the axis of some times, each from a timestamp to another; one that `grows` has a cut of a steady length.

    Idle times are cut, the longest first, until the others are half of the busy time; all cuts take a quarter of it.
    """
    merged = list(_merged(sorted(spans), 0))
    busy_ns = max(sum(end - start for start, end in merged), 1)
    busy_ns = sparkline.scale_ns(busy_ns) if grows else busy_ns
    room_ns = busy_ns // 2  # for the idle times that are not cut
    longest_ns = 0
    for idle_ns, equal in groupby(sorted(next_span[0] - span[1] for span, next_span in pairwise(merged))):
        room_ns -= sum(equal)
        if room_ns < 0:
            break
        longest_ns = idle_ns
    periods = list(_merged(merged, longest_ns))
    # All cuts together are as long as a quarter of the busy time, a few of them less: a cut is a sign and no time.
    cut_ns = busy_ns // (4 * max(len(periods) - 1, 6))
    ends = accumulate((end - start + cut_ns for start, end in periods), initial=0)
    return ClockAxis([Period(*period, at) for period, at in zip(periods, ends, strict=False)])


def _merged(ordered: Iterable[tuple[int, int]], idle_ns: int) -> Iterator[tuple[int, int]]:
    """Yield times with those joined whose distance is not longer than an idle time."""
    current: tuple[int, int] | None = None
    for start, end in ordered:
        if current is not None and start - current[1] <= idle_ns:
            current = current[0], max(current[1], end)
            continue
        if current is not None:
            yield current
        current = start, end
    if current is not None:
        yield current


@dataclass(frozen=True, slots=True)
class ClockView:
    """A part of an axis, from a position on, in cells."""

    start: int
    length: int
    cells: int

    def cell(self, at: int) -> int:
        """Return the cell of a position; outside of the view it is negative, or not less than `cells`."""
        return (at - self.start) * self.cells // max(self.length, 1)


@dataclass(frozen=True, slots=True)
class ClockZoom:
    """The length of a view, and the timestamp in its middle; None is all of an axis, and its end."""

    length_ns: int | None = None
    middle_ns: int | None = None

    def view(self, axis: ClockAxis, whole_ns: int, cells: int) -> ClockView:
        """Return the view of an axis that takes `whole_ns` with the room at its end."""
        if self.length_ns is None or self.length_ns >= axis.length_ns:
            return ClockView(0, whole_ns, cells)
        latest = axis.length_ns - self.length_ns
        start = latest if self.middle_ns is None else axis.at(self.middle_ns) - self.length_ns // 2
        return ClockView(max(0, min(start, latest)), self.length_ns, cells)

    def zoomed(self, axis: ClockAxis, wall_ns: int, *, closer: bool) -> "ClockZoom":
        length_ns = self.length_ns or axis.length_ns
        length_ns = max(length_ns // 2, 1_000_000) if closer else length_ns * 2
        # A view of nearly all of an axis is one of all of it.
        is_part = length_ns < axis.length_ns * 0.95
        return ClockZoom(length_ns if is_part else None).centred(axis, wall_ns)

    def panned(self, axis: ClockAxis, by: int) -> "ClockZoom":
        view = self.view(axis, axis.length_ns, 1)
        return self.centred(axis, axis.wall_ns(view.start + (1 + by) * view.length // 2))

    def centred(self, axis: ClockAxis, wall_ns: int) -> "ClockZoom":
        reaches_end = self.length_ns is None or axis.at(wall_ns) + self.length_ns // 2 >= axis.length_ns
        return ClockZoom(self.length_ns, None if reaches_end else wall_ns)


@dataclass(frozen=True)
class ClockLine:
    """The signs of an axis in a view: its cuts with their lengths, and times of day."""

    axis: ClockAxis
    view: ClockView

    @cached_property
    def cuts(self) -> Mapping[int, str]:
        """The cuts in sight by their cells, the longest of those for which there is room, with their lengths."""
        view, line = self.view, [" "] * self.view.cells
        in_sight = [cut for cut in self.axis.cuts if cut.end > view.start and cut.start < view.start + view.length]
        labels: dict[int, str] = {}
        for cut in sorted(in_sight, key=lambda cut: -cut.idle_ns):
            cell, text = view.cell((cut.start + cut.end) // 2), f"{CUT}{_length(cut.idle_ns)}"
            label = next((label for label in (text, CUT) if _put(line, cell, label)), "")
            labels |= {cell: label} if label else {}
            # More signs of cuts would leave no room for times.
            if len(labels) > view.cells // 16:
                break
        return labels

    @cached_property
    def ground(self) -> str:
        """An empty line: blank, with the sign of each cut."""
        return "".join(CUT if cell in self.cuts else " " for cell in range(self.view.cells))

    def text(self, pointer: int | None = None) -> str:
        """Return the cuts with their lengths, round times of day, and the begins of periods where there is room.

        A `pointer` is the cell that a sign points at: no other time stands there.
        """
        line = [" "] * self.view.cells
        if pointer is not None and 0 <= pointer < self.view.cells:
            line[pointer] = POINTER
        for place, text in (*self.cuts.items(), *self._ticks(), *self._begins()):
            _put(line, place, text)
        return "".join(line)

    def _ticks(self) -> Iterator[tuple[int, str]]:
        view = self.view
        for start_ns, end_ns, at in self.axis.periods:
            first_cell, end_cell = (view.cell(place) for place in (at, at + end_ns - start_ns))
            if end_cell <= 0 or first_cell >= view.cells or end_cell <= first_cell:
                continue
            skipped = max(view.start - at, 0)
            shown_ns = min(end_ns - start_ns, view.start + view.length - at) - skipped
            first_cell = max(first_cell, 0)
            ticks = sparkline.day_axis(shown_ns, min(end_cell, view.cells) - first_cell, _of_day(start_ns + skipped))
            for label in ticks.split(sparkline.TICK)[1:]:
                text = f"{sparkline.TICK}{label.strip()}"
                yield first_cell + ticks.index(text), text

    def _begins(self) -> Iterator[tuple[int, str]]:
        for start_ns, _, at in self.axis.periods:
            if 0 <= (cell := self.view.cell(at)) < self.view.cells:
                yield cell, f"{sparkline.TICK}{datetime.fromtimestamp(start_ns // _SECOND_NS).astimezone():%H:%M:%S}"


def idle(axis: ClockAxis) -> str:
    """Return the sign of cuts, with the length of all; nothing if there is none."""
    total_ns = sum(cut.idle_ns for cut in axis.cuts)
    return f"{CUT} idle {_length(total_ns)}" if total_ns else ""


def _length(idle_ns: int) -> str:
    is_long = idle_ns >= formatting.LEAST_MINUTES * _SECOND_NS
    return formatting.span(idle_ns / 1e6) if is_long else formatting.duration(idle_ns)


def _put(line: list[str], place: int, text: str) -> bool:
    """Write a text where it has a blank on each side, and return True; its first sign gives way to a pointer."""
    if not 0 <= place <= len(line) - len(text):
        return False
    sign = line[place].strip() or text[0]
    neighbours = [*line[max(place - 1, 0) : place], *line[place + 1 : place + len(text) + 1]]
    fits = sign in (POINTER, text[0]) and not "".join(neighbours).strip()
    if fits:
        line[place : place + len(text)] = sign + text[1:]
    return fits


def _of_day(wall_ns: int) -> int:
    seconds, fraction_ns = divmod(wall_ns, _SECOND_NS)
    local = datetime.fromtimestamp(seconds).astimezone()
    return (local.hour * 3600 + local.minute * 60 + local.second) * _SECOND_NS + fraction_ns

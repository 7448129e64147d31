"""Pure: the lines of a picture of lanes: the axis, the lanes around the cursor, and the number at once below them.

The lowest two lines are those of the list for the exchange under the cursor.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import lanes, layout
from wiretape.viewer.listing.lanes import ClockBar, ClockLanes
from wiretape.viewer.text import cells, clock_axis
from wiretape.viewer.text.cells import Part
from wiretape.viewer.text.clock_axis import ClockLine, ClockView, ClockZoom

Ground = Literal["plain", "titles", "cursor"]
"""The background of a line."""

_NAMES: Final = 15, 24
"""Least and greatest width of the names of lanes, in cells."""

_CURSOR: Final = "▌"
_MARGIN: Final = 2
_TALL: Final = 30
_AT_ONCE: Final = 1, 3
"""The rows of the number at once, in a low and in a tall picture."""

_LISTED: Final = 2


@dataclass(frozen=True)
class LaneChart:
    """A picture of lanes in cells, with the exchange under the cursor, `here`, and the time in sight, `zoom`."""

    shown: ClockLanes
    look: Look
    width: int
    height: int
    here: ClockBar | None
    zoom: ClockZoom

    @cached_property
    def view(self) -> ClockView:
        """The part of the axis in sight."""
        room = max(self.width - _MARGIN - self._names - 1, 1)
        return self.zoom.view(self.shown.axis, self.shown.length_ns, room)

    @cached_property
    def _clock(self) -> ClockLine:
        return ClockLine(self.shown.axis, self.view)

    @property
    def room(self) -> int:
        return max(self._rows // self._rows_each, 1)

    @property
    def _top(self) -> int:
        return max(0, min(self._lane_here - self.room // 2, len(self.shown.lanes) - self.room))

    @cached_property
    def _lane_here(self) -> int:
        return 0 if self.here is None else self.shown.places[self.here.row.no]

    @cached_property
    def _names(self) -> int:
        longest = max((len(lane.name) for lane in self.shown.lanes), default=0)
        return max(_NAMES[0], min(longest, _NAMES[1], self.width // 5))

    @property
    def _rows_at_once(self) -> int:
        return _AT_ONCE[self.height >= _TALL]

    @property
    def _free(self) -> int:
        """The rows that lanes may take."""
        return self.height - 1 - self._rows_at_once - _LISTED

    @property
    def _rows_each(self) -> int:
        """The rows of a lane: the line above its bars is left out where there is no room for all."""
        return 2 if 2 * len(self.shown.lanes) <= self._free else 1

    @cached_property
    def _rows(self) -> int:
        return max(min(len(self.shown.lanes) * self._rows_each, self._free), 1)

    @cached_property
    def _counts(self) -> list[int]:
        return self.shown.at_once(self.view)

    @property
    def is_off(self) -> bool:
        first, last = (0, 1) if self.here is None else self.shown.span(self.here, self.view)
        return last <= 0 or first >= self.view.cells

    def bar_at(self, x: int, y: int) -> ClockBar | None:
        place, cell = self._top + (y - 1) // self._rows_each, x - _MARGIN - self._names - 1
        if not 1 <= y <= self._rows or place >= len(self.shown.lanes):
            return None
        spans = ((one, self.shown.span(one, self.view)) for one in self.shown.lanes[place].bars)
        return next((one for one, (first, last) in spans if first <= cell < last), None)

    def line(self, y: int) -> tuple[list[Part], Ground]:
        """Return the parts of a line, and its background."""
        below = y - 1 - self._rows
        if y == 0:
            return [*self._named(clock_axis.idle(self.shown.axis)), *self._axis()], "titles"
        if y >= self.height - _LISTED:
            slots = layout.fitted(self.width, {layout.TIMELINE}, start_cells=self.look.start_cells)
            between = layout.gap_between(self.width)
            margin: Part = (" " * _MARGIN, "plain")
            if y == self.height - _LISTED or self.here is None:
                return [margin, *layout.titles(slots, self.look, between, None)], "titles"
            return [margin, *layout.line(self.here.row, slots, self.look, between)], "plain"
        if below < 0:
            lane, row = divmod(y - 1, self._rows_each)
            return self._lane(self._top + lane, is_above=row < self._rows_each - 1)
        return (self._at_once(below), "titles") if below < self._rows_at_once else ([], "plain")

    def _named(self, name: str, *, is_here: bool = False) -> Iterator[Part]:
        yield (_CURSOR if is_here else " ").ljust(_MARGIN), "accent"
        yield from cells.laid_out([(name, "muted")], self._names, right=False)
        yield " ", "plain"

    def _axis(self) -> list[Part]:
        if self.here is None:
            return [(self._clock.drawn(), "muted")]
        at = max(0, min(self.shown.span(self.here, self.view)[0], self.view.cells - 1))
        line = self._clock.drawn(at)
        return [(line[:at], "muted"), (line[at], "accent"), (line[at + 1 :], "muted")]

    def _lane(self, place: int, *, is_above: bool) -> tuple[list[Part], Ground]:
        if place >= len(self.shown.lanes):
            return [], "plain"
        if is_above:
            return [*self._named(""), (self.shown.above(place, self._clock), "muted")], "plain"
        lane, is_here = self.shown.lanes[place], self.here is not None and place == self._lane_here
        name = lane.name if lane.leading or place == self._top else ""
        selected = self.here.row.no if self.here is not None and is_here else None
        parts = [*self._named(name, is_here=is_here), *self.shown.line(place, self._clock, selected)]
        return [*cells.joined(parts)], "cursor" if is_here else "plain"

    def _at_once(self, row: int) -> list[Part]:
        is_last = row == self._rows_at_once - 1
        title = f"at once, max {max(self._counts, default=0)}" if is_last else ""
        return [*self._named(title), (lanes.heights(self._counts, self._rows_at_once)[row], "muted")]

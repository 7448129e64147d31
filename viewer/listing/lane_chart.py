"""Pure: the lines of a picture of lanes: the axis, the lanes around the cursor, and the number at once below them.

The lowest two lines are those of the list for the exchange under the cursor.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from rich.cells import cell_len

from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import lanes, layout
from wiretape.viewer.listing.lanes import ClockBar, ClockLanes
from wiretape.viewer.text import cells, clock_axis, formatting
from wiretape.viewer.text.cells import Part
from wiretape.viewer.text.clock_axis import ClockLine, ClockView, ClockZoom

Ground = Literal["plain", "titles", "cursor"]
"""The background of a line."""

_NAMES: Final = 15, 24
"""Least and greatest width of the names of lanes, in cells."""

_MARGIN: Final = 2
_AT_ONCE: Final = 1, 3
"""The rows of the number at once, in a low and in a tall picture."""

_LISTED: Final = 2


@dataclass(frozen=True)
class LaneChart:
    """A picture of lanes in cells, with the exchange under the cursor, `selected`, and the time in sight, `zoom`."""

    clock_lanes: ClockLanes
    look: Look
    width: int
    height: int
    selected: ClockBar | None
    zoom: ClockZoom

    @cached_property
    def view(self) -> ClockView:
        """The part of the axis in sight."""
        room = max(self.width - _MARGIN - self._names - 1, 1)
        return self.zoom.view(self.clock_lanes.axis, self.clock_lanes.length_ns, room)

    @cached_property
    def _clock(self) -> ClockLine:
        return ClockLine(self.clock_lanes.axis, self.view)

    @property
    def room(self) -> int:
        return max(self._lane_rows // self._rows_per_lane, 1)

    @property
    def _top(self) -> int:
        # The lane of the cursor stays in the middle, but at the first and the last lanes.
        return max(0, min(self._selected_lane - self.room // 2, len(self.clock_lanes.lanes) - self.room))

    @cached_property
    def _selected_lane(self) -> int:
        return 0 if self.selected is None else self.clock_lanes.places[self.selected.row.no]

    @cached_property
    def _names(self) -> int:
        longest = max((len(lane.name) for lane in self.clock_lanes.lanes), default=0)
        return max(_NAMES[0], min(longest, _NAMES[1], self.width // 5))

    @property
    def _rows_at_once(self) -> int:
        return _AT_ONCE[self.height >= 30]

    @property
    def _available_rows(self) -> int:
        """The rows that lanes may take."""
        return self.height - 1 - self._rows_at_once - _LISTED

    @property
    def _rows_per_lane(self) -> int:
        """The rows of a lane: the line above its bars is left out where there is no room for all."""
        return 2 if 2 * len(self.clock_lanes.lanes) <= self._available_rows else 1

    @cached_property
    def _lane_rows(self) -> int:
        return max(min(len(self.clock_lanes.lanes) * self._rows_per_lane, self._available_rows), 1)

    @cached_property
    def _counts(self) -> list[int]:
        return self.clock_lanes.at_once(self.view)

    @property
    def is_off(self) -> bool:
        first_cell, end_cell = (0, 1) if self.selected is None else self.clock_lanes.span(self.selected, self.view)
        return end_cell <= 0 or first_cell >= self.view.cells

    def bar_at(self, x: int, y: int) -> ClockBar | None:
        place, cell = self._top + (y - 1) // self._rows_per_lane, x - _MARGIN - self._names - 1
        if not 1 <= y <= self._lane_rows or place >= len(self.clock_lanes.lanes):
            return None
        spans = ((bar, self.clock_lanes.span(bar, self.view)) for bar in self.clock_lanes.lanes[place].bars)
        return next((bar for bar, (first_cell, end_cell) in spans if first_cell <= cell < end_cell), None)

    def line(self, y: int) -> tuple[list[Part], Ground]:
        """Return the parts of a line, and its background."""
        below = y - 1 - self._lane_rows
        if y == 0:
            return [*self._name_cells(clock_axis.idle(self.clock_lanes.axis)), *self._axis()], "titles"
        if y >= self.height - _LISTED:
            name_cells = 0 if self.selected is None else cell_len(formatting.line(self.selected.row.model))
            hidden = {layout.TIMELINE}
            slots = layout.fitted(self.width, hidden, start_cells=self.look.start_cells, name_cells=name_cells)
            between = layout.gap_between(self.width)
            margin: Part = (" " * _MARGIN, "plain")
            if y == self.height - _LISTED or self.selected is None:
                return [margin, *layout.titles(slots, self.look, between, None)], "titles"
            return [margin, *layout.line(self.selected.row, slots, self.look, between)], "plain"
        if below < 0:
            lane, row = divmod(y - 1, self._rows_per_lane)
            return self._lane(self._top + lane, is_above=row < self._rows_per_lane - 1)
        if below >= self._rows_at_once:
            return [], "plain"
        title = f"at once, max {max(self._counts, default=0)}" if below == self._rows_at_once - 1 else ""
        drawing = lanes.heights(self._counts, self._rows_at_once)[below]
        return [*self._name_cells(title), (drawing, "muted")], "titles"

    def _name_cells(self, name: str, *, is_here: bool = False) -> Iterator[Part]:
        yield ("▌" if is_here else " ").ljust(_MARGIN), "accent"
        yield from cells.laid_out([(name, "muted")], self._names, right=False)
        yield " ", "plain"

    def _axis(self) -> list[Part]:
        if self.selected is None:
            return [(self._clock.text(), "muted")]
        at = max(0, min(self.clock_lanes.span(self.selected, self.view)[0], self.view.cells - 1))
        line = self._clock.text(at)
        return [(line[:at], "muted"), (line[at], "accent"), (line[at + 1 :], "muted")]

    def _lane(self, place: int, *, is_above: bool) -> tuple[list[Part], Ground]:
        if place >= len(self.clock_lanes.lanes):
            return [], "plain"
        if is_above:
            return [*self._name_cells(""), (self.clock_lanes.above(place, self._clock), "muted")], "plain"
        lane, is_here = self.clock_lanes.lanes[place], self.selected is not None and place == self._selected_lane
        name = lane.name if lane.leading or place == self._top else ""
        selected = self.selected.row.no if self.selected is not None and is_here else None
        parts = [*self._name_cells(name, is_here=is_here), *self.clock_lanes.line(place, self._clock, selected)]
        return [*cells.joined(parts)], "cursor" if is_here else "plain"

"""The exchanges of a list as lanes on the wall clock: bars that grow while they run, and how many run at once."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.strip import Strip

from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import lanes
from wiretape.viewer.listing.lane_chart import LaneChart
from wiretape.viewer.listing.lanes import ClockBar, ClockLanes
from wiretape.viewer.listing.query import Query
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.base import pause_s
from wiretape.viewer.text.cells import Part
from wiretape.viewer.text.clock_axis import ClockZoom
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base import theme
from wiretape.viewer.tui.base.host import Superseded, host, is_seen
from wiretape.viewer.tui.dialogs.offers import Copy
from wiretape.viewer.tui.list import offers
from wiretape.viewer.tui.list.listing import Listing
from wiretape.viewer.tui.widgets.bar import HeaderLine
from wiretape.viewer.tui.widgets.cursor import CursorTable
from wiretape.viewer.tui.widgets.footer import KeyLine

MOST: Final = 500
"""Limit of exchanges in lanes: those around the cursor of the list."""


class LaneTable(CursorTable):
    """Draws lanes; the cursor is on an exchange, and moves between lanes and within one."""

    DEFAULT_CSS = "LaneTable { width: 1fr; height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.ASIDE)

    def __init__(self) -> None:
        super().__init__(id="lanes")
        self.clock_lanes, self.look, self.zoom = ClockLanes(), Look(), ClockZoom()
        self._chart = LaneChart(self.clock_lanes, self.look, 0, 0, None, self.zoom)

    @property
    def count(self) -> int:
        return len(self.clock_lanes.bars)

    @property
    def bar(self) -> ClockBar | None:
        return self.clock_lanes.bars[self.cursor] if self.count else None

    @property
    def chart(self) -> LaneChart:
        """The picture of the lanes as of now."""
        now = LaneChart(self.clock_lanes, self.look, self.size.width, self.size.height, self.bar, self.zoom)
        if now != self._chart:
            self._chart = now
        return self._chart

    def show(self, clock_lanes: ClockLanes, look: Look, no: int | None) -> None:
        self.clock_lanes, self.look = clock_lanes, look
        numbers = [bar.row.no for bar in clock_lanes.bars]
        self.cursor = numbers.index(no) if no in numbers else max(len(numbers) - 1, 0)
        self.refresh()

    def go_to(self, item: int) -> None:
        super().go_to(item)
        if self.bar is not None and self.chart.is_off:
            self.zoom = self.zoom.centred(self.clock_lanes.axis, self.bar.start_ns)

    def action_move(self, by: int) -> None:
        self._go(self.bar and self.clock_lanes.beside(self.bar, by))

    def action_page(self, pages: int) -> None:
        self.action_move(pages * self.chart.room)

    def action_aside(self, by: int) -> None:
        self._go(self.bar and self.clock_lanes.following(self.bar, by))

    def _go(self, bar: ClockBar | None) -> None:
        if bar is not None:
            self.go_to(self.clock_lanes.bars.index(bar))

    def item_at(self, x: int, y: int) -> int | None:
        bar = self.chart.bar_at(x, y)
        return None if bar is None else self.clock_lanes.bars.index(bar)

    def render_line(self, y: int) -> Strip:
        parts, ground = self.chart.line(y)
        return self.draw(parts, theme.style(self, f"list--{ground}") if ground != "plain" else None)


class LanesScreen(Screen[None], inherit_bindings=False):
    """The exchanges of a `query` around one of them; `open_exchange` is called with the one to open."""

    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.LANES)

    def __init__(self, query: Query, selected: int | None, open_exchange: Callable[[int], None]) -> None:
        super().__init__()
        self._query, self._selected, self._open_exchange = query, selected, open_exchange
        self._name: str | None = None
        self._rows: list[ListRow] = []
        self._header, self._table = HeaderLine(), LaneTable()

    def compose(self) -> ComposeResult:
        self._listing = Listing(host(self))
        self._listing.query = self._query
        yield from (self._header, self._table, KeyLine())

    def on_mount(self) -> None:
        self._table.focus()
        self.run_worker(self._watch(), group="watch")

    def copies(self) -> list[Copy]:
        return offers.copies(host(self), self._query, self._row, [])

    def exports(self) -> list[tuple[str, list[str]]]:
        return offers.exports(host(self).list_reader.place, self._query, self._row, [], self._listing.match_count)

    @property
    def _row(self) -> ListRow | None:
        return None if self._table.bar is None else self._table.bar.row

    def on_cursor_list_opened(self) -> None:
        if self._row is not None:
            self._open_exchange(self._row.no)

    def action_open(self) -> None:
        self._table.open()

    def action_scale(self, closer: bool) -> None:
        if (bar := self._table.bar) is not None:
            wall_ns = bar.end_ns if bar.row.outcome == "open" else bar.start_ns  # where something happens
            self._table.zoom = self._table.zoom.zoomed(self._table.clock_lanes.axis, wall_ns, closer=closer)
            self._table.refresh()

    def action_pan(self, by: int) -> None:
        self._table.zoom = self._table.zoom.panned(self._table.clock_lanes.axis, by)
        self._table.refresh()

    async def _watch(self) -> None:
        clock = host(self).clock
        while True:
            began = clock.now()
            if is_seen(self):
                with contextlib.suppress(Superseded):
                    listing = self._listing
                    if listing.change is None or listing.trouble is not None:
                        await listing.load()
                    elif change := await listing.look([]):
                        listing.take(change)
                        await listing.read([row.no for row in self._rows if row.outcome == "open"])
                    self._rows = await listing.read_around(self._selected, MOST)
                    await listing.read_labels(self._rows)
                self._show()
            await asyncio.sleep(pause_s("run page", clock.now() - began))

    def action_group(self) -> None:
        """Name the lanes by the next label, or by model again."""
        keys = [None, *self._listing.label_keys]
        self._name = keys[(keys.index(self._name) + 1) % len(keys)] if self._name in keys else None
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "group" or not self.is_mounted or bool(self._listing.label_keys)

    def _name_of(self, row: ListRow) -> str | None:
        return row.model if self._name is None else self._listing.labels.get(row.id, {}).get(self._name)

    def _show(self) -> None:
        listing, look = self._listing, self._listing.at_present(self._table.look)
        clock_lanes = lanes.lanes(self._rows, look, self._name_of)
        self._table.show(clock_lanes, look, self._selected if self._row is None else self._row.no)
        if self._rows and not listing.catalog.places_around(self._selected, MOST).start:
            self._selected = None  # a window at the top follows new exchanges; one around an older one stays
        filter_text = self._query.text if self._query.filter else ""
        trouble: list[Part] = [(f" · {safe(str(listing.trouble))}", "error")] if listing.trouble else []
        heading = lanes.heading(clock_lanes, self._name, listing.match_count, filter_text)
        self._header.show([*heading, *trouble], lanes.LEGEND)
        self.refresh_bindings()

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
        self.shown, self.look, self.zoom = ClockLanes(), Look(), ClockZoom()
        self._chart = LaneChart(self.shown, self.look, 0, 0, None, self.zoom)

    @property
    def count(self) -> int:
        return len(self.shown.bars)

    @property
    def here(self) -> ClockBar | None:
        return self.shown.bars[self.cursor] if self.count else None

    @property
    def chart(self) -> LaneChart:
        """The picture of the lanes as of now."""
        now = LaneChart(self.shown, self.look, self.size.width, self.size.height, self.here, self.zoom)
        if now != self._chart:
            self._chart = now
        return self._chart

    def show(self, shown: ClockLanes, look: Look, no: int | None) -> None:
        self.shown, self.look = shown, look
        numbers = [one.row.no for one in shown.bars]
        self.cursor = numbers.index(no) if no in numbers else max(len(numbers) - 1, 0)
        self.refresh()

    def go_to(self, item: int) -> None:
        super().go_to(item)
        if self.here is not None and self.chart.is_off:
            self.zoom = self.zoom.centred(self.shown.axis, self.here.start_ns)

    def action_move(self, by: int) -> None:
        self._go(self.here and self.shown.beside(self.here, by))

    def action_page(self, pages: int) -> None:
        self.action_move(pages * self.chart.room)

    def action_aside(self, by: int) -> None:
        self._go(self.here and self.shown.after(self.here, by))

    def _go(self, one: ClockBar | None) -> None:
        if one is not None:
            self.go_to(self.shown.bars.index(one))

    def item_at(self, x: int, y: int) -> int | None:
        one = self.chart.bar_at(x, y)
        return None if one is None else self.shown.bars.index(one)

    def render_line(self, y: int) -> Strip:
        parts, ground = self.chart.line(y)
        return self.drawn(parts, theme.style(self, f"list--{ground}") if ground != "plain" else None)


class LanesScreen(Screen[None], inherit_bindings=False):
    """The exchanges of a `query` around one of them; `opened` is called with the one to open."""

    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.LANES)

    def __init__(self, query: Query, selected: int | None, opened: Callable[[int], None]) -> None:
        super().__init__()
        self._query, self._selected, self._opened = query, selected, opened
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
        return offers.exports(host(self).listed.place, self._query, self._row, [], self._listing.match_count)

    @property
    def _row(self) -> ListRow | None:
        return None if self._table.here is None else self._table.here.row

    def on_cursor_list_opened(self) -> None:
        if self._row is not None:
            self._opened(self._row.no)

    def action_open(self) -> None:
        self._table.open()

    def action_scale(self, closer: bool) -> None:
        if (here := self._table.here) is not None:
            wall_ns = here.end_ns if here.row.outcome == "open" else here.start_ns
            self._table.zoom = self._table.zoom.zoomed(self._table.shown.axis, wall_ns, closer=closer)
            self._table.refresh()

    def action_pan(self, by: int) -> None:
        self._table.zoom = self._table.zoom.panned(self._table.shown.axis, by)
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
        shown = lanes.lanes(self._rows, look, self._name_of)
        self._table.show(shown, look, self._selected if self._row is None else self._row.no)
        if self._rows and not listing.catalog.around(self._selected, MOST).start:
            self._selected = None
        filter_text = self._query.text if self._query.filter else ""
        trouble: list[Part] = [(f" · {safe(str(listing.trouble))}", "error")] if listing.trouble else []
        self._header.show([*lanes.heading(shown, self._name, listing.match_count, filter_text), *trouble], lanes.LEGEND)
        self.refresh_bindings()

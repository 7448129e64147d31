"""The list of exchanges by itself: which rows it asks for, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from tests.support.exchanges import listed as row
from tests.support.screens import wait_for
from wiretape.viewer.listing import layout
from wiretape.viewer.listing.catalog import PAGE, Catalog
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.tui.list.rows import StreamRows

COUNT = 20 * PAGE
HEIGHT = 30


class Listed(App[None]):
    """Shows a list of `COUNT` exchanges, and keeps the requested pages: 0 is that of the oldest."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[int]] = []
        self.rows = StreamRows()

    def compose(self) -> ComposeResult:
        yield self.rows

    def on_stream_rows_rows_wanted(self, event: StreamRows.RowsWanted) -> None:
        self.asked.append(sorted((min(page) - 1) // PAGE for page in event.pages))

    def fill(self) -> None:
        """Return the rows of the last request."""
        for page in self.asked[-1]:
            self.rows.catalog.put(row(no=number) for number in range(page * PAGE + 1, (page + 1) * PAGE + 1))
        self.rows.filled()


def on_list(steps: Callable[[Listed, Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        app = Listed()
        async with app.run_test(size=(100, HEIGHT)) as pilot:
            app.rows.show(Catalog(list(range(1, COUNT + 1)), by_time=True))
            await wait_for(pilot, lambda: app.asked)
            app.fill()
            await pilot.pause()
            app.asked.clear()
            await steps(app, pilot)

    asyncio.run(run())


def test_rows_in_sight_are_read_before_their_neighbours() -> None:
    async def steps(app: Listed, pilot: Pilot[None]) -> None:
        app.rows.go_to(10 * PAGE + HEIGHT - 1)  # the view begins where a page does
        await wait_for(pilot, lambda: app.asked)
        await pilot.pause()
        assert app.asked == [[9]]
        app.fill()
        await wait_for(pilot, lambda: len(app.asked) == 2)
        assert app.asked[1] == [10]

    on_list(steps)


def test_what_is_being_read_is_not_asked_for_again() -> None:
    async def steps(app: Listed, pilot: Pilot[None]) -> None:
        app.rows.go_to(10 * PAGE)  # the view ends with the first line of a page
        await wait_for(pilot, lambda: app.asked)
        for _ in range(HEIGHT - 1):
            app.rows.action_move(1)
            await pilot.pause()
        app.rows.action_page(1)
        await pilot.pause()
        assert app.asked == [[9, 10]]

    on_list(steps)


def test_the_next_page_is_drawn_before_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    line = layout.line

    def noted(row: ListRow, *arguments: Any) -> Any:
        numbers.append(row.no)
        return line(row, *arguments)

    monkeypatch.setattr(layout, "line", noted)

    async def steps(app: Listed, pilot: Pilot[None]) -> None:
        app.rows.go_to(10 * PAGE + 60)
        await wait_for(pilot, lambda: app.asked)
        app.fill()
        first_y = app.rows.scroll_offset.y
        ahead = app.rows.catalog.number(first_y + 2 * HEIGHT - 1)
        await wait_for(pilot, lambda: ahead in numbers)

    on_list(steps)

"""The list itself: the rows of a `Listing` below their titles, beside a preview of the one under the cursor.

Rules of reading. The list never waits for the tape: each query runs in the tape's thread, and its answer is passed to
the widgets. The list is loaded as a whole once, and then polled: a poll reads the changes since the last one, and the
running exchanges in sight. It is loaded again if the tape was replaced or has lost exchanges, after trouble, and for
another query. Rows are read page by page when they come into sight. Nothing is read while another screen is on top.
Whatever changes here is told to the screen by `Changed`, which draws the header and the count.
"""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.message import Message
from textual.worker import Worker

from wiretape.recorder.errors import ForeignFile, SchemaMismatch, SchemaMissing
from wiretape.viewer.exchange import states
from wiretape.viewer.listing.catalog import Marks
from wiretape.viewer.listing.query import Query
from wiretape.viewer.query.values import TooSlow
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.base import POLL_SECONDS, Unsupported
from wiretape.viewer.tui.base.host import Host, Superseded, is_seen
from wiretape.viewer.tui.list.listing import Listing
from wiretape.viewer.tui.list.preview import Preview
from wiretape.viewer.tui.list.rows import StreamRows, Titles
from wiretape.viewer.tui.widgets.cursor import CursorList

if TYPE_CHECKING:
    from wiretape.viewer.source.base import Change

ERROR_SECONDS: Final = 10.0
"""Time that an error is shown for: longer than Textual's five seconds, since it has a sentence about what to do."""


class StreamList(Container):
    """Titles, rows and preview; `above` is the number of exchanges that arrived above the rows in sight."""

    class Changed(Message):
        """The list, or the state of its tape, has changed."""

    class Emptied(Message):
        """No exchange is listed any more."""

    @dataclass
    class Rejected(Message):
        """The source cannot evaluate the filter."""

        error: TooSlow | Unsupported

    def __init__(self, *, follow: bool, selected: int | None) -> None:
        super().__init__(id="body")
        self.rows = StreamRows(id="rows")
        self.rows.selected = selected
        self.marks = Marks()
        self.follows = follow
        self.above = 0
        self._titles = Titles(self.rows)
        self._preview = Preview()
        self._loader: Worker[None] | None = None
        self._is_advised = False
        self._progressed = set[int]()
        """The exchanges whose rows in sight were read since the preview was drawn."""

    def use(self, services: Host) -> None:
        """Read by these services: those of a screen that is not mounted yet, and asks for the list once it is."""
        self._host, self.listing = services, Listing(services)

    def compose(self) -> ComposeResult:
        """Lay out the titles, the rows and the preview."""
        with Vertical(id="list"):
            yield self._titles
            yield self.rows
        yield self._preview

    def on_mount(self) -> None:
        self.run_worker(self._watch(), group="watch")

    @property
    def row(self) -> ListRow | None:
        """The row under the cursor, if it has been read."""
        return self.rows.catalog.row(self.rows.cursor) if self.rows.count else None

    @property
    def remembered(self) -> dict[int, str]:
        """The ids of the marked exchanges and of the one under the cursor, by number."""
        return self.marks.ids | ({} if self.row is None else {self.row.no: self.row.id})

    @property
    def is_loading(self) -> bool:
        return self._loader is not None and not self._loader.is_finished

    def load(self) -> None:
        self._loader = self.run_worker(self._load, group="load", exclusive=True)

    async def _load(self) -> None:
        remembered, listing = self.remembered, self.listing
        try:
            ids = await listing.load(list(remembered))
        except Superseded:
            return
        if ids is not None:
            selected = self.rows.selected
            if selected is not None and selected in remembered and ids.get(selected) != remembered[selected]:
                self.rows.selected = None  # the number belongs to another exchange: the tape was replaced
            if lost := self.marks.check(ids):
                self.rows.marks = frozenset(self.marks)
                subject = "1 marked exchange is" if lost == 1 else f"{lost} marked exchanges are"
                self.notify(f"{subject} not on this tape: no mark is left there", markup=False)
        elif isinstance(listing.trouble, TooSlow | Unsupported):
            if listing.query.filter is None:
                listing.query = replace(listing.query, order=None)
                self.notify(str(listing.trouble), severity="error", timeout=ERROR_SECONDS, markup=False)
                self.call_later(self.load)
            else:
                self.post_message(self.Rejected(listing.trouble))
            return
        elif listing.is_unread:
            self._show_trouble()
            return
        self.look_again()
        self.rows.show(listing.catalog, listing.query.order)
        self._tell_change()
        if not self._is_advised:  # once: its question reads measures, and no row waits for it
            self._is_advised = True
            if advice := await listing.advice():
                self.notify(advice, severity="warning", markup=False)
        if self._host.list_reader is not self._host.tape:  # a tape's counts come with its list
            self.run_worker(self._count(), group="count", exclusive=True)

    async def _count(self) -> None:
        await self.listing.count()
        self.post_message(self.Changed())

    def _tell_change(self) -> None:
        self.post_message(self.Changed())
        if not self.listing.catalog:
            self.post_message(self.Emptied())

    async def _watch(self) -> None:
        listing = self.listing
        while True:
            await asyncio.sleep(self._host.list_reader.place.retry_s if listing.trouble else POLL_SECONDS["screen"])
            if listing.is_loading or not is_seen(self.screen):
                continue
            in_sight = self.rows.in_sight()
            if listing.stays and listing.trouble is not None and in_sight:
                await self._read(in_sight)
            elif listing.change is None or listing.trouble is not None:
                self.load()
            elif change := await listing.look(in_sight):
                self._take(change)
            elif listing.is_unread:
                self._show_trouble()

    def _take(self, change: "Change") -> None:
        was_empty = not self.listing.catalog
        follows = self.follows and not self.rows.cursor  # else it was moved by hand, which is about to be heard of
        above = self.listing.take(change)
        self._progressed |= {row.no for row in change.rows}
        # Progress alone is drawn by `tick`, twice a second: beside 50 streams that takes 12 % of a core instead of 29.
        if above or change.unfit or not change.seen.unsettled.issuperset(change.fits):
            self.look_again()
            self.rows.grown(above, follow=follows or was_empty)
            self._preview_progress()
        self.above += above
        if was_empty:
            self.post_message(self.Changed())
        else:
            self._tell_change()

    def _show_trouble(self) -> None:
        """Show the trouble with the tape, which is read again; trouble that no waiting can mend ends the viewer."""
        error = self.listing.trouble
        if isinstance(error, SchemaMismatch | ForeignFile) and not isinstance(error, SchemaMissing):
            self._host.give_up(error)
        self.rows.show(self.listing.catalog, self.rows.order)
        self.post_message(self.Changed())

    def on_stream_rows_rows_wanted(self, event: StreamRows.RowsWanted) -> None:
        reading = partial(self._read, [number for page in event.pages for number in page])
        _: Worker[None] = self.run_worker(reading, group="pages", exclusive=True)  # not begun yet: it may never be

    async def _read(self, numbers: list[int]) -> None:
        with contextlib.suppress(Superseded):  # other rows are in sight by now
            if await self.listing.read(numbers):
                self.rows.grown(0, follow=False)
            self.rows.filled()
            if self.listing.goes_on(numbers) and await self.listing.extend():
                self.rows.grown(0, follow=False)
            self.post_message(self.Changed())

    def on_cursor_list_moved(self, event: CursorList.Moved) -> None:
        if event.by_hand and self.follows and self.rows.cursor:
            self.follows = False
            self.post_message(self.Changed())
        self._preview.soon(self.listing, self.rows.selected, self.rows.look)

    def on_stream_rows_laid_out(self) -> None:
        self._titles.refresh()

    def on_titles_title_clicked(self, event: Titles.TitleClicked) -> None:
        self.order_by(event.field)

    def order_by(self, field: str | None) -> None:
        if field is not None:
            self.reorder(self.listing.query.by(field))

    def reorder(self, query: Query) -> None:
        self.follows = self.follows and query.order is None  # in another order the newest is not on top
        self.listing.query = query
        self.rows.selected = None  # another order is read from its top
        self.load()

    def toggle_follow(self) -> None:
        """Stay on the newest exchange, or stop doing so."""
        self.follows = not self.follows
        if self.follows and self.listing.query.order is not None:
            self.reorder(replace(self.listing.query, order=None))
        elif self.follows:
            self.rows.action_top()
        self.post_message(self.Changed())

    def toggle_mark(self) -> None:
        """Mark the exchange under the cursor, or take its mark away, and move on to the next one."""
        if self.row is not None:
            self.marks.toggle(self.row.no, self.row.id)
            self._show_marks()
            self.rows.action_move(1)

    def unmark(self) -> None:
        self.marks.clear()
        self._show_marks()

    def _show_marks(self) -> None:
        self.rows.marks = frozenset(self.marks)
        self.rows.redraw()
        self.post_message(self.Changed())

    def next_times(self) -> None:
        """Show times in the next format."""
        self.rows.set_look(replace(self.rows.look, times=self.rows.look.next_times))
        self.look_again()
        self.rows.set_columns(self.rows.hidden)

    def look_again(self) -> None:
        """Draw with the present time and the recorder's state; another width of times lays out the columns anew."""
        previous_cells = self.rows.look.start_cells
        self.rows.set_look(states.with_room(self.listing.at_present(self.rows.look), self.listing.started or ()))
        if self.rows.look.start_cells != previous_cells:
            self.rows.set_columns(self.rows.hidden)

    def tick(self) -> None:
        """Draw anew whatever grows with the time."""
        was_recording = self.rows.look.recording
        self.look_again()
        look, change = self.rows.look, self.listing.change
        has_running = change is not None and change.running
        if (has_running and (was_recording or look.recording)) or look.times == "ago":
            self._preview.look_again(look)
        self._preview_progress()
        self.rows.repaint()

    def preview(self) -> None:
        """Draw the preview of the exchange under the cursor."""
        self._preview.now(self.listing, self.rows.selected, self.rows.look)

    def _preview_progress(self) -> None:
        if self.rows.selected in self._progressed:
            self.preview()
        self._progressed.clear()

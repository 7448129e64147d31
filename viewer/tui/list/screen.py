"""The exchanges of a tape, the newest first, while more arrive: filtered, ordered, marked, and each looked at in brief.

Nothing here waits for the tape: each question runs in its thread, and what it gives is handed to the widgets. Several
times a second it is looked whether anybody has written; only then is anything read. What is known of the tape is
`Listing`'s, what is asked of it `questions`'s.
"""

import asyncio
import contextlib
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.events import DescendantFocus, Key
from textual.screen import Screen
from textual.worker import Worker

from recorder.errors import ForeignFile, SchemaMismatch, SchemaMissing
from viewer.filters.patterns import TooSlow
from viewer.model import states
from viewer.model.listing import drilling
from viewer.model.states import Look
from viewer.tui.base.host import Host, Superseded, host
from viewer.tui.dialogs import offers
from viewer.tui.list import telling
from viewer.tui.list.filter import ListFilter
from viewer.tui.list.filter_line import FilterInput, FilterLine
from viewer.tui.list.listing import Listing
from viewer.tui.list.marking import Marking
from viewer.tui.list.previewing import Previewing
from viewer.tui.list.questions import Wanted
from viewer.tui.list.rows import StreamRows, Titles
from viewer.tui.list.streams_keys import CSS, KEYS, OF_ROWS
from viewer.tui.widgets.cursor import CursorList
from viewer.tui.widgets.footer import KeyLine
from viewer.tui.widgets.header import HeaderLine
from viewer.tui.widgets.notice import Notice, said

if TYPE_CHECKING:
    from viewer.tape.live import Change

POLL_SECONDS: Final = 0.15
_RETRY_SECONDS: Final = 0.5
_TICK_SECONDS: Final = 0.5
_ONLY: Final = ("is:failed", "flag:stall")
_ALL: Final = frozenset(binding.action.partition("(")[0] for binding in KEYS)


class StreamsScreen(Screen[None]):
    """The list of all exchanges of a tape."""

    CSS = CSS
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (150, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall"), (36, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [*KEYS]

    def __init__(self, filter_text: str = "", *, follow: bool = False, selected: int | None = None) -> None:
        super().__init__()
        self._follow = follow
        self._look = Look()
        self._loader: Worker[None] | None = None
        self._comparing: Worker[None] | None = None
        self._hinted = False
        self._was_idle: frozenset[str] = frozenset()
        self._above = 0
        self._header = HeaderLine()
        tell = functools.partial(self.notify, markup=False)
        self._filter = ListFilter(filter_text, lambda: self._listing.known, tell)
        self._rows = StreamRows(id="rows")
        self._rows.selected = selected
        self._titles = Titles(self._rows)
        self._marking = Marking(self._rows, tell)
        self._preview = Previewing(self)
        self._notice = Notice()

    def compose(self) -> ComposeResult:
        """Lay out the header, the filter, the list with its preview, and the keys."""
        self._host: Host = host(self)
        self._listing = Listing(self._host)
        yield self._header
        yield self._filter.line
        with Container(id="body"):
            with Vertical(id="list"):
                yield self._titles
                yield self._rows
            yield self._preview.widget
        with Container(id="nothing"):
            yield self._notice
        yield KeyLine()

    def on_mount(self) -> None:
        """Ask for the list, and go on looking."""
        self._rows.focus()
        self.action_reload()
        self.run_worker(self._watch(), group="watch")
        self.run_worker(self._filter.recall(), group="history")
        self.set_interval(_TICK_SECONDS, self._tick)
        self._say()

    def on_screen_resume(self) -> None:
        """Catch up with what has happened meanwhile."""
        self._tick()

    def on_resize(self) -> None:
        """Read the preview where there is room for it now."""
        self._preview_again()

    def set_filter(self, text: str) -> None:
        """Apply a filter as if it had been typed."""
        self._filter.line.put(text)
        self._rows.focus()

    def copies(self) -> list[offers.Copy]:
        """Give what can be copied: (label, text)."""
        marking = self._marking
        return offers.copies(self._host.tape, self._listing.wanted, marking.row, list(marking.marks.ids.values()))

    def exports(self) -> list[tuple[str, list[str]]]:
        """Give what can be exported: (label, arguments of `wiretape`)."""
        tape, listing, marking = self._host.tape.path, self._listing, self._marking
        return offers.exports(tape, listing.wanted, marking.row, list(marking.marks.ids.values()), listing.fitting)

    @property
    def holds_keys(self) -> bool:
        """Whether keys are better kept until the list is there that they are meant for."""
        going = (worker for worker in (self._loader, self._comparing) if worker is not None)
        waits = any(not worker.is_finished for worker in going) and not self._listing.is_busy
        return waits and not isinstance(self.focused, FilterInput)

    def _load(self) -> None:
        self._loader = self.run_worker(self._loading, group="load", exclusive=True)

    async def _loading(self) -> None:
        known = self._marking.known
        try:
            ids = await self._listing.load(list(known))
        except Superseded:
            return
        if ids is not None:
            self._marking.check(known, ids)
        elif isinstance(self._listing.trouble, TooSlow):
            self._filter.give_up(self._listing.trouble)
            self._heed_filter()
            self.call_later(self._load)
        elif self._listing.is_unread:
            self._unread()
            return
        self._look_again()
        self._titles.show(self._listing.wanted.order)
        self._rows.show(self._listing.catalog)
        self._say()
        self._explain()

    def _explain(self) -> None:
        if not self._listing.catalog:
            _: Worker[None] = self.run_worker(self._say_why, group="why", exclusive=True)

    async def _say_why(self) -> None:
        if lines := await self._listing.why_nothing():
            self._notice.show(lines)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_RETRY_SECONDS if self._listing.trouble else POLL_SECONDS)
            if self._listing.is_loading:
                continue
            if self._listing.change is None or self._listing.trouble is not None:
                self._load()
            elif found := await self._listing.look(self._rows.in_sight()):
                self._take(found)
            elif self._listing.is_unread:
                self._unread()

    def _take(self, found: "Change") -> None:
        was_empty = not self._listing.catalog
        follows = self._follow and not self._rows.cursor  # else it was moved by hand, which is about to be heard of
        above = self._listing.take(found)
        self._look_again()
        self._rows.grown(above, follow=follows or was_empty)
        self._above += above
        if self._rows.selected in {row["no"] for row in found.rows}:
            self._preview.now(self._listing, self._rows.selected, self._look)
        self._say()
        if not was_empty:
            self._explain()

    def _unread(self) -> None:
        """Say what is wrong with the tape, which is looked at again; what no waiting can mend ends the viewer."""
        error = self._listing.trouble
        if isinstance(error, SchemaMismatch | ForeignFile) and not isinstance(error, SchemaMissing):
            self._host.give_up(error)
        self._rows.show(self._listing.catalog)
        self._say()

    def on_stream_rows_wanted(self, event: StreamRows.Wanted) -> None:
        """Read the rows that come into sight."""
        reading = functools.partial(self._read, [number for page in event.pages for number in page])
        _: Worker[None] = self.run_worker(reading, group="pages", exclusive=True)  # not begun yet: it may never be

    async def _read(self, numbers: list[int]) -> None:
        with contextlib.suppress(Superseded):  # other rows are in sight by now
            if await self._listing.read(numbers):
                self._rows.grown(0, follow=False)
            self._rows.filled()

    def on_cursor_list_moved(self, event: CursorList.Moved) -> None:
        """Show the exchange that the cursor has come to; who moves it by hand follows no longer."""
        if event.by_hand and self._follow and self._rows.cursor:
            self._follow = False
            self._say()
        self._preview.soon(self._listing, self._rows.selected, self._look)

    def on_stream_rows_laid_out(self) -> None:
        """Draw the titles where the columns are now."""
        self._titles.refresh()

    def on_cursor_list_opened(self) -> None:
        """Open an exchange in the inspector."""
        from viewer.tui.inspector.screen import InspectorScreen

        if self._rows.selected is not None:
            self.app.push_screen(InspectorScreen(self._rows.selected))

    def action_open(self) -> None:
        """Open the exchange under the cursor."""
        self._rows.open()

    def on_filter_line_edited(self, event: FilterLine.Edited) -> None:
        """Apply a filter; one that cannot be read leaves the last one in force."""
        self._filter.is_on = True
        if self._read_filter(event.text):
            self._load()
        self._say()

    def on_filter_line_remembered(self, event: FilterLine.Remembered) -> None:
        """Keep a filter for later runs."""
        self.run_worker(self._filter.keep(event.text), group="history")

    def on_filter_line_clicked(self) -> None:
        """Go into the filter's box."""
        self.action_filter()

    def on_filter_line_left(self) -> None:
        """Give the keys back to the list."""
        self.remove_class("-filtering")
        self._heed_filter()
        self._rows.focus()
        self._say()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Leave the filter's box when the list is clicked."""
        if event.widget is self._rows and self._filter.line.is_entered:
            self._filter.line.leave()

    def _read_filter(self, text: str) -> bool:
        is_read = self._filter.read(text, self._host.clock)
        self._heed_filter()
        return is_read

    def _heed_filter(self) -> None:
        self._listing.wanted = self._filter.applied(self._listing.wanted)

    def action_filter(self) -> None:
        """Go into the filter's box."""
        self._filter.line.enter()
        self.add_class("-filtering")
        self._heed_filter()
        self._say()
        self.run_worker(self._filter.recall(), group="history")
        self.run_worker(self._complete(), group="values")

    async def _complete(self) -> None:
        await self._listing.read_known()
        self._filter.line.complete()

    def action_toggle_filter(self) -> None:
        """Switch the filter off, and on again."""
        if self._filter.text.strip():
            self._filter.is_on = not self._filter.is_on
            self.action_reload()

    def action_views(self) -> None:
        """Choose one of the saved views."""
        from viewer.tui.dialogs.views import ViewsMenu

        self.app.push_screen(ViewsMenu(), lambda text: None if text is None else self.set_filter(text))

    def action_only(self, term: str) -> None:
        """Add a term to the filter, instead of the other one that a key adds; if it is there, take it away."""
        text = drilling.without(self._filter.text_in_force, *_ONLY)
        self.set_filter(text if term in self._filter.text_in_force.split() else drilling.joined(text, term))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out of footer and help what does not apply just now."""
        return not self.is_mounted or action not in self._idle

    @property
    def _idle(self) -> frozenset[str]:
        """The actions of this screen that do not apply just now."""
        if self._filter.line.is_entered:
            return _ALL
        marks, filter_text = self._marking.marks, self._filter.text.strip()
        if self._listing.change is None:
            return frozenset()  # nothing is known yet: no key is refused that may be of use in a moment
        idle = set() if len(self._rows.catalog) else set(OF_ROWS)
        idle |= {"compare"} if not marks or "open" in idle else set()
        idle |= set() if filter_text else {"toggle_filter"}
        idle |= set() if marks or (filter_text and self._filter.is_on) else {"clear"}
        idle |= {"preview"} if self.has_class("-short") else set()
        return frozenset(idle | (set() if self._listing.change.total else {"only", "filter"}))

    def action_clear(self) -> None:
        """Take the marks away; where there are none, switch the filter off."""
        if self._marking.marks:
            self._marking.clear()
            self._say()
        elif self._filter.is_on:
            self.action_toggle_filter()

    def action_order(self) -> None:
        """Choose what to order by."""
        from viewer.tui.list.menus import OrderMenu

        self.app.push_screen(OrderMenu(), self._order_by)

    def on_titles_clicked(self, event: Titles.Clicked) -> None:
        """Order by the column that was clicked."""
        self._order_by(event.field)

    def _order_by(self, field: str | None) -> None:
        if field is not None:
            self._reorder(self._listing.wanted.by(field))

    def _reorder(self, wanted: Wanted) -> None:
        self._follow = self._follow and wanted.order is None  # in another order the newest is not on top
        self._listing.wanted = wanted
        self._rows.selected = None
        self._load()

    def action_reverse(self) -> None:
        """Turn the order around."""
        self._reorder(self._listing.wanted.reversed())

    def action_reload(self) -> None:
        """Read everything again, in the order asked for; a time such as -2h is counted from now."""
        self._read_filter(self._filter.text)
        self._load()

    def action_mark(self) -> None:
        """Mark the exchange under the cursor, or take its mark away, and go on to the next."""
        self._marking.toggle()
        self._say()

    def action_compare(self) -> None:
        """Compare the marked exchanges, or the one marked with the one under the cursor."""
        self._comparing = self.run_worker(self._compare, group="compare", exclusive=True)

    async def _compare(self) -> None:
        from viewer.tui.compare.table import comparison

        if not await self._listing.holds(self._marking.known):
            self._load()  # which says what is not there any more
        elif (screen := comparison(self._marking.marks, self._rows.selected)) is None:
            self.notify("Mark another exchange with space, then press c.", title="compare", markup=False)
        else:
            self.app.push_screen(screen)

    def action_stats(self) -> None:
        """Show the figures of what fits the filter."""
        from viewer.tui.stats.screen import StatsScreen

        self.app.push_screen(StatsScreen(self._filter.text_in_force))

    def action_follow(self) -> None:
        """Stay on the newest exchange, or stop doing so."""
        self._follow = not self._follow
        if self._follow and self._listing.wanted.order is not None:
            self._reorder(replace(self._listing.wanted, order=None))
        elif self._follow:
            self._rows.action_top()
        self._say()

    def action_preview(self) -> None:
        """Show or hide the preview."""
        self.toggle_class("-unpreviewed")
        self._preview_again()

    def _preview_again(self) -> None:
        self.call_after_refresh(lambda: self._preview.now(self._listing, self._rows.selected, self._look))

    def action_columns(self) -> None:
        """Choose the columns."""
        from viewer.tui.list.columns import ColumnsMenu

        self.app.push_screen(ColumnsMenu(self._rows.hidden), lambda hidden: self._rows.set_columns(hidden or ()))

    def action_time_format(self) -> None:
        """Show the starts in the next format."""
        self._look = replace(self._look, times=self._look.next_times)
        self._look_again()
        self._rows.set_columns(self._rows.hidden)

    def on_key(self, event: Key) -> None:
        """Tell who types into the list, once, how to filter it."""
        is_free = self.is_current and self.focused is self._rows and event.key not in self.active_bindings
        if is_free and event.is_printable and not self._hinted:
            self._hinted = True
            self.notify("Press / to filter, ? for all keys.", markup=False)

    def _tick(self) -> None:
        if not self.is_current:
            return  # under another screen nobody sees it, and drawing would disturb what is played there
        recorded = self._look.recording
        self._look_again()
        runs = self._listing.change is not None and self._listing.change.running
        if (runs and (recorded or self._look.recording)) or self._look.times == "ago":
            self._rows.repaint()
            self._preview.widget.look_again(self._look)
        self._say()

    def _look_again(self) -> None:
        was_dated, started = self._look.is_dated, self._listing.started
        wall_ns, run = self._host.clock.wall_ns(), self._listing.recorder
        self._look = replace(
            self._look,
            wall_ns=wall_ns,
            recording=run is not None and run.state(wall_ns) == "running",
            spans_days=started is not None and states.spans_days(*started),
        )
        self._rows.set_look(self._look)
        if self._look.is_dated != was_dated:
            self._rows.set_columns(self._rows.hidden)

    def _say(self) -> None:
        path, listing = self._host.tape.path, self._listing
        self._above = self._above if self._rows.scroll_offset.y else 0
        counts = [(len(self._marking.marks), "marked"), *telling.unsorted(listing), (self._above, "new above: g")]
        left = telling.tape(path, listing, counts, following=self._follow)
        self._header.show(left, telling.recorder(listing))
        typing = self._filter.line.is_typing
        counted = telling.count(listing, self._filter.text, wrong=self._filter.is_wrong, typing=typing)
        self._filter.line.show_count(said(counted))
        if self._idle != self._was_idle:
            self._was_idle = self._idle
            self.refresh_bindings()
        nothing = telling.nothing(path, listing)
        if nothing is not None or listing.catalog:
            self._notice.show(nothing or [])
        is_empty = nothing is not None or (listing.change is not None and not listing.catalog)
        if self.has_class("-nothing") and not is_empty:
            self.call_after_refresh(self._rows.lay_out)  # Textual does not always tell that it has its size again
            if self.focused is None:
                self.call_after_refresh(self._rows.focus)
        self.set_class(is_empty, "-nothing")

"""The exchanges of a tape, the newest first, while more arrive: filtered, ordered, marked, and previewed.

The screen never waits for the tape: each query runs in the tape's thread, and its answer is passed to the widgets.
Several times a second the screen checks for new writes; only then it reads. The data on the tape are in `listing`.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.events import DescendantFocus, Key
from textual.screen import Screen
from textual.worker import Worker

from wiretape.recorder.errors import ForeignFile, NotFound, SchemaMismatch, SchemaMissing, TapeGone, WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange import states
from wiretape.viewer.exchange.states import Look
from wiretape.viewer.listing import drilling, notices
from wiretape.viewer.listing.catalog import Marks
from wiretape.viewer.listing.lanes import LEGEND
from wiretape.viewer.listing.query import Query
from wiretape.viewer.query.values import TooSlow
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.base import POLL_SECONDS, Unsupported
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base.host import Host, Superseded, host, in_thread, is_seen
from wiretape.viewer.tui.dialogs.offers import Copy
from wiretape.viewer.tui.list.filter import FilterInput, FilterLine
from wiretape.viewer.tui.list.listing import Listing
from wiretape.viewer.tui.list.preview import Preview
from wiretape.viewer.tui.list.rows import StreamRows, Titles
from wiretape.viewer.tui.widgets.bar import HeaderLine, Notice, content
from wiretape.viewer.tui.widgets.cursor import CursorList
from wiretape.viewer.tui.widgets.footer import KeyLine

if TYPE_CHECKING:
    from wiretape.viewer.source.base import Capability, Change

_ERROR_SECONDS: Final = 10.0
_TICK_SECONDS: Final = 0.5
_LEGEND_CELLS: Final = 100
"""Width from which the signs of the timeline are explained beside the filter."""
_ONLY: Final = ("is:failed", "flag:stall")
_OF_ROWS: Final = frozenset(
    {"open", "mark", "order", "reverse", "columns", "follow", "stats", "preview", "trees", "zoom", "view"}
)
"""Actions that do nothing where nothing is listed."""
_NEEDED: Final[dict[str, "Capability"]] = {"follow": "following", "trees": "conversations"}
"""Actions for which a source has to be able to do something."""


class StreamsScreen(Screen[None]):
    """The list of all exchanges of a tape.

    Below 20 rows the preview is hidden, below 36 while a filter is typed, and at the right where there is room.
    """

    CSS = """
    StreamsScreen {
        & #body { height: 1fr; layout: vertical; }
        & #list { width: 1fr; height: 1fr; }
        & #nothing { display: none; width: 1fr; height: 1fr; align: center middle; }
        & Preview { height: 30%; min-height: 7; max-height: 14; }
        &.-nothing #body { display: none; }
        &.-nothing #nothing { display: block; }
        &.-unpreviewed Preview { display: none; }
        &.-short Preview, &.-short.-filtering Preview, &.-tall.-filtering Preview { display: none; }
        &.-short Completions { height: 4; }
        &.-high Completions { height: 9; }
        &.-wide.-tall #body { layout: horizontal; }
        &.-wide.-tall Preview {
            width: 36%; height: 1fr; max-height: 100%; border-top: none; border-left: solid $foreground-muted;
        }
    }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (150, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall"), (36, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.LIST)

    def __init__(self, filter_text: str = "", *, follow: bool = False, selected: int | None = None) -> None:
        super().__init__()
        self.marks = Marks()
        self.filter = FilterLine(filter_text, lambda: self.listing.vocabulary)
        self._follow = follow
        self._look = Look()
        self._loader: Worker[None] | None = None
        self._comparing: Worker[None] | None = None
        self._hinted = False
        self._is_advised = False
        self._was_idle: frozenset[str] = frozenset()
        self._above = 0
        self._progressed = set[int]()
        """The exchanges whose rows in sight were read since the last tick."""
        self._header = HeaderLine()
        self._rows = StreamRows(id="rows")
        self._rows.selected = selected
        self._titles = Titles(self._rows)
        self._preview = Preview()
        self._pulls = ""
        self._notice = Notice()

    def compose(self) -> ComposeResult:
        """Lay out the header, the filter, the list with its preview, and the keys."""
        self._host: Host = host(self)
        self.listing = Listing(self._host)
        yield self._header
        yield self.filter
        with Container(id="body"):
            with Vertical(id="list"):
                yield self._titles
                yield self._rows
            yield self._preview
        with Container(id="nothing"):
            yield self._notice
        yield KeyLine()

    def on_mount(self) -> None:
        """Read the list, and start to poll."""
        self._rows.focus()
        self.action_reload()
        self.run_worker(self._watch(), group="watch")
        self.filter.recall()
        self.set_interval(_TICK_SECONDS, self._tick)
        self.show_state()

    def on_screen_resume(self) -> None:
        self._tick()

    def on_resize(self) -> None:
        self._preview_again()
        self.filter.show_count(content(self._count()))

    def set_filter(self, text: str) -> None:
        self.filter.put(text)
        self._rows.focus()

    def copies(self) -> list[Copy]:
        from wiretape.viewer.tui.list import offers

        return offers.copies(self._host, self.listing.query, self._row, list(self.marks.ids.values()))

    def exports(self) -> list[tuple[str, list[str]]]:
        from wiretape.viewer.tui.list import offers

        marked, fitting = list(self.marks.ids.values()), self.listing.fitting
        return offers.exports(self._host.listed.place, self.listing.query, self._row, marked, fitting)

    @property
    def holds_keys(self) -> bool:
        """True if keys must wait for the list that is being read."""
        running = [worker for worker in (self._loader, self._comparing) if worker is not None]
        waits = any(not worker.is_finished for worker in running) and not self.listing.is_busy
        return waits and not isinstance(self.focused, FilterInput)

    @property
    def _row(self) -> ListRow | None:
        """The row under the cursor, if it has been read."""
        return self._rows.catalog.row(self._rows.cursor) if self._rows.count else None

    @property
    def _known(self) -> dict[int, str]:
        """The ids of the marked exchanges and of the one under the cursor, by number."""
        row = self._row
        return self.marks.ids | ({} if row is None else {row.no: row.id})

    def _load(self) -> None:
        self._loader = self.run_worker(self._loading, group="load", exclusive=True)

    async def _loading(self) -> None:
        known = self._known
        try:
            ids = await self.listing.load(list(known))
        except Superseded:
            return
        if ids is not None:
            selected = self._rows.selected
            if selected is not None and selected in known and ids.get(selected) != known[selected]:
                self._rows.selected = None
            if lost := self.marks.check(ids):
                self._rows.marks = frozenset(self.marks)
                what = "1 marked exchange is" if lost == 1 else f"{lost} marked exchanges are"
                self.notify(f"{what} not on this tape: no mark is left there", markup=False)
        elif isinstance(self.listing.trouble, TooSlow | Unsupported):
            error = self.listing.trouble
            if self.listing.query.filter is None:
                self.listing.query = replace(self.listing.query, order=None)
                self.notify(str(error), severity="error", timeout=_ERROR_SECONDS, markup=False)
            else:
                self.filter.reject(error)
                self._apply_filter()
            self.call_later(self._load)
            return
        elif self.listing.is_unread:
            self._show_trouble()
            return
        self._look_again()
        self._titles.show(self.listing.query.order)
        self._rows.show(self.listing.catalog)
        self.show_state()
        self._explain()
        if not self._is_advised:
            self._is_advised = True
            if advice := await self.listing.advice():
                self.notify(advice, severity="warning", markup=False)

        if self._host.listed is not self._host.tape:
            self.run_worker(self._count_all(), group="count", exclusive=True)

    async def _count_all(self) -> None:
        await self.listing.count()
        self.show_state()

    def _explain(self) -> None:
        _: Worker[None] = self.run_worker(self._show_why, group="why", exclusive=True)

    async def _show_why(self) -> None:
        """Show the matches of each term if no exchange matches."""
        if not self.listing.catalog and (lines := await self.listing.why_nothing()):
            self._notice.show(lines)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._host.listed.place.retry_s if self.listing.trouble else POLL_SECONDS["screen"])
            if self.listing.is_loading or not is_seen(self):
                continue
            in_sight = self._rows.in_sight()
            if self.listing.stays and self.listing.trouble is not None and in_sight:
                await self._read(in_sight)
            elif self.listing.change is None or self.listing.trouble is not None:
                self._load()
            elif change := await self.listing.look(in_sight):
                self._take(change)
            elif self.listing.is_unread:
                self._show_trouble()

    def _take(self, change: "Change") -> None:
        was_empty = not self.listing.catalog
        follows = self._follow and not self._rows.cursor  # else it was moved by hand, which is about to be heard of
        above = self.listing.take(change)
        self._progressed |= {row.no for row in change.rows}
        if above or change.unfit or not change.seen.unsettled.issuperset(change.fits):
            self._look_again()
            self._rows.grown(above, follow=follows or was_empty)
            self._preview_progress()
        self._above += above
        self.show_state()
        if not was_empty:
            self._explain()

    def _show_trouble(self) -> None:
        """Show the trouble with the tape, which is read again; trouble that no waiting can mend ends the viewer."""
        error = self.listing.trouble
        if isinstance(error, SchemaMismatch | ForeignFile) and not isinstance(error, SchemaMissing):
            self._host.give_up(error)
        self._rows.show(self.listing.catalog)
        self.show_state()

    def on_stream_rows_wanted(self, event: StreamRows.Wanted) -> None:
        reading = partial(self._read, [number for page in event.pages for number in page])
        _: Worker[None] = self.run_worker(reading, group="pages", exclusive=True)  # not begun yet: it may never be

    async def _read(self, numbers: list[int]) -> None:
        with contextlib.suppress(Superseded):  # other rows are in sight by now
            if await self.listing.read(numbers):
                self._rows.grown(0, follow=False)
            self._rows.filled()
            if self.listing.goes_on(numbers) and await self.listing.extend():
                self._rows.grown(0, follow=False)
            self.show_state()

    def on_cursor_list_moved(self, event: CursorList.Moved) -> None:
        if event.by_hand and self._follow and self._rows.cursor:
            self._follow = False
            self.show_state()
        self._preview.soon(self.listing, self._rows.selected, self._look)

    def on_stream_rows_laid_out(self) -> None:
        self._titles.refresh()

    def on_cursor_list_opened(self) -> None:
        self._inspect(self._rows.selected)

    def action_play(self) -> None:
        self._inspect(self._rows.selected, "stream")

    def action_play_stall(self) -> None:
        self._inspect(self._rows.selected, "stall")

    def action_view(self) -> None:
        from wiretape.viewer.tui.list.lanes import LanesScreen

        self.app.push_screen(LanesScreen(self.listing.query, self._rows.selected, self._inspect))

    def _inspect(self, number: int | None, plays: Literal["stream", "stall"] | None = None) -> None:
        """Open an exchange in the inspector; one on a server is pulled first."""
        from wiretape.viewer.tui.inspector.screen import InspectorScreen

        def inspect(numbers: list[int]) -> None:
            self.app.push_screen(InspectorScreen(numbers[0], plays=plays))

        if number is not None:
            self._with_copies([number], inspect)

    def _with_copies(self, numbers: list[int], open: Callable[[list[int]], object]) -> None:
        """Open exchanges with the numbers that they have on the tape: at once, or when they have been pulled to it."""
        if self._host.listed is self._host.tape:
            open(numbers)
        else:
            self.run_worker(self._pull(numbers, open), group="pull", exclusive=True)

    async def _pull(self, numbers: list[int], open: Callable[[list[int]], object]) -> None:
        self._pulls, asking = counted(len(numbers), "exchange"), self.app.screen
        self.show_state()
        try:
            there = await in_thread(partial(self._host.listed.place.pull, numbers))
        except WiretapeError as error:
            self.notify(str(error), title="not pulled", severity="error", timeout=_ERROR_SECONDS, markup=False)
        else:
            if is_seen(asking):  # else something else has been opened meanwhile
                open(there)
        finally:
            self._pulls = ""
            self.show_state()

    def action_open(self) -> None:
        self._rows.open()

    def on_filter_line_edited(self, event: FilterLine.Edited) -> None:
        self.filter.is_on = event.is_on
        if self._parse_filter(event.text):
            self._load()
        self.show_state()

    def on_filter_line_left(self) -> None:
        self.remove_class("-filtering")
        self._apply_filter()
        self._rows.focus()
        self.show_state()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if event.widget is self._rows and self.filter.is_entered:
            self.filter.leave()

    def _parse_filter(self, text: str) -> bool:
        is_parsed = self.filter.parse(text, self._host.clock)
        self._apply_filter()
        return is_parsed

    def _apply_filter(self) -> None:
        self.listing.query = self.filter.applied(self.listing.query)

    def action_filter(self) -> None:
        self.filter.enter()
        self.add_class("-filtering")
        self._apply_filter()
        self.show_state()
        self.run_worker(self._complete(), group="values")

    async def _complete(self) -> None:
        await self.listing.read_vocabulary()
        self.filter.complete()

    def action_toggle_filter(self) -> None:
        if self.filter.text.strip():
            self.filter.is_on = not self.filter.is_on
            self.action_reload()

    def action_views(self) -> None:
        from wiretape.viewer.tui.dialogs.menus import ViewsMenu

        self.app.push_screen(ViewsMenu(), lambda text: None if text is None else self.set_filter(text))

    def action_only(self, term: str) -> None:
        """Add a term to the filter, in place of the other one of these keys; if it is there, remove it."""
        self.set_filter(drilling.toggled(self.filter.text_in_force, term, _ONLY))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide actions from footer and help that do not apply now."""
        return not self.is_mounted or action not in self._idle

    @property
    def _idle(self) -> frozenset[str]:
        if self.filter.is_entered:
            return _ALL
        if self.listing.change is None:
            return frozenset()  # nothing is known yet: no key is refused that may be of use in a moment
        marked, text = bool(self.marks), bool(self.filter.text.strip())
        idle = set() if self._rows.count else {*_OF_ROWS}
        idle |= {action for action, needed in _NEEDED.items() if not self._host.listed.place.supports(needed)}
        applies = {
            "compare": marked and self._rows.count > 0,
            "toggle_filter": text,
            "preview": not self.has_class("-short"),
            "only": self.listing.change.total > 0,
            "filter": self.listing.change.total > 0,
        }
        return frozenset(idle | {action for action, does in applies.items() if not does})

    @property
    def undo(self) -> Callable[[], object] | None:
        """The reversal of the last step: it removes the marks or an invalid filter, or else switches the filter off."""
        if self.marks:
            return self._unmark
        if self.filter.is_refused:
            return self.filter.abandon
        return self.action_toggle_filter if self.filter.text_in_force.strip() else None

    def _unmark(self) -> None:
        self.marks.clear()
        self._show_marks()

    def action_mark(self) -> None:
        row = self._row
        if row is not None:
            self.marks.toggle(row.no, row.id)
            self._show_marks()
            self._rows.action_move(1)

    def _show_marks(self) -> None:
        self._rows.marks = frozenset(self.marks)
        self._rows.redraw()
        self.show_state()

    def action_order(self) -> None:
        from wiretape.viewer.tui.list.offers import OrderMenu

        self.app.push_screen(OrderMenu(), self._order_by)

    def on_titles_clicked(self, event: Titles.Clicked) -> None:
        self._order_by(event.field)

    def _order_by(self, field: str | None) -> None:
        if field is not None:
            self._reorder(self.listing.query.by(field))

    def _reorder(self, query: Query) -> None:
        self._follow = self._follow and query.order is None  # in another order the newest is not on top
        self.listing.query = query
        self._rows.selected = None
        self._load()

    def action_reverse(self) -> None:
        self._reorder(self.listing.query.reversed())

    def action_reload(self) -> None:
        """Read everything again, in the order asked for; a time such as -2h is counted from now."""
        self._parse_filter(self.filter.text)
        self._load()

    def action_compare(self) -> None:
        self._comparing = self.run_worker(self._compare, group="compare", exclusive=True)

    async def _compare(self) -> None:
        from wiretape.viewer.tui.compare.table import comparison

        if not await self.listing.holds(self._known):
            self._load()  # which reports the missing ones
        elif len(numbers := self.marks.compared(self._rows.selected)) < 2:
            self.notify("Mark another exchange with m, then press c.", title="compare", markup=False)
        else:
            self._with_copies(numbers, lambda there: self.app.push_screen(comparison(there)))

    def action_stats(self) -> None:
        from wiretape.viewer.tui.stats.screen import StatsScreen

        self.app.push_screen(StatsScreen(self.filter.text_in_force))

    def action_trees(self) -> None:
        from wiretape.viewer.tui.list.conversations import ConversationsScreen

        self.app.push_screen(ConversationsScreen(self.filter.text_in_force))

    def action_follow(self) -> None:
        """Stay on the newest exchange, or stop doing so."""
        self._follow = not self._follow
        if self._follow and self.listing.query.order is not None:
            self._reorder(replace(self.listing.query, order=None))
        elif self._follow:
            self._rows.action_top()
        self.show_state()

    def action_preview(self) -> None:
        self.toggle_class("-unpreviewed")
        self._preview_again()

    def _preview_again(self) -> None:
        self.call_after_refresh(lambda: self._preview.now(self.listing, self._rows.selected, self._look))

    def action_zoom(self) -> None:
        self._rows.scale_each(not self._rows.own_scales)

    def action_columns(self) -> None:
        from wiretape.viewer.tui.list.offers import ColumnsMenu

        self.app.push_screen(ColumnsMenu(self._rows.hidden, self._rows.set_columns))

    def action_times(self) -> None:
        self._look = replace(self._look, times=self._look.next_times)
        self._look_again()
        self._rows.set_columns(self._rows.hidden)

    def on_key(self, event: Key) -> None:
        is_free = self.is_current and self.focused is self._rows and event.key not in self.active_bindings
        if is_free and event.is_printable and not self._hinted:
            self._hinted = True
            self.notify("Press / to filter, ? for all keys.", markup=False)

    def _tick(self) -> None:
        if not is_seen(self):
            return  # under another screen nobody sees it, and drawing would disturb playing there
        was_recording = self._look.recording
        self._look_again()
        runs = self.listing.change is not None and self.listing.change.running
        if (runs and (was_recording or self._look.recording)) or self._look.times == "ago":
            self._preview.look_again(self._look)
        self._preview_progress()
        self._rows.repaint()
        self.show_state()

    def _preview_progress(self) -> None:
        if self._rows.selected in self._progressed:
            self._preview.now(self.listing, self._rows.selected, self._look)
        self._progressed.clear()

    def _look_again(self) -> None:
        previous_cells = self._look.start_cells
        self._look = states.with_room(self.listing.at_present(self._look), self.listing.started or ())
        self._rows.set_look(self._look)
        if self._look.start_cells != previous_cells:
            self._rows.set_columns(self._rows.hidden)

    def show_state(self) -> None:
        """Show the state of the tape and of the list: in the header, at the filter, and where nothing is listed."""
        self._above = self._above if self._rows.scroll_offset.y else 0
        self._header.show(self._tape_line(), self._recorder_line())
        self.filter.show_count(content(self._count()))
        if self._idle != self._was_idle:
            self._was_idle = self._idle
            self.refresh_bindings()
        notice = self._why_empty()
        if notice is not None or self.listing.catalog:
            self._notice.show(notice or [])
        is_empty = notice is not None or (self.listing.change is not None and not self.listing.catalog)
        if self.has_class("-nothing") and not is_empty:
            self.call_after_refresh(self._rows.lay_out)  # Textual does not always tell that it has its size again
            if self.focused is None:
                self.call_after_refresh(self._rows.focus)
        self.set_class(is_empty, "-nothing")

    def _tape_line(self) -> list[Part]:
        """Return the tape's name, and what there is to count."""
        catalog, change, sorts = self.listing.catalog, self.listing.change, ": R sorts them in"
        parts: list[Part] = [(self._host.listed.name, "strong")]
        if change is not None:
            total = self.listing.total
            parts.append((f" · {'…' if total is None else counted(total, 'exchange')}", "plain"))
        counts = (
            (change.running if change is not None else 0, "open"),
            (len(self.marks), "marked"),
            (catalog.arrived, f"new{'' if catalog.ended else sorts}"),
            (catalog.ended, f"ended{sorts}"),
            (self._above, "new above: g"),
        )
        parts += [(f" · {number:,} {word}", "accent") for number, word in counts if number]
        return [*parts, (" · following", "accent")] if self._follow else parts

    def _recorder_line(self) -> list[Part]:
        """Return the recorder's state, or that the tape is locked; for a server, the running pulls, or its error."""
        if self._pulls:
            return [(f"pulling {self._pulls} …", "warning")]
        if self.listing.is_busy:
            return [(f"busy: waiting for the {self._host.listed.place.noun}", "warning")]
        if self.listing.change is None:
            return []
        if not self._host.listed.place.supports("changes"):
            return [] if self.listing.trouble is None else [(safe(str(self.listing.trouble)), "error")]
        return notices.recorder_line(self.listing.recorder, self._host.clock.wall_ns())

    def _count(self) -> list[Part]:
        """Return the number of matches and the time of the search, `…` until known; the signs if there is no filter."""
        listing = self.listing
        if listing.change is None or self.filter.is_wrong:
            return []
        if self.filter.is_typing or not listing.is_current:
            return [("…", "muted")]
        if listing.query.filter is None:
            if self.filter.text.strip():
                return [("off: \\ switches it on", "warning")]
            return [*LEGEND] if self.size.width >= _LEGEND_CELLS else []
        share = "…" if listing.total is None else f"{listing.fitting:,} / {listing.total:,}"
        return [(share, "strong"), (f" · {listing.took_ns / 1e6:,.0f} ms", "muted")]

    def _why_empty(self) -> notices.Lines | None:
        """Return the reason for an empty list; None if it is not empty, or empty by a filter."""
        listing = self.listing
        if listing.is_unread and listing.trouble is not None:
            place = self._host.listed.place
            if isinstance(listing.trouble, TapeGone) and place.file is not None:
                return notices.gone(place.file, listing.held)
            if isinstance(listing.trouble, NotFound | SchemaMissing) and place.file is not None:
                return notices.no_tape(place.file)
            return notices.failed(listing.trouble, place.noun)
        if listing.change is not None and not listing.change.total:
            if not self._host.listed.place.supports("changes"):
                return notices.nothing_shipped(self._host.listed.name)
            return notices.empty(listing.recorder, self._host.clock.wall_ns())
        return None


_ALL: Final = frozenset(action.binding.action.partition("(")[0] for action in bindings.LIST)


class DrilledScreen(StreamsScreen):
    """A list that another screen has opened, with keys that go back to it: where it was, it still is."""

    BINDINGS: ClassVar[list[BindingType]] = bindings.of(bindings.LEAVE)

    def __init__(self, filter_text: str) -> None:
        super().__init__(filter_text)
        self._opened_with = filter_text

    @property
    def undo(self) -> Callable[[], object] | None:
        """The reversal of the last step: it removes the marks, or else restores the filter of the beginning."""
        if self.marks or self.filter.is_refused:
            return super().undo
        is_as_opened = self.filter.text_in_force == self._opened_with
        return None if is_as_opened else partial(self.set_filter, self._opened_with)

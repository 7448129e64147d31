"""The exchanges of a tape, the newest first, while more arrive: filtered, ordered, marked, and previewed.

This module lays the screen out and says what each key does. The parts: `streams` has the list and reads it, `filter`
the line in which a filter is typed, `status` the words around the list, `opening` the ways to other screens, and
`offers` the copies, the exports and the menus. The data on the tape are in `listing`.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.events import DescendantFocus, Key
from textual.screen import Screen
from textual.worker import Worker

from wiretape.viewer.listing import drilling
from wiretape.viewer.text.cells import Part
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base.host import Host, host, is_seen
from wiretape.viewer.tui.dialogs.offers import Copy
from wiretape.viewer.tui.list import status
from wiretape.viewer.tui.list.filter import FilterInput, FilterLine
from wiretape.viewer.tui.list.opening import Opener
from wiretape.viewer.tui.list.streams import StreamList
from wiretape.viewer.tui.widgets.bar import HeaderLine, Notice, content
from wiretape.viewer.tui.widgets.footer import KeyLine

if TYPE_CHECKING:
    from wiretape.viewer.source.base import Capability

_ALL: Final = frozenset(action.binding.action.partition("(")[0] for action in bindings.LIST)
_OF_ROWS: Final = frozenset(
    {"open", "mark", "order", "reverse", "columns", "follow", "stats", "preview", "trees", "zoom", "view"}
)
"""Actions that do nothing where nothing is listed."""
_CAPABILITIES: Final[dict[str, "Capability"]] = {"follow": "following", "trees": "conversations"}
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
        self.streams = StreamList(follow=follow, selected=selected)
        self.filter = FilterLine(filter_text, lambda: self.streams.listing.vocabulary)
        self._opener = Opener(self, lambda: self.show_state())
        self._comparing: Worker[None] | None = None
        self._is_hinted = False
        self._idle: frozenset[str] = frozenset()
        """The idle actions when the footer was drawn."""
        self._header = HeaderLine()
        self._notice = Notice()

    def compose(self) -> ComposeResult:
        """Lay out the header, the filter, the list with its preview, and the keys."""
        self._host: Host = host(self)
        self.streams.use(self._host)
        yield self._header
        yield self.filter
        yield self.streams
        with Container(id="nothing"):
            yield self._notice
        yield KeyLine()

    def on_mount(self) -> None:
        """Read the list."""
        self.streams.rows.focus()
        self.action_reload()
        self.filter.recall()
        self.set_interval(0.5, self._tick)  # a running exchange shows its duration in tenths of a second
        self.show_state()

    def on_screen_resume(self) -> None:
        self._tick()  # nothing was drawn under the other screen

    def on_resize(self) -> None:
        self.call_after_refresh(self.streams.preview)  # it may be in sight only now
        self._show_match_count()

    def _tick(self) -> None:
        if is_seen(self):  # under another screen nobody sees it, and drawing would disturb playing there
            self.streams.tick()
            self.show_state()

    def set_filter(self, text: str) -> None:
        self.filter.put(text)
        self.streams.rows.focus()

    def copies(self) -> list[Copy]:
        from wiretape.viewer.tui.list import offers

        return offers.copies(
            self._host, self.streams.listing.query, self.streams.row, list(self.streams.marks.ids.values())
        )

    def exports(self) -> list[tuple[str, list[str]]]:
        from wiretape.viewer.tui.list import offers

        streams, listing = self.streams, self.streams.listing
        marked = list(streams.marks.ids.values())
        return offers.exports(self._host.list_reader.place, listing.query, streams.row, marked, listing.match_count)

    @property
    def holds_keys(self) -> bool:
        """True if keys must wait for the list that is being read."""
        is_comparing = self._comparing is not None and not self._comparing.is_finished
        waits = (self.streams.is_loading or is_comparing) and not self.streams.listing.is_busy
        return waits and not isinstance(self.focused, FilterInput)

    @property
    def undo(self) -> Callable[[], object] | None:
        """The reversal of the last step: it removes the marks or an invalid filter, or else switches the filter off."""
        if self.streams.marks:
            return self.streams.unmark
        if self.filter.is_refused:
            return self.filter.abandon
        return self.action_toggle_filter if self.filter.text_in_force.strip() else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide actions from footer and help that do not apply now."""
        return not self.is_mounted or action not in self._idle_actions()

    def _idle_actions(self) -> frozenset[str]:
        streams, change = self.streams, self.streams.listing.change
        if self.filter.is_entered:
            return _ALL
        if change is None:
            return frozenset()  # nothing is known yet: no key is refused that may be of use in a moment
        applies = {
            "compare": bool(streams.marks) and streams.rows.count > 0,
            "toggle_filter": bool(self.filter.text.strip()),
            "preview": not self.has_class("-short"),
            "only": change.total > 0,
            "filter": change.total > 0,
        }
        place = self._host.list_reader.place
        unsupported = {name for name, needs in _CAPABILITIES.items() if not place.supports(needs)}
        idle = unsupported | {action for action, does_apply in applies.items() if not does_apply}
        return frozenset(idle if streams.rows.count else idle | _OF_ROWS)

    def on_stream_list_changed(self) -> None:
        self.show_state()

    def on_stream_list_emptied(self) -> None:
        self.run_worker(self._explain_empty(), group="why", exclusive=True)

    async def _explain_empty(self) -> None:
        """Show the matches of each term if no exchange matches."""
        listing = self.streams.listing
        if not listing.catalog and (lines := await listing.why_nothing()):
            self._notice.show(lines)

    def on_stream_list_rejected(self, event: StreamList.Rejected) -> None:
        self.filter.reject(event.error)
        self._apply_filter()
        self.streams.load()

    def on_filter_line_edited(self, event: FilterLine.Edited) -> None:
        self.filter.is_on = event.is_on
        if self._parse_filter(event.text):
            self.streams.load()
        self.show_state()

    def on_filter_line_filter_left(self) -> None:
        self.remove_class("-filtering")
        self._apply_filter()
        self.streams.rows.focus()
        self.show_state()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if event.widget is self.streams.rows and self.filter.is_entered:
            self.filter.leave()

    def _parse_filter(self, text: str) -> bool:
        is_parsed = self.filter.parse(text, self._host.clock)
        self._apply_filter()
        return is_parsed

    def _apply_filter(self) -> None:
        self.streams.listing.query = self.filter.applied(self.streams.listing.query)

    def on_cursor_list_opened(self) -> None:
        self._opener.inspect(self.streams.rows.selected)

    def on_key(self, event: Key) -> None:
        is_free = self.is_current and self.focused is self.streams.rows and event.key not in self.active_bindings
        if is_free and event.is_printable and not self._is_hinted:
            self._is_hinted = True
            self.notify("Press / to filter, ? for all keys.", markup=False)

    def action_open(self) -> None:
        self.streams.rows.open()

    def action_play(self) -> None:
        self._opener.inspect(self.streams.rows.selected, "stream")

    def action_play_stall(self) -> None:
        self._opener.inspect(self.streams.rows.selected, "stall")

    def action_compare(self) -> None:
        self._comparing = self.run_worker(self._opener.compare(self.streams), group="compare", exclusive=True)

    def action_view(self) -> None:
        from wiretape.viewer.tui.list.lanes import LanesScreen  # no first rows wait for other screens

        self.app.push_screen(LanesScreen(self.streams.listing.query, self.streams.rows.selected, self._opener.inspect))

    def action_stats(self) -> None:
        from wiretape.viewer.tui.stats.screen import StatsScreen

        self.app.push_screen(StatsScreen(self.filter.text_in_force))

    def action_trees(self) -> None:
        from wiretape.viewer.tui.list.conversations import ConversationsScreen

        self.app.push_screen(ConversationsScreen(self.filter.text_in_force))

    def action_filter(self) -> None:
        self.filter.enter()
        self.add_class("-filtering")
        self._apply_filter()
        self.show_state()
        self.run_worker(self._complete(), group="values")

    async def _complete(self) -> None:
        await self.streams.listing.read_vocabulary()
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
        self.set_filter(drilling.toggled(self.filter.text_in_force, term, ("is:failed", "flag:stall")))

    def action_reload(self) -> None:
        """Read everything again, in the order asked for; a time such as -2h is counted from now."""
        self._parse_filter(self.filter.text)
        self.streams.load()

    def action_order(self) -> None:
        from wiretape.viewer.tui.list.offers import OrderMenu

        self.app.push_screen(OrderMenu(), self.streams.order_by)

    def action_reverse(self) -> None:
        self.streams.reorder(self.streams.listing.query.reversed())

    def action_mark(self) -> None:
        self.streams.toggle_mark()

    def action_follow(self) -> None:
        self.streams.toggle_follow()

    def action_preview(self) -> None:
        self.toggle_class("-unpreviewed")
        self.call_after_refresh(self.streams.preview)

    def action_zoom(self) -> None:
        self.streams.rows.scale_each(not self.streams.rows.own_scales)

    def action_columns(self) -> None:
        from wiretape.viewer.tui.list.offers import ColumnsMenu

        self.app.push_screen(ColumnsMenu(self.streams.rows.hidden, self.streams.rows.set_columns))

    def action_times(self) -> None:
        self.streams.next_times()

    def show_state(self) -> None:
        """Show the state of the tape and of the list: in the header, at the filter, and where nothing is listed."""
        streams, listing = self.streams, self.streams.listing
        streams.above = streams.above if streams.rows.scroll_offset.y else 0
        pulling: list[Part] = [(f"pulling {self._opener.pulling} …", "warning")] if self._opener.pulling else []
        tape_line = status.tape_line(self._host.list_reader.name, streams)
        self._header.show(tape_line, pulling or status.recorder_line(self._host, listing))
        self._show_match_count()
        idle = self._idle_actions()
        if idle != self._idle:
            self._idle = idle
            self.refresh_bindings()
        notice = status.reason_for_empty(self._host, listing)
        if notice is not None or listing.catalog:
            self._notice.show(notice or [])
        is_empty = notice is not None or (listing.change is not None and not listing.catalog)
        if self.has_class("-nothing") and not is_empty:
            self.call_after_refresh(streams.rows.lay_out)  # Textual does not always tell that it has its size again
            if self.focused is None:
                self.call_after_refresh(streams.rows.focus)
        self.set_class(is_empty, "-nothing")

    def _show_match_count(self) -> None:
        self.filter.show_count(content(status.match_count(self.filter, self.streams.listing, self.size.width)))


class DrilledScreen(StreamsScreen):
    """A list that another screen has opened, with keys that go back to it: where it was, it still is."""

    BINDINGS: ClassVar[list[BindingType]] = bindings.of(bindings.LEAVE)

    def __init__(self, filter_text: str) -> None:
        super().__init__(filter_text)
        self._opened_with = filter_text

    @property
    def undo(self) -> Callable[[], object] | None:
        """The reversal of the last step: it removes the marks, or else restores the filter of the beginning."""
        if self.streams.marks or self.filter.is_refused:
            return super().undo
        is_as_opened = self.filter.text_in_force == self._opened_with
        return None if is_as_opened else partial(self.set_filter, self._opened_with)

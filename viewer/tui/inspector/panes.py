"""The panes of the inspector, laid out for the room there is, all showing the same place of one exchange.

They are given what there is to show and where the playhead stands; keys, playing and the tape are the screen's.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.message import Message
from textual.worker import WorkType

from viewer.model.exchange import pages as closeup
from viewer.model.exchange import strips, tree
from viewer.model.exchange.clocks import Times
from viewer.model.exchange.notes import Notes
from viewer.model.exchange.opened import Opened
from viewer.model.facts import Line
from viewer.tape import exchange
from viewer.tape.exchange import Known
from viewer.tui.base.theme import ThemeStyles
from viewer.tui.inspector import inspector_work
from viewer.tui.inspector.events import EventsPane
from viewer.tui.inspector.hex import BytesPane
from viewer.tui.inspector.inspector_sheets import Sheets
from viewer.tui.inspector.inspector_tabs import APPLIES, PANES, boxes, has_room, listed, part, rows, said, tabs, timed
from viewer.tui.inspector.keys import PANE_KEYS
from viewer.tui.inspector.page import PagePane
from viewer.tui.inspector.replay import ReplayPane
from viewer.tui.inspector.tree import TreePane
from viewer.tui.playing.timeline import Timeline
from viewer.tui.playing.transport import TransportLine
from viewer.tui.playing.waiting import Waiting
from viewer.tui.widgets.bar import Bar
from viewer.tui.widgets.pane import Heading, Pane

_BOXES: Final = ("replay", "events", "tree", "bytes", *PANES[3:])
WIDE: Final = 100
"""With so many columns, the answer and the events stand side by side."""

_LOW: Final = 19
"""With fewer rows there is no timeline."""

_DECODING: Final = "decoding …"
_LONG_NS: Final = 300_000_000


class InspectorPanes(ThemeStyles, can_focus=True):
    """Every pane, the tabs above them, and the timeline and the transport below them.

    What needs the events is `waiting` for them; `seek` is told to put the playhead where so many events have come.
    """

    DEFAULT_CSS = """
    InspectorPanes { height: 1fr; }
    InspectorPanes .box { width: 1fr; height: 1fr; }
    InspectorPanes #replay-box { width: 9fr; }
    InspectorPanes #events-box { width: 11fr; }
    InspectorPanes.-wide #events-box, InspectorPanes.-wide #bytes-box { border-left: solid $panel; }
    InspectorPanes #tree-box { width: 9fr; }
    InspectorPanes #bytes-box { width: 11fr; }
    """

    BINDINGS: ClassVar[list[BindingType]] = PANE_KEYS

    class NoteWanted(Message):
        """A note is to be written."""

    def __init__(self, waiting: Waiting, seek: Callable[[int], None]) -> None:
        super().__init__()
        self._waiting = waiting
        self._seek = seek
        self.pane = 0
        self.slot = 0
        self.zoomed = False
        self.only: Sequence[int] | None = None
        self.filter_text = ""
        self.times = Times()
        self._known: Known | None = None
        self._opened: Opened | None = None
        self._notes = Notes()
        self._position = 0
        self._died = False
        self._note, self._legend = _DECODING, ""
        self.replay, self.events, self.parts, self.bytes = ReplayPane(), EventsPane(), TreePane(), BytesPane()
        self.timeline, self.transport = Timeline(), TransportLine()
        self._sheets = Sheets()
        self._headings = {name: Heading(id=f"{name}-heading") for name in (*_BOXES, "timeline")}
        self._boxes = {name: Vertical(id=f"{name}-box", classes="box") for name in _BOXES}
        self._bars = {name: Bar(id=name) for name in ("head", "tabs", "trouble", "titles")}
        self._bars["trouble"].display = False

    def compose(self) -> ComposeResult:
        """Lay out everything; what is not shown takes no room."""
        yield from (self._bars["head"], self._bars["tabs"], self._bars["trouble"])
        with Horizontal():
            for name in _BOXES:
                with self._boxes[name]:
                    yield self._headings[name]
                    if name == "events":
                        yield self._bars["titles"]
                    yield self._pane(name)
        yield from (self._headings["timeline"], self.timeline, self.transport)

    def on_mount(self) -> None:
        """Show the first pane."""
        self.lay_out()
        self.focus(scroll_visible=False)

    def on_resize(self, event: Resize) -> None:
        """Lay out for the new room."""
        self.timeline.set_rows(*rows(event.size.height))
        self.lay_out()

    @property
    def active(self) -> Pane:
        """The pane that keys go to."""
        shown = self._shown()
        return self._pane(shown[min(self.slot, len(shown) - 1)])

    def show_known(self, known: Known, *, died: bool) -> None:
        """Show what is known at once."""
        self._known, self._died = known, died
        self._set_times(dataclasses.replace(self.times, started_at=known.row["started_at"]))
        self._head()
        self._warn()
        self._write_pages()
        if self._opened is None:
            transcript = exchange.preliminary(known.row)
            self.replay.show(transcript, 1, 0, _DECODING)
            self.events.show(transcript, None, 0, 0, self.times, _DECODING)
        self.titles()

    def show_opened(self, opened: Opened, position: int, notes: Notes) -> None:
        """Show all of it."""
        self._opened, self._position, self._notes = opened, position, notes
        self._head()
        self._legend = strips.legend(opened.transcript)
        first = next((one.at_ns for one in opened.markers if one.sign == "B"), None)
        self._set_times(dataclasses.replace(self.times, first_byte_ns=first))
        self._note = "nothing was said" if self._known is None else closeup.silence(self._known, opened)
        self.replay.show(opened.transcript, position, _LONG_NS, self._note)
        self._list()
        if self.filter_text:
            self._find()
        self._warn()
        self._write_pages()
        self._raw()
        if self.is_attached:  # the screen may have been left meanwhile
            self.refresh_bindings()

    def show_failure(self, text: str) -> None:
        """Say that the exchange cannot be shown, or not anew."""
        self._tell([(f" {text}", "error")])

    def show_notes(self, notes: Notes) -> None:
        """Show what is noted now."""
        self._notes = notes
        self._write_pages()

    def filter_events(self, text: str) -> None:
        """List only the events that fit a filter, which can be read, or all of them if it is empty."""
        self.filter_text = text
        if "events" not in self._shown():
            self.turn_to(1)
        self._find()

    def _find(self) -> None:
        """Find what fits beside the loop; of a stream that still runs, anew whenever it has grown."""
        work: WorkType[None] = self._found_fitting  # not begun yet: another may be asked for before it is
        self.run_worker(work, group="filter", exclusive=True)

    async def _found_fitting(self) -> None:
        if self._opened is not None:
            self.only = await inspector_work.fitting(self._opened.transcript, self.filter_text)
            self._list()

    def _list(self) -> None:
        """List the events that are wanted now."""
        if self._opened is None:
            return
        note = "no event fits" if self.only is not None else self._note
        limit = self._opened.limits.stall_ns
        self.events.show(self._opened.transcript, self.only, self._position, limit, self.times, note)
        self.titles()

    def move(self, position: int, *, jumped: bool = False) -> None:
        """Put the playhead elsewhere; where it `jumped` to, the words that it stands in are shown."""
        if position == self._position:
            return
        self._position = position
        self.replay.move(position, unfold=jumped)
        self.events.move(position)
        if self.pane == 2:
            self._raw()
        self.titles()

    def still(self, still: bool) -> None:
        """Say whether the playhead stands, or changes many times a second."""
        self.replay.still(still)
        self.events.still(still)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies to what is shown: the keys of the others are not named anywhere."""
        if action == "fold":
            return self.pane == 0 and self.replay.can_fold
        if action == "choice":
            return self.pane == 0 and len(self.replay.choices) > 1
        return self.pane in APPLIES.get(action, range(len(PANES)))

    def turn_to(self, pane: int) -> None:
        """Show another pane."""
        self.pane, self.slot = pane, 0
        if pane == 2:
            self._raw()
        self.lay_out()
        self.refresh_bindings()

    def lay_out(self) -> None:
        """Show the boxes of the pane, and the focus in the right one."""
        shown = self._shown()
        for name in _BOXES:
            self._boxes[name].display = name in shown  # not a class: that would style all within it anew
        self._headings["timeline"].display = self.timeline.display = not self.zoomed and self.size.height >= _LOW
        self.set_class(len(shown) > 1, "-wide")
        for name in _BOXES:
            self._pane(name).activate(self._pane(name) is self.active)
        self._tabs()
        self.titles()

    def titles(self) -> None:
        """Write the titles above the panes."""
        active, opened = self.active.id, self._opened
        asked = [] if self.times.is_plain else [self.times.name]
        texts = {
            "replay": said(opened, self._position, self.replay) if opened else f"text · {_DECODING}",
            "events": listed(opened, self.events, [*asked, self.filter_text]) if opened else f"events · {_DECODING}",
            "tree": part(opened, self._position),
            "bytes": f"bytes · {self.bytes.view}",
            "timeline": self._timeline_title(),
            **{name: name for name in PANES[3:]},
        }
        for name in (*self._shown(), "timeline"):
            self._headings[name].show(texts[name], active=name == active)
        self._bars["titles"].show([(self.events.titles(), "muted")])

    def _timeline_title(self) -> str:
        if self._opened is None:
            return "timeline"
        return timed(self._legend, self.timeline.axis_ns, self.times, self.size.width)

    def action_pane(self, pane: int) -> None:
        """Show a pane."""
        self.turn_to(pane)

    def action_focus_pane(self, by: int) -> None:
        """Go to the next pane that is shown; past the last one, show the next."""
        shown = self._shown()
        if 0 <= self.slot + by < len(shown):
            self.slot += by
            self.lay_out()
        else:
            self.turn_to((self.pane + by) % len(PANES))

    def action_zoom(self, zoomed: bool) -> None:
        """Give all room to one pane, or take it back."""
        self.zoomed = zoomed
        self.lay_out()

    def action_fold(self) -> None:
        """Fold the reasoning, or unfold it."""
        self.replay.fold()

    def action_ghost(self) -> None:
        """Show what comes later, or leave it out."""
        self.replay.toggle_ghost()
        self.titles()

    def action_annotate(self) -> None:
        """Show the time between words in another way."""
        self.replay.annotate()
        self.titles()

    def action_choice(self) -> None:
        """Show only the next choice of the answer; after the last one, all of them."""
        self.replay.choose()
        self.titles()

    def action_markdown(self) -> None:
        """Show the content as Markdown, or as it is."""
        self.replay.mark_up()
        self.titles()

    def action_view(self) -> None:
        """Show the bytes in another way."""
        self.bytes.cycle()
        self.titles()

    def action_move(self, rows: int) -> None:
        """Go up or down: from event to event, from part to part, or by lines."""
        active = self.active
        if isinstance(active, PagePane):
            active.scroll_lines(rows)
        else:
            self._waiting.do(functools.partial(self._move_in, active, rows))

    def _move_in(self, pane: Pane, rows: int) -> None:
        if isinstance(pane, EventsPane):
            event = pane.beside(rows)
            if event is not None:
                self._seek(event + 1)
        elif isinstance(pane, TreePane):
            pane.go(rows)
        else:
            pane.scroll_lines(rows)

    def action_page(self, pages: float) -> None:
        """Go up or down by pages."""
        self.action_move(round(pages * max(self.active.size.height - 1, 1)))

    def action_open(self) -> None:
        """Take the selected event apart; in the notes, write one."""
        if self.pane == 5:
            self.post_message(self.NoteWanted())
        elif self.pane < 2:
            self.turn_to(2)

    def action_time_format(self) -> None:
        """Display times in the next format; the event under the playhead is what they can count from."""
        if self._opened is None:
            return
        self._set_times(self.times.following(self._opened.transcript, self._position - 1))
        self._list()
        self._tabs(f"t: {self.times.name}")

    def _set_times(self, times: Times) -> None:
        """Let all panes, the timeline and the transport display times by the same clock."""
        self.times = times
        self.bytes.set_times(times)
        self.timeline.set_times(times)
        self.transport.set_times(times)
        self._write_pages()

    def on_events_pane_selected(self, message: EventsPane.Selected) -> None:
        """Go to the event that was clicked; on a second click take it apart."""
        self.slot = self._shown().index("events")
        self.lay_out()
        self._seek(message.event + 1)
        if message.twice:
            self.turn_to(2)

    def on_events_pane_resized(self, message: EventsPane.Resized) -> None:
        """Write the titles of other columns."""
        self.titles()

    def on_tree_pane_chosen(self, message: TreePane.Chosen) -> None:
        """Light up the bytes of a part of an event."""
        self.bytes.light(message.node.start, message.node.end)

    def on_replay_pane_stale(self) -> None:
        """Render the content beside the loop."""
        self.run_worker(inspector_work.render(self.replay), group="render")

    def on_bar_clicked(self, message: Bar.Clicked) -> None:
        """Show the pane whose tab was clicked."""
        if message.bar.id == "tabs" and message.piece < len(PANES):
            self.turn_to(message.piece)

    def _pane(self, name: str) -> Pane:
        known: dict[str, Pane] = {"replay": self.replay, "events": self.events, "tree": self.parts, "bytes": self.bytes}
        return known.get(name) or self._sheets.panes[name]

    def _shown(self) -> tuple[str, ...]:
        return boxes(self.pane, wide=self.size.width >= WIDE, zoomed=self.zoomed)

    def _tabs(self, changed: str = "") -> None:
        """Write the tabs; what has changed is said elsewhere if there is no room beside them."""
        told = f"t: {self.times.name}"
        self._bars["tabs"].show(tabs(self.pane, told, self.size.width))
        if changed and not has_room(told, self.size.width):
            self.notify(changed, timeout=2, markup=False)

    def _head(self) -> None:
        if self._known is not None:
            self._bars["head"].show(closeup.heading(self._known, self._opened, self._died))

    def _warn(self) -> None:
        if self._known is not None:
            self._tell(closeup.trouble(self._known, self._opened, self._died))

    def _tell(self, line: Line | None) -> None:
        """Say what is wrong, above all panes; None is nothing."""
        self._bars["trouble"].show(line or [])
        self._bars["trouble"].display = line is not None

    def _write_pages(self) -> None:
        if self._known is not None:
            self._sheets.write(self._known, self._opened, self._notes, self.times)

    def _raw(self) -> None:
        opened = self._opened
        if opened is None:
            return
        transcript = opened.transcript
        event = max(self._position - 1, 0) if len(transcript) else None
        self.parts.show(tree.of_body(transcript.data) if event is None else tree.of(transcript, event))
        self.bytes.show(opened, event, self.times)

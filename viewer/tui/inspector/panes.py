"""The inspector's panes, the tabs above them, and the timeline and the transport line below.

They show only data from the screen: the tape, the playhead and playing are the screen's.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize

from wiretape.viewer.exchange import events, markers, pages, strips, tree
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.facts import Line
from wiretape.viewer.exchange.opened import Known, OpenedExchange, preliminary
from wiretape.viewer.exchange.pulse import Pulse
from wiretape.viewer.exchange.transport import PlaybackState
from wiretape.viewer.exchange.turn import Turn
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.timing.playback import Playback
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base.host import in_thread
from wiretape.viewer.tui.base.theme import ThemeStyles
from wiretape.viewer.tui.inspector.events import EventsPane
from wiretape.viewer.tui.inspector.pages import PagePane, RequestPane
from wiretape.viewer.tui.inspector.raw import BytesPane, TreePane
from wiretape.viewer.tui.inspector.replay import VIEWS, ReplayPane
from wiretape.viewer.tui.playing.loader import KeyQueue
from wiretape.viewer.tui.playing.timeline import StreamTimeline, TransportLine
from wiretape.viewer.tui.widgets.bar import Bar
from wiretape.viewer.tui.widgets.pane import Heading, Pane

TABS: Final = ("replay", "events", "raw", "request", "timing")
"""The tabs by their numbers, from 1."""

REPLAY, EVENTS, RAW, REQUEST, _ = range(len(TABS))

_APPLIES: Final = {
    "filter": (REPLAY, EVENTS, REQUEST), "open": (REPLAY, EVENTS), "view": (REPLAY, RAW, REQUEST),
}  # fmt: skip
"""The tabs to which some actions apply; the others apply to all of them."""


_LOW: Final = 19
"""With fewer rows, the timeline is a row of gaps."""


_ROWS: Final = ((79, (8, 4, 8)), (51, (8, 2, 4)), (43, (5, 1, 2)), (28, (3, 1, 1)), (22, (2, 0, 1)), (_LOW, (0, 0, 1)))
"""Rows of the timeline for characters, bytes and gaps, by the fewest rows of a terminal, the footer excluded."""

_DECODING: Final = "decoding …"


def applies(action: str, tab: int) -> bool:
    """Return True if an action applies to a tab, counted from 0."""
    return tab in _APPLIES.get(action, range(len(TABS)))


class PaneBox(Vertical):
    """A pane below its heading, and below a bar with the titles of its columns if it has one."""

    def __init__(self, pane: Pane, bar: Bar | None = None) -> None:
        super().__init__(id=f"{pane.id}-box", classes="box")
        self.pane, self.bar = pane, bar
        self.heading = Heading(id=f"{pane.id}-heading")

    def compose(self) -> ComposeResult:
        yield self.heading
        if self.bar is not None:
            yield self.bar
        yield self.pane


@dataclass
class OpenTab:
    """The place of the keys: the number of a tab, and that of one of its panes, which may be `zoomed`."""

    number: int = REPLAY
    slot: int = 0
    zoomed: bool = False
    opened_from: int | None = None
    """The tab on which an event was opened, to go back to."""


class InspectorPanes(ThemeStyles, can_focus=True):
    """All panes. Keys that need events go through `key_queue`; `seek` moves the playhead to a number of events."""

    DEFAULT_CSS = """
    InspectorPanes { height: 1fr; }
    InspectorPanes .box { width: 1fr; height: 1fr; }
    InspectorPanes #replay-box { width: 9fr; }
    InspectorPanes #events-box { width: 11fr; }
    InspectorPanes.-wide #events-box, InspectorPanes.-wide #bytes-box { border-left: solid $foreground-muted; }
    InspectorPanes #tree-box { width: 9fr; }
    InspectorPanes #bytes-box { width: 11fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.PANES)

    def __init__(self, key_queue: KeyQueue, seek: Callable[[int], None]) -> None:
        super().__init__()
        self._key_queue = key_queue
        self._seek = seek
        self.tab = OpenTab()
        self.times = Times()
        self._facts: Known | None = None
        self._exchange: OpenedExchange | None = None
        self._position = 0
        self._died = False
        self.replay, self.events, self.parts, self.bytes = ReplayPane(), EventsPane(), TreePane(), BytesPane()
        self.timeline, self.transport = StreamTimeline(), TransportLine()
        self.request, self._timing = RequestPane(), PagePane("timing")
        self._bars = {name: Bar(id=name) for name in ("head", "tabs", "trouble", "titles")}
        self._bars["trouble"].display = False
        panes = (self.replay, self.events, self.parts, self.bytes, self.request, self._timing)
        self._boxes = {
            str(pane.id): PaneBox(pane, self._bars["titles"] if pane is self.events else None) for pane in panes
        }
        self._timeline_heading = Heading(id="timeline-heading")

    def compose(self) -> ComposeResult:
        """Lay out everything; hidden parts take no room."""
        yield from (self._bars[name] for name in ("head", "tabs", "trouble"))
        yield Horizontal(*self._boxes.values())
        yield from (self._timeline_heading, self.timeline, self.transport)

    def on_mount(self) -> None:
        self._lay_out()
        self.focus(scroll_visible=False)

    def on_resize(self, event: Resize) -> None:
        height = event.size.height
        rows = next((rows for least, rows in _ROWS if height >= least), (0, 0, 0))
        self.timeline.set_rows(*rows)
        self.transport.has_bar = not rows[2]
        self._lay_out()

    @property
    def active(self) -> Pane:
        names = self._visible_panes()
        return self._boxes[names[min(self.tab.slot, len(names) - 1)]].pane

    def show_facts(self, facts: Known, *, died: bool) -> None:
        """Show the facts that need no decoding."""
        self._facts, self._died = facts, died
        self._set_times(dataclasses.replace(self.times, started_at=facts.row.started_at))
        self._write_head()
        if self._exchange is None:
            transcript = preliminary(facts.row)
            is_played = facts.exchange.end_ns and facts.row.events != 1  # from the start, as `InspectorScreen` begins
            self.replay.show(transcript, 0 if is_played else 1, 0, _DECODING)
            self.events.show(transcript, 0, 0, self.times, _DECODING)
        self.titles()

    def show_exchange(self, exchange: OpenedExchange, position: int) -> None:
        """Show a decoded exchange, with the playhead at a position; again, when more of it has come."""
        self._exchange, self._position = exchange, position
        self.timeline.legend = strips.legend(exchange.transcript)
        self._write_pages()
        self._write_head()
        self.replay.show(exchange.transcript, position, 300_000_000, self._note(exchange))
        self._list()
        if self.events.filter_text:
            self._match()
        self._show_event()
        if self.is_attached:  # the screen may have been left meanwhile
            self.refresh_bindings()

    def show_failure(self, text: str) -> None:
        self._show_trouble([(f" {text}", "error")])

    def show_turn(self, turn: Turn) -> None:
        self.request.show_turn(turn)
        self.titles()
        self.refresh_bindings()

    def filter_events(self, text: str) -> None:
        """List only the events that match a valid filter, all of them if it is empty."""
        self.events.filter_text = text
        if text and "events" not in self._visible_panes():
            self.action_pane(EVENTS)
        self._match()

    @work(group="filter", exclusive=True)
    async def _match(self) -> None:
        if self._exchange is not None:
            tests, transcript = events.parse_filter(self.events.filter_text), self._exchange.transcript
            matching = functools.partial(events.matching, transcript, tests)  # reads every payload
            self.events.matches = await in_thread(matching) if tests else None
            self._list()

    def _list(self) -> None:
        exchange = self._exchange
        if exchange is not None:
            note = "no event fits" if self.events.matches is not None else self._note(exchange)
            self.events.show(exchange.transcript, self._position, exchange.limits.stall_ns, self.times, note)
            self.titles()

    def _note(self, exchange: OpenedExchange) -> str:
        """Return the words for an answer without text."""
        return "nothing was said" if self._facts is None else pages.silence(self._facts, exchange)

    def move(self, position: int, *, jumped: bool = False) -> None:
        """Move the playhead; if it `jumped`, unfold the text that it is in."""
        if position == self._position:
            return
        self._position = position
        self.replay.move(position, unfold=jumped)
        self.events.move(position)
        if self.tab.number == RAW:
            self._show_event()
        self.titles()

    def tick(self, playback: Playback, pulse: Pulse, lag_ms: float | None) -> None:
        events = None if self._exchange is None else len(self._exchange.transcript)
        self.replay.set_still(not playback.playing)
        self.events.set_still(not playback.playing)
        self.timeline.move(playback.media_ns)
        self.transport.show(PlaybackState(playback, pulse, events, lag_ms, self.times))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return True if an action applies to the open pane: other keys are not shown anywhere."""
        tab = self.tab.number
        if action == "fold":
            return self.replay.can_fold if tab == REPLAY else tab == REQUEST and self.request.turn is not None
        if action == "all":
            return tab == REPLAY and len(self.replay.choices) > 1
        return applies(action, tab)

    @property
    def undo(self) -> Callable[[], object] | None:
        """The reversal of the last step: it shows all panes of the tab, or the tab where an event was opened."""
        if self.tab.zoomed:
            return self.action_zoom
        return None if self.tab.opened_from is None else functools.partial(self.action_pane, self.tab.opened_from)

    def _visible_panes(self) -> tuple[str, ...]:
        """Return the names of the panes of the open tab, from left to right; if it is zoomed, only one."""
        if self.tab.number == RAW:
            return ("bytes",) if self.tab.zoomed else ("tree", "bytes")
        is_double = self.tab.number == REPLAY and self.size.width >= 100 and not self.tab.zoomed  # side by side
        return ("replay", "events") if is_double else (TABS[self.tab.number],)

    def _lay_out(self) -> None:
        names = self._visible_panes()
        self._timeline_heading.display = not self.tab.zoomed and self.size.height >= _LOW
        self.timeline.display = not self.tab.zoomed and self.size.height >= 12  # lower, the text needs the rows
        self.set_class(len(names) > 1, "-wide")
        for name, box in self._boxes.items():
            box.display = name in names  # not a class: that would style all within it again
            box.pane.active = box.pane is self.active
        self._write_tabs()
        self.titles()

    def titles(self) -> None:
        """Write the titles above the panes."""
        position, exchange = self._position, self._exchange
        event = "body" if exchange and not len(exchange.transcript) else f"event {markers.label(max(position, 1))}"
        texts = {"tree": event, "bytes": f"bytes · {self.bytes.view}", "request": self.request.heading}
        if exchange is None:
            texts |= {"replay": f"text · {_DECODING}", "events": f"events · {_DECODING}"}
        else:
            counts = f"events {self.events.row_count:,} / {len(exchange.transcript):,}"
            settings = "" if self.times.is_plain else self.times.name, self.events.filter_text
            texts |= {"replay": self._text_title(exchange), "events": " · ".join(filter(None, (counts, *settings)))}
        for name in self._visible_panes():
            heading = self._boxes[name].heading
            heading.text, heading.active = texts.get(name, name), name == self.active.id
        self._timeline_heading.text = self._timeline_title()
        self._bars["titles"].pieces = [(self.events.titles(), "muted")]

    def _text_title(self, exchange: OpenedExchange) -> str:
        """Return the title of the text; of several choices, the one that is shown is in brackets."""
        replay, text = self.replay, f"text @ {markers.label(self._position)}"
        if len(exchange.transcript.voices) > 1:
            choices = (f"[{choice}]" if choice == replay.choice else str(choice) for choice in replay.choices)
            text += f" · choices {'[all]' if replay.choice is None else 'all'} {' '.join(choices)} (a)"
        return " · ".join(filter(None, (text, VIEWS[replay.view])))

    def _timeline_title(self) -> str:
        """Return the title of the timeline, with as much explanation as fits."""
        if self._exchange is None:
            return "timeline"
        length = formatting.timestamp_with_unit(self.timeline.axis_ns)
        clock = "" if self.times.is_plain else self.times.clock_name
        parts = (f"gaps × {formatting.duration(self.timeline.strips.unit_ns)}", length, clock, self.timeline.legend)
        choices = parts, parts[1:], parts[:3], parts[1:3]
        texts = [" · ".join(filter(None, ("timeline", *some))) for some in choices]
        texts.append(f"timeline · {length}")
        return next((text for text in texts if len(text) <= self.size.width - 4), texts[-1])

    def action_pane(self, pane: int) -> None:
        """Open a tab."""
        self.tab = OpenTab(pane, zoomed=self.tab.zoomed)
        if pane == RAW:
            self._show_event()
        elif pane == REQUEST:
            self.request.want_turn()
        self._lay_out()
        self.refresh_bindings()

    def action_part(self, by: int) -> None:
        if 0 <= self.tab.slot + by < len(self._visible_panes()):
            self.tab.slot += by
            self._lay_out()
        else:
            self.action_pane((self.tab.number + by) % len(TABS))

    def action_zoom(self) -> None:
        self.tab.zoomed = not self.tab.zoomed
        self._lay_out()

    def action_all(self) -> None:
        self.replay.choose()
        self.titles()

    def action_fold(self) -> None:
        """Fold the reasoning, or unfold a request."""
        if self.tab.number == REQUEST:
            self.request.fold()
            self.titles()
        else:
            self.replay.fold()

    def action_view(self) -> None:
        """Show the text, the bytes or the request in the next view."""
        if self.tab.number == REQUEST:
            self.request.cycle()
            self.refresh_bindings()
        else:
            (self.replay if self.tab.number == REPLAY else self.bytes).cycle()
        self.titles()

    def action_move(self, rows: int) -> None:
        """Go up or down: by events, by parts of the tree, or by lines."""
        active = self.active
        if isinstance(active, PagePane):
            active.scroll_lines(rows)
        else:
            self._key_queue.do(functools.partial(self._move_in, active, rows))

    def _move_in(self, pane: Pane, rows: int) -> None:
        if isinstance(pane, EventsPane):
            event = pane.beside(rows)
            if event is not None:
                self._seek(event + 1)
        elif isinstance(pane, TreePane):
            pane.go(rows)
        else:
            pane.scroll_lines(rows)

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self.active.size.height - 1, 1))

    def action_open(self) -> None:
        number = self.tab.number
        if number in (REPLAY, EVENTS):
            self.action_pane(RAW)
            self.tab.opened_from = number

    def next_time_format(self) -> None:
        self._set_times(self.times.with_next_format)
        self._list()
        self._write_tabs(has_changed=True)

    def _set_times(self, times: Times) -> None:
        self.times = times
        self.bytes.set_times(times)
        self.timeline.set_times(times)
        self._write_pages()

    def on_events_pane_selected(self, message: EventsPane.Selected) -> None:
        """Go to the event that was clicked; a double click shows its parts."""
        self.tab.slot = self._visible_panes().index("events")
        self._lay_out()
        self._seek(message.event + 1)
        if message.twice:
            self.action_open()

    def on_events_pane_width_changed(self, message: EventsPane.WidthChanged) -> None:
        self.titles()

    def on_tree_pane_part_chosen(self, message: TreePane.PartChosen) -> None:
        self.bytes.highlight(message.node.start, message.node.end)

    def on_bar_piece_clicked(self, message: Bar.PieceClicked) -> None:
        if message.bar is self._bars["tabs"] and message.piece < len(TABS):
            self.action_pane(message.piece)

    def _write_tabs(self, *, has_changed: bool = False) -> None:
        """Write the tabs, and the time format where there is room; elsewhere a change of it becomes a toast."""
        clock = f"T: {self.times.name}"
        pieces: list[tuple[str, Tone]] = [(f" {tab} {name.title()} ", "muted") for tab, name in enumerate(TABS, 1)]
        room = self.size.width - 1 - len(clock) - sum(len(text) for text, _ in pieces)
        pieces[self.tab.number] = (f"▌{pieces[self.tab.number][0][1:]}", "accent")
        if room > 0:
            pieces += [(" " * room, "muted"), (clock, "muted")]
        elif has_changed:
            self.notify(clock, timeout=2, markup=False)
        self._bars["tabs"].pieces = pieces

    def _write_head(self) -> None:
        if self._facts is not None:
            self._bars["head"].pieces = pages.heading(self._facts, self._exchange, self._died)
            self._show_trouble(pages.trouble(self._facts, self._exchange, self._died))

    def _show_trouble(self, line: Line | None) -> None:
        self._bars["trouble"].pieces = line or []
        self._bars["trouble"].display = line is not None

    def _write_pages(self) -> None:
        facts, exchange, times = self._facts, self._exchange, self.times
        if facts is not None:
            self.request.show_facts(facts)
            if self.tab.number == REQUEST:
                self.request.want_turn()
            self._timing.show(lambda width: pages.timing(facts, exchange, width, times), facts, exchange, times)

    def find(self, words: str, *, back: bool) -> bool:
        """Show the next place of some words in the request, which is unfolded for that; False if there is none."""
        place = self.request.find(words, back=back)
        self.titles()
        return place != ""

    def _show_event(self) -> None:
        exchange = self._exchange
        if exchange is not None:
            transcript = exchange.transcript
            event = max(self._position - 1, 0) if len(transcript) else None
            nothing = "no body came" if exchange.facts.has_bytes else "its bytes were not shipped"
            self.parts.show(tree.of_body(transcript.data, nothing) if event is None else tree.of(transcript, event))
            self.bytes.show(exchange, event, self.times)

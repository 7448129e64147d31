"""The inspector's panes, the tabs above them, and the timeline and the transport line below.

They show only data from the screen: the tape, the playhead and playing are the screen's.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.message import Message

from wiretape.viewer.exchange import conversation, events, markers, pages, strips, tree
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.conversation import Folding
from wiretape.viewer.exchange.facts import Line
from wiretape.viewer.exchange.opened import Known, OpenedExchange
from wiretape.viewer.exchange.pulse import Pulse
from wiretape.viewer.exchange.transport import Transport
from wiretape.viewer.exchange.turn import Turn
from wiretape.viewer.source.tape import exchange
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.timing.playback import Playback
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base.host import in_thread
from wiretape.viewer.tui.base.theme import ThemeStyles
from wiretape.viewer.tui.inspector.events import EventsPane
from wiretape.viewer.tui.inspector.pages import PagePane
from wiretape.viewer.tui.inspector.raw import BytesPane, TreePane
from wiretape.viewer.tui.inspector.replay import VIEWS, ReplayPane
from wiretape.viewer.tui.playing.loader import KeyQueue
from wiretape.viewer.tui.playing.timeline import Timeline, TransportLine
from wiretape.viewer.tui.widgets.bar import Bar
from wiretape.viewer.tui.widgets.pane import Heading, Pane

TABS: Final = ("replay", "events", "raw", "request", "timing")
"""The tabs by their numbers, from 1."""

REPLAY, EVENTS, RAW, REQUEST, _ = range(len(TABS))

_APPLIES: Final = {
    "filter": (REPLAY, EVENTS, REQUEST), "open": (REPLAY, EVENTS), "view": (REPLAY, RAW, REQUEST),
}  # fmt: skip
"""The tabs to which some actions apply; the others apply to all of them."""

_WIDE: Final = 100
"""Width from which the answer and the events are side by side, in columns."""

_LOW: Final = 19
"""With fewer rows, the timeline is a row of gaps."""

_LOWEST: Final = 12
"""With fewer rows, there is no timeline."""

_ROWS: Final = ((79, (8, 4, 8)), (51, (8, 2, 4)), (43, (5, 1, 2)), (28, (3, 1, 1)), (22, (2, 0, 1)), (_LOW, (0, 0, 1)))
"""Rows of the timeline for characters, bytes and gaps, by the fewest rows of a terminal, the footer excluded."""

_DECODING: Final = "decoding …"
_LONG_NS: Final = 300_000_000


def applies(action: str, tab: int) -> bool:
    """Return True if an action applies to a tab, counted from 0."""
    return tab in _APPLIES.get(action, range(len(TABS)))


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

    class TurnWanted(Message):
        """The request has to be read, to be shown message by message."""

    def __init__(self, key_queue: KeyQueue, seek: Callable[[int], None]) -> None:
        super().__init__()
        self._key_queue = key_queue
        self._seek = seek
        self.pane = REPLAY
        self.slot = 0
        self.zoomed = False
        self._opened_from: int | None = None
        self.only: Sequence[int] | None = None
        self.filter_text = ""
        self.times = Times()
        self._known: Known | None = None
        self._opened: OpenedExchange | None = None
        self._turn: Turn | None = None
        self._turn_of: tuple[object, ...] = ()
        self._is_folded, self._words_at = True, ""
        self._as_sent: bool | None = None
        self._position = 0
        self._died = False
        self._note, self._legend = _DECODING, ""
        self.replay, self.events, self.parts, self.bytes = ReplayPane(), EventsPane(), TreePane(), BytesPane()
        self.timeline, self.transport = Timeline(), TransportLine()
        self._pages = {name: PagePane(name) for name in ("request", "timing")}
        self._panes: dict[str, Pane] = {
            "replay": self.replay, "events": self.events, "tree": self.parts, "bytes": self.bytes, **self._pages
        }  # fmt: skip
        self._boxes = {name: Vertical(id=f"{name}-box", classes="box") for name in self._panes}
        self._headings = {name: Heading(id=f"{name}-heading") for name in (*self._panes, "timeline")}
        self._head, self._tabs, self._trouble, self._titles = (
            Bar(id=name) for name in ("head", "tabs", "trouble", "titles")
        )
        self._trouble.display = False

    def compose(self) -> ComposeResult:
        """Lay out everything; hidden parts take no room."""
        yield from (self._head, self._tabs, self._trouble)
        with Horizontal():
            for name, pane in self._panes.items():
                with self._boxes[name]:
                    yield self._headings[name]
                    if name == "events":
                        yield self._titles
                    yield pane
        yield from (self._headings["timeline"], self.timeline, self.transport)

    def on_mount(self) -> None:
        self._lay_out()
        self.focus(scroll_visible=False)

    def on_resize(self, event: Resize) -> None:
        height = event.size.height
        self.timeline.set_rows(*next((rows for least, rows in _ROWS if height >= least), (0, 0, 0)))
        self._lay_out()

    @property
    def active(self) -> Pane:
        shown = self._shown()
        return self._panes[shown[min(self.slot, len(shown) - 1)]]

    def show_known(self, known: Known, *, died: bool) -> None:
        """Show the facts that need no decoding."""
        self._known, self._died = known, died
        self._set_times(dataclasses.replace(self.times, started_at=known.row.started_at))
        self._write_head()
        if self._opened is None:
            transcript = exchange.preliminary(known.row)
            is_played = known.end_ns and known.row.events != 1  # from the start, as `InspectorScreen` begins
            self.replay.show(transcript, 0 if is_played else 1, 0, _DECODING)
            self.events.show(transcript, None, 0, 0, self.times, _DECODING)
        self.titles()

    def show_opened(self, opened: OpenedExchange, position: int) -> None:
        """Show all of it."""
        self._opened, self._position = opened, position
        self._legend = strips.legend(opened.transcript)
        self._note = "nothing was said" if self._known is None else pages.silence(self._known, opened)
        self._write_pages()
        self._write_head()
        self.replay.show(opened.transcript, position, _LONG_NS, self._note)
        self._list()
        if self.filter_text:
            self._match()
        self._show_event()
        if self.is_attached:  # the screen may have been left meanwhile
            self.refresh_bindings()

    def show_failure(self, text: str) -> None:
        self._show_trouble([(f" {text}", "error")])

    def show_turn(self, turn: Turn) -> None:
        self._turn = turn
        self._write_request()
        self.titles()
        self.refresh_bindings()

    @property
    def turn(self) -> Turn | None:
        """The request, if it is shown message by message and not raw."""
        return None if self._is_as_sent else self._turn

    @property
    def _is_as_sent(self) -> bool:
        """True if a request is shown raw: by the user's choice, else if it has no messages."""
        if self._as_sent is not None:
            return self._as_sent
        return self._turn is not None and not (self._turn.asked.prompt and self._turn.asked.prompt.messages)

    def filter_events(self, text: str) -> None:
        """List only the events that match a valid filter, all of them if it is empty."""
        self.filter_text = text
        if text and "events" not in self._shown():
            self._turn_to(EVENTS)
        self._match()

    @work(group="filter", exclusive=True)
    async def _match(self) -> None:
        """Look for the events that match, in a thread."""
        if self._opened is not None:
            tests, transcript = events.parse_filter(self.filter_text), self._opened.transcript
            matching = functools.partial(events.matching, transcript, tests)
            self.only = await in_thread(matching) if tests else None
            self._list()

    def _list(self) -> None:
        opened = self._opened
        if opened is not None:
            note = "no event fits" if self.only is not None else self._note
            limit_ns = opened.limits.stall_ns
            self.events.show(opened.transcript, self.only, self._position, limit_ns, self.times, note)
            self.titles()

    def move(self, position: int, *, jumped: bool = False) -> None:
        """Move the playhead; if it `jumped`, unfold the text that it is in."""
        if position == self._position:
            return
        self._position = position
        self.replay.move(position, unfold=jumped)
        self.events.move(position)
        if self.pane == RAW:
            self._show_event()
        self.titles()

    def tick(self, playback: Playback, pulse: Pulse, lag_ms: float | None) -> None:
        """Show the time at the playhead, and whether it is playing."""
        events = None if self._opened is None else len(self._opened.transcript)
        self.replay.set_still(not playback.playing)
        self.events.set_still(not playback.playing)
        self.timeline.move(playback.media_ns)
        self.transport.show(Transport(playback, pulse, events, lag_ms, self.times))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return True if an action applies to the open pane: other keys are not shown anywhere."""
        if action == "fold":
            return self.turn is not None if self.pane == REQUEST else self.pane == REPLAY and self.replay.can_fold
        if action == "all":
            return self.pane == REPLAY and len(self.replay.choices) > 1
        return applies(action, self.pane)

    @property
    def undo(self) -> Callable[[], object] | None:
        """The reversal of the last step: it shows all panes of the tab, or the tab where an event was opened."""
        if self.zoomed:
            return self.action_zoom
        return None if self._opened_from is None else functools.partial(self._turn_to, self._opened_from)

    def _turn_to(self, pane: int) -> None:
        self.pane, self.slot, self._opened_from = pane, 0, None
        if pane == RAW:
            self._show_event()
        self._want_turn()
        self._lay_out()
        self.refresh_bindings()

    def _shown(self) -> tuple[str, ...]:
        """Return the names of the panes of the open tab, from left to right; if it is zoomed, only one."""
        if self.pane == RAW:
            return ("bytes",) if self.zoomed else ("tree", "bytes")
        is_double = self.pane == REPLAY and self.size.width >= _WIDE and not self.zoomed
        return ("replay", "events") if is_double else (TABS[self.pane],)

    def _lay_out(self) -> None:
        """Show the panes of the open tab, and mark the one with the keys."""
        shown = self._shown()
        self._headings["timeline"].display = not self.zoomed and self.size.height >= _LOW
        self.timeline.display = not self.zoomed and self.size.height >= _LOWEST
        self.set_class(len(shown) > 1, "-wide")
        for name, pane in self._panes.items():
            self._boxes[name].display = name in shown  # not a class: that would style all within it again
            pane.active = pane is self.active
        self._write_tabs()
        self.titles()

    def titles(self) -> None:
        """Write the titles above the panes."""
        position, opened = self._position, self._opened
        event = "body" if opened and not len(opened.transcript) else f"event {markers.label(max(position, 1))}"
        texts = {"timeline": self._timeline_title(), "tree": event, "bytes": f"bytes · {self.bytes.view}"}
        request = "as sent" if self._is_as_sent else "messages (v: as sent)"
        texts["request"] = f"request · {request}{self._words_at}"
        if opened is None:
            texts |= {"replay": f"text · {_DECODING}", "events": f"events · {_DECODING}"}
        else:
            listed = f"events {self.events.shown:,} / {len(opened.transcript):,}"
            settings = "" if self.times.is_plain else self.times.name, self.filter_text
            texts |= {"replay": self._text_title(opened), "events": " · ".join(filter(None, (listed, *settings)))}
        for name in (*self._shown(), "timeline"):
            heading = self._headings[name]
            heading.text, heading.active = texts.get(name, name), name == self.active.id
        self._titles.pieces = [(self.events.titles(), "muted")]

    def _text_title(self, opened: OpenedExchange) -> str:
        """Return the title of the text; of several choices, the one that is shown is in brackets."""
        replay, text = self.replay, f"text @ {markers.label(self._position)}"
        if len(opened.transcript.voices) > 1:
            choices = (f"[{choice}]" if choice == replay.choice else str(choice) for choice in replay.choices)
            text += f" · choices {'[all]' if replay.choice is None else 'all'} {' '.join(choices)} (a)"
        return " · ".join(filter(None, (text, VIEWS[replay.view])))

    def _timeline_title(self) -> str:
        """Return the title of the timeline, with as much explanation as fits."""
        if self._opened is None:
            return "timeline"
        length = formatting.timestamp_with_unit(self.timeline.axis_ns)
        clock = "" if self.times.is_plain else self.times.clock_name
        parts = (f"gaps × {formatting.duration(self.timeline.strips.unit_ns)}", length, clock, self._legend)
        shown = parts, parts[1:], parts[:3], parts[1:3]
        texts = [" · ".join(filter(None, ("timeline", *some))) for some in shown]
        texts.append(f"timeline · {length}")
        return next((text for text in texts if len(text) <= self.size.width - 4), texts[-1])

    def action_pane(self, pane: int) -> None:
        self._turn_to(pane)

    def action_part(self, by: int) -> None:
        if 0 <= self.slot + by < len(self._shown()):
            self.slot += by
            self._lay_out()
        else:
            self._turn_to((self.pane + by) % len(TABS))

    def action_zoom(self) -> None:
        self.zoomed = not self.zoomed
        self._lay_out()

    def action_all(self) -> None:
        self.replay.choose()
        self.titles()

    def action_fold(self) -> None:
        """Fold the reasoning, or unfold a request."""
        if self.pane == REQUEST:
            self._is_folded, self._words_at = not self._is_folded, ""
            self._write_request()
            self.titles()
        else:
            self.replay.fold()

    def action_view(self) -> None:
        """Show the text, the bytes or the request in the next view."""
        if self.pane == REQUEST:
            self._as_sent, self._words_at = not self._is_as_sent, ""
            self._write_request()
            self.refresh_bindings()
        else:
            (self.replay if self.pane == REPLAY else self.bytes).cycle()
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
        before = self.pane
        if before in (REPLAY, EVENTS):
            self._turn_to(RAW)
            self._opened_from = before

    def next_time_format(self) -> None:
        self._set_times(self.times.following)
        self._list()
        self._write_tabs(has_changed=True)

    def _set_times(self, times: Times) -> None:
        """Use the same time format in all panes and the timeline."""
        self.times = times
        self.bytes.set_times(times)
        self.timeline.set_times(times)
        self._write_pages()

    def on_events_pane_selected(self, message: EventsPane.Selected) -> None:
        """Go to the event that was clicked; a double click shows its parts."""
        self.slot = self._shown().index("events")
        self._lay_out()
        self._seek(message.event + 1)
        if message.twice:
            self.action_open()

    def on_events_pane_resized(self, message: EventsPane.Resized) -> None:
        self.titles()

    def on_tree_pane_chosen(self, message: TreePane.Chosen) -> None:
        self.bytes.highlight(message.node.start, message.node.end)

    def on_bar_clicked(self, message: Bar.Clicked) -> None:
        if message.bar is self._tabs and message.piece < len(TABS):
            self._turn_to(message.piece)

    def _write_tabs(self, *, has_changed: bool = False) -> None:
        """Write the tabs, and the time format where there is room; elsewhere a change of it becomes a toast."""
        clock = f"T: {self.times.name}"
        pieces: list[tuple[str, Tone]] = [(f" {tab} {name.title()} ", "muted") for tab, name in enumerate(TABS, 1)]
        room = self.size.width - 1 - len(clock) - sum(len(text) for text, _ in pieces)
        pieces[self.pane] = (f"▌{pieces[self.pane][0][1:]}", "accent")
        if room > 0:
            pieces += [(" " * room, "muted"), (clock, "muted")]
        elif has_changed:
            self.notify(clock, timeout=2, markup=False)
        self._tabs.pieces = pieces

    def _write_head(self) -> None:
        if self._known is not None:
            self._head.pieces = pages.heading(self._known, self._opened, self._died)
            self._show_trouble(pages.trouble(self._known, self._opened, self._died))

    def _show_trouble(self, line: Line | None) -> None:
        self._trouble.pieces = line or []
        self._trouble.display = line is not None

    def _write_pages(self) -> None:
        known, opened, times = self._known, self._opened, self.times
        if known is not None:
            self._write_request()
            self._want_turn()
            self._pages["timing"].show(lambda width: pages.timing(known, opened, width, times), known, opened, times)

    def _write_request(self) -> None:
        known, turn, pane = self._known, self._turn, self._pages["request"]
        if known is None:
            return
        if self._is_as_sent:
            pane.show(lambda _: pages.request(known), known)
        elif turn is None:
            pane.show(lambda _: [[("reading …", "muted")]])
        else:
            remedy = "r shows it" * self._is_folded
            pane.show(lambda width: conversation.lines(turn, Folding(width, remedy), "3 shows it"), turn, remedy)

    def _want_turn(self) -> None:
        """Request the reading of the request once its pane is open, and again when more of it is known."""
        if self._known is None or self.pane != REQUEST:
            return
        row, request = self._known.row, self._known.request
        if (state := (request.size, row.outcome, row.content, row.tool_calls)) != self._turn_of:
            self._turn_of = state
            self.post_message(self.TurnWanted())

    def find(self, words: str, *, back: bool) -> bool:
        """Show the next place of some words in the request, which is unfolded for that; False if there is none."""
        if self._is_folded and not self._is_as_sent:
            self.action_fold()
        place = self._pages["request"].find(words, back=back)
        self._words_at = place and f" · {words}: {place}"
        self.titles()
        return place != ""

    def _show_event(self) -> None:
        """Show the parts of the event under the playhead, and its bytes; without events, the body."""
        opened = self._opened
        if opened is not None:
            transcript = opened.transcript
            event = max(self._position - 1, 0) if len(transcript) else None
            nothing = "no body came" if opened.facts.has_bytes else "its bytes were not shipped"
            self.parts.show(tree.of_body(transcript.data, nothing) if event is None else tree.of(transcript, event))
            self.bytes.show(opened, event, self.times)

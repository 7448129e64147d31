"""One exchange, inspected: its answer in time, event by event, byte by byte, and played again.

All panes share one playhead, a `Playback`, which a `Driver` plays. Facts that need no decoding are shown at once, the
rest when the body has been decoded beside the loop. A stream that still runs is read again as it grows.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal, Self

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Region

from wiretape.recorder.clock import SYSTEM
from wiretape.viewer.exchange import events, markers, plain, search
from wiretape.viewer.exchange.opened import Known, OpenedExchange
from wiretape.viewer.exchange.pages import is_dead
from wiretape.viewer.exchange.pulse import Pulse
from wiretape.viewer.exchange.search import Search
from wiretape.viewer.source.base import POLL_SECONDS
from wiretape.viewer.text import formatting
from wiretape.viewer.timing.playback import Move, Playback
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base.host import Superseded, host, is_seen
from wiretape.viewer.tui.dialogs.menus import AskScreen
from wiretape.viewer.tui.dialogs.offers import Copy
from wiretape.viewer.tui.inspector import pages
from wiretape.viewer.tui.inspector.panes import REQUEST, InspectorPanes, applies
from wiretape.viewer.tui.inspector.raw import BytesPane
from wiretape.viewer.tui.playing.driver import Driver, PlaybackScreen
from wiretape.viewer.tui.playing.loader import ErrorReporter, KeyQueue, Loader, queued
from wiretape.viewer.tui.playing.timeline import StreamTimeline
from wiretape.viewer.tui.widgets.footer import KeyLine


class InspectorScreen(PlaybackScreen):
    """The exchange with the number `no` on the tape; `at` is a position to begin at, as it is typed.

    Without one, a finished stream begins at its start, with its text as ghost; a running one is followed.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.INSPECTOR)

    def __init__(self, no: int, at: str | None = None, plays: Literal["stream", "stall"] | None = None) -> None:
        super().__init__()
        self.key_queue = KeyQueue(self._is_ready)
        self._footer = KeyLine()
        self.panes = InspectorPanes(self.key_queue, self._seek)
        self.playback = Playback((), 0, lambda: 0)
        self.driver: Driver | None = None
        self._no = no
        self._facts: Known | None = None
        self._exchange: OpenedExchange | None = None
        self._search = Search(self._warn)
        self._pulse = Pulse(SYSTEM)
        self._loader: Loader | None = None
        self._is_decoded = asyncio.Event()
        if at is not None:
            self.go_to(at)
        if plays == "stall":
            self.action_play_stall()
        elif plays == "stream":  # one that runs is followed
            self.command(lambda playback: None if self.is_live else playback.toggle(is_live=False))

    def compose(self) -> ComposeResult:
        """Start to decode, and lay out the panes."""
        self._loader = Loader(host(self), self._no, self._show_facts, self._show_exchange, self.panes.show_failure)
        self._loader.begin()
        yield self.panes
        yield self._footer

    def on_mount(self) -> None:
        """Load and play."""
        clock = host(self).clock
        self.playback, self._pulse = Playback((), 0, clock.now), Pulse(clock)
        self.driver = Driver(self.playback, clock, self._on_progress, self._ticked)
        self.bindings_updated_signal.subscribe(
            self, lambda _: self._footer.reword("filter", "search" if self.panes.tab.number == REQUEST else "filter")
        )
        self._load()
        self.run_worker(self.driver.run(), group="drive")

    def on_unmount(self) -> None:
        self._is_decoded.set()  # a copy may wait for it
        if self._loader is not None:
            self._loader.close()

    @property
    def is_open(self) -> bool:
        return self._exchange is not None

    @property
    def is_live(self) -> bool:
        """True while the exchange is running, and so is its recorder."""
        return self._pulse.runs

    def copies(self) -> list[Copy]:
        if self._facts is None:
            return []
        place, position = host(self).list_reader.place, self.playback.position
        return pages.copies(place, self._facts, self._exchange, self._decoded, position)

    async def _decoded(self) -> OpenedExchange:
        """Return the decoded exchange; wait for it, and say so. Raises `Superseded` if this screen is left before."""
        if self._exchange is None:
            self.notify("it is still being decoded, and copied as soon as that is done", title="copy", markup=False)
            await self._is_decoded.wait()
        if self._exchange is None:
            raise Superseded
        return self._exchange

    def exports(self) -> list[tuple[str, list[str]]]:
        return [] if self._facts is None else pages.exports(host(self).tape.place, self._facts.row.id)

    def pages(self) -> tuple[str, str]:
        """Return the contents of the active pane, as the name of a file and its text."""
        if self._facts is None:
            return "text.txt", ""
        panes, position = self.panes, self.playback.position
        contents = (
            panes.active.id,
            self._facts,
            self._exchange,
            panes.times,
            position,
            panes.events.matches,
            panes.request.turn,
        )
        return plain.pane(*contents)

    @property
    def undo(self) -> Callable[[], object] | None:
        """The reversal of the last step: of the zoom, of an opened event, or of the filter of the events."""
        return self.panes.undo or (partial(self._filter, "") if self.panes.events.filter_text else None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return True if an action applies to the open pane: the keys of the others are not shown anywhere."""
        return applies(action, self.panes.tab.number)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw this screen again, but not for a change of the screen behind it, which cannot be seen."""
        return self if regions else super().refresh(repaint=repaint, layout=layout, recompose=recompose)

    @work(group="load")
    async def _load(self) -> None:
        """Show the facts that need no decoding, wait for them to be drawn, then decode the rest."""
        assert self._loader is not None
        await self._loader.load_facts()
        # Decoding would delay the drawing of the facts.
        self.call_after_refresh(self._decode)

    @work(group="load")
    async def _decode(self) -> None:
        assert self._loader is not None
        await self._loader.load_exchange()
        # From now on only: a poll would read the stream beside its first decoding.
        self.set_interval(POLL_SECONDS["screen"], self._poll)

    def _poll(self) -> None:
        exchange, end_ns = self._exchange, self._pulse.end_ns
        if exchange is not None and end_ns != self.playback.end_ns:
            self.playback.grow(exchange.transcript.at, end_ns)
            self._ticked()
            if self.panes.timeline.lags(self.playback.end_ns):
                self._draw()
        if self._loader is not None and self._loader.is_live and is_seen(self):
            self.run_worker(self._loader.reload(), group="load")

    def _show_facts(self, facts: Known) -> None:
        self._facts = facts
        self._pulse.know(facts.row.started_at, died=is_dead(facts, host(self).clock.wall_ns()))
        self.playback.following = self.playback.following and not self._pulse.died
        self.panes.show_facts(facts, died=self._pulse.died)
        if self._exchange is None:
            self.playback.grow((), facts.exchange.end_ns or 0)
            self._draw()

    def _show_exchange(self, exchange: OpenedExchange) -> None:
        playback, pulse = self.playback, self._pulse
        is_first = self._exchange is None
        self._exchange = exchange
        self._is_decoded.set()
        self._footer.reword("stall(1)", "stall" if exchange.stalls else "")
        pulse.take(exchange)
        # A running stream is followed from the start; one of a single event has nothing to play.
        playback.following = playback.following or (is_first and (pulse.runs or len(exchange.transcript) < 2))
        playback.grow(exchange.transcript.at, pulse.end_ns)
        playback.following = playback.following and pulse.runs
        self.panes.show_exchange(exchange, playback.position)
        self._draw()
        self.key_queue.catch_up()
        self._moved()
        if self.driver is not None:
            self.driver.wake()

    def pause(self) -> None:
        """Pause at once if it is playing, before any waiting keys."""
        if self.playback.playing:
            self._command(lambda playback: playback.pause(), seeks=False)

    def _is_ready(self, judged: bool) -> bool:
        return self._exchange is not None and (self._exchange.judged or not judged)

    def _on_progress(self) -> None:
        """Show the newly played events; if playing has caught up with a running stream, follow it."""
        if self.is_live:
            self.playback.catch_up()
        self._moved()

    def _moved(self, *, jumped: bool = False) -> None:
        self.panes.move(self.playback.position, jumped=jumped)
        self._ticked()

    def _ticked(self) -> None:
        playback = self.playback
        self.panes.tick(playback, self._pulse, host(self).lag.ms)
        is_at_start = self._exchange is not None and not playback.playing and not playback.media_ns
        self._footer.reword("play", f"play {formatting.duration(playback.end_ns)}" if is_at_start else "play")

    @work(group="strips", exclusive=True)
    async def _draw(self) -> None:
        if self._facts is not None:
            await self.panes.timeline.draw(self._facts, self._exchange, self.playback)
            self.panes.titles()

    def command(self, change: Move, *, seeks: bool = False) -> None:
        """Change the playback and show it, once the exchange is decoded; a change that `seeks` ends following."""
        self.key_queue.do(partial(self._command, change, seeks=seeks))

    def _command(self, change: Move, *, seeks: bool) -> None:
        playback = self.playback
        cap_ns, playback.following = playback.cap_ns, playback.following and not seeks
        change(playback)
        self._moved(jumped=seeks)
        if playback.cap_ns != cap_ns:
            self._draw()
        if self.driver is not None:
            self.driver.wake()

    def _go(self, position: int | None) -> None:
        if position is not None:
            self._command(lambda playback: playback.seek(position), seeks=True)

    @queued()
    def go_to(self, text: str) -> None:
        assert self._exchange is not None
        change = self._search.go_to(text, self.playback, self._exchange.transcript, self.panes.times)
        if change is not None:
            self._command(change, seeks=True)

    def action_again(self, direction: int) -> None:
        """Go to the next match of the last search, or to the one before; in the request, to that of its words."""
        if self.panes.tab.number == REQUEST:
            self._find(self._search.in_request, back=direction < 0)
        else:
            self._find_event(direction)

    def _find(self, words: str, *, back: bool = False) -> None:
        self._search.in_request = words
        if not words or not self.panes.find(words, back=back):
            self._warn(f"not in the request: {words}" if words else "nothing looked for yet: / and words")

    @queued()
    def _find_event(self, direction: int) -> None:
        assert self._exchange is not None
        transcript, matches = self._exchange.transcript, self.panes.events.matches
        self._go(self._search.next_match(self.playback, transcript, matches, back=direction < 0))

    @queued(judged=True)
    def action_errors(self) -> None:
        """Go to the next error; after the last one, to the first."""
        assert self._exchange is not None
        following = markers.beyond(self._exchange.markers, self.playback.position, "E")
        if following is None:
            self._warn(markers.missing("E"))
        else:
            self._go(following.position)

    @queued(judged=True)
    def action_stall(self, direction: int) -> None:
        """Go to the beginning of the next stall, or of the one before."""
        assert self._exchange is not None
        stall = search.stall(self._exchange, self.playback, back=direction < 0)
        if stall is None:
            self._warn(markers.missing("S"))
        else:
            # Its beginning: at its end, the silence that was looked for is past.
            self._command(lambda playback: playback.seek_to(stall.from_ns), seeks=True)

    @queued(judged=True)
    def action_play_stall(self) -> None:
        """Play the stall that the playhead is at, or else the longest, with the time around it."""
        assert self._exchange is not None
        stall = search.stall_here(self._exchange, self.playback)
        if stall is None:
            self._warn(markers.missing("S"))
        else:
            end_ns = stall.from_ns + stall.lasted_ns
            span_ns = stall.from_ns - search.BEFORE_NS, end_ns + search.AFTER_NS
            self._command(lambda playback: playback.play_span(*span_ns), seeks=True)

    def action_goto(self) -> None:
        question = AskScreen(f"go to: {markers.HELP} (n goes on)", refusal=self._refusal)
        self.app.push_screen(question, lambda text: self.go_to(text or ""))

    def _refusal(self, text: str) -> str | None:
        """Return the error in a typed position; None if it is valid, or if that is not known yet."""
        if self._exchange is None:
            return None
        return search.refusal(text, self.playback, self._exchange.transcript, self.panes.times)

    def action_filter(self) -> None:
        """Ask for a filter of events, or for words to find in the request."""
        if self.panes.tab.number == REQUEST:
            question = AskScreen("request: words to find (n goes on)", self._search.in_request)
            self.app.push_screen(question, lambda words: self._find(words) if words else None)
            return
        label, text = f"events: {events.FILTER_HELP} (n goes on)", self.panes.events.filter_text
        question = AskScreen(label, text, events.filter_error)
        self.app.push_screen(question, lambda text: None if text is None else self._filter(text.strip()))

    @queued()
    def _filter(self, text: str) -> None:
        self._search.filter_text = text
        self.panes.filter_events(text)

    @queued()
    def action_times(self) -> None:
        self.panes.next_time_format()
        self._ticked()

    def _seek(self, position: int) -> None:
        self.command(lambda playback: playback.step(position - playback.position), seeks=True)

    @work(group="reads", exclusive=True)
    async def on_bytes_pane_reads_wanted(self, message: BytesPane.ReadsWanted) -> None:
        no, first_read, last_read = self._no, message.first_read, message.last_read  # not `self`: see `Loader`
        with ErrorReporter(self.panes.show_failure):
            reading = host(self).tape.read(lambda tape: tape.exchange(no).reads_between(first_read, last_read), "reads")
            self.panes.bytes.take(await reading)

    @work(group="turn", exclusive=True)
    async def on_request_pane_turn_wanted(self) -> None:
        no = self._no
        with ErrorReporter(self.panes.show_failure):
            self.panes.show_turn(await host(self).tape.read(lambda tape: tape.exchange(no).turn(), "turn"))

    def _warn(self, text: str) -> None:
        self.notify(text, severity="warning", markup=False)

    def on_stream_timeline_cells_changed(self, message: StreamTimeline.CellsChanged) -> None:
        self._draw()

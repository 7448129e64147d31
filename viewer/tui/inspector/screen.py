"""One exchange, looked at closely: what was said when, event by event, byte by byte, and played again.

All panes share one playhead, a `Playback`; `Driver` moves it when it plays. What is known at once is shown at once, the
rest when the body has been decoded, which is done beside the loop. A stream that still runs is read again as it grows.
"""

import functools
from collections.abc import Callable
from typing import ClassVar, Final, Self

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Region
from textual.screen import Screen
from textual.worker import WorkType

from recorder.clock import SYSTEM
from recorder.errors import WiretapeError
from viewer.model.exchange import events, markers
from viewer.model.exchange.opened import Opened
from viewer.tape import socket_reads
from viewer.tape.exchange import Known
from viewer.timing.playback import CAPS, SPEEDS, Playback
from viewer.tui.base.host import Superseded, host
from viewer.tui.dialogs import offers
from viewer.tui.dialogs.menus import AskScreen
from viewer.tui.inspector import going, inspector_offers
from viewer.tui.inspector import pages as inspector_pages
from viewer.tui.inspector.going import Going
from viewer.tui.inspector.hex import BytesPane
from viewer.tui.inspector.inspector_tabs import APPLIES, PANES
from viewer.tui.inspector.keys import KEYS
from viewer.tui.inspector.live import Live
from viewer.tui.inspector.notebook import Notebook
from viewer.tui.inspector.panes import InspectorPanes
from viewer.tui.playing import timelines
from viewer.tui.playing.driver import Driver
from viewer.tui.playing.loader import Loader
from viewer.tui.playing.scrubbing import Scrubbing
from viewer.tui.playing.timeline import Timeline
from viewer.tui.playing.waiting import Waiting, waits
from viewer.tui.widgets.footer import KeyLine

_POLL_S: Final = 0.15
_SECOND: Final = 1_000_000_000


class InspectorScreen(Screen[None]):
    """Shows the exchange with the number `no` on the tape; `at` is where to begin, as in `goto`, else the end."""

    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, no: int, at: str | None = None) -> None:
        super().__init__()
        self.waiting = Waiting(self._is_ready)
        self.panes = InspectorPanes(self.waiting, self._seek)
        self._no = no
        self._known: Known | None = None
        self._opened: Opened | None = None
        self._notebook = Notebook(functools.partial(self.notify, severity="error", markup=False))
        self._going = Going(functools.partial(self.notify, severity="warning", markup=False))
        self._playback, self._live = Playback((), 0, lambda: 0), Live(SYSTEM)
        self._driver: Driver | None = None
        self._loader: Loader | None = None
        self._is_reading = False
        if at is not None:
            self.go_to(at)

    def compose(self) -> ComposeResult:
        """Begin to decode, and lay out the panes."""
        self._loader = Loader(host(self), self._no, self._show_known, self._show_opened, self.panes.show_failure)
        self._loader.begin()
        yield self.panes
        yield KeyLine()

    def on_mount(self) -> None:
        """Begin to show and to drive."""
        self._playback, self._live = Playback((), 0, host(self).clock.now), Live(host(self).clock)
        self._driver = Driver(self._playback, host(self).clock, self._played, self._ticked)
        self.app.app_suspend_signal.subscribe(self, lambda _: self._pause(), immediate=True)
        self.run_worker(self._load(), group="load")
        self.run_worker(self._driver.run(), group="drive")

    def on_unmount(self) -> None:
        """Let go of what is still being read, and be forgotten: what listens is kept."""
        self.app.app_suspend_signal.unsubscribe(self)
        if self._loader is not None:
            self._loader.close()

    @property
    def playback(self) -> Playback:
        """The playhead of all panes."""
        return self._playback

    @property
    def driver(self) -> Driver | None:
        """What plays."""
        return self._driver

    @property
    def is_open(self) -> bool:
        """Whether the exchange has been decoded."""
        return self._opened is not None

    @property
    def is_live(self) -> bool:
        """Whether the exchange still runs, and somebody records it."""
        return self._live.runs

    def copies(self) -> list[offers.Copy]:
        """Give what can be copied."""
        if self._known is None:
            return []
        return inspector_offers.copies(host(self).tape.path, self._known, self._opened, self._playback.position)

    def exports(self) -> list[tuple[str, list[str]]]:
        """Give what can be exported of this exchange."""
        return [] if self._known is None else inspector_offers.exports(host(self).tape.path, self._known.row["id"])

    def pages(self) -> tuple[str, str]:
        """Give what the pane shows that keys go to, as the name of a file and its text."""
        if self._known is None:
            return "text.txt", ""
        panes, noted, at = self.panes, self._notebook.notes, self._playback.position
        return inspector_pages.page(panes.active.id, self._known, self._opened, noted, panes.times, at, panes.only)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies to the open pane: the keys of the others are not named anywhere."""
        return self.panes.pane in APPLIES.get(action, range(len(PANES)))

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw this screen anew; but what changes on a screen behind it cannot be seen, and draws nothing here."""
        if regions:
            return self
        return super().refresh(repaint=repaint, layout=layout, recompose=recompose)

    async def _load(self) -> None:
        """Show what is known, let it be seen, then decode the rest."""
        assert self._loader is not None
        await self._loader.know()
        self.call_after_refresh(lambda: self.run_worker(self._decode(), group="load"))

    async def _decode(self) -> None:
        if self._known is not None:
            await self._notebook.read(host(self).tape.path, self._known.row["id"])
        assert self._loader is not None
        await self._loader.open()
        self.set_interval(_POLL_S, self._poll)

    def _poll(self) -> None:
        if self._live.pass_on(self._playback):
            self._ticked()
            if self.panes.timeline.lags(self._playback.end_ns):
                self._draw()
        if self._loader is not None and self._loader.is_live and self.is_current and not self._is_reading:
            self.run_worker(self._read_again(), group="load")

    async def _read_again(self) -> None:
        assert self._loader is not None
        self._is_reading = True
        try:
            await self._loader.again()
        finally:
            self._is_reading = False

    def _show_known(self, known: Known) -> None:
        self._known = known
        self._live.know(known)
        self.panes.show_known(known, died=self._live.died)
        if self._opened is None:
            self._playback.grow((), known.end_ns)
            self._draw()

    def _show_opened(self, opened: Opened) -> None:
        self._opened = opened
        self._live.open(opened, self._playback)
        self.panes.show_opened(opened, self._playback.position, self._notebook.notes)
        self._draw()
        self.waiting.catch_up()
        self._moved()
        if self._driver is not None:
            self._driver.wake()

    def _pause(self) -> None:
        """Pause, since nobody sees anything until the terminal is the viewer's again."""
        if self._playback.playing:
            self._command(lambda playback: playback.pause(), seeks=False)

    def _is_ready(self, judged: bool) -> bool:
        return self._opened is not None and (self._opened.judged or not judged)

    def _played(self) -> None:
        """Show what playing has brought; where it has caught up with a stream that still runs, follow that."""
        self._live.catch_up(self._playback)
        self._moved()

    def _moved(self, *, jumped: bool = False) -> None:
        """Show where the playhead stands now; if somebody sent it there, the words that it stands in, too."""
        self.panes.move(self._playback.position, jumped=jumped)
        self._ticked()

    def _ticked(self) -> None:
        """Show what time it is on the playhead's clock."""
        playback = self._playback
        self.panes.still(not playback.playing)
        self.panes.timeline.move(playback.media_ns)
        self.panes.transport.show(self._live.standing(playback, host(self).lag.ms))

    def _draw(self) -> None:
        """Draw the timeline, beside the loop."""
        work: WorkType[None] = self._drawn  # not begun yet: another may be asked for before it is
        self.run_worker(work, group="strips", exclusive=True)

    async def _drawn(self) -> None:
        if self._opened is not None:
            await timelines.draw(self.panes.timeline, self._opened, self._playback)
            self.panes.titles()
        elif self._known is not None:
            await timelines.draw_first(self.panes.timeline, self._known, self._playback)

    def _command(self, change: Callable[[Playback], None], *, seeks: bool = True) -> None:
        """Change the playback, and show what has become of it; whoever `seeks` follows the end no longer."""
        if self._opened is None:
            return
        if seeks:
            self._live.following = False
        change(self._playback)
        self._moved(jumped=seeks)
        if self._driver is not None:
            self._driver.wake()

    @waits()
    def go_to(self, text: str) -> None:
        """Go to what was typed, as `goto` reads it."""
        assert self._opened is not None
        self._move(self._going.to(text, self._playback, self._opened.transcript, self.panes.times))

    @waits()
    def action_again(self, direction: int) -> None:
        """Go to where what was looked for last is next, or was before."""
        assert self._opened is not None
        transcript, fitting = self._opened.transcript, self.panes.only
        self._move(self._going.again(self._playback, transcript, fitting, back=direction < 0))

    def _move(self, change: Callable[[Playback], None] | None) -> None:
        if change is not None:
            self._command(change)

    def _go(self, position: int | None) -> None:
        if position is not None:
            self._command(lambda playback: playback.seek(position))

    @waits()
    def action_play(self) -> None:
        """Play or pause; at the end from the start. While a stream's end is followed, freeze there, and go on."""
        self._command(self._live.toggle, seeks=False)

    @waits()
    def action_step(self, count: int) -> None:
        """Go on, or back, by one event."""
        self._command(lambda playback: playback.step(count))

    @waits()
    def action_seek(self, seconds: int) -> None:
        """Go on, or back, by seconds."""
        self._command(lambda playback: playback.seek_to(playback.media_ns + seconds * _SECOND))

    @waits()
    def action_jump(self, percent: int) -> None:
        """Go on, or back, by a share of the whole."""
        self._command(lambda playback: playback.seek_to(playback.media_ns + playback.end_ns * percent // 100))

    @waits()
    def action_end(self, at: int) -> None:
        """Go to the start (0) or to the end (1)."""
        self._command(lambda playback: playback.seek_to(playback.end_ns * at))

    @waits(judged=True)
    def action_mark(self, signs: str, direction: int) -> None:
        """Go to the next marker with one of these signs, or the one before; to any without signs."""
        assert self._opened is not None
        self._go(self._going.marker(self._opened, self._playback, signs, back=direction < 0))

    @waits()
    def action_first(self) -> None:
        """Go to the first content; from there, to the first reasoning."""
        assert self._opened is not None
        self._go(going.first(self._opened.transcript, self._playback.position))

    @waits()
    def action_faster(self, by: int) -> None:
        """Take the next speed up or down, or with 0 the normal one."""
        at = SPEEDS.index(self._playback.speed) + by if by else SPEEDS.index(1.0)
        speed = SPEEDS[max(0, min(at, len(SPEEDS) - 1))]
        self._command(lambda playback: playback.set_speed(speed), seeks=False)

    @waits()
    def action_idle(self) -> None:
        """Cut long silences shorter, or show them as long as they were."""
        cap = CAPS[(CAPS.index(self._playback.cap_ns) + 1) % len(CAPS)]
        self._command(lambda playback: playback.set_cap(cap), seeks=False)
        self._draw()

    @waits()
    def action_follow(self) -> None:
        """Stay at the end of a stream that still runs."""
        if not self.is_live:
            ended = "its recorder is gone" if self._live.died else "this stream has ended"
            return self.notify(f"{ended}: there is nothing to follow", timeout=2, markup=False)
        self._command(lambda playback: playback.seek_to(playback.end_ns))
        self._live.following = True
        self._ticked()

    def action_goto(self) -> None:
        """Ask where to go, until there is such a place."""
        asked = AskScreen(f"go to: {markers.HELP} (n goes on)", refusal=self._no_place)
        self.app.push_screen(asked, lambda text: self.go_to(text or ""))

    def _no_place(self, text: str) -> str | None:
        """Return why one cannot go to what was typed; None if one can, or if that is not known yet."""
        if self._opened is None:
            return None
        return going.refusal(text, self._playback, self._opened.transcript, self.panes.times)

    def action_filter(self) -> None:
        """Ask which events to list."""
        asked = AskScreen(f"events: {events.FILTER_HELP} (n goes on)", self.panes.filter_text, events.filter_error)
        self.app.push_screen(asked, lambda text: None if text is None else self._filter(text.strip()))

    @waits()
    def _filter(self, text: str) -> None:
        self._going.filtered(text)
        self.panes.filter_events(text)

    @waits()
    def action_bookmark(self) -> None:
        """Set a bookmark at the playhead, or take it away."""
        position = self._playback.position
        is_set = self._notebook.notes.toggle(position)
        told = f"bookmark {markers.label(position)} {'set' if is_set else 'gone'}"
        self.notify(told, timeout=2, markup=False)
        self._keep_notes()

    @waits()
    def action_next_bookmark(self) -> None:
        """Go to the next bookmark; past the last one, to the first."""
        place = self._notebook.after(self._playback.position)
        if place is None:
            self.notify("no bookmark yet: m sets one", timeout=2, markup=False)
        self._go(place)

    def _keep_notes(self) -> None:
        self.panes.show_notes(self._notebook.notes)
        self.run_worker(self._notebook.write(), group="notes")

    @waits()
    def action_time_format(self) -> None:
        """Display times in the next format."""
        self.panes.action_time_format()

    def _seek(self, position: int) -> None:
        """Go to where somebody pointed."""
        self._command(lambda playback: playback.step(position - playback.position))

    def on_bytes_pane_wanted(self, message: BytesPane.Wanted) -> None:
        """Read more about some reads."""
        work: WorkType[None] = functools.partial(self._read_more, message.first, message.last)
        self.run_worker(work, group="reads", exclusive=True)

    async def _read_more(self, first: int, last: int) -> None:
        asked = functools.partial(socket_reads.between, no=self._no, first=first, last=last)
        try:
            self.panes.bytes.tell(await host(self).tape.ask(asked, "reads"))
        except WiretapeError as error:
            self.panes.show_failure(str(error))
        except Superseded:
            return

    def on_inspector_panes_note_wanted(self, message: InspectorPanes.NoteWanted) -> None:
        """Ask for a note."""
        self.app.push_screen(AskScreen("note", self._notebook.notes.text), self._write_note)

    def on_scrubbing_scrubbed(self, message: Scrubbing.Scrubbed) -> None:
        """Go to the instant that somebody points at."""
        self._command(lambda playback: playback.seek_to(message.at_ns))

    def on_timeline_resized(self, message: Timeline.Resized) -> None:
        """Draw the timeline for its new width."""
        self._draw()

    def _write_note(self, text: str | None) -> None:
        if text is not None:
            self._notebook.notes.text = text
            self._keep_notes()

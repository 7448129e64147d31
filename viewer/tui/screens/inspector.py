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
from textual.widgets import Footer

from recorder.errors import WiretapeError
from viewer import closeup
from viewer.inspecting import Known
from viewer.model import event_filter, goto, landmarks, notes, strips
from viewer.model.landmarks import UNITS
from viewer.model.notes import Notes
from viewer.model.opening import Opened
from viewer.playback import CAPS, SPEEDS, Playback
from viewer.tui.hosting import host
from viewer.tui.screens import inspector_offers
from viewer.tui.screens.driving import Driver, aside
from viewer.tui.screens.inspector_keys import KEYS
from viewer.tui.screens.inspector_panes import InspectorPanes
from viewer.tui.screens.loading import Loader
from viewer.tui.screens.menus import AskScreen
from viewer.tui.screens.waiting import Waiting, waits
from viewer.tui.sparing import SparingCompositor
from viewer.tui.widgets.timeline import Timeline
from viewer.tui.widgets.transport import Standing

_POLL_S: Final = 0.15
_SECOND: Final = 1_000_000_000


class InspectorScreen(Screen[None]):
    """Shows the exchange with the number `no` on the tape; `at` is where to begin, as in `goto`, else the end."""

    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, no: int, at: str | None = None) -> None:
        super().__init__()
        self._compositor = SparingCompositor()
        self.panes = InspectorPanes()
        self._no = no
        self._known: Known | None = None
        self._opened: Opened | None = None
        self._notes = Notes()
        self._playback = Playback((), 0, lambda: 0)
        self._driver: Driver | None = None
        self._unit = 0
        self._following = False
        self._loader: Loader | None = None
        self._is_reading = False
        self.waiting = Waiting(self._is_ready)
        if at is not None:
            self._go_to(at)

    def compose(self) -> ComposeResult:
        """Lay out the panes."""
        yield self.panes
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to read and to drive."""
        self._playback = Playback((), 0, host(self).clock.now)
        self._driver = Driver(self._playback, host(self).clock, self._moved, self._ticked)
        app, failed = host(self), self.panes.show_failure
        self._loader = Loader(app.tape, app.clock, self._no, app.limits, self._show_known, self._show_opened, failed)
        self.run_worker(self._load(), group="load")
        self.run_worker(self._driver.run(), group="drive")

    def on_unmount(self) -> None:
        """Let go of what is still being read."""
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
        """Whether the exchange still runs."""
        return self._opened is not None and self._opened.live

    def copies(self) -> list[tuple[str, str]]:
        """Give what can be copied."""
        if self._known is None:
            return []
        return inspector_offers.copies(host(self).tape.path, self._known, self._opened, self._playback.position)

    def exports(self) -> list[tuple[str, list[str]]]:
        """Give what can be exported of this exchange."""
        return [] if self._known is None else inspector_offers.exports(host(self).tape.path, self._known.row["id"])

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
        await self._read_notes()
        assert self._loader is not None
        await self._loader.open()
        self.set_interval(_POLL_S, self._poll)

    def _poll(self) -> None:
        if self._loader is not None and self.is_live and self.is_current and not self._is_reading:
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
        self.panes.show_known(known, died=closeup.is_dead(known, host(self).clock.wall()))
        if self._opened is None:
            self._playback.grow((), known.end_ns)
            self.run_worker(self._make_first_strips(known), group="strips", exclusive=True)

    def _show_opened(self, opened: Opened) -> None:
        is_first, self._opened = self._opened is None, opened
        self._playback.grow(opened.transcript.at, opened.end_ns)
        if is_first:
            self._following = opened.live
        if is_first or self._following:
            self._playback.seek_to(self._playback.end_ns)
        self.panes.show_opened(opened, self._playback.position, self._notes)
        self._draw()
        self.waiting.catch_up()
        self._moved()
        if self._driver is not None:
            self._driver.wake()

    def _is_ready(self, judged: bool) -> bool:
        return self._opened is not None and (self._opened.judged or not judged)

    async def _read_notes(self) -> None:
        if self._known is not None:
            try:
                self._notes = await aside(functools.partial(notes.read, host(self).tape.path, self._known.row["id"]))
            except WiretapeError as error:
                self.notify(str(error), severity="error", markup=False)

    def _moved(self, *, jumped: bool = False) -> None:
        """Show where the playhead stands now; if somebody sent it there, the words that it stands in, too."""
        self.panes.move(self._playback.position, jumped=jumped)
        self._ticked()

    def _ticked(self) -> None:
        """Show what time it is on the playhead's clock."""
        playback, driver = self._playback, self._driver
        self.panes.events.still(not playback.playing)
        self.panes.timeline.move(playback.media_ns)
        self.panes.transport.show(
            Standing(
                playback.playing,
                playback.position,
                len(self._opened.transcript) if self._opened else 0,
                playback.media_ns,
                playback.end_ns,
                playback.speed,
                playback.cap_ns,
                driver.late_ms if driver is not None else None,
                self.is_live,
                self._following,
            )
        )

    def _draw(self) -> None:
        """Draw the timeline, beside the loop."""
        if self._opened is not None:
            self.run_worker(self._make_strips(self._opened), group="strips", exclusive=True)

    async def _make_strips(self, opened: Opened) -> None:
        reads, end = zip(opened.reads_at, opened.sizes, strict=True), opened.end_ns
        room = self.panes.timeline.cells, self._playback.cap_ns
        work = functools.partial(strips.made, opened.transcript, reads, opened.markers, end, *room)
        self.panes.timeline.show(await aside(work), self._playback.media_ns)

    async def _make_first_strips(self, known: Known) -> None:
        cells, first = self.panes.timeline.cells, known.row["ttft_ms"]
        drawn = await aside(functools.partial(strips.first, first, known.gaps, known.end_ns, cells))
        self.panes.timeline.show(drawn, self._playback.media_ns)

    def _command(self, change: Callable[[Playback], None], *, seeks: bool = True) -> None:
        """Change the playback, and show what has become of it."""
        if self._opened is None:
            return
        if seeks:
            self._following = False
        change(self._playback)
        self._moved(jumped=seeks)
        if self._driver is not None:
            self._driver.wake()

    @waits()
    def _go_to(self, text: str) -> None:
        goal = goto.read(text)
        if goal is None or self._opened is None:
            return
        place = goto.place(goal, self._playback, self._opened.transcript)
        if place is None:
            self.notify(f"never said: {goal.words}", severity="warning", markup=False)
        else:
            self._command(lambda playback: playback.seek_to(place[0]) if place[1] is None else playback.seek(place[1]))

    @waits()
    def action_play(self) -> None:
        """Play or pause; at the end from the start."""
        self._command(lambda playback: playback.toggle())

    @waits()
    def action_step(self, count: int) -> None:
        """Go on, or back, by one unit."""
        assert self._opened is not None
        at = self._playback.position
        place = landmarks.stepped(self._opened.transcript, at, UNITS[self._unit], back=count < 0)
        self._command(lambda playback: playback.step(place - at))

    def action_unit(self) -> None:
        """Step by something else."""
        self._unit = (self._unit + 1) % len(UNITS)
        self.panes.set_unit(UNITS[self._unit])

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
        """Go to the next marker with one of these signs, or the one before; to any without signs.

        From the end, the next stall is the longest.
        """
        assert self._opened is not None
        found = landmarks.beyond(self._opened.markers, self._playback.position, signs, back=direction < 0)
        if signs == "S" and direction > 0 and self._playback.at_end:
            found = self._opened.longest
        if found is not None:
            return self._command(lambda playback: playback.seek(found.position))
        self.notify(f"no {landmarks.SIGNS[signs] if signs else 'marker'} here", timeout=2, markup=False)

    @waits()
    def action_first(self) -> None:
        """Go to the first content; from there, to the first reasoning."""
        assert self._opened is not None
        transcript, position = self._opened.transcript, self._playback.position
        places = [landmarks.first(transcript, kind) for kind in ("content", "reasoning", "tool", "refusal")]
        known = [place for place in places if place]
        if known:
            at = known.index(position) + 1 if position in known else 0
            self._command(lambda playback: playback.seek(known[at % len(known)]))

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
        if self._opened is None or not self._opened.live:
            self.notify("this stream has ended: there is nothing to follow", timeout=2, markup=False)
            return
        self._command(lambda playback: playback.seek_to(playback.end_ns))
        self._following = True
        self._ticked()

    def action_goto(self) -> None:
        """Ask where to go."""
        self.app.push_screen(AskScreen(f"go to: {goto.HELP}"), lambda text: self._go_to(text or ""))

    def action_filter(self) -> None:
        """Ask which events to list."""

        def mistake(text: str) -> str | None:
            try:
                event_filter.read(text)
            except ValueError as error:
                return str(error)
            return None

        asked = AskScreen(f"events: {event_filter.HELP}", self.panes.filter_text, mistake)
        self.app.push_screen(asked, lambda text: None if text is None else self._filter(text))

    @waits()
    def _filter(self, text: str) -> None:
        if self.panes.pane > 1:
            self.panes.turn_to(1)
        self.run_worker(self._list(text.strip()), group="filter", exclusive=True)

    async def _list(self, text: str) -> None:
        if self._opened is not None:
            found = functools.partial(event_filter.fitting, self._opened.transcript, event_filter.read(text))
            self.panes.only = await aside(found) if text else None
            self.panes.filter_text = text
            self.panes.list_events()

    @waits()
    def action_bookmark(self) -> None:
        """Set a bookmark at the playhead, or take it away."""
        is_set = self._notes.toggle(self._playback.position)
        self.notify(f"bookmark #{self._playback.position} {'set' if is_set else 'gone'}", timeout=2, markup=False)
        self._keep_notes()

    @waits()
    def action_next_bookmark(self) -> None:
        """Go to the next bookmark; past the last one, to the first."""
        places = self._notes.bookmarks
        place = next((one for one in places if one > self._playback.position), places[0] if places else None)
        if place is None:
            self.notify("no bookmark yet: m sets one", timeout=2, markup=False)
        else:
            self._command(lambda playback: playback.seek(place))

    def _keep_notes(self) -> None:
        self.panes.show_notes(self._notes)
        self.run_worker(self._write_notes(), group="notes")

    async def _write_notes(self) -> None:
        if self._known is None:
            return
        try:
            await aside(functools.partial(notes.write, host(self).tape.path, self._known.row["id"], self._notes))
        except WiretapeError as error:
            self.notify(str(error), severity="error", markup=False)

    def action_time_format(self) -> None:
        """Give times since the first byte, or since the request."""
        self.panes.action_time_format()

    def on_inspector_panes_sought(self, message: InspectorPanes.Sought) -> None:
        """Go to where somebody pointed."""
        self._command(lambda playback: playback.step(message.position - playback.position))

    def on_inspector_panes_note_wanted(self, message: InspectorPanes.NoteWanted) -> None:
        """Ask for a note."""
        self.app.push_screen(AskScreen("note", self._notes.text), self._write_note)

    def on_timeline_scrubbed(self, message: Timeline.Scrubbed) -> None:
        """Go to the instant that was clicked."""
        self._command(lambda playback: playback.seek_to(message.at_ns))

    def on_timeline_resized(self, message: Timeline.Resized) -> None:
        """Draw the timeline for its new width."""
        self._draw()

    def _write_note(self, text: str | None) -> None:
        if text is not None:
            self._notes.text = text
            self._keep_notes()

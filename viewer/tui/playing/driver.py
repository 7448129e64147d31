"""Playing in real time, and the screens whose keys move a playhead.

Each event comes at its absolute deadline. The driver sleeps until a millisecond before an event is due and then yields
until it is; all that is due then comes at once. Drawing takes longer than that, and blocks the loop: it is requested
only if it fits before the next event, or if an event has waited too long.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from textual.screen import Screen

from wiretape.recorder.clock import Clock
from wiretape.viewer.timing.playback import CAPS, SPEEDS, Move, Playback
from wiretape.viewer.tui.playing.timeline import Scrubbing

# The loop sleeps in whole milliseconds, rounded up: it would wake up too late for an event.
_EARLY_NS: Final = 1_000_000
# The playhead moves 20 times a second while no event comes.
_FRAME_NS: Final = 50_000_000
_DRAWING_NS: Final = 13_000_000
"""Time to draw a frame, in ns: it begins up to 8 ms after the request, and takes about 5 ms."""


class Driver:
    """Plays a playback; `moved` is called when events have come, `ticked` when only time has passed."""

    def __init__(self, playback: Playback, clock: Clock, moved: Callable[[], None], ticked: Callable[[], None]) -> None:
        self.playback = playback
        self._clock = clock
        self._moved = moved
        self._ticked = ticked
        self._woken = asyncio.Event()
        self._shown_ns = 0

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Play until cancelled."""
        while True:
            deadline = self.playback.deadline()
            if deadline is None and self.playback.playing:  # the end is past
                self._advance()
            elif deadline is None:
                await self.sleep(None)
            elif self.playback.speed == float("inf"):
                # Nothing limits the events but this: so many a frame leave the loop time for keys and drawing.
                self.playback.advance(2_000)
                self._moved()
                await asyncio.sleep(1 / 60)  # a frame
            else:
                await self._wait_for(deadline)

    async def _wait_for(self, deadline: int) -> None:
        now = self._clock.now()
        if deadline - now > _FRAME_NS + _DRAWING_NS:
            await self.sleep(_FRAME_NS)
            self._ticked()
        elif deadline - now > _EARLY_NS:
            await self.sleep(deadline - now - _EARLY_NS)
        else:
            while self._clock.now() < deadline:  # noqa: ASYNC110 - nothing else is as exact
                await asyncio.sleep(0)
            self._advance()
            await asyncio.sleep(0)  # keys come between two events, however close these are

    def _advance(self) -> None:
        self.playback.advance()
        now = self._clock.now()
        following = self.playback.deadline()
        # An event waits at most 33 ms for those behind it: a frame is drawn for several that follow closely.
        if following is None or following - now > _DRAWING_NS or now - self._shown_ns > 33_000_000:
            self._shown_ns = now
            self._moved()

    async def sleep(self, ns: int | None) -> None:
        timer = None if ns is None else asyncio.get_running_loop().call_later(ns / 1e9, self._woken.set)
        await self._woken.wait()
        self._woken.clear()
        if timer is not None:
            timer.cancel()


class PlaybackScreen(Screen[None]):
    """A screen whose keys and timelines move a playhead; its subclass defines `command` and `is_live`."""

    def on_mount(self) -> None:
        """Pause while another program has the terminal."""
        self.app.app_suspend_signal.subscribe(self, lambda _: self.pause(), immediate=True)

    def on_unmount(self) -> None:
        """Unsubscribe: a signal keeps its subscribers alive."""
        self.app.app_suspend_signal.unsubscribe(self)

    @property
    def is_live(self) -> bool:
        raise NotImplementedError

    def command(self, change: Move, *, seeks: bool = False) -> None:
        """Change the playback once there is one, and show it; a change that `seeks` ends following."""
        raise NotImplementedError

    def pause(self) -> None:
        self.command(lambda playback: playback.pause() if playback.playing else None)

    def action_play(self) -> None:
        """Play or pause; at the end from the start. While the end is followed, freeze there, and follow it again."""
        self.command(lambda playback: playback.toggle(is_live=self.is_live))

    def action_step(self, count: int) -> None:
        self.command(lambda playback: playback.step(count), seeks=True)

    def action_aside(self, by: int) -> None:
        def change(playback: Playback) -> None:
            playback.seek_to(playback.media_ns + by * max(1_000_000_000, playback.end_ns // 100))

        self.command(change, seeks=True)

    def action_top(self) -> None:
        self.command(lambda playback: playback.seek_to(0), seeks=True)

    def action_bottom(self) -> None:
        """Go to the end, and stay there while it moves on."""

        def change(playback: Playback) -> None:
            playback.seek_to(playback.end_ns)
            playback.following = self.is_live

        self.command(change, seeks=True)

    def action_faster(self, by: int) -> None:
        def change(playback: Playback) -> None:
            at = SPEEDS.index(playback.speed) + by
            playback.set_speed(SPEEDS[max(0, min(at, len(SPEEDS) - 1))])

        self.command(change)

    def action_idle(self) -> None:
        self.command(lambda playback: playback.set_cap(CAPS[(CAPS.index(playback.cap_ns) + 1) % len(CAPS)]))

    def on_scrubbing_scrubbed(self, message: Scrubbing.Scrubbed) -> None:
        self.command(lambda playback: playback.seek_to(message.at_ns), seeks=True)

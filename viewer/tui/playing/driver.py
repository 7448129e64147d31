"""Playing in real time: each event comes at its absolute deadline, and how late it was is kept.

The driver sleeps until a millisecond before an event is due and then yields until it is; all that is due then comes at
once. Drawing takes longer than that, and blocks the loop: a refresh is asked for only where it fits before the next
event, or when what came before has waited too long to be seen.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from recorder.clock import Clock
from viewer.timing.playback import Playback

_EARLY_NS: Final = 1_000_000
_FRAME_NS: Final = 50_000_000
_DRAWING_NS: Final = 13_000_000
"""A frame begins up to 8 ms after it is asked for, and takes about 5 ms."""

_UNSEEN_NS: Final = 33_000_000
"""How long an event may wait until it is shown."""

_AT_ONCE: Final = 2_000
_BREATH_S: Final = 1 / 60
_KEPT: Final = 2_000


class Driver:
    """Plays a playback; `moved` is called when events have come, `ticked` when only time has passed."""

    def __init__(self, playback: Playback, clock: Clock, moved: Callable[[], None], ticked: Callable[[], None]) -> None:
        self.playback = playback
        self._clock = clock
        self._moved = moved
        self._ticked = ticked
        self._woken = asyncio.Event()
        self._late: deque[int] = deque(maxlen=_KEPT)
        self._shown_ns = 0

    @property
    def late_ns(self) -> list[int]:
        """How late the last events came, in ns, in their order."""
        return list(self._late)

    def wake(self) -> None:
        """Look at the playback again: a command has changed it."""
        self._woken.set()

    async def run(self) -> None:
        """Play until cancelled."""
        while True:
            deadline = self.playback.deadline()
            if deadline is None and self.playback.playing:  # the end is past
                self._advance(self._clock.now())
            elif deadline is None:
                await self._sleep(None)
            elif self.playback.speed == float("inf"):
                self.playback.advance(_AT_ONCE)
                self._moved()
                await asyncio.sleep(_BREATH_S)
            else:
                await self._wait_for(deadline)

    async def _wait_for(self, deadline: int) -> None:
        now = self._clock.now()
        if deadline - now > _FRAME_NS + _DRAWING_NS:
            await self._sleep(_FRAME_NS)
            self._ticked()
        elif deadline - now > _EARLY_NS:
            await self._sleep(deadline - now - _EARLY_NS)
        else:
            while self._clock.now() < deadline:  # noqa: ASYNC110 - nothing else is as exact
                await asyncio.sleep(0)
            self._advance(deadline)
            await asyncio.sleep(0)

    def _advance(self, deadline: int) -> None:
        """Let due events come; they are as late as `deadline` is past, unless a command has come meanwhile."""
        came, now = self.playback.advance(), self._clock.now()
        if came and not self._woken.is_set():
            self._late.append(now - deadline)
        following = self.playback.deadline()
        if following is None or following - now > _DRAWING_NS or now - self._shown_ns > _UNSEEN_NS:
            self._shown_ns = now
            self._moved()

    async def _sleep(self, ns: int | None) -> None:
        timer = None if ns is None else asyncio.get_running_loop().call_later(ns / 1e9, self._woken.set)
        await self._woken.wait()
        self._woken.clear()
        if timer is not None:
            timer.cancel()

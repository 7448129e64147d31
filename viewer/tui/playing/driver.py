"""Driving a playback: events are let come at their absolute deadlines, and it is said how late they were.

Sleeping ends a millisecond before an event is due, the rest is yielded; all that is due then comes at once. Drawing
takes longer than that, and nothing else goes on meanwhile: so a refresh is asked for where there is room for it before
the next event, or when what came before has not been seen for a while. A command wakes the driver, so that it looks at
the playback anew.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from recorder.clock import Clock
from viewer.timing.playback import Playback

_EARLY_NS: Final = 1_000_000
_FRAME_NS: Final = 50_000_000
_ROOM_NS: Final = 13_000_000
"""A frame begins up to 8 ms after it is asked for, and takes about 5 ms."""

_UNSEEN_NS: Final = 33_000_000
"""What has come may wait for so long until it is shown."""

_AT_ONCE: Final = 2_000
_BREATH_S: Final = 1 / 60
_KEPT: Final = 2_000


class Driver:
    """Lets the events of a playback come; `moved` is called after each move, and `ticked` when only time has passed."""

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
        """Look at the playback anew: somebody has changed it."""
        self._woken.set()

    async def run(self) -> None:
        """Drive for ever."""
        while True:
            deadline = self.playback.deadline()
            if deadline is None and self.playback.playing:  # the end is past
                self._come(self._clock.now())
            elif deadline is None:
                await self._sleep(None)
            elif self.playback.speed == float("inf"):
                self.playback.advance(_AT_ONCE)
                self._moved()
                await asyncio.sleep(_BREATH_S)
            else:
                await self._until(deadline)

    async def _until(self, deadline: int) -> None:
        now = self._clock.now()
        if deadline - now > _FRAME_NS + _ROOM_NS:
            await self._sleep(_FRAME_NS)
            self._ticked()
        elif deadline - now > _EARLY_NS:
            await self._sleep(deadline - now - _EARLY_NS)
        else:
            while self._clock.now() < deadline:  # noqa: ASYNC110 - nothing else is as exact
                await asyncio.sleep(0)
            self._come(deadline)
            await asyncio.sleep(0)

    def _come(self, deadline: int) -> None:
        """Let come what is due; what was due at `deadline` is late by now, unless a command has come meanwhile."""
        came, now = self.playback.advance(), self._clock.now()
        if came and not self._woken.is_set():
            self._late.append(now - deadline)
        following = self.playback.deadline()
        if following is None or following - now > _ROOM_NS or now - self._shown_ns > _UNSEEN_NS:
            self._shown_ns = now
            self._moved()

    async def _sleep(self, ns: int | None) -> None:
        timer = None if ns is None else asyncio.get_running_loop().call_later(ns / 1e9, self._woken.set)
        await self._woken.wait()
        self._woken.clear()
        if timer is not None:
            timer.cancel()

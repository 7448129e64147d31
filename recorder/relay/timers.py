"""Deadlines that move with each read or request, without a timer of the event loop for each of their moves."""

import asyncio
from collections.abc import Callable


class LazyTimer:
    """A timer that is moved only when it fires, or must fire sooner: its owner then looks for the deadline of now.

    It keeps no reference to its owner while it is not set, which would make both wait for a garbage collection.
    """

    __slots__ = ("_at", "_handle", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0

    def set(self, due: int, seconds: float, call: Callable[[], object]) -> None:
        """Call a function at a time, in ns, which is in `seconds`, or before; a call that is set for then stays."""
        if self._handle is not None:
            if self._at <= due:
                return
            self._handle.cancel()
        if seconds > 60:  # it fires on the way, so that nearer deadlines seldom need a new one
            due, seconds = due - int((seconds - 60) * 1e9), 60
        self._at, self._handle = due, self._loop.call_later(seconds, self._fire, call)

    def _fire(self, call: Callable[[], object]) -> None:
        self._handle = None
        call()

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

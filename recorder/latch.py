"""Signals: those that a process heeds, and a flag that a handler may set while its own thread waits for it."""

import contextlib
import queue
import signal

from wiretape.recorder.clock import SYSTEM


class Latch:
    """A flag that is set once, and a wait for it.

    `threading.Event` takes a lock to set and to wait: the handler of a signal runs in the middle of the main thread's
    wait, where it would wait for ever for that lock. `SimpleQueue.put` is made to be called there.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Set it, for good; a signal's handler may call this."""
        self.is_set = True
        self._wakes.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, for at most `seconds`, and return whether it is; one thread may wait."""
        until = SYSTEM.now() + round(seconds * 1e9)
        # Python runs no handler for a signal that comes in the last instant before a wait until the wait is over:
        # it goes unnoticed for a second at most.
        while not self.is_set and (remaining := (until - SYSTEM.now()) / 1e9) > 0:
            with contextlib.suppress(queue.Empty):
                self._wakes.get(timeout=min(remaining, 1.0))
        return self.is_set


def heeded(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return the signals that this process does not ignore: `nohup` and a script's background jobs ignore some."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]

"""A flag that the handler of a signal may set while its own thread waits for it."""

import contextlib
import queue


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
        """Wait until it is set, at most so many seconds, and return whether it is; one thread may wait."""
        if not self.is_set:
            with contextlib.suppress(queue.Empty):
                self._wakes.get(timeout=seconds)
        return self.is_set

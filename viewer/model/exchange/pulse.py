"""Pure: one exchange while it may still run: how far it has got by now, and for how long nothing came at a timestamp.

What has come is `opening`'s, what a silence is `silence`'s; where a playhead stands meanwhile is the screen's.
"""

import contextlib

from recorder.clock import Clock
from viewer.model import silence
from viewer.model.exchange.opened import Opened
from viewer.model.silence import Silence, Stopwatch


class Pulse:
    """Knows of one exchange whether it runs, as far as was seen; `died` says that its recorder is gone."""

    def __init__(self, clock: Clock) -> None:
        self.died = False
        self._clock = clock
        self._opened: Opened | None = None
        self._watch: Stopwatch | None = None
        self._last_ns = self._longest_ns = 0

    @property
    def runs(self) -> bool:
        """Whether it goes on."""
        return self._opened is not None and self._opened.live and not self.died

    @property
    def end_ns(self) -> int:
        """When it ended, or how far it has got by now, in ns since T0; 0 as long as nothing is known."""
        if self._opened is None:
            return 0
        last = self._opened.end_ns
        return self._watch.passed_ns(last) if self.runs and self._watch is not None else last

    def silence(self, at_ns: int) -> Silence | None:
        """Return the silence that a timestamp of the exchange lies in, None if it is not worth telling.

        Where bytes are missing from the tape it is not known.
        """
        opened = self._opened
        if opened is None or opened.missing or not 0 <= at_ns <= self.end_ns:
            return None
        return silence.at(opened.reads_at, at_ns, opened.limits.stall_ns)

    @property
    def longest_silence(self) -> Silence | None:
        """The longest silence that `silence` returns for any timestamp by now."""
        if self._opened is None or self._opened.missing:
            return None
        lasted_ns = max(self._longest_ns, self.end_ns - self._last_ns)
        return silence.silence(lasted_ns, None, self._opened.limits.stall_ns)

    def know(self, started_at: str, *, died: bool) -> None:
        """Take when it began, as on the tape, and whether its recorder is gone."""
        self.died = died
        if self._watch is None:
            with contextlib.suppress(ValueError, TypeError):  # no instant: nothing can be counted from it
                self._watch = Stopwatch(started_at, self._clock)

    def take(self, opened: Opened) -> None:
        """Take what has come of it by now."""
        self._opened = opened
        self._last_ns = opened.reads_at[-1] if len(opened.reads_at) else 0
        self._longest_ns = silence.longest_ns(opened.reads_at, opened.end_ns)

"""Pure: the progress of one exchange that may still run, and the silence at a timestamp.

Its reads have their timestamps from the tape; the time since the last one needs a clock. A tape that is written to
cannot be read from another machine, so this clock is its recorder's.
"""

from bisect import bisect_right
from datetime import datetime
from itertools import chain
from operator import sub

from wiretape.recorder.clock import Clock
from wiretape.viewer.exchange.opened import OpenedExchange
from wiretape.viewer.exchange.states import Silence, silence


class Pulse:
    """The state of one exchange, running or not, as last seen; `died` is true if its recorder is gone."""

    def __init__(self, clock: Clock) -> None:
        self.died = False
        self._clock = clock
        self._exchange: OpenedExchange | None = None
        self._began_ns: int | None = None
        self._last_ns = self._longest_ns = 0

    @property
    def runs(self) -> bool:
        return self._exchange is not None and self._exchange.live and not self.died

    @property
    def end_ns(self) -> int:
        """The end, or the present of a running exchange, in ns since T0; 0 as long as nothing is known.

        It is never before the last read, even if the wall clock is set back.
        """
        if self._exchange is None:
            return 0
        last_ns = self._exchange.end_ns
        return max(self._clock.now() - self._began_ns, last_ns) if self.runs and self._began_ns is not None else last_ns

    def silence(self, at_ns: int) -> Silence | None:
        """Return the silence that a timestamp of the exchange lies in, None if it is too short.

        It is unknown where bytes are missing from the tape; none while no turn of a hosted agent runs.
        """
        exchange = self._exchange
        if exchange is None or not exchange.is_whole or not 0 <= at_ns <= self.end_ns:
            return None
        if exchange.transcript.is_idle_at(at_ns):
            return None
        read_count = bisect_right(exchange.reads_at, at_ns)
        return silence(at_ns, exchange.reads_at[read_count - 1] if read_count else None, exchange.limits)

    @property
    def longest_silence(self) -> Silence | None:
        """The longest silence that `silence` returns for any timestamp by now."""
        if self._exchange is None or not self._exchange.is_whole:
            return None
        lasted_ns = max(self._longest_ns, self.end_ns - self._last_ns)
        return silence(lasted_ns, None, self._exchange.limits)

    def know(self, started_at: str, *, died: bool) -> None:
        """Set the start, as on the tape, and the death of the recorder."""
        self.died = died
        # Set the start only once: a later step of the wall clock may not move the end of a running exchange.
        if self._began_ns is None:
            try:
                started_ns = round(datetime.fromisoformat(started_at).timestamp() * 1_000_000) * 1000
            except (ValueError, TypeError):  # no time: nothing can be counted from it
                return
            self._began_ns = self._clock.now() - (self._clock.wall_ns() - started_ns)

    def take(self, exchange: OpenedExchange) -> None:
        """Update the progress from the exchange's data until now."""
        self._exchange, read_ns = exchange, exchange.reads_at
        self._last_ns = read_ns[-1] if read_ns else 0
        self._longest_ns = max(map(sub, read_ns, chain([0], read_ns)), default=0)

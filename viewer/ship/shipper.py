"""Ships a tape to a destination: settled exchanges, in that order, in batches, each acknowledged before the next.

A batch is taken from the tape, fixed (its end is kept beside the tape before it is sent, so that the next process after
a kill sends the same), sent, and acknowledged. The tape is only read, in short transactions, and is the buffer: a batch
that a destination does not take is reported once, and sent again after a wait that grows. After a stop signal the
remainder is shipped for a while, and the rest stays on the tape.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sqlalchemy import Connection

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.viewer.ship.acknowledged import Acknowledged, Progress
from wiretape.viewer.ship.sink import Batch, NotTaken, Report, Sink
from wiretape.viewer.source.tape import shipping

FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0
"""The longest wait by itself, in seconds; a destination can ask for a longer one, on which `once` gives up."""


@dataclass(slots=True)
class Shipper:
    """Ships one tape to one destination. `tell` gets the progress, `warn` errors, and "" after recovery.

    `wait` waits for a number of seconds, or until it `is_over`.
    """

    sink: Sink
    acknowledged: Acknowledged
    wait: Callable[[float], object] = lambda _: None
    is_over: Callable[[], bool] = lambda: False
    tell: Callable[[Report], None] = lambda _: None
    warn: Callable[[str], object] = lambda _: None
    last_seconds: float = 0.0
    """Time that shipping may go on after the end, in seconds."""
    clock: Clock = SYSTEM
    counts: Counter[str] = field(default_factory=Counter)
    """Numbers of exchanges shipped, by lane."""
    last: Report | None = None
    _is_prepared: bool = False
    _until: int | None = None
    _connection: Connection = field(init=False)

    @property
    def shipped(self) -> int:
        """The number of exchanges shipped."""
        return self.counts[self.sink.lanes[0]]

    def run(self, connection: Connection, *, once: bool = False) -> None:
        """Ship a tape's exchanges, and unless `once`, new ones, until it `is_over`.

        Raises the errors of its sink; `NotTaken` if `once`, or when it is over: the rest stays on the tape.
        """
        self._connection, self._until = connection, None
        shipping.read_through(connection)
        self.acknowledged.identify(shipping.identity(connection), self.sink.tenant)
        self.sink.begin(connection, self.acknowledged, self.warn)
        if not self._is_prepared:
            self._retry(self.sink.prepare, once)
            self._is_prepared = True
        while True:
            self._ship(once)
            if once or self._is_late():
                self._report(once, is_last=True)
                return
            self.wait(self.sink.poll_seconds)

    def _ship(self, once: bool) -> None:
        """Ship settled exchanges, as long as there is time."""
        self._report(once)  # so that who reads at the destination finds the run of each exchange
        for lane in self.sink.lanes:
            while not self._is_late() and (batch := self._next(lane)) is not None:
                self.acknowledged.put(lane, Progress(batch.after, batch.until))
                self._retry(partial(self.sink.send, batch), once)
                self.acknowledged.put(lane, Progress(batch.until))
                self.counts[lane] += batch.count
                del batch  # its memory is for the next
                self._report(once)

    def _next(self, lane: str) -> Batch | None:
        """Return the next batch: that which was being sent when the last process ended, else the newly settled ones."""
        progress = self.acknowledged.of(lane)
        if progress.sending is not None:
            if (again := self.sink.take(lane, progress)) is not None:
                return again
            progress = Progress(progress.sending)  # all of it was deleted, or derived again, since
        return self.sink.take(lane, progress)

    def _report(self, once: bool, *, is_last: bool = False) -> None:
        """Find out how far the tape is shipped, and tell it, here and at the destination."""
        self._retry(lambda: self.sink.report(self._found(), is_last=is_last), once)
        if is_last:
            self._found()  # including the sink's own acknowledgements

    def _found(self) -> Report:
        until = min(self.acknowledged.of(lane).until for lane in self.sink.lanes)
        waiting = shipping.waiting(self._connection, until)
        self.last = Report(self.shipped, waiting.exchanges, waiting.lag_ns(self.clock.wall_ns()), waiting.first)
        self.tell(self.last)
        return self.last

    def _is_late(self) -> bool:
        """Return True if the time after the end is used up: the rest has to wait for the next process."""
        if self._until is None and self.is_over():
            self._until = self.clock.now() + round(self.last_seconds * 1e9)
        return self._until is not None and self.clock.now() >= self._until

    def _retry(self, work: Callable[[], None], once: bool) -> None:
        """Repeat work that may fail until it succeeds, or until it is given up.

        A node's error is reported once, and only if all nodes failed: its own words differ each time.
        """
        pause, tries, said = FIRST_WAIT, 0, dict[str, str]()
        while True:
            try:
                work()
            except NotTaken as error:
                tries += 1
                said.setdefault(str(error).partition(" (")[0], f"{error}; trying again")
                if tries % self.sink.nodes:  # another node is next
                    continue
                wait = pause * random.uniform(0.5, 1.0) if error.wait_s is None else error.wait_s
                if self._gives_up(wait, tries // self.sink.nodes, once):
                    raise NotTaken(f"{error}: what is not shipped stays on the tape") from error
                self._warn_of(said)
                self._pause(wait)
                pause = min(2 * pause, LONGEST_WAIT)
            else:
                if tries >= self.sink.nodes:
                    self.warn("")
                return

    def _gives_up(self, wait: float, rounds: int, once: bool) -> bool:
        if self._is_late():
            return True
        if self._until is not None:
            return self.clock.now() + wait * 1e9 > self._until
        return once and (rounds >= self.sink.rounds or wait > LONGEST_WAIT)

    def _pause(self, seconds: float) -> None:
        if self._until is None:
            self.wait(seconds)
        else:
            self.clock.sleep(seconds)  # nothing that is waited for comes any more

    def _warn_of(self, said: dict[str, str]) -> None:
        """Print the lines that are not empty, and empty them."""
        for kind, line in said.items():
            if line:
                self.warn(line)
                said[kind] = ""

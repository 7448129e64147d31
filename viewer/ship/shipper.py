"""Ships a tape to a destination: settled exchanges, in that order, in batches, each acknowledged before the next.

The rules of the loop:

- Take a batch from the tape, fix it, send it, acknowledge it. It is fixed by keeping its end beside the tape before it
  is sent: the next process after a kill sends the same batch, which the destination recognises.
- The tape is only read, in short transactions: one that lasts keeps its writer from shortening its log. It is the
  buffer: nothing is queued here.
- A batch that a destination does not take is reported once, and sent again after a wait that grows.
- After a stop signal the remainder is shipped for a while, and the rest stays on the tape.
"""

import contextlib
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from wiretape.recorder import latch
from wiretape.recorder.children import LEAVE
from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.errors import TapeGone, WiretapeError
from wiretape.recorder.tape import lock
from wiretape.viewer.ship.acknowledged import Acknowledged, Progress
from wiretape.viewer.ship.sink import Batch, NotTaken, ShippingReport, Sink
from wiretape.viewer.source.settled import SettledTape

SHUTDOWN_SECONDS = 10.0
"""Time allowed for the current request after a stop signal, in seconds."""
FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 30.0
"""Maximum wait, in seconds; a destination can ask for a longer one, on which `once` gives up."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The end of shipping: its state, and waits for it; `wait` also notices that the tape is gone.

    `wait_for_recorder` returns when the recorder that asked to leave the tape has closed it.
    """

    is_over: Callable[[], bool]
    wait: Callable[[float], None]
    wait_for_recorder: Callable[[], object]
    has_recorder: bool = False

    def leave(self) -> None:
        """Signal to the recorder that its tape is left, and return when it has closed it; it may be gone already."""
        with contextlib.suppress(BrokenPipeError):
            os.write(sys.stdout.fileno(), LEAVE)
        self.wait_for_recorder()

    def wait_for_others(self, warn: Callable[[str], object]) -> Callable[[], bool]:
        """Return the wait, beside a recorder, for another recorder's process that ships the same tape."""
        has_warned = False

        def wait() -> bool:
            nonlocal has_warned
            if not self.has_recorder:
                return False
            if not has_warned:
                warn("another process ships this tape, with the exchanges recorded here")
                has_warned = True
            self.wait(2.0)
            return not self.is_over()

        return wait


@contextlib.contextmanager
def until_end(tape: Path, *, with_recorder: bool) -> Iterator[Shutdown]:
    """Yield when to end: at the first signal, a second one interrupts; or when the recorder asks to.

    If an answer is awaited at the signal, `WiretapeError` ends the wait after a while.
    """
    over, closed = latch.Latch(), threading.Event()
    identity = lock.identity(tape)

    def wait(seconds: float) -> None:
        over.wait(seconds)
        if lock.identity(tape) != identity:
            raise TapeGone(f"{tape} was removed or replaced while it was shipped: ship it again")

    def stop(*_: object) -> None:
        if over.is_set:
            raise KeyboardInterrupt
        over.set()
        # Again and again: an exception that is raised within a callback of SQLite is lost.
        signal.setitimer(signal.ITIMER_REAL, SHUTDOWN_SECONDS, SHUTDOWN_SECONDS)

    def give_up(*_: object) -> None:
        raise WiretapeError("stopped while it waited for an answer: the rest stays on the tape")

    def listen() -> None:
        # A buffer's lock would outlive its thread.
        with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as pipe:
            for line in pipe:
                if line == LEAVE:
                    over.set()
        over.set()  # the end of the pipe is the recorder's
        closed.set()

    if with_recorder:  # its terminal's signals are the recorder's to answer
        threading.Thread(target=listen, daemon=True).start()
    handler = signal.SIG_IGN if with_recorder else stop
    numbers = latch.heeded(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.signal(number, handler) for number in numbers}
    handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, give_up)
    try:
        yield Shutdown(lambda: over.is_set, wait, closed.wait, with_recorder)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, previous in handlers.items():
            signal.signal(number, previous)


@dataclass(slots=True)
class Shipper:
    """Ships one tape to one destination. `tell` gets the progress, `warn` errors, and "" after recovery.

    `wait` waits for a number of seconds, or until it `is_over`.
    """

    sink: Sink
    acknowledged: Acknowledged
    wait: Callable[[float], object] = lambda _: None
    is_over: Callable[[], bool] = lambda: False
    tell: Callable[[ShippingReport], None] = lambda _: None
    warn: Callable[[str], object] = lambda _: None
    last_seconds: float = 0.0
    """Time that shipping may go on after the end, in seconds."""
    clock: Clock = SYSTEM
    counts: Counter[str] = field(default_factory=Counter)
    """Numbers of exchanges shipped, by lane."""
    last_report: ShippingReport | None = None
    _is_prepared: bool = False
    _until: int | None = None
    _tape: SettledTape = field(init=False)

    @property
    def shipped(self) -> int:
        """The number of exchanges shipped."""
        return self.counts[self.sink.lanes[0]]

    def run(self, tape: SettledTape, *, once: bool = False) -> None:
        """Ship a tape's exchanges, and unless `once`, new ones, until it `is_over`.

        Raises the errors of its sink; `NotTaken` if `once`, or when it is over: the rest stays on the tape.
        """
        self._tape, self._until = tape, None
        self.acknowledged.identify(tape.identity(), self.sink.tenant)
        self.sink.begin(tape, self.acknowledged, self.warn)
        if not self._is_prepared:
            self._retry(self.sink.prepare, once)
            self._is_prepared = True
        while True:
            self._report(once)  # so that who reads at the destination finds the run of each exchange
            for lane in self.sink.lanes:
                while not self._is_late() and (batch := self._next(lane)) is not None:
                    self.acknowledged.put(lane, Progress(batch.since, batch.until))
                    self._retry(partial(self.sink.send, batch), once)
                    self.acknowledged.put(lane, Progress(batch.until))
                    self.counts[lane] += batch.count
                    del batch  # its memory is for the next
                    self._report(once)
            if once or self._is_late():
                self._report(once, is_last=True)
                return
            self.wait(self.sink.poll_seconds)

    def _next(self, lane: str) -> Batch | None:
        """Return the next batch: that which was being sent when the last process ended, else the newly settled ones."""
        progress = self.acknowledged.of(lane)
        if progress.sending is not None:
            if (unacknowledged := self.sink.take(lane, progress)) is not None:
                return unacknowledged
            progress = Progress(progress.sending)  # all of it was deleted, or derived again, since
        return self.sink.take(lane, progress)

    def _report(self, once: bool, *, is_last: bool = False) -> None:
        """Find the progress of the tape, and report it, here and at the destination."""
        self._retry(lambda: self.sink.report(self._progress(), is_last=is_last), once)
        if is_last:
            self._progress()  # including the sink's own acknowledgements

    def _progress(self) -> ShippingReport:
        until = min(self.acknowledged.of(lane).until for lane in self.sink.lanes)
        unshipped = self._tape.backlog(until)
        self.last_report = ShippingReport(self.shipped, unshipped.exchanges, unshipped.lag_ns(self.clock.wall_ns()))
        self.tell(self.last_report)
        return self.last_report

    def _is_late(self) -> bool:
        """Return True if the time after the end is used up: the rest has to wait for the next process."""
        if self._until is None and self.is_over():
            self._until = self.clock.now() + round(self.last_seconds * 1e9)
        return self._until is not None and self.clock.now() >= self._until

    def _retry(self, work: Callable[[], None], once: bool) -> None:
        """Repeat work that may fail until it succeeds, or until it is given up.

        A node's error is reported once, and only if all nodes failed: its own words differ each time.
        """
        pause, tries, lines = FIRST_WAIT_SECONDS, 0, dict[str, str]()
        while True:
            try:
                work()
            except NotTaken as error:
                tries += 1
                lines.setdefault(str(error).partition(" (")[0], f"{error}; trying again")
                if tries % self.sink.nodes:  # another node is next
                    continue
                wait = pause * random.uniform(0.5, 1.0) if error.wait_s is None else error.wait_s
                if self._gives_up(wait, tries // self.sink.nodes, once):
                    raise NotTaken(f"{error}: the rest stays on the tape") from error
                for kind, line in lines.items():
                    if line:
                        self.warn(line)
                        lines[kind] = ""  # reported: an error of this kind is not reported again
                if self._until is None:
                    self.wait(wait)
                else:
                    self.clock.sleep(wait)  # the end has come: `wait` would return at once
                pause = min(2 * pause, LONGEST_WAIT_SECONDS)
            else:
                if tries >= self.sink.nodes:
                    self.warn("")
                return

    def _gives_up(self, wait: float, rounds: int, once: bool) -> bool:
        if self._is_late():
            return True
        if self._until is not None:
            return self.clock.now() + wait * 1e9 > self._until
        return once and (rounds >= self.sink.rounds or wait > LONGEST_WAIT_SECONDS)

"""Sends a tape to a collector: what is settled, in that order, in batches, each acknowledged before the next.

How far it is, is kept beside the tape, as when a tape is shipped to a centre. Metrics are those of what this process
has sent, from its start on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import Connection

from recorder.clock import SYSTEM, Clock
from recorder.errors import WiretapeError
from viewer.fleet.acknowledged import Acknowledged, Progress
from viewer.otlp import metrics, spans
from viewer.otlp.delivery import Delivery
from viewer.otlp.histogram import ExponentialHistogram
from viewer.stats.dashboard import Figures
from viewer.tape import session, shipping

BATCH: Final = 256
"""So many spans are sent together, or a page more."""

POLL_SECONDS: Final = 0.5
METRICS_SECONDS: Final = 10.0

_SPANS: Final = "spans"
_TRIES_AT_ONCE: Final = 8
_MOST_PAUSE_SECONDS: Final = 30.0
"""Who sends what there is does not wait for longer."""


@dataclass(slots=True)
class Shipper:
    """Sends one tape to one collector. Where nothing has been acknowledged, it begins after the version `since`.

    `wait` waits so many seconds, or until it `is_over`; `tell` is given how many exchanges have been taken.
    """

    delivery: Delivery
    acknowledged: Acknowledged
    since: int = 0
    wait: Callable[[float], object] = lambda _: None
    is_over: Callable[[], bool] = lambda: False
    tell: Callable[[int], object] = lambda _: None
    clock: Clock = SYSTEM
    taken: int = 0
    _figures: Figures[ExponentialHistogram] = field(default_factory=metrics.figures)
    _unsent: list[Span] = field(default_factory=list)
    _gathered: int = 0
    _follower: session.Follower | None = None
    _started_ns: int = 0
    _told_ns: int | None = None
    _tries: int = 0

    def follow(self, connection: Connection) -> None:
        """Send what is settled, and what comes, until it is over. Raises `WiretapeError`."""
        while not self.is_over():
            self._send(connection, self._has_time)
            self._send_metrics(METRICS_SECONDS)
            self.wait(POLL_SECONDS)

    def finish(self, connection: Connection, seconds: float | None = None) -> int:
        """Send what is left, for so many seconds, or with so many tries; return how many exchanges have to wait.

        Raises `WiretapeError`.
        """
        until_ns = None if seconds is None else self.clock.now() + int(seconds * 1e9)
        self._send(connection, lambda pause: self._has_more(pause, until_ns))
        self._send_metrics(0)
        return shipping.waiting(connection, self.acknowledged.of(_SPANS).until).exchanges

    def _has_time(self, pause: float) -> bool:
        self.wait(pause)
        return not self.is_over()

    def _has_more(self, pause: float, until_ns: int | None) -> bool:
        self._tries += 1
        if until_ns is None:
            if self._tries < _TRIES_AT_ONCE and pause <= _MOST_PAUSE_SECONDS:
                return self._has_time(pause)
            return False
        if self._tries >= _TRIES_AT_ONCE or self.clock.now() + pause * 1e9 > until_ns:
            return False
        self.clock.sleep(pause)  # it is over already
        return True

    def _send(self, connection: Connection, has_time: Callable[[float], bool]) -> None:
        """Send all that is settled, as long as there is time."""
        follower = self._begun(connection)
        is_all = False
        while not is_all:
            self._gather(connection, follower)
            is_all = len(self._unsent) < BATCH
            if not self.delivery.send_spans(self._unsent, has_time):
                return
            self._send_metrics(METRICS_SECONDS)
            if not self.delivery.takes_anything:
                raise WiretapeError("the collector takes neither spans nor metrics: check its URL, without /v1/…")
            self._unsent.clear()
            self.taken, self._gathered, self._tries = self.taken + self._gathered, 0, 0
            if self.acknowledged.of(_SPANS).until != follower.version:
                self.acknowledged.put(_SPANS, Progress(follower.version))
                self.tell(self.taken)

    def _gather(self, connection: Connection, follower: session.Follower) -> None:
        """Make the spans of what is settled next, a batch of them."""
        while len(self._unsent) < BATCH and (numbers := follower.take(connection)):
            for one in session.traced(connection, numbers):
                self._gathered += 1
                self._figures.add(one.counted)
                made = spans.span(one)
                self._unsent += [] if made is None else [made]

    def _send_metrics(self, after_s: float) -> None:
        """Send metrics, if the last ones are so old."""
        now = self.clock.now()
        if self._told_ns is None or now - self._told_ns >= after_s * 1e9:
            self.delivery.send_metrics(self._figures, self._started_ns)
            self._told_ns = now

    def _begun(self, connection: Connection) -> session.Follower:
        """Return what takes what is settled, from where the last process ended."""
        if self._follower is None:
            self._started_ns = self.clock.wall_ns()
            self.acknowledged.identify(shipping.identity(connection))
            if _SPANS not in self.acknowledged.tables:
                self.acknowledged.put(_SPANS, Progress(self.since))
            self._follower = session.Follower(self.acknowledged.of(_SPANS).until)
        return self._follower

"""Sends a tape to a collector: settled exchanges in their order, in batches, each acknowledged before the next.

The progress of spans and of metrics is kept beside the tape, as when a tape is shipped to a centre. The counts of the
metrics are kept in the same write as the progress of the spans. After a kill at any time, the next process counts on
from the spans that were acknowledged: spans may be sent twice, with the same ids; no sample is lost or counted twice.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import Connection

from recorder.clock import SYSTEM, Clock
from recorder.errors import WiretapeError
from viewer.ship.acknowledged import Acknowledged, Progress
from viewer.ship.otlp import series, spans
from viewer.ship.otlp.attributes import Origin
from viewer.ship.otlp.delivery import Delivery
from viewer.ship.otlp.series import Series
from viewer.source.tape import session, shipping

BATCH: Final = 256
"""So many spans are sent together, or a page more."""

POLL_SECONDS: Final = 0.5
METRICS_SECONDS: Final = 10.0

_SPANS: Final = "spans"
_METRICS: Final = "metrics"
_TRIES_AT_ONCE: Final = 8
_MOST_PAUSE_SECONDS: Final = 30.0
"""Who sends what there is does not wait for longer."""


@dataclass(slots=True)
class Shipper:
    """Sends one tape to one collector. Where nothing has been acknowledged, it begins after the version `since`.

    `origin` returns the origin for the id of an instance, which outlives the process. `wait` waits for a number of
    seconds, or until it `is_over`; `tell` is called with the number of exchanges taken.
    """

    delivery: Delivery
    acknowledged: Acknowledged
    origin: Callable[[str], Origin]
    since: int = 0
    wait: Callable[[float], object] = lambda _: None
    is_over: Callable[[], bool] = lambda: False
    tell: Callable[[int], object] = lambda _: None
    clock: Clock = SYSTEM
    taken: int = 0
    _series: list[Series] = field(default_factory=list)
    _unsent: list[Span] = field(default_factory=list)
    _gathered: int = 0
    _follower: session.Follower | None = None
    _told_ns: int | None = None
    _tries: int = 0

    def follow(self, connection: Connection) -> None:
        """Send what is settled, and what comes, until it is over. Raises `WiretapeError`."""
        while not self.is_over():
            self._send(connection, self._has_time)
            self.wait(POLL_SECONDS)

    def finish(self, connection: Connection, seconds: float | None = None) -> int:
        """Send what is left, for so many seconds, or with so many tries; return how many exchanges have to wait.

        Raises `WiretapeError`.
        """
        until_ns = None if seconds is None else self.clock.now() + int(seconds * 1e9)

        def has_more(pause: float) -> bool:
            return self._has_more(pause, until_ns)

        self._send(connection, has_more)
        self._send_metrics(0, has_more)
        until = min(self.acknowledged.of(signal).until for signal in (_SPANS, _METRICS))
        return shipping.waiting(connection, until).exchanges

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
            self._send_metrics(METRICS_SECONDS)
            self._gather(connection, follower)
            is_all = len(self._unsent) < BATCH
            if not self.delivery.send_spans(self._unsent, self._series[-1].origin, has_time):
                return
            if not self.delivery.takes_anything:
                raise WiretapeError("the collector takes neither spans nor metrics: check its URL, without /v1/…")
            self._unsent.clear()
            self.taken, self._gathered, self._tries = self.taken + self._gathered, 0, 0
            if self.acknowledged.of(_SPANS).until != follower.version:
                self._acknowledge(_SPANS, Progress(follower.version))
                self.tell(self.taken)

    def _gather(self, connection: Connection, follower: session.Follower) -> None:
        """Make the next batch of spans of settled exchanges, and count these."""
        current = self._series[-1]
        while len(self._unsent) < BATCH and (numbers := follower.take(connection)):
            for one in session.traced(connection, numbers):
                self._gathered += 1
                current.figures.add(one.counted)
                made = spans.span(one, current.origin.conventions)
                self._unsent += [] if made is None else [made]

    def _send_metrics(self, after_s: float, has_time: Callable[[float], bool] = lambda _: False) -> None:
        """Send metrics if the last ones are so old, but no counts that the next process would not begin with."""
        now = self.clock.now()
        if self._gathered or (self._told_ns is not None and now - self._told_ns < after_s * 1e9):
            return
        self._told_ns = now
        if not all([self.delivery.send_metrics(one, has_time) for one in self._series]):
            return
        if self.acknowledged.of(_METRICS) != self.acknowledged.of(_SPANS):
            del self._series[:-1]
            self._acknowledge(_METRICS, self.acknowledged.of(_SPANS))

    def _acknowledge(self, signal: str, progress: Progress) -> None:
        self.acknowledged.state = series.encode(self._series)
        self.acknowledged.put(signal, progress)

    def _begun(self, connection: Connection) -> session.Follower:
        """Return what takes what is settled, from where the last process ended."""
        if self._follower is None:
            known = self.acknowledged
            known.identify(shipping.identity(connection))
            if _SPANS not in known.tables:
                known.put(_SPANS, Progress(self.since))
            if _METRICS not in known.tables:
                known.put(_METRICS, known.of(_SPANS))
            self._series = self._stored()
            self._follower = session.Follower(known.of(_SPANS).until)
        return self._follower

    def _stored(self) -> list[Series]:
        """Return the series of the last process, followed by a new one unless this process can go on with the last.

        It cannot if the origin is another, which makes another series for a receiver, or if labels are at their limit.
        """
        stored = series.decode(self.acknowledged.state)
        last = stored[-1] if stored else None
        if last is not None and not last.figures.folded and self.origin(last.instance) == last.origin:
            return stored
        instance = str(uuid.uuid4())
        begun = series.new(instance, self.origin(instance), self.clock.wall_ns())
        is_taken = self.acknowledged.of(_METRICS) == self.acknowledged.of(_SPANS)
        return [begun] if is_taken else [*stored, begun]

"""A collector of OpenTelemetry as a sink: a span for each settled exchange, and metrics of all that were shipped.

The rules:

- The counts of the metrics are kept in the same write as the progress of the spans. After a kill at any time, the next
  process counts on from the spans that were acknowledged: spans may be sent twice, with the same ids; no sample is lost
  or counted twice.
- Metrics are sent at intervals, and never before the spans of their exchanges are acknowledged.
- A message is sent until it is taken or refused. Spans that a collector refuses are lost, and reported; metrics are
  cumulative, so that the next message has all that one lacked.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.plurals import counted
from wiretape.viewer.ship.acknowledged import Acknowledged, Progress
from wiretape.viewer.ship.sink import Batch, Every, NotTaken, ShippingReport, Sink
from wiretape.viewer.source.settled import SettledTape
from wiretape.viewer.wings.otlp import metrics, spans
from wiretape.viewer.wings.otlp.attributes import TelemetryOrigin
from wiretape.viewer.wings.otlp.client import CollectorClient, ExportResult
from wiretape.viewer.wings.otlp.metrics import CumulativeSeries

BATCH: Final = 256
"""Number of spans sent together, exceeded by a page at most."""

METRICS_SECONDS: Final = 10.0

_SPANS: Final = "spans"
_METRICS: Final = "metrics"


class CollectorSink(Sink):
    """Sends to a collector. Where nothing has been acknowledged, it begins after the version `since`.

    `origin` returns the origin for the id of an instance, which outlives the process. A message is sent until it is
    taken or refused.
    """

    lanes = (_SPANS, _METRICS)
    decodes = True

    def __init__(
        self, client: CollectorClient, origin: Callable[[str], TelemetryOrigin], since: int = 0, clock: Clock = SYSTEM
    ) -> None:
        self._client, self._origin, self._since, self._clock = client, origin, since, clock
        self._series: list[CumulativeSeries] = []
        self._absent: set[str] = set()
        self._metrics_due, self._trouble = Every(METRICS_SECONDS, clock), dict[str, str]()
        self.refused = 0
        """The number of rejected spans, which must not be sent again."""

    def begin(self, tape: SettledTape, acknowledged: Acknowledged, warn: Callable[[str], object]) -> None:
        """Go on with the counts that were acknowledged."""
        super().begin(tape, acknowledged, warn)
        if _SPANS not in acknowledged.tables:
            acknowledged.put(_SPANS, Progress(self._since))
        if _METRICS not in acknowledged.tables:
            acknowledged.put(_METRICS, Progress(acknowledged.of(_SPANS).until))
        # Go on with the series of the last process, or begin another: if the origin is another, which makes another
        # series for a receiver, or if labels are at their limit.
        stored = metrics.decode_series(acknowledged.state)
        newest = stored[-1] if stored else None
        if newest is not None and not newest.figures.folded and self._origin(newest.instance) == newest.origin:
            self._series = stored
            return
        instance = str(uuid.uuid4())
        series = metrics.new_series(instance, self._origin(instance), self._clock.wall_ns())
        is_taken = acknowledged.of(_METRICS).until == acknowledged.of(_SPANS).until
        self._series = [series] if is_taken else [*stored, series]

    def remark(self, counts: Mapping[str, int]) -> str:
        return f", {counted(self.refused, 'span')} refused" if self.refused else ""

    def take(self, lane: str, progress: Progress) -> Batch | None:
        """Make the next spans, and count their exchanges: no metrics are sent before these spans are acknowledged."""
        if lane != _SPANS:
            return None
        follower, current = self.tape.followed(progress.until, until=progress.sending), self._series[-1]
        batch, count = list[Span](), 0
        while len(batch) < BATCH and (numbers := follower.take()):
            for exchange in self.tape.traced(numbers, of_spans=True):
                count += 1
                current.figures.add(exchange.counted)
                span = spans.span(exchange, current.origin.conventions)
                batch += [] if span is None else [span]
        if follower.version <= progress.until:
            return None
        return Batch(lane, progress.until, follower.version, count, batch)

    def send(self, batch: Batch) -> None:
        """Send spans, in halves where they are too many, and keep their counts for the acknowledgement."""
        unsent: list[Span] = batch.content
        most = len(unsent)
        while unsent and _SPANS not in self._absent:
            part = unsent[:most]
            answer = self._client.send_spans(spans.request(part, self._series[-1].origin))
            if answer.kind == "too_large" and most > 1:
                most = (most + 1) // 2
                continue
            self._settle(_SPANS, answer, len(part))
            del unsent[:most]
        if self._absent >= {_SPANS, _METRICS}:
            raise WiretapeError("the collector takes neither spans nor metrics: check its URL, without /v1/…")
        self.acknowledged.state = metrics.encode_series(self._series)

    def report(self, report: ShippingReport, *, is_last: bool) -> None:
        """Send the metrics; before the end, a failure does not delay spans."""
        if not (is_last or self._metrics_due.is_due):
            return
        self._metrics_due.done()
        try:
            for series in self._series:
                if _METRICS not in self._absent:
                    answer = self._client.send_metrics(metrics.request(series, self._clock.wall_ns()))
                    self._settle(_METRICS, answer, 0)
        except NotTaken as error:
            if is_last:
                raise
            self._tell(_METRICS, f"{error}; they are sent again")
            return
        if self.acknowledged.of(_METRICS).until != self.acknowledged.of(_SPANS).until:
            del self._series[:-1]
            self.acknowledged.state = metrics.encode_series(self._series)
            self.acknowledged.put(_METRICS, Progress(self.acknowledged.of(_SPANS).until))

    def _settle(self, signal: str, answer: ExportResult, count: int) -> None:
        """Report the fate of a message that is not sent again. Raises `NotTaken` for one that may be."""
        if answer.kind == "later":
            raise NotTaken(f"{signal} are not taken ({answer.reason})", answer.wait_s)
        if answer.kind == "absent":
            self._absent.add(signal)
            self.warn(f"the collector takes no {signal} ({answer.reason}): none are sent")
        elif answer.kind in ("refused", "too_large"):
            self.refused += count
            lost = f"{counted(count, 'span')} of a batch are lost" if count else "they are sent again"
            self._tell(signal, f"{signal} are not taken ({answer.reason}); {lost}")
        elif answer.rejected or answer.reason:
            self.refused += answer.rejected if count else 0
            rejected = f"{answer.rejected:,} rejected" if answer.rejected else "all taken"
            self.warn(f"{signal}: {rejected} by the collector: {answer.reason or 'without a reason'}")
        elif self._trouble.pop(signal, None):
            self.warn(f"{signal} are taken again")

    def _tell(self, signal: str, trouble: str) -> None:
        """Report trouble when it begins, and when it changes."""
        if self._trouble.get(signal) != trouble:
            self._trouble[signal] = trouble
            self.warn(trouble)

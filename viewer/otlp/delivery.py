"""Spans and metrics on their way to a collector: in batches, again after a failure, and reported when that changes."""

import random
from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from recorder.clock import Clock
from recorder.plurals import counted
from viewer.otlp import metrics, spans
from viewer.otlp.client import Answer, Client
from viewer.otlp.histogram import ExponentialHistogram
from viewer.stats.dashboard import Figures

FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0

Wait = Callable[[float], bool]
"""Waits so many seconds; False says that there is no more time."""


class Delivery:
    """Sends what was recorded to a collector, and says through `report` what it did not take.

    A batch of spans is sent until it is taken, or refused as such: the same bytes each time, with the same ids.
    Metrics are cumulative: they are sent once each time.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        scope: InstrumentationScope,
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        self._client, self._resource, self._scope, self._clock = client, resource, scope, clock
        self._report = report
        self._trouble = {"spans": "", "metrics": ""}
        self._absent: set[str] = set()
        self.refused = 0
        """So many spans were not taken, and must not be sent again."""

    def send_spans(self, batch: Sequence[Span], wait: Wait) -> bool:
        """Send spans until they are taken or refused; False if there was no more time for that."""
        if not batch or "spans" in self._absent:
            return True
        message, seconds = spans.request(batch, self._resource, self._scope), FIRST_WAIT_SECONDS
        while (answer := self._client.send_spans(message)).kind == "later":
            self._tell("spans", answer.reason, "they wait on the tape")
            jittered = seconds * random.uniform(0.5, 1.0)
            if not wait(jittered if answer.wait_s is None else answer.wait_s):
                return False
            seconds = min(2 * seconds, LONGEST_WAIT_SECONDS)
        if answer.kind == "too_large" and len(batch) > 1:
            half = len(batch) // 2
            return self.send_spans(batch[:half], wait) and self.send_spans(batch[half:], wait)
        self._settle("spans", answer, len(batch))
        return True

    def send_metrics(self, figures: Figures[ExponentialHistogram], started_ns: int) -> None:
        """Send what was counted since `started_ns`, once."""
        if "metrics" in self._absent:
            return
        message = metrics.request(figures, started_ns, self._clock.wall_ns(), self._resource, self._scope)
        answer = self._client.send_metrics(message)
        if answer.kind == "later":
            self._tell("metrics", answer.reason, "they are sent again")
        else:
            self._settle("metrics", answer, 0)

    @property
    def takes_anything(self) -> bool:
        """Whether the collector takes spans or metrics, as far as that is known."""
        return len(self._absent) < len(self._trouble)

    def _settle(self, signal: str, answer: Answer, count: int) -> None:
        """Report an answer after which nothing is sent again."""
        if answer.kind == "absent":
            self._absent.add(signal)
            self._report(f"the collector takes no {signal} ({answer.reason}): none are sent")
        elif answer.kind in ("refused", "too_large"):
            self.refused += count
            lost = f"{counted(count, 'span')} of a batch are lost" if count else "they are sent again"
            self._tell(signal, answer.reason, lost)
        elif answer.rejected or answer.reason:
            self.refused += answer.rejected if count else 0
            rejected = f"{answer.rejected:,} rejected" if answer.rejected else "all taken"
            self._report(f"{signal}: {rejected} by the collector: {answer.reason or 'it does not say why'}")
        else:
            self._recover(signal)

    def _recover(self, signal: str) -> None:
        if self._trouble[signal]:
            self._report(f"{signal} are taken again")
            self._trouble[signal] = ""

    def _tell(self, signal: str, reason: str, then: str) -> None:
        """Report trouble when it begins, and when it is another."""
        if self._trouble[signal] != reason:
            self._trouble[signal] = reason
            self._report(f"{signal} are not taken ({reason}); {then}")

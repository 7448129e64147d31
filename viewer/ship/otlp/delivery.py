"""Spans and metrics on their way to a collector: in batches, again after a failure, and reported when that changes."""

import random
from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from recorder.clock import Clock
from recorder.plurals import counted
from viewer.ship.otlp import metrics, spans
from viewer.ship.otlp.attributes import Origin
from viewer.ship.otlp.client import Answer, Client
from viewer.ship.otlp.series import Series

FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0

Wait = Callable[[float], bool]
"""Waits so many seconds; False says that there is no more time."""


class Delivery:
    """Sends spans and metrics to a collector, and reports failures through `report`.

    A message is sent until it is taken or refused: the same bytes each time, spans with the same ids.
    """

    def __init__(self, client: Client, clock: Clock, report: Callable[[str], None]) -> None:
        self._client, self._clock, self._report = client, clock, report
        self._trouble = {"spans": "", "metrics": ""}
        self._absent: set[str] = set()
        self.refused = 0
        """So many spans were not taken, and must not be sent again."""

    def send_spans(self, batch: Sequence[Span], origin: Origin, wait: Wait) -> bool:
        """Send spans until they are taken or refused; False if there was no more time for that."""
        if not batch or "spans" in self._absent:
            return True
        message = spans.request(batch, origin)
        answer = self._send("spans", lambda: self._client.send_spans(message), "they wait on the tape", wait)
        if answer.kind == "too_large" and len(batch) > 1:
            half = len(batch) // 2
            return self.send_spans(batch[:half], origin, wait) and self.send_spans(batch[half:], origin, wait)
        return self._settle("spans", answer, len(batch))

    def send_metrics(self, series: Series, wait: Wait = lambda _: False) -> bool:
        """Send the counts of a series until they are taken or refused; False if there was no more time for that."""
        if "metrics" in self._absent:
            return True
        message = metrics.request(series, self._clock.wall_ns())
        answer = self._send("metrics", lambda: self._client.send_metrics(message), "they are sent again", wait)
        return self._settle("metrics", answer, 0)

    def _send(self, signal: str, send: Callable[[], Answer], then: str, wait: Wait) -> Answer:
        """Send a message until the answer is another than to send it later, or there is no more time."""
        seconds = FIRST_WAIT_SECONDS
        while (answer := send()).kind == "later":
            self._tell(signal, answer.reason, then)
            jittered = seconds * random.uniform(0.5, 1.0)
            if not wait(jittered if answer.wait_s is None else answer.wait_s):
                break
            seconds = min(2 * seconds, LONGEST_WAIT_SECONDS)
        return answer

    @property
    def takes_anything(self) -> bool:
        """Whether the collector takes spans or metrics, as far as that is known."""
        return len(self._absent) < len(self._trouble)

    def _settle(self, signal: str, answer: Answer, count: int) -> bool:
        """Report an answer after which nothing is sent again; False if it is none."""
        if answer.kind == "later":
            return False
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
        return True

    def _recover(self, signal: str) -> None:
        if self._trouble[signal]:
            self._report(f"{signal} are taken again")
            self._trouble[signal] = ""

    def _tell(self, signal: str, reason: str, then: str) -> None:
        """Report trouble when it begins, and when it is another."""
        if self._trouble[signal] != reason:
            self._trouble[signal] = reason
            self._report(f"{signal} are not taken ({reason}); {then}")

"""The collector: messages over OTLP/HTTP, as protobuf with gzip, and its responses."""

import gzip
import ssl
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Final, Literal, NamedTuple

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from wiretape.recorder.clock import Clock
from wiretape.recorder.sanitize import clipped, safe

TIMEOUT_SECONDS: Final = 10.0
"""Timeout of a request: OpenTelemetry's default."""

_LONGEST_WAIT_SECONDS: Final = 300.0


class ExportResult(NamedTuple):
    """The result of sending a message.

    `taken`, though `rejected` of its spans or points may not be; `later`: it may be sent again, after `wait_s` if that
    is known; `too_large`; `refused`: it must not be sent again; `absent`: the collector does not have this endpoint.
    """

    kind: Literal["taken", "later", "too_large", "refused", "absent"]
    reason: str = ""
    wait_s: float | None = None
    rejected: int = 0


class CollectorClient:
    """A connection to a collector; `headers` are sent with each message and never shown.

    Without `verify`, the trusted certificates, no https server is trusted.
    """

    def __init__(
        self,
        url: str,
        headers: Sequence[tuple[str, str]],
        clock: Clock,
        *,
        version: str = "",
        verify: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url, self._clock = url, clock
        fixed = {
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            "accept-encoding": "identity",
            "user-agent": f"wiretape/{version}",
        }
        self._client = httpx.Client(
            headers=[(name.encode(), value.encode("latin-1")) for name, value in {**dict(headers), **fixed}.items()],
            timeout=TIMEOUT_SECONDS,
            verify=verify or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            trust_env=False,
            transport=transport,
        )

    def send_spans(self, message: ExportTraceServiceRequest) -> ExportResult:
        """Send spans once."""
        answer, body = self._post("/v1/traces", message.SerializeToString())
        if answer.kind != "taken":
            return answer
        try:
            partial = ExportTraceServiceResponse.FromString(body).partial_success
        except DecodeError:  # a collector that takes all need not say more
            return answer
        return answer._replace(rejected=partial.rejected_spans, reason=_line(partial.error_message))

    def send_metrics(self, message: ExportMetricsServiceRequest) -> ExportResult:
        """Send metrics once."""
        answer, body = self._post("/v1/metrics", message.SerializeToString())
        if answer.kind != "taken":
            return answer
        try:
            partial = ExportMetricsServiceResponse.FromString(body).partial_success
        except DecodeError:  # a collector that takes all need not say more
            return answer
        return answer._replace(rejected=partial.rejected_data_points, reason=_line(partial.error_message))

    def close(self) -> None:
        self._client.close()

    def _post(self, path: str, message: bytes) -> tuple[ExportResult, bytes]:
        try:
            # Without the time, a message that is sent again has the same bytes.
            with self._client.stream("POST", self._url + path, content=gzip.compress(message, 6, mtime=0)) as response:
                body = b""
                for part in response.iter_raw():
                    body += part
                    if len(body) > 64 << 10:  # no message is that long, and nobody says what it is
                        body = b""
                        break
                return self._result(response), body
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return ExportResult("later", _line(str(error) or type(error).__name__)), b""

    def _result(self, response: httpx.Response) -> ExportResult:
        status = response.status_code
        reason = f"HTTP {status}"
        if response.is_success:
            return ExportResult("taken")
        if status in (429, 502, 503, 504):  # those that OTLP lets a client try again
            return ExportResult("later", reason, self._wait_s(response.headers.get("retry-after", "")))
        if status in (401, 403, 407) or response.is_redirect:  # somebody has to mend the collector, or the headers
            return ExportResult("later", reason, 60.0)
        if status == 413:
            return ExportResult("too_large", reason)
        return ExportResult("absent" if status in (404, 405, 501) else "refused", reason)

    def _wait_s(self, retry_after: str) -> float | None:
        """Parse the wait of a header, given in seconds, or as a date."""
        if retry_after.isdecimal():
            return min(float(retry_after[:9]), _LONGEST_WAIT_SECONDS)
        try:
            until = parsedate_to_datetime(retry_after).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
        return min(max(until - self._clock.wall_ns() / 1e9, 0.0), _LONGEST_WAIT_SECONDS)


def _line(text: str) -> str:
    return clipped(safe(text), 200)

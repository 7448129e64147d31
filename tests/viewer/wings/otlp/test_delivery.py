"""A batch of spans is sent until it is accepted, the same bytes each time; a refusal is reported, and loses it once."""

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.cases import each_case
from wiretape.recorder.clock import Clock
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.ship.acknowledged import Acknowledged
from wiretape.viewer.ship.sink import Batch, NotTaken, ShippingReport
from wiretape.viewer.source.settled import SettledTape
from wiretape.viewer.wings.otlp import attributes
from wiretape.viewer.wings.otlp import sink as sinks
from wiretape.viewer.wings.otlp.client import CollectorClient
from wiretape.viewer.wings.otlp.sink import CollectorSink

SPANS = [Span(span_id=bytes([number]) * 8) for number in range(1, 5)]
CLOCK = Clock(wall_ns=lambda: 1_700_000_000_000_000_000)
DATE = "Tue, 14 Nov 2023 22:13:50 GMT"  # 30 s later
SECRET = "Bearer sk-secret"
ORIGIN = attributes.origin({}, {}, version="1", host="h", instance="s")


class Receiver:
    """Answers with one answer after the other, and with 200 after the last."""

    def __init__(self, connection: Connection, tmp_path: Path, *answers: httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self.untaken: list[NotTaken] = []
        self.lines: list[str] = []
        self._answers = list(answers)
        transport = httpx.MockTransport(self._answer)
        client = CollectorClient(
            "http://collector.test:4318/otel", [("authorization", SECRET)], CLOCK, transport=transport
        )
        self.sink = CollectorSink(client, lambda _: ORIGIN, clock=CLOCK)
        self.sink.begin(
            SettledTape(connection), Acknowledged(tmp_path / "kept", "a collector", None, {}), self.lines.append
        )

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if self._answers else httpx.Response(200)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(answer.content))

    def send(self, spans: list[Span] = SPANS) -> None:
        """Send spans until they are taken, or refused."""
        batch = Batch("spans", 0, 1, len(spans), [*spans])
        while True:
            try:
                self.sink.send(batch)
            except NotTaken as error:
                self.untaken.append(error)
            else:
                return

    def report(self) -> None:
        self.sink.report(ShippingReport(0, 0, None), is_last=False)

    def received(self) -> list[list[bytes]]:
        """Return the ids of the spans of each request."""
        messages = [ExportTraceServiceRequest.FromString(gzip.decompress(request.content)) for request in self.requests]
        return [[span.span_id for span in request.resource_spans[0].scope_spans[0].spans] for request in messages]


Receiving = Callable[..., Receiver]


@pytest.fixture
def receiving(connection: Connection, tmp_path: Path) -> Receiving:
    """Make a receiver that gives these answers."""
    return partial(Receiver, connection, tmp_path)


def test_a_message_is_gzipped_protobuf_with_given_headers(receiving: Receiving) -> None:
    receiver = receiving()
    receiver.send()
    (request,) = receiver.requests
    assert str(request.url) == "http://collector.test:4318/otel/v1/traces"
    assert (request.headers["content-type"], request.headers["content-encoding"]) == ("application/x-protobuf", "gzip")
    assert request.headers["authorization"] == SECRET
    assert receiver.received() == [[span.span_id for span in SPANS]]
    assert receiver.lines == []


@each_case(
    "answer, wait_s",
    [
        (httpx.Response(503), None),
        (httpx.Response(429, headers={"retry-after": "7"}), 7),
        (httpx.Response(502, headers={"retry-after": DATE}), 30),
        (httpx.Response(504, headers={"retry-after": "99999"}), 300),
        (httpx.Response(503, headers={"retry-after": "soon\x1b"}), None),
        (httpx.Response(401, text="no"), 60),
        (httpx.Response(307, headers={"location": "http://evil.test/"}), 60),
        (httpx.ConnectError("refused\x1b[2J"), None),
        (httpx.ReadTimeout(""), None),
    ],
    ids=str,
)
def test_retriable_messages_are_resent_unchanged_when_requested(
    receiving: Receiving, answer: httpx.Response | Exception, wait_s: float | None
) -> None:
    receiver = receiving(answer)
    receiver.send()
    (error,) = receiver.untaken
    assert error.wait_s == wait_s
    first, second = receiver.requests
    assert (first.content, first.url) == (second.content, second.url)
    assert str(error).startswith("spans are not taken (")
    assert "\x1b" not in str(error)
    assert SECRET not in str(error)


def test_a_large_batch_is_halved_and_refused_ones_reported(
    receiving: Receiving,
) -> None:
    receiver = receiving(httpx.Response(413))
    receiver.send()
    assert list(map(len, receiver.received())) == [4, 2, 2]
    refused = receiving(httpx.Response(400))
    refused.send()
    assert (len(refused.requests), refused.lines) == (
        1,
        ["spans are not taken (HTTP 400); 4 spans of a batch are lost"],
    )
    single = receiving(httpx.Response(413), httpx.Response(200))
    single.send(SPANS[:1])
    assert single.sink.refused == 1


def test_accepted_parts_of_a_batch_are_not_resent(receiving: Receiving) -> None:
    receiver = receiving(httpx.Response(413), httpx.Response(200), httpx.Response(503))
    receiver.send()
    assert list(map(len, receiver.received())) == [4, 2, 2, 2]
    assert receiver.received()[2] == receiver.received()[3]


def test_a_partial_success_is_reported_and_not_sent_again(receiving: Receiving) -> None:
    partial = ExportTracePartialSuccess(rejected_spans=3, error_message="too \x1bold")
    body = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    receiver = receiving(httpx.Response(200, content=body))
    receiver.send()
    assert len(receiver.requests) == 1
    assert receiver.lines == ["spans: 3 rejected by the collector: too ␛old"]


@each_case("body", [b"{}", b"\xff" * 50, b"x" * 100_000])
def test_an_unreadable_answer_is_an_answer_nonetheless(receiving: Receiving, body: bytes) -> None:
    receiver = receiving(httpx.Response(200, content=body))
    receiver.send()
    assert (len(receiver.requests), receiver.lines) == (1, [])


def test_a_collector_that_takes_no_metrics_gets_spans_only(receiving: Receiving, monkeypatch) -> None:
    monkeypatch.setattr(sinks, "METRICS_SECONDS", 0)
    receiver = receiving(httpx.Response(405))
    receiver.report()
    receiver.report()
    receiver.send()
    assert [request.url.path for request in receiver.requests] == ["/otel/v1/metrics", "/otel/v1/traces"]
    assert receiver.lines == ["the collector takes no metrics (HTTP 405): none are sent"]


def test_refused_metrics_are_reported_once_and_block_nothing(receiving: Receiving, monkeypatch) -> None:
    monkeypatch.setattr(sinks, "METRICS_SECONDS", 0)
    receiver = receiving(httpx.Response(503), httpx.Response(503))
    for _ in range(3):
        receiver.report()
    assert receiver.lines == ["metrics are not taken (HTTP 503); they are sent again", "metrics are taken again"]

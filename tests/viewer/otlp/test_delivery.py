"""A batch of spans is sent until it is taken, the same bytes each time; what is refused is told, and lost once."""

import gzip

import httpx
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from recorder.clock import Clock
from tests.cases import each_case
from viewer.ship.otlp import attributes, series
from viewer.ship.otlp.client import Client
from viewer.ship.otlp.delivery import LONGEST_WAIT_SECONDS, Delivery

SPANS = [Span(span_id=bytes([number]) * 8) for number in range(1, 5)]
CLOCK = Clock(wall_ns=lambda: 1_700_000_000_000_000_000)
DATE = "Tue, 14 Nov 2023 22:13:50 GMT"  # 30 s later
SECRET = "Bearer sk-secret"
ORIGIN = attributes.origin({}, {}, version="1", host="h", instance="s")
COUNTED = series.new("s", ORIGIN, 5)


class Receiver:
    """Answers with one answer after the other, and with 200 after the last."""

    def __init__(self, *answers: httpx.Response | Exception, lasts: int = 99) -> None:
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []
        self.lines: list[str] = []
        self._answers, self._lasts = list(answers), lasts
        transport = httpx.MockTransport(self._answer)
        client = Client("http://collector.test:4318/otel", [("authorization", SECRET)], CLOCK, transport=transport)
        self.delivery = Delivery(client, CLOCK, self.lines.append)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if self._answers else httpx.Response(200)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(answer.content))

    def send(self, spans: list[Span] = SPANS) -> bool:
        return self.delivery.send_spans(spans, ORIGIN, self._wait)

    def _wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return len(self.waits) < self._lasts

    def received(self) -> list[list[bytes]]:
        """Give the ids of the spans of each request."""
        messages = [ExportTraceServiceRequest.FromString(gzip.decompress(one.content)) for one in self.requests]
        return [[span.span_id for span in one.resource_spans[0].scope_spans[0].spans] for one in messages]


def test_a_message_is_protobuf_in_gzip_below_the_url_with_the_headers_given():
    receiver = Receiver()
    assert receiver.send()
    (request,) = receiver.requests
    assert str(request.url) == "http://collector.test:4318/otel/v1/traces"
    assert (request.headers["content-type"], request.headers["content-encoding"]) == ("application/x-protobuf", "gzip")
    assert request.headers["authorization"] == SECRET
    assert receiver.received() == [[span.span_id for span in SPANS]]
    assert receiver.lines == []


@each_case(
    "answer, least, most",
    [
        (httpx.Response(503), 0.5, 1.0),
        (httpx.Response(429, headers={"retry-after": "7"}), 7, 7),
        (httpx.Response(502, headers={"retry-after": DATE}), 30, 30),
        (httpx.Response(504, headers={"retry-after": "99999"}), 300, 300),
        (httpx.Response(503, headers={"retry-after": "soon\x1b"}), 0.5, 1.0),
        (httpx.Response(401, text="no"), 60, 60),
        (httpx.Response(307, headers={"location": "http://evil.test/"}), 60, 60),
        (httpx.ConnectError("refused\x1b[2J"), 0.5, 1.0),
        (httpx.ReadTimeout(""), 0.5, 1.0),
    ],
    ids=str,
)
def test_what_may_be_sent_again_is_sent_again_as_it_was_after_the_wait_that_was_asked_for(answer, least, most):
    receiver = Receiver(answer)
    assert receiver.send()
    (wait,) = receiver.waits
    assert least <= wait <= most
    first, second = receiver.requests
    assert (first.content, first.url) == (second.content, second.url)
    begun, over = receiver.lines
    assert begun.startswith("spans are not taken (")
    assert over == "spans are taken again"
    assert "\x1b" not in begun
    assert SECRET not in begun


def test_the_wait_doubles_up_to_a_limit_and_the_trouble_is_told_once():
    receiver = Receiver(*[httpx.Response(503)] * 9)
    assert receiver.send()
    assert all(2**n / 2 <= wait <= 2**n for n, wait in enumerate(receiver.waits[:6]))
    assert all(LONGEST_WAIT_SECONDS / 2 <= wait <= LONGEST_WAIT_SECONDS for wait in receiver.waits[6:])
    assert len(receiver.lines) == 2


def test_a_batch_waits_where_there_is_no_more_time():
    receiver = Receiver(*[httpx.Response(503)] * 9, lasts=2)
    assert not receiver.send()
    assert len(receiver.requests) == 2


def test_a_batch_that_is_too_large_is_cut_in_halves_and_one_that_is_refused_is_lost_and_told():
    receiver = Receiver(httpx.Response(413))
    assert receiver.send()
    assert list(map(len, receiver.received())) == [4, 2, 2]
    refused = Receiver(httpx.Response(400))
    assert refused.send()
    assert (len(refused.requests), refused.lines) == (
        1,
        ["spans are not taken (HTTP 400); 4 spans of a batch are lost"],
    )
    assert Receiver(httpx.Response(413), httpx.Response(200)).send(SPANS[:1])


def test_a_partial_success_is_told_and_not_sent_again():
    partial = ExportTracePartialSuccess(rejected_spans=3, error_message="too \x1bold")
    body = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    receiver = Receiver(httpx.Response(200, content=body))
    assert receiver.send()
    assert len(receiver.requests) == 1
    assert receiver.lines == ["spans: 3 rejected by the collector: too ␛old"]


@each_case("body", [b"{}", b"\xff" * 50, b"x" * 100_000])
def test_an_answer_that_cannot_be_read_is_an_answer_all_the_same(body):
    receiver = Receiver(httpx.Response(200, content=body))
    assert receiver.send()
    assert (len(receiver.requests), receiver.lines) == (1, [])


def test_a_collector_that_takes_no_metrics_gets_spans_only():
    receiver = Receiver(httpx.Response(405))
    receiver.delivery.send_metrics(COUNTED)
    receiver.delivery.send_metrics(COUNTED)
    assert receiver.send()
    assert [request.url.path for request in receiver.requests] == ["/otel/v1/metrics", "/otel/v1/traces"]
    assert receiver.lines == ["the collector takes no metrics (HTTP 405): none are sent"]


def test_metrics_are_sent_again_while_there_is_time_and_are_not_taken_where_there_is_none():
    receiver = Receiver(httpx.Response(503))
    assert not receiver.delivery.send_metrics(COUNTED)
    assert receiver.delivery.send_metrics(COUNTED)
    assert receiver.lines == ["metrics are not taken (HTTP 503); they are sent again", "metrics are taken again"]
    sent = ExportMetricsServiceRequest.FromString(gzip.decompress(receiver.requests[1].content))
    (point,) = sent.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, CLOCK.wall_ns())

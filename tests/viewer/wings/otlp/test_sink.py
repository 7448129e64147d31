"""A tape is sent from where the last process was acknowledged: each generation once, and none is left out."""

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.cases import each_case
from tests.support.commands import run
from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.ship.acknowledged import destinations, locked
from wiretape.viewer.ship.shipper import Shipper
from wiretape.viewer.ship.sink import NotTaken
from wiretape.viewer.source.settled import SettledTape
from wiretape.viewer.wings.otlp import attributes
from wiretape.viewer.wings.otlp import sink as ship
from wiretape.viewer.wings.otlp.client import CollectorClient

CLOCK = Clock(sleep=lambda _: None)


class Receiver:
    """A collector that accepts a number of messages of spans, and is away from then on."""

    def __init__(self, takes: int = 99) -> None:
        self.ids: list[bytes] = []
        self.labels: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.takes = takes

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/traces":
            if not self.takes:
                return httpx.Response(503, stream=httpx.ByteStream(b""))
            self.takes -= 1
            (resource_spans,) = ExportTraceServiceRequest.FromString(gzip.decompress(request.content)).resource_spans
            self.ids += [span.span_id for span in resource_spans.scope_spans[0].spans]
        return httpx.Response(200, stream=httpx.ByteStream(b""))

    @contextmanager
    def shipper(self, tape: Path, since: int = 0) -> Iterator[Shipper]:
        client = CollectorClient("http://collector.test", [], CLOCK, transport=httpx.MockTransport(self.answer))
        sink = ship.CollectorSink(client, self.origin, since, CLOCK)
        with locked(tape, "otlp at collector.test") as progress:
            yield Shipper(sink, progress, clock=CLOCK)

    def origin(self, instance: str) -> attributes.TelemetryOrigin:
        return attributes.origin(self.environment, self.labels, version="1", host="h", instance=instance)


def finish(shipper: Shipper, connection: Connection) -> int:
    """Ship what there is; give how many exchanges wait."""
    with suppress(NotTaken):
        shipper.run(SettledTape(connection), once=True)
    assert shipper.last_report is not None
    return shipper.last_report.unshipped


def test_the_next_process_sends_the_rest_exactly_once(connection: Connection, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(ship, "BATCH", 2)
    monkeypatch.setattr("wiretape.viewer.source.settled.PAGE", 2)
    with (complete := Receiver()).shipper(tmp_path / "other.db") as shipper:
        assert finish(shipper, connection) == 0
    assert len(complete.ids) == len(set(complete.ids)) > 3
    sent = []
    for receiver in (Receiver(takes=1), Receiver(takes=0), Receiver(), Receiver()):
        with receiver.shipper(tmp_path / "t.db") as shipper:
            unsent = finish(shipper, connection)
            assert (unsent > 0) == (len(sent) + len(receiver.ids) < len(complete.ids))
        sent += receiver.ids
    assert sent == complete.ids


def test_an_unused_sink_starts_after_its_stored_version(connection: Connection, tmp_path: Path) -> None:
    first_settled = SettledTape(connection).backlog(0).first
    assert first_settled is not None
    for since in (10**18, 0):
        with (receiver := Receiver()).shipper(tmp_path / "t.db", since=since) as shipper:
            finish(shipper, connection)
        assert receiver.ids == []


class Killed(BaseException):
    """The end of a process by SIGKILL."""


class Counting(Receiver):
    """A collector that lets a process be killed when it sends a message, before it is taken or before the answer.

    `killing` is the number of that message. `counts` has the last count of each series, as a receiver of cumulative
    metrics keeps them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[bytes, int] = {}
        self.resources: list[bytes] = []
        self.messages = 0
        self.killing: int | None = None
        self.is_taken = self.takes_metrics = True

    def answer(self, request: httpx.Request) -> httpx.Response:
        kills = self.messages == self.killing
        self.messages += 1
        if kills and not self.is_taken:
            raise Killed
        if request.url.path == "/v1/metrics":
            if not self.takes_metrics:
                return httpx.Response(503, stream=httpx.ByteStream(b""))
            self._count(ExportMetricsServiceRequest.FromString(gzip.decompress(request.content)))
        answer = super().answer(request)
        if kills:
            raise Killed
        return answer

    def _count(self, message: ExportMetricsServiceRequest) -> None:
        (of_resource,) = message.resource_metrics
        self.resources.append(of_resource.resource.SerializeToString())
        for metric in of_resource.scope_metrics[0].metrics:
            for point in [*metric.exponential_histogram.data_points, *metric.sum.data_points]:
                attributes = b"".join(pair.SerializeToString() for pair in point.attributes)
                start = b"%d" % point.start_time_unix_nano
                total = point.as_int if metric.HasField("sum") else point.count
                series = self.resources[-1] + metric.name.encode() + attributes + start
                assert total >= self.counts.get(series, 0), "a cumulative metric never falls"
                self.counts[series] = total

    def samples(self) -> int:
        return sum(self.counts.values())


def test_killed_processes_lose_no_span_and_repeat_no_sample(
    connection: Connection, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(ship, "BATCH", 2)
    monkeypatch.setattr(ship, "METRICS_SECONDS", 0)
    monkeypatch.setattr("wiretape.viewer.source.settled.PAGE", 2)
    with (complete := Counting()).shipper(tmp_path / "whole.db") as shipper:
        assert finish(shipper, connection) == 0
    assert complete.samples() > 20
    for message, is_taken in product(range(complete.messages), (True, False)):
        receiver, tape = Counting(), tmp_path / f"{message}-{is_taken}.db"
        receiver.killing, receiver.is_taken = message, is_taken
        with pytest.raises(Killed), receiver.shipper(tape) as shipper:
            finish(shipper, connection)
        with receiver.shipper(tape) as shipper:
            assert finish(shipper, connection) == 0
        assert set(receiver.ids) == set(complete.ids)
        assert receiver.samples() == complete.samples()


def test_another_resource_finishes_the_last_series_first(connection: Connection, tmp_path: Path) -> None:
    with (complete := Counting()).shipper(tmp_path / "whole.db") as shipper:
        finish(shipper, connection)
    receiver, tape = Counting(), tmp_path / "t.db"
    receiver.killing, receiver.is_taken = complete.messages - 1, False
    with pytest.raises(Killed), receiver.shipper(tape) as shipper:
        finish(shipper, connection)
    assert (receiver.samples(), shipper.acknowledged.of("metrics").until) == (0, 0)
    origins = []
    for labels in ({"run": "b"}, {"run": "b"}, {}):
        receiver.labels = labels
        receiver.resources.clear()
        with receiver.shipper(tape) as shipper:
            assert finish(shipper, connection) == 0
        assert (receiver.samples(), len(receiver.ids)) == (complete.samples(), len(complete.ids))
        origins.append(set(receiver.resources))
    assert [len(origin) for origin in origins] == [2, 1, 1]
    assert origins[1] < origins[0]
    assert not origins[2] & origins[0]


def test_metrics_never_count_what_the_next_process_counts(connection: Connection, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(ship, "BATCH", 2)
    monkeypatch.setattr("wiretape.viewer.source.settled.PAGE", 2)
    receiver = Counting()
    for takes in (1, 0, 99):
        receiver.takes = takes
        with receiver.shipper(tmp_path / "t.db") as shipper:
            unsent = finish(shipper, connection)
    assert unsent == 0
    assert receiver.samples() > 20


def test_no_credential_is_kept_beside_the_tape(connection: Connection, tmp_path: Path) -> None:
    receiver = Counting()
    receiver.environment = {"OTEL_RESOURCE_ATTRIBUTES": "api_key=sk-1234567890abcdefghijklmnop,region=eu"}
    with receiver.shipper(tmp_path / "t.db") as shipper:
        finish(shipper, connection)
    (series,) = json.loads(shipper.acknowledged.path.read_bytes())["state"]
    resource = base64.b64decode(series["resource"])
    assert all(b"region" in resource and b"sk-12345" not in resource for resource in (resource, *receiver.resources))


def test_an_exchange_waits_until_its_metrics_are_taken_too(connection: Connection, tmp_path: Path) -> None:
    receiver = Counting()
    receiver.takes_metrics = False
    with receiver.shipper(tmp_path / "t.db") as shipper:
        assert finish(shipper, connection) > 3
    assert dict(destinations(tmp_path / "t.db", SettledTape(connection).identity())) == {"otlp at collector.test": 0}
    sent, receiver.takes_metrics = len(receiver.ids), True
    with receiver.shipper(tmp_path / "t.db") as shipper:
        assert finish(shipper, connection) == 0
    assert len(receiver.ids) == sent > 3
    assert receiver.samples() > 20


class Refusing(Receiver):
    """A collector that answers all with one status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status, self.asked = status, 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        return httpx.Response(self.status, stream=httpx.ByteStream(b""))


def test_nothing_counts_as_sent_to_a_refusing_url(connection: Connection, tmp_path: Path) -> None:
    with Refusing(404).shipper(tmp_path / "t.db") as shipper:
        with pytest.raises(WiretapeError, match="takes neither spans nor metrics: check its URL"):
            finish(shipper, connection)
        assert (shipper.shipped, shipper.acknowledged.of("spans").until) == (0, 0)
    with (receiver := Refusing(401)).shipper(tmp_path / "t.db") as shipper:
        assert finish(shipper, connection) > 3
        assert (shipper.shipped, receiver.asked) == (0, 2)  # nobody waits a minute for another answer
    with Refusing(400).shipper(tmp_path / "t.db") as shipper:
        assert finish(shipper, connection) == 0
        assert shipper.sink.refused > 3


@each_case(
    "options, message",
    [
        (["--to", "otlp+ftp://h"], "a collector is http://HOST:PORT"),
        (["--to", "otlp+http://u:sk-secret@h"], "credentials in a URL"),
        (["--to", "otlp+http://h", "--bodies"], "a collector gets no text"),
        (["--to", "otlp+http://h", "--otlp-headers", "missing"], "missing cannot be read"),
        (["--to", "http://h"], "clickhouse://"),
    ],
)
def test_a_destination_that_cannot_be_used_is_refused(options, message):
    result = run(Path("none.db"), "ship", *options, code=2)
    assert message in " ".join(result.stderr.split())
    assert "secret" not in result.output

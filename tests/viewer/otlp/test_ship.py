"""A tape is sent from where the last process was acknowledged: each generation once, and none is left out."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import Connection

from recorder.clock import Clock
from recorder.errors import WiretapeError
from tests.cases import each_case
from tests.viewer.commanding import run
from viewer.fleet.acknowledged import held
from viewer.otlp import attributes, ship
from viewer.otlp.client import Client
from viewer.otlp.delivery import Delivery
from viewer.tape import shipping

CLOCK = Clock(sleep=lambda _: None)


class Receiver:
    """A collector that takes so many messages of spans, and is away from then on."""

    def __init__(self, takes: int = 99) -> None:
        self.ids: list[bytes] = []
        self._takes = takes

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/traces":
            if not self._takes:
                return httpx.Response(503, stream=httpx.ByteStream(b""))
            self._takes -= 1
            (one,) = ExportTraceServiceRequest.FromString(gzip.decompress(request.content)).resource_spans
            self.ids += [span.span_id for span in one.scope_spans[0].spans]
        return httpx.Response(200, stream=httpx.ByteStream(b""))

    @contextmanager
    def shipper(self, tape: Path, since: int = 0) -> Iterator[ship.Shipper]:
        client = Client("http://collector.test", [], CLOCK, transport=httpx.MockTransport(self.answer))
        resource = attributes.resource({}, {}, version="1", host="h", instance="i")
        delivery = Delivery(client, resource, attributes.scope("1"), CLOCK, lambda _: None)
        with held(tape, "otlp at collector.test") as known:
            yield ship.Shipper(delivery, known, since, clock=CLOCK)


def test_what_was_not_taken_is_sent_by_the_next_process_and_nothing_twice(
    connection: Connection, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(ship, "BATCH", 2)
    monkeypatch.setattr("viewer.tape.session.PAGE", 2)
    with (whole := Receiver()).shipper(tmp_path / "other.db") as shipper:
        assert shipper.finish(connection) == 0
    assert len(whole.ids) == len(set(whole.ids)) > 3
    sent = []
    for receiver in (Receiver(takes=1), Receiver(takes=0), Receiver(), Receiver()):
        with receiver.shipper(tmp_path / "t.db") as shipper:
            waiting = shipper.finish(connection)
            assert (waiting > 0) == (len(sent) + len(receiver.ids) < len(whole.ids))
        sent += receiver.ids
    assert sent == whole.ids


def test_where_nothing_was_taken_it_begins_after_a_version_which_it_keeps(
    connection: Connection, tmp_path: Path
) -> None:
    first = shipping.waiting(connection, 0).first
    assert first is not None
    for since in (10**18, 0):
        with (receiver := Receiver()).shipper(tmp_path / "t.db", since=since) as shipper:
            shipper.finish(connection)
        assert receiver.ids == []


class Refusing(Receiver):
    """A collector that answers all with one status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status, self.asked = status, 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        return httpx.Response(self.status, stream=httpx.ByteStream(b""))


def test_nothing_counts_as_sent_to_a_url_that_takes_nothing_or_not_from_us(
    connection: Connection, tmp_path: Path
) -> None:
    with Refusing(404).shipper(tmp_path / "t.db") as shipper:
        with pytest.raises(WiretapeError, match="takes neither spans nor metrics: check its URL"):
            shipper.finish(connection)
        assert (shipper.taken, shipper.acknowledged.of("spans").until) == (0, 0)
    with (receiver := Refusing(401)).shipper(tmp_path / "t.db") as shipper:
        assert shipper.finish(connection) > 3
        assert (shipper.taken, receiver.asked) == (0, 2)  # nobody waits a minute for another answer
    with Refusing(400).shipper(tmp_path / "t.db") as shipper:
        assert shipper.finish(connection) == 0
        assert shipper.delivery.refused > 3


@each_case(
    "options, told",
    [
        (["--to", "otlp+ftp://h"], "a collector is http://HOST:PORT"),
        (["--to", "otlp+http://u:sk-secret@h"], "credentials in a URL"),
        (["--to", "otlp+http://h", "--bodies"], "no text is sent to a collector"),
        (["--to", "otlp+http://h", "--otlp-headers", "missing"], "missing cannot be read"),
        (["--to", "http://h"], "clickhouse://"),
    ],
)
def test_a_destination_that_cannot_be_used_is_refused(options, told):
    result = run(Path("none.db"), "ship", *options, code=2)
    assert told in " ".join(result.stderr.split())
    assert "secret" not in result.output

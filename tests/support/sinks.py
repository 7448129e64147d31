"""Places on loopback, or in a directory, to ship a tape to: one for each kind of the built-in wings."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from wiretape.viewer import contracts
from wiretape.viewer.ship.acknowledged import locked
from wiretape.viewer.ship.shipper import Shipper
from wiretape.viewer.ship.sink import Shipping, Sink
from wiretape.viewer.source import settled

Place = tuple[str, Callable[[], int]]
"""The address of a destination on loopback, and the count of different exchanges there."""


@contextmanager
def collector(_: Path) -> Iterator[Place]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans = set[bytes]()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
            if self.path == "/v1/traces":
                (sent,) = ExportTraceServiceRequest.FromString(body).resource_spans
                spans.update(span.span_id for scope in sent.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"otlp+http://127.0.0.1:{server.server_port}", lambda: len(spans)
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def server(directory: Path) -> Iterator[Place]:
    pytest.importorskip("chdb")
    from tests.support.clickhouse.engine import running

    with running(directory / "engine") as engine:
        yield f"clickhouse://127.0.0.1:{engine.port}/wiretape", lambda: len(engine.final())


@contextmanager
def directory(parent: Path) -> Iterator[Place]:
    pytest.importorskip("chdb")
    address = f"chdb:{parent}/directory"

    def count() -> int:
        (source,) = [source for source in contracts.sources() if address.startswith(source.prefix)]
        with contracts.load(source.path)(address).opened() as opened_sink:
            return opened_sink.count()  # type: ignore[no-any-return]

    yield address, count


PLACES = {"otlp+": collector, "clickhouse://": server, "chdb:": directory}


@contextmanager
def opened(address: str) -> Iterator[Sink]:
    destination = contracts.destination(address)
    with contracts.load(destination.sink)(destination, Shipping()) as sink:
        yield sink


def ship(tape: Path, address: str) -> int:
    name = contracts.destination(address).name
    with opened(address) as sink, locked(tape, name) as progress, settled.opened(tape, decodes=True) as exchanges:
        shipper = Shipper(sink, progress)
        shipper.run(exchanges, once=True)
    return shipper.shipped

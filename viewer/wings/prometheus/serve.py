"""A program: serves the metrics of one recorder to Prometheus, on the socket whose descriptor is its argument.

Run by `wiretape.recorder.commands.metrics`. Standard input brings a `Setup` and then `RecorderState`s, as lines of
JSON; its end is the end of the recorder, and of this. The exchanges come from the tape, through a read-only
connection, once they have ended and are measured; `Exposition` writes them in the text format. It yields the CPU to
the relay and to the writer.
"""

import asyncio
import gzip
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

import msgspec
from prometheus_client import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from wiretape.recorder import paths
from wiretape.recorder.commands.metrics import RecorderState, Setup
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.relay import guard
from wiretape.recorder.relay.app import HttpApp
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Policy, Refusal
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.server import Server
from wiretape.recorder.tape.redact import message
from wiretape.viewer.stats import conventions
from wiretape.viewer.stats.conventions import RELEASED, Conventions, Labels
from wiretape.viewer.stats.dashboard import OWN, TIME, DashboardCounts, Histogram


class Exposition(Collector):
    """The metrics of a recorder: its `figures`, and the latest `pulse`, if one came."""

    def __init__(self, setup: Setup, conventions: Conventions = RELEASED) -> None:
        self.figures = DashboardCounts(lambda family: Histogram(family.bounds), conventions)
        self.pulse: RecorderState | None = None
        self._setup = setup

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics: those of exchanges, and the state that the recorder reported."""
        figures, pulse = self.figures, self.pulse
        for family, histograms in figures.histograms.items():
            metric = HistogramMetricFamily(family.prometheus, family.prometheus_meaning, labels=family.labels)
            for labels, histogram in histograms.items():
                buckets = [(_bound(bound), count) for bound, count in histogram.cumulative]
                metric.add_metric(labels, buckets, histogram.sum)
            yield metric
        for family, counts in figures.counters.items():
            yield _counter(family.prometheus, family.meaning, counts, family.labels)
        flags: dict[tuple[str, ...], int] = {(flag,): count for flag, count in figures.flags.items()}
        times = {labels: time_ns / 1e9 for labels, time_ns in figures.times.items()}
        yield _wiretape_counter("wiretape_exchanges_total", figures.outcomes, (*Labels._fields, "outcome"))
        yield _wiretape_counter(TIME, times, (*Labels._fields, "part"))
        yield _wiretape_counter("wiretape_flagged_exchanges_total", flags, ("flag",))
        yield _wiretape_counter("wiretape_folded_exchanges_total", {(): figures.folded})
        if pulse is not None:
            gauges = {
                "wiretape_open_exchanges": pulse.open,
                "wiretape_event_loop_lag_seconds": pulse.event_loop_lag_ns / 1e9,
                "wiretape_write_lag_seconds": pulse.write_lag_ns / 1e9,
            }
            yield from (GaugeMetricFamily(name, OWN[name], value) for name, value in gauges.items())
            yield _wiretape_counter("wiretape_unstored_bytes_total", {(): pulse.unstored_bytes})
            yield _wiretape_counter("wiretape_unstored_exchanges_total", {(): pulse.unstored_exchanges})
            yield _wiretape_counter("wiretape_writer_restarts_total", {(): pulse.writer_restarts})
        about = {
            "version": self._setup.version,
            "session": self._setup.session,
            "semconv": self.figures.conventions.version,
        }
        yield InfoMetricFamily("wiretape", OWN["wiretape_info"], about)


def _bound(bound: float) -> str:
    """Return a bound as Prometheus' clients write it, from which the same number is read: 1, 0.01, 1.048576e+06."""
    text = f"{bound:g}"
    if isfinite(bound) and float(text) == bound:
        return text
    exact: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
    return exact


def _wiretape_counter(name: str, counts: Mapping[tuple[str, ...], float], labels: Sequence[str] = ()) -> Metric:
    return _counter(name, OWN[name], counts, labels)


def _counter(name: str, meaning: str, counts: Mapping[tuple[str, ...], float], labels: Sequence[str]) -> Metric:
    counter = CounterMetricFamily(name, meaning, labels=labels)
    for values, count in counts.items():
        counter.add_metric(values, count)
    return counter


class Metrics(HttpApp):
    """Answers `GET /metrics`: an app of the recorder's own HTTP server."""

    takes_http_1_0 = True

    def __init__(self, setup: Setup, conventions: Conventions) -> None:
        self.policy = Policy(setup.hosts)
        self.on_refused = lambda _: None
        self.on_trouble = lambda message: _say(f"metrics: {message}")
        self._exposition = Exposition(setup, conventions)
        self._lock = threading.Lock()

    def follow(self, setup: Setup) -> None:
        """Count the exchanges of the tape, for ever. Raises `WiretapeError`."""
        from wiretape.viewer.source import settled

        with settled.opened(setup.tape, decodes=True) as tape:
            for exchange in tape.ended(setup.session):
                with self._lock:
                    self._exposition.figures.add(exchange.counted)

    def update(self, pulse: RecorderState) -> None:
        self._exposition.pulse = pulse

    # app.HttpApp

    def admit(self, client: Client, request: Request) -> Refusal | None:
        """Return the reason to reject a request that passed the guard, or None."""
        if request.method not in ("GET", "HEAD"):
            return Refusal(405, "metrics are read by GET")
        if request.target.partition(b"?")[0] != b"/metrics":
            return Refusal(404, "metrics are at /metrics")
        return super().admit(client, request)

    def respond(self, client: Client, request: Request) -> None:
        """Answer a request at once."""
        with self._lock:
            text = self._exposition.text()
        headers = [(b"vary", b"accept-encoding")]
        if guard.accepts(request.headers, "gzip"):
            # The fastest level: metrics shrink to a fiftieth, and higher ones take more time than they save.
            text = gzip.compress(text, 1)
            headers.append((b"content-encoding", b"gzip"))
        client.answer(200, text, "text/plain; version=0.0.4; charset=utf-8", headers)


def _say(line: str) -> None:
    print(message(line), file=sys.stderr, flush=True)


async def _main(descriptor: int) -> int:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    setup = msgspec.json.decode(await lines.readline(), type=Setup, dec_hook=paths.from_json)
    app, is_over = Metrics(setup, conventions.chosen(os.environ)), asyncio.Event()
    exit_codes: list[int] = []

    def end(code: int) -> None:
        exit_codes.append(code)
        is_over.set()

    def follow() -> None:
        try:
            app.follow(setup)
        except BaseException as error:
            loop.call_soon_threadsafe(end, 1)
            if not isinstance(error, WiretapeError):
                raise
            _say(f"metrics: {error}")

    async def listen() -> None:
        while line := await lines.readline():
            app.update(msgspec.json.decode(line, type=RecorderState))
        end(0)

    threading.Thread(target=follow, daemon=True).start()  # it only reads: ending it loses no data
    server = Server(app, socket.socket(fileno=descriptor))
    listening = asyncio.create_task(listen())
    await is_over.wait()
    listening.cancel()
    server.close()
    await server.wait_closed(0)
    return exit_codes[0]


def main(arguments: list[str]) -> int:
    """Serve until the recorder ends; return the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(10)  # behind the relay, and the writer with 5
    from wiretape.recorder.relay import loop

    return loop.run(lambda: _main(int(arguments[0])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Pure: what is counted, as the metrics that Prometheus scrapes.

Names of OpenTelemetry's GenAI conventions (semantic-conventions-genai 9ba9b775; semconv v1.41.1) are translated by
its rules for Prometheus: `gen_ai.client.operation.duration` in s is `gen_ai_client_operation_duration_seconds`. What is
wiretape's own begins with `wiretape_`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite

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

from recorder.commands.metrics import Pulse, Setup
from viewer.stats.dashboard import FAMILIES, OWN, Figures, Histogram, Labels


class Exposition(Collector):
    """The metrics of a recorder: its `figures`, and the latest `pulse`, if one came."""

    def __init__(self, setup: Setup) -> None:
        self.figures = Figures(lambda family: Histogram(family.bounds))
        self.pulse: Pulse | None = None
        self._setup = setup

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        yield from _measured(self.figures)
        yield from _counted(self.figures)
        if self.pulse is not None:
            yield from _state(self.pulse)
        about = {"version": self._setup.version, "session": self._setup.session}
        yield InfoMetricFamily("wiretape", OWN["wiretape_info"], about)


def _measured(figures: Figures[Histogram]) -> Iterator[Metric]:
    for family in FAMILIES:
        metric = HistogramMetricFamily(family.prometheus, family.meaning, labels=family.labels)
        for labels, histogram in figures.histograms[family].items():
            buckets = [(_bound(bound), count) for bound, count in histogram.cumulative]
            metric.add_metric(labels, buckets, histogram.sum)
        yield metric


def _bound(bound: float) -> str:
    """Return a bound as Prometheus' clients write it, from which the same number is read: 1, 0.01, 1.048576e+06."""
    text = f"{bound:g}"
    return text if isfinite(bound) and float(text) == bound else floatToGoString(bound)


def _counted(figures: Figures[Histogram]) -> Iterator[Metric]:
    yield _counter("wiretape_exchanges_total", figures.outcomes, (*Labels._fields, "outcome"))
    yield _counter(
        "wiretape_flagged_exchanges_total", {(flag,): count for flag, count in figures.flags.items()}, ("flag",)
    )
    yield _counter("wiretape_folded_exchanges_total", {(): figures.folded})


def _state(pulse: Pulse) -> Iterator[Metric]:
    """Yield what the recorder told of itself."""
    gauges = {
        "wiretape_open_exchanges": pulse.open,
        "wiretape_event_loop_lag_seconds": pulse.event_loop_lag_ns / 1e9,
        "wiretape_write_lag_seconds": pulse.write_lag_ns / 1e9,
    }
    yield from (GaugeMetricFamily(name, OWN[name], value) for name, value in gauges.items())
    yield _counter("wiretape_unstored_bytes_total", {(): pulse.unstored_bytes})
    yield _counter("wiretape_unstored_exchanges_total", {(): pulse.unstored_exchanges})
    yield _counter("wiretape_writer_restarts_total", {(): pulse.writer_restarts})


def _counter(name: str, counts: Mapping[tuple[str, ...], float], labels: Sequence[str] = ()) -> Metric:
    counter = CounterMetricFamily(name, OWN[name], labels=labels)
    for values, count in counts.items():
        counter.add_metric(values, count)
    return counter

"""Pure: the metrics of a recorder in Prometheus' text format.

Names of OpenTelemetry's GenAI conventions (`wiretape.viewer.stats.conventions`) are translated by its rules for
Prometheus: `gen_ai.client.operation.duration` in s is `gen_ai_client_operation_duration_seconds`. Wiretape's own
metrics begin with `wiretape_`.
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

from wiretape.recorder.commands.metrics import Pulse, Setup
from wiretape.viewer.stats.conventions import RELEASED, Conventions, Labels
from wiretape.viewer.stats.dashboard import OWN, Figures, Histogram


class Exposition(Collector):
    """The metrics of a recorder: its `figures`, and the latest `pulse`, if one came."""

    def __init__(self, setup: Setup, conventions: Conventions = RELEASED) -> None:
        self.figures = Figures(lambda family: Histogram(family.bounds), conventions)
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
        about = {
            "version": self._setup.version,
            "session": self._setup.session,
            "semconv": self.figures.conventions.version,
        }
        yield InfoMetricFamily("wiretape", OWN["wiretape_info"], about)


def _measured(figures: Figures[Histogram]) -> Iterator[Metric]:
    for family, histograms in figures.histograms.items():
        metric = HistogramMetricFamily(family.prometheus, family.meaning, labels=family.labels)
        for labels, histogram in histograms.items():
            buckets = [(_bound(bound), count) for bound, count in histogram.cumulative]
            metric.add_metric(labels, buckets, histogram.sum)
        yield metric


def _bound(bound: float) -> str:
    """Return a bound as Prometheus' clients write it, from which the same number is read: 1, 0.01, 1.048576e+06."""
    text = f"{bound:g}"
    if isfinite(bound) and float(text) == bound:
        return text
    exact: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
    return exact


def _counted(figures: Figures[Histogram]) -> Iterator[Metric]:
    for family, counts in figures.counters.items():
        yield _counter(family.prometheus, family.meaning, counts, family.labels)
    flags: dict[tuple[str, ...], int] = {(flag,): count for flag, count in figures.flags.items()}
    yield _own("wiretape_exchanges_total", figures.outcomes, (*Labels._fields, "outcome"))
    yield _own("wiretape_flagged_exchanges_total", flags, ("flag",))
    yield _own("wiretape_folded_exchanges_total", {(): figures.folded})


def _state(pulse: Pulse) -> Iterator[Metric]:
    """Yield the state that the recorder reported."""
    gauges = {
        "wiretape_open_exchanges": pulse.open,
        "wiretape_event_loop_lag_seconds": pulse.event_loop_lag_ns / 1e9,
        "wiretape_write_lag_seconds": pulse.write_lag_ns / 1e9,
    }
    yield from (GaugeMetricFamily(name, OWN[name], value) for name, value in gauges.items())
    yield _own("wiretape_unstored_bytes_total", {(): pulse.unstored_bytes})
    yield _own("wiretape_unstored_exchanges_total", {(): pulse.unstored_exchanges})
    yield _own("wiretape_writer_restarts_total", {(): pulse.writer_restarts})


def _own(name: str, counts: Mapping[tuple[str, ...], float], labels: Sequence[str] = ()) -> Metric:
    return _counter(name, OWN[name], counts, labels)


def _counter(name: str, meaning: str, counts: Mapping[tuple[str, ...], float], labels: Sequence[str]) -> Metric:
    counter = CounterMetricFamily(name, meaning, labels=labels)
    for values, count in counts.items():
        counter.add_metric(values, count)
    return counter

"""The three ways to summarise, on values whose figures are known."""

import statistics

import pytest

from tests.support.cases import each_case
from wiretape.viewer.stats.tools.summary import SUMMARIES, Series, summarise

TTFT = [400.0, 100.0, 110.0, 120.0, 115.0]


def series(values, weights=()):
    found = Series()
    for at, value in enumerate(values):
        found.add(value, weights[at] if weights else None)
    return found


@each_case(
    ("way", "std", "percentiles"),
    [
        ("numpy", statistics.pstdev(TTFT), (115, 288, 344, 388.8)),
        ("inverse_cdf", statistics.pstdev(TTFT), (115, 400, 400, 400)),
    ],
)
def test_each_way_has_its_percentiles_and_its_deviation(way, std, percentiles):
    found = summarise(way, "TTFT", "ms", series(TTFT))
    assert (found.metric, found.unit, found.n, found.min, found.max) == ("TTFT", "ms", 5, 100, 400)
    assert (found.mean, found.std) == (169, pytest.approx(std))
    assert (found.p50, found.p90, found.p95, found.p99) == pytest.approx(percentiles)


@each_case("way", SUMMARIES)
def test_no_values_have_no_figures(way):
    found = summarise(way, "TTFT", "ms", Series())
    assert (found.n, found.mean, found.std, found.p50, found.max) == (0, None, None, None, None)


@each_case("way", SUMMARIES)
def test_one_value_is_every_figure_without_deviation(way):
    found = summarise(way, "x", "s", series([0.01]))
    assert (found.n, found.min, found.max) == (1, 0.01, 0.01)
    assert found.std == {"numpy": 0, "inverse_cdf": 0}.get(way)


def test_weights_count_a_value_several_times():
    found = summarise("inverse_cdf", "ITL", "ms", series([30.0, 10.0, 99.0], [1, 9, 0]))
    assert (found.n, found.mean, found.std, found.max) == (10, 12, 6, 30)
    assert (found.p50, found.p90, found.p95) == (10, 10, 30)
    assert summarise("inverse_cdf", "ITL", "ms", series([99.0], [0])).n == 0


def test_a_histogram_knows_its_bounds_only():
    found = summarise("buckets", "duration", "s", series([0.01] * 9 + [0.33]))
    assert (found.n, found.mean, found.p50) == (10, pytest.approx(0.042), pytest.approx(0.01 * 5 / 9))
    assert (found.p90, found.p95) == (pytest.approx(0.01), pytest.approx(0.48))
    assert summarise("buckets", "duration", "s", series([500.0])).p99 == 81.92


def test_a_factor_changes_the_unit():
    found = summarise("numpy", "latency", "s", series([1500.0]), 1e-3)
    assert (found.mean, found.p99) == (1.5, 1.5)

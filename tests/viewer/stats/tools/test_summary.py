"""The three ways to summarise, on values whose figures are known."""

import statistics

import pytest

from tests.support.cases import each_case
from wiretape.viewer.stats.tools.summary import SUMMARIES, Series, summarise

TTFT = [400.0, 100.0, 110.0, 120.0, 115.0]


def series(values, weights=()):
    series_ = Series()
    for at, value in enumerate(values):
        series_.add(value, weights[at] if weights else None)
    return series_


@each_case(
    ("method", "std", "percentiles"),
    [
        ("numpy", statistics.pstdev(TTFT), (115, 288, 344, 388.8)),
        ("inverse_cdf", statistics.pstdev(TTFT), (115, 400, 400, 400)),
    ],
)
def test_each_way_has_its_percentiles_and_its_deviation(method, std, percentiles):
    row = summarise(method, "TTFT", "ms", series(TTFT))
    assert (row.metric, row.unit, row.n, row.min, row.max) == ("TTFT", "ms", 5, 100, 400)
    assert (row.mean, row.std) == (169, pytest.approx(std))
    assert (row.p50, row.p90, row.p95, row.p99) == pytest.approx(percentiles)


@each_case("method", SUMMARIES)
def test_no_values_have_no_figures(method):
    row = summarise(method, "TTFT", "ms", Series())
    assert (row.n, row.mean, row.std, row.p50, row.max) == (0, None, None, None, None)


@each_case("method", SUMMARIES)
def test_one_value_is_every_figure_without_deviation(method):
    row = summarise(method, "x", "s", series([0.01]))
    assert (row.n, row.min, row.max) == (1, 0.01, 0.01)
    assert row.std == {"numpy": 0, "inverse_cdf": 0}.get(method)


def test_weights_count_a_value_several_times():
    row = summarise("inverse_cdf", "ITL", "ms", series([30.0, 10.0, 99.0], [1, 9, 0]))
    assert (row.n, row.mean, row.std, row.max) == (10, 12, 6, 30)
    assert (row.p50, row.p90, row.p95) == (10, 10, 30)
    assert summarise("inverse_cdf", "ITL", "ms", series([99.0], [0])).n == 0


def test_a_histogram_knows_its_bounds_only():
    row = summarise("buckets", "duration", "s", series([0.01] * 9 + [0.33]))
    assert (row.n, row.mean, row.p50) == (10, pytest.approx(0.042), pytest.approx(0.01 * 5 / 9))
    assert (row.p90, row.p95) == (pytest.approx(0.01), pytest.approx(0.48))
    assert summarise("buckets", "duration", "s", series([500.0])).p99 == 81.92


def test_a_factor_changes_the_unit():
    row = summarise("numpy", "latency", "s", series([1500.0]), 1e-3)
    assert (row.mean, row.p99) == (1.5, 1.5)

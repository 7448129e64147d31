"""Figures against hand arithmetic, numpy and the worked example of a population of twelve."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.metrics import QUANTITIES
from wiretape.viewer.stats.summary import Sample

ORACLE = json.loads((Path(__file__).parents[2] / "data" / "oracles.json").read_text("utf-8"))["ex5_population"]
TTFT = [row["ttft_ms"] for row in ORACLE["rows"] if row["outcome"] == "complete"]
NO_ANSWER = {"http_error", "connect_error"}
NUMBERS = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


def array(values: Any) -> Any:
    return np.array(values, np.float64)


def test_the_population_has_the_expected_figures() -> None:
    found, expected = summary.figures(array(TTFT)), ORACLE["ttft_complete"]
    assert (found["n"], found["min"], found["max"]) == (5, 100, 400)
    assert (found["mean"], found["std"]) == pytest.approx((expected["mean"], expected["std_pop"]), abs=5e-5)
    for name in ("p50", "p90", "p95", "p99"):
        assert found[name] == pytest.approx(expected[name])


@each_case("method", ["inverse_cdf", "mlperf"])
@each_case("name", ["p50", "p90", "p95", "p99"])
def test_the_population_has_known_percentiles_by_other_methods(method: Any, name: str) -> None:
    assert summary.figures(array(TTFT), method)[name] == ORACLE["ttft_complete"][f"{name}_{method}"]


def test_the_population_has_the_expected_rates() -> None:
    outcomes = Counter(row["outcome"] for row in ORACLE["rows"])
    answered = Counter({name: count for name, count in outcomes.items() if name not in NO_ANSWER})
    shares = rates(outcomes, answered)
    names = ("error_rate_pct", "error_rate_all_pct", "stream_error_rate_pct", "cancel_rate_pct")
    assert {name: shares[name] for name in names} == pytest.approx({name: ORACLE[name] for name in names}, abs=5e-5)
    assert summary.AttemptCounts.of(outcomes) == summary.AttemptCounts(12, 1, 6)


def rates(outcomes: Any, after_2xx: Any) -> Any:
    """Return a row of statistics of exchanges with nothing known but their outcomes."""
    unknown = {name: array([]) for name in (*QUANTITIES, *summary.TOKENS)}
    nothing = np.array([], bool)
    counts = Counter(outcomes), Counter(after_2xx)
    return summary.row(Sample((), *counts, nothing, nothing, nothing, unknown, array([])), ())


def test_rates_without_anything_that_could_fail_are_unknown() -> None:
    shares = rates({"client_closed": 3, "open": 2}, {"client_closed": 3})
    assert (shares["error_rate_pct"], shares["error_rate_all_pct"]) == (None, 0)
    assert (shares["stream_error_rate_pct"], shares["cancel_rate_pct"]) == (None, 100)
    assert {value for name, value in rates({"open": 1}, {}).items() if name.endswith("rate_pct")} == {None}


def test_early_departures_are_not_subtracted_from_answers() -> None:
    shares = rates({"complete": 3, "truncated": 1, "client_closed": 1}, {"complete": 3, "truncated": 1})
    assert (shares["error_rate_pct"], shares["stream_error_rate_pct"]) == (25, 25)


@given(NUMBERS)
def test_figures_are_numpys(values: list[int]) -> None:
    figures = summary.figures(np.array(values))
    linear = np.percentile(np.array(values), summary.PERCENTILES)
    nearest = np.percentile(np.array(values), summary.PERCENTILES, method="inverted_cdf")
    assert [figures[f"p{percent}"] for percent in summary.PERCENTILES] == pytest.approx(linear.tolist())
    assert (figures["mean"], figures["std"]) == pytest.approx((np.mean(values), np.std(values)))
    other_figures = summary.figures(np.array(values), "inverse_cdf")
    assert [other_figures[f"p{percent}"] for percent in summary.PERCENTILES] == nearest.tolist()


@given(NUMBERS)
def test_one_percentile_is_that_of_the_figures(values: list[int]) -> None:
    assert summary.percentiles(array(values), (95,)) == [summary.figures(array(values))["p95"]]


def test_nearest_ranks_differ_at_whole_shares() -> None:
    values = np.arange(1, 101)
    assert [summary.percentiles(values.copy(), (90,), method)[0] for method in ("linear", "inverse_cdf", "mlperf")] == [
        pytest.approx(90.1),
        90,
        91,
    ]


def test_a_pooled_deviation_equals_a_copys() -> None:
    values = np.random.default_rng(1).normal(1e9, 5, 1_000_000)
    assert summary.figures(values.copy())["std"] == pytest.approx(values.std(), rel=1e-9)


def test_no_values_have_no_figures() -> None:
    figures = summary.figures(np.array([]))
    assert figures.pop("n") == 0
    assert set(figures.values()) == {None}


@each_case(
    ("gaps", "expected"),
    [([], []), ([0, 0], []), ([5, 3], [3, 5]), ([0, 7, 0, 2], [2, 7])],
)
def test_moving_gaps_are_those_above_zero(gaps: list[int], expected: list[int]) -> None:
    assert sorted(summary.moving(np.array(gaps, np.int64)).tolist()) == expected


def test_an_objective_is_met_missed_or_unknown() -> None:
    ttft, pace = array([100, 900, np.nan, np.nan, 800]), array([30, 30, 30, 5, 20])
    assert summary.meeting([(ttft, True, 800)], 5) == (1, 2, 2)
    assert summary.meeting([(ttft, True, 800), (pace, False, 20)], 5) == (1, 3, 1)
    assert summary.meeting([], 5) == (5, 0, 0)

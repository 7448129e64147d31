"""Figures against hand arithmetic, numpy and the worked example of a population of twelve."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewer.stats import aggregates

ORACLE = json.loads((Path(__file__).parents[2] / "data" / "oracles.json").read_text("utf-8"))["ex5_population"]
TTFT = [row["ttft_ms"] for row in ORACLE["rows"] if row["outcome"] == "complete"]
NO_ANSWER = {"http_error", "connect_error"}
NUMBERS = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


def array(values: Any) -> Any:
    return np.array(values, np.float64)


def test_the_population_has_the_expected_figures() -> None:
    found, expected = aggregates.figures(array(TTFT)), ORACLE["ttft_complete"]
    assert (found["n"], found["min"], found["max"]) == (5, 100, 400)
    assert (found["mean"], found["std"]) == pytest.approx((expected["mean"], expected["std_pop"]), abs=5e-5)
    for name in ("p50", "p90", "p95", "p99"):
        assert found[name] == pytest.approx(expected[name])


@pytest.mark.parametrize("method", ["inverse_cdf", "mlperf"])
@pytest.mark.parametrize("name", ["p50", "p90", "p95", "p99"])
def test_the_population_has_the_expected_percentiles_by_the_other_methods(method: Any, name: str) -> None:
    assert aggregates.figures(array(TTFT), method)[name] == ORACLE["ttft_complete"][f"{name}_{method}"]


def test_the_population_has_the_expected_rates() -> None:
    outcomes = Counter(row["outcome"] for row in ORACLE["rows"])
    answered = Counter({name: count for name, count in outcomes.items() if name not in NO_ANSWER})
    assert aggregates.rates(outcomes, answered) == pytest.approx(
        {name: ORACLE.get(name) for name in ("error_rate_pct", "error_rate_all_pct", "cancel_rate_pct")}
        | {"stream_error_rate_pct": ORACLE["stream_error_rate_pct"]},
        abs=5e-5,
    )
    assert aggregates.trials(outcomes) == (6, 11)


def test_rates_without_anything_that_could_fail_are_unknown() -> None:
    found = aggregates.rates({"client_closed": 3, "open": 2}, {"client_closed": 3})
    unknown = {"error_rate_pct": None, "error_rate_all_pct": 0, "stream_error_rate_pct": None, "cancel_rate_pct": 100}
    assert found == unknown
    assert set(aggregates.rates({"open": 1}, {}).values()) == {None}


def test_a_client_that_leaves_before_the_answer_is_not_subtracted_from_the_answered() -> None:
    found = aggregates.rates({"complete": 3, "truncated": 1, "client_closed": 1}, {"complete": 3, "truncated": 1})
    assert (found["error_rate_pct"], found["stream_error_rate_pct"]) == (25, 25)


@given(NUMBERS)
def test_figures_are_numpys(values: list[int]) -> None:
    found = aggregates.figures(np.array(values))
    linear = np.percentile(np.array(values), aggregates.PERCENTILES)
    nearest = np.percentile(np.array(values), aggregates.PERCENTILES, method="inverted_cdf")
    assert [found[f"p{percent}"] for percent in aggregates.PERCENTILES] == pytest.approx(linear.tolist())
    assert (found["mean"], found["std"]) == pytest.approx((np.mean(values), np.std(values)))
    other = aggregates.figures(np.array(values), "inverse_cdf")
    assert [other[f"p{percent}"] for percent in aggregates.PERCENTILES] == nearest.tolist()


@given(NUMBERS)
def test_one_percentile_is_that_of_the_figures(values: list[int]) -> None:
    assert aggregates.percentile(array(values), 95) == aggregates.figures(array(values))["p95"]


def test_the_nearest_ranks_differ_where_the_share_is_a_whole_number() -> None:
    values = np.arange(1, 101)
    assert [aggregates.percentile(values, 90, method) for method in ("linear", "inverse_cdf", "mlperf")] == [
        pytest.approx(90.1),
        90,
        91,
    ]


def test_the_deviation_of_many_values_is_that_of_a_copy() -> None:
    values = np.random.default_rng(1).normal(1e9, 5, 1_000_000)
    assert aggregates.figures(values.copy())["std"] == pytest.approx(values.std(), rel=1e-9)


def test_no_values_have_no_figures() -> None:
    found = aggregates.figures(np.array([]))
    assert found.pop("n") == 0
    assert set(found.values()) == {None}
    assert aggregates.percentile(np.array([]), 50) is None


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [([], []), ([0, 0], []), ([5, 3], [3, 5]), ([0, 7, 0, 2], [2, 7])],
)
def test_moving_gaps_are_those_above_zero(gaps: list[int], expected: list[int]) -> None:
    assert sorted(aggregates.moving(np.array(gaps, np.int64)).tolist()) == expected


def test_an_objective_is_met_missed_or_unknown() -> None:
    ttft, pace = array([100, 900, np.nan, np.nan, 800]), array([30, 30, 30, 5, 20])
    assert aggregates.meeting([(ttft, True, 800)], 5) == (1, 2, 2)
    assert aggregates.meeting([(ttft, True, 800), (pace, False, 20)], 5) == (1, 3, 1)
    assert aggregates.meeting([], 5) == (5, 0, 0)

"""Intervals: published values, drawing again by brute force, and how often they are wrong."""

from typing import Any

import numpy as np
import pytest

from tests.support.cases import each_case
from wiretape.viewer.stats import compare


def groups(seed: int, shift: float = 1.0, n: int = 200) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random.lognormal(6, 0.4, n), random.lognormal(6, 0.4, n) * shift


@each_case(("percent", "n"), [(50, 20), (50, 400), (95, 200), (95, 2000)])
def test_an_interval_holds_the_truth_at_its_level(percent: int, n: int) -> None:
    hit_count = 0
    for seed in range(400):
        low, high = compare.difference(*groups(seed, n=n), percent)
        hit_count += low <= 0 <= high
    assert 0.93 <= hit_count / 400 <= 0.985


def test_intervals_surround_the_difference_and_widen_with_the_level() -> None:
    base, new = groups(8, 1.2)
    low, high = compare.difference(base, new, 50)
    wider = compare.difference(base, new, 50, level=0.999)
    assert wider[0] < low < high < wider[1]
    assert low < np.median(new) - np.median(base) < high
    assert compare.difference(base, new, 50) == (low, high)


@pytest.mark.parametrize("percent", [50, 95])
def test_the_standard_error_is_that_of_drawing_again(percent: int) -> None:
    random = np.random.default_rng(2)
    values, nothing = random.lognormal(6, 0.4, 4000), np.array([0.0])
    resamples = np.percentile(values[random.integers(0, 4000, (2000, 4000))], percent, axis=1)
    low, high = compare.difference(nothing, values, percent, level=0.999)
    assert (high - low) / (2 * 3.29) == pytest.approx(resamples.std(), rel=0.15)


@pytest.mark.parametrize("percent", [50, 95])
def test_values_that_are_all_the_same_leave_no_doubt(percent: int) -> None:
    base, new = np.full(30, 10.0), np.full(40, 12.0)
    assert compare.difference(base, new, percent) == pytest.approx((2, 2))
    assert compare.difference(base[:1], new[:1], percent) == (2, 2)


@pytest.mark.parametrize("n", [60, 400])
def test_medians_between_clusters_are_no_surer_than_their_distance(n: int) -> None:
    missed = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        base, new = (np.where(random.random(n) < 0.5, 1.0, 20.0) * random.lognormal(0, 0.1, n) for _ in range(2))
        low, high = compare.difference(base, new, 50)
        missed += not low <= 0 <= high
    assert missed <= 16


def test_coarse_values_are_only_as_sure_as_their_scale() -> None:
    random = np.random.default_rng(1)
    base, new = (np.round(random.lognormal(6, 0.4, 400) / 50) * 50 for _ in range(2))
    low, high = compare.difference(base, new + 50, 50)
    assert low < 50 < high
    assert high - low > 50


def test_intervals_of_independent_metrics_need_sidaks_level() -> None:
    for size in (2, 5, 20):
        result = compare.joint_level([np.identity(size)])
        assert 1 - result == pytest.approx(1 - 0.95 ** (1 / size), rel=0.08)
    assert compare.joint_level([np.identity(2)] * 2) == pytest.approx(0.95**0.25, abs=0.002)


def test_intervals_of_equal_metrics_need_a_single_level() -> None:
    assert compare.joint_level([np.ones((20, 20))]) == pytest.approx(0.95, abs=0.005)
    assert compare.joint_level([np.identity(1)]) == compare.joint_level([]) == 0.95
    assert compare.joint_level([np.identity(1), np.identity(0)], 0.9) == 0.9


def test_the_joint_level_of_a_seed_is_the_same() -> None:
    first_level, second_level = (compare.joint_level([np.identity(3)], seed=seed) for seed in (1, 2))
    assert first_level == compare.joint_level([np.identity(3)], seed=1) != second_level


def test_percentiles_go_together_as_drawing_exchanges_again_shows() -> None:
    random = np.random.default_rng(1)
    pace = random.lognormal(0, 0.3, 300)
    columns = [pace * random.lognormal(0, 0.2, 300) for _ in range(3)]
    percents = [50, 95, 50]
    resamples = random.integers(0, 300, (4000, 300))
    medians = [
        np.percentile(values[resamples], percent, axis=1) for values, percent in zip(columns, percents, strict=True)
    ]
    result = compare.correlation_of(compare.percentile_covariance(columns, percents))
    assert result == pytest.approx(np.corrcoef(medians), abs=0.1)


def test_a_columns_missing_rows_are_not_shared() -> None:
    values = np.random.default_rng(1).lognormal(0, 1, 400)
    first, second = values.copy(), values.copy()
    first[:200], second[200:] = np.nan, np.nan
    result = compare.correlation_of(compare.percentile_covariance([values, first, second], [50] * 3))
    assert result[1, 2] == 0
    assert result[0, 1:] == pytest.approx([0.5**0.5] * 2, abs=0.06)


def test_a_constant_column_is_left_out_of_correlations() -> None:
    values = np.random.default_rng(1).lognormal(0, 1, 50)
    covariance = compare.percentile_covariance([np.full(50, 7.0), values], [50, 50])
    assert compare.correlation_of(covariance) == pytest.approx(np.identity(1))


def test_shares_of_some_trials_correlate_with_all() -> None:
    assert compare.nested_correlation([(5, 100), (5, 100)]) == pytest.approx(np.ones((2, 2)))
    assert compare.nested_correlation([(50, 100), (5, 55)])[0, 1] == pytest.approx((5.1 / 25) ** 0.5, abs=0.05)
    assert compare.nested_correlation([]).shape == (0, 0)


def test_wilsons_interval_has_the_published_values() -> None:
    assert compare.wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert compare.wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)


@each_case(
    ("base", "new", "expected"),
    [
        ((48, 80), (56, 70), (0.0524, 0.3339)),
        ((3, 10), (9, 10), (0.1705, 0.8090)),
        ((0, 29), (5, 56), (-0.0381, 0.1926)),
        ((0, 10), (0, 10), (-0.2775, 0.2775)),
    ],
)
def test_newcombes_interval_has_the_published_values(
    base: tuple[int, int], new: tuple[int, int], expected: tuple[float, float]
) -> None:
    assert compare.share_difference(base, new) == pytest.approx(expected, abs=5e-5)

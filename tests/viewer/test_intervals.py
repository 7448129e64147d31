"""Intervals: published values, drawing again by brute force, and how often they are wrong."""

from typing import Any

import numpy as np
import pytest

from viewer import intervals


def groups(seed: int, shift: float = 1.0, n: int = 200) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random.lognormal(6, 0.4, n), random.lognormal(6, 0.4, n) * shift


@pytest.mark.parametrize("percent", [50, 90, 95])
def test_drawing_two_ranks_is_drawing_a_whole_resample(percent: int) -> None:
    values, random = groups(3)[0], np.random.default_rng(4)
    whole = np.percentile(values[random.integers(0, 200, (intervals.RESAMPLES, 200))], percent, axis=1)
    drawn = intervals.resampled(values, percent, np.random.default_rng(5))
    shares = [0.01, 0.1, 0.5, 0.9, 0.99]
    assert np.quantile(drawn, shares) == pytest.approx(np.quantile(whole, shares), rel=0.015)


def test_the_mean_is_drawn_from_whole_resamples() -> None:
    values = groups(3)[0]
    drawn = intervals.resampled(values, None, np.random.default_rng(1))
    assert (len(drawn), drawn.mean()) == (intervals.RESAMPLES, pytest.approx(values.mean(), rel=0.002))
    assert drawn.std() == pytest.approx(values.std() / 200**0.5, rel=0.03)


@pytest.mark.parametrize("percent", [50, 95, None])
def test_an_interval_holds_the_truth_nearly_as_often_as_it_says(percent: int | None) -> None:
    held = 0
    for seed in range(100):
        low, high = intervals.difference(*groups(seed), percent, seed=seed)
        held += low <= 0 <= high
    assert held >= 90


def test_a_larger_level_gives_a_wider_interval_and_a_seed_the_same() -> None:
    pair = groups(8, 1.2)
    low, high = intervals.difference(*pair, 50)
    wider = intervals.difference(*pair, 50, level=0.999)
    assert wider[0] < low < high < wider[1]
    assert intervals.difference(*pair, 50) == (low, high) != intervals.difference(*pair, 50, seed=1)


@pytest.mark.parametrize("percent", [50, 95, None])
def test_values_that_are_all_the_same_leave_no_doubt(percent: int | None) -> None:
    base, new = np.full(30, 10.0), np.full(40, 12.0)
    assert intervals.difference(base, new, percent) == pytest.approx((2, 2))
    assert intervals.difference(base[:1], new[:1], percent) == (2, 2)


def test_wilsons_interval_has_the_published_values() -> None:
    assert intervals.wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert intervals.wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)


@pytest.mark.parametrize(
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
    assert intervals.share_difference(base, new) == pytest.approx(expected, abs=5e-5)

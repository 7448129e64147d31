"""Distributions, counted and drawn."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.viewer.report import stats
from wiretape.viewer.stats.histogram import Bucket, buckets


def test_buckets_span_from_first_to_last_filled() -> None:
    counts = buckets(np.array([0, 0, 1.0, 1.99, 2, 49, 50]))
    assert counts == [
        Bucket(0, 0, 2), Bucket(1, 2, 2), Bucket(2, 5, 1), Bucket(5, 10, 0), Bucket(10, 20, 0), Bucket(20, 50, 1),
        Bucket(50, 100, 1),
    ]  # fmt: skip


@given(st.lists(st.floats(1e-9, 1e12) | st.sampled_from([0.0, 0.001, 0.5, 1, 1000, 1e9]), max_size=50))
def test_every_value_is_in_the_bucket_that_names_it(values: list[float]) -> None:
    array = np.array(values)
    counts = buckets(array)
    assert sum(bucket.count for bucket in counts) == len(values)
    for bucket in counts:
        inside = (array >= bucket.low) & (array < bucket.high) if bucket.high else array == 0
        assert bucket.count == inside[(array > 0) == (bucket.high > 0)].sum()


def test_zeros_alone_are_one_line() -> None:
    assert list(stats.bars(buckets(np.zeros(3)), "ms", 80)) == ["0 ms 3 " + "█" * 73]
    assert list(stats.bars(buckets(np.array([])), "ms", 80)) == []


@each_case(("count", "expected"), [(0, ""), (1, "▏"), (500, "█████"), (1000, "██████████"), (512, "█████▏")])
def test_bars_are_exact_to_an_eighth_and_visible(count: int, expected: str) -> None:
    assert stats.bar(count, 1000, 10) == expected


def test_lines_are_aligned_and_fit() -> None:
    lines = list(stats.bars(buckets(np.array([3] * 1000 + [700.0] * 2000)), "ms", 60))
    assert lines[0] == "      2 – 5 ms 1,000 " + "█" * 19 + "▌"
    assert max(map(len, lines)) <= 60
    assert {line.index(" ms ") for line in lines} == {11}

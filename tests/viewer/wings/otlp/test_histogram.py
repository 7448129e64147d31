"""An exponential histogram counts each value in the bucket that has it, at the finest scale that fits."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.viewer.wings.otlp.metrics import MOST_BUCKETS, ValueHistogram


def counted(*parts):
    histogram = ValueHistogram()
    for values in parts:
        histogram.add(values)
    return histogram


def bound(histogram, place):
    """Return the lower bound of a bucket."""
    return 2.0 ** (place * 2.0**-histogram.scale)


@each_case(
    "values, scale, offset, buckets",
    [
        ([], 20, 0, []),
        ([1.0], 20, -1, [1]),
        ([0.0, -1.0], 20, 0, []),
        ([1.0, 2.0], 7, -1, [1, *[0] * 127, 1]),
        ([1.0, 4.0, 4.0, 16.0], 5, -1, [1, *[0] * 63, 2, *[0] * 63, 1]),
        ([2.0**-200, 2.0**200], -2, -51, [1, *[0] * 99, 1]),
    ],
)
def test_buckets_hold_their_upper_bound(values, scale, offset, buckets):
    histogram = counted(values)
    assert (histogram.scale, histogram.offset, histogram.buckets) == (scale, offset, buckets)


@given(st.lists(st.lists(st.floats(1e-9, 1e6) | st.integers(0, 10**7), max_size=8), max_size=6))
def test_every_value_lies_within_its_buckets_bounds(parts):
    histogram = counted(*parts)
    values = sorted(value for part in parts for value in part)
    assert (histogram.count, histogram.min, histogram.max) == (
        len(values), values[0] if values else None, values[-1] if values else None
    )  # fmt: skip
    assert histogram.sum == float(sum(map(Fraction, values))) or math.isclose(histogram.sum, sum(values))
    assert len(histogram.buckets) <= MOST_BUCKETS
    assert histogram.zeros + sum(histogram.buckets) == len(values)
    places = [place for place, n in enumerate(histogram.buckets, histogram.offset) for _ in range(n)]
    for value, place in zip(values[histogram.zeros :], places, strict=True):
        assert bound(histogram, place) * (1 - 1e-12) <= value <= bound(histogram, place + 1) * (1 + 1e-12)

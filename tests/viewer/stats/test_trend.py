"""The intervals of a trend."""

from wiretape.viewer.stats.trend import intervals

NOON = 1_772_366_400
"""2026-03-01T12:00:00Z"""


def test_intervals_are_the_shortest_round_ones_that_fit() -> None:
    assert intervals(NOON + 7, NOON + 7, 20) == (NOON + 7, 1, 1)
    assert intervals(NOON + 7, NOON + 66, 20) == (NOON + 5, 5, 13)
    assert intervals(NOON + 7, NOON + 3600, 20) == (NOON, 300, 13)
    assert intervals(0, 10**9, 20) == (0, 604800 << 7, 13)
    assert intervals(NOON, NOON, 0) == (NOON, 1, 1)

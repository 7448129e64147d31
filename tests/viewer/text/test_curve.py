"""Curves of growing counts, in dots of braille."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from wiretape.viewer.text import curve
from wiretape.viewer.tui.base import paint

COUNTS = st.lists(st.integers(0, 1_000), min_size=1, max_size=40).map(sorted)


def test_a_steady_count_is_a_slope() -> None:
    drawing = list(curve.signs(curve.dots(range(1, 17), 16, 8, 4)))
    assert drawing == ["      ⡠⠊", "    ⡠⠊  ", "  ⡠⠊    ", "⡠⠊      "]


def test_a_step_is_vertical_and_nothing_precedes_it() -> None:
    assert list(curve.signs(curve.dots([0, 0, 1, 1, 8, 8], 8, 3, 2))) == ["  ⡏", " ⣀⠇"]


def test_counts_are_taken_at_the_columns_ends() -> None:
    positions: list[int] = []

    def count(at_ns: int) -> int:
        positions.append(at_ns)
        return len(positions)

    assert curve.sampled(count, 100, 5, 41) == [1, 2, 3, 4, 5]
    assert positions == [10, 20, 30, 40, 50]
    assert curve.sampled(count, 0, 5, 0) == []


@given(COUNTS, st.integers(1, 6))
def test_joined_columns_end_at_the_greatest_height(counts: list[int], rows: int) -> None:
    cells = -(-len(counts) // 2)
    drawing = curve.dots(counts, counts[-1], cells, rows)
    columns = [_column(drawing, column) for column in range(len(counts))]
    for lower, upper in pairwise(columns):
        assert not lower or min(upper) - max(lower) in (0, 1)
    assert all(column == list(range(column[0], column[-1] + 1)) for column in columns if column)
    assert not counts[-1] or columns[-1][-1] == 4 * rows


def _column(columns_drawn: list[list[int]], column: int) -> list[int]:
    """Return the heights of the dots in a column, ascending."""
    bits = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))[column % 2]
    signs = [row[column // 2] for row in reversed(columns_drawn)]
    return [4 * row + dot + 1 for row, sign in enumerate(signs) for dot, bit in enumerate(bits) if sign & bit]


def test_a_curve_has_signs_of_ascii() -> None:
    drawing = list(curve.signs(curve.dots(range(1, 9), 8, 4, 2)))
    assert [paint.in_ascii(row) for row in drawing] == ["  .'", ".'  "]

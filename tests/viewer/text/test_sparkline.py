"""Drawing gaps: one axis for all lines, one scale for all gaps, one cell for each sign."""

import struct
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.support.cases import each_case
from wiretape.viewer.text import sparkline as sparks

MS = 1_000_000


def packed(*gaps_ms: float) -> bytes:
    return struct.pack(f"<{len(gaps_ms)}q", *(int(gap * MS) for gap in gaps_ms))


def line(first_ms: int | None, gaps: bytes | None, end_ms: int | None, axis_ms: int = 100, cells: int = 10) -> str:
    first_ns, end = (None if ms is None else ms * MS for ms in (first_ms, end_ms))
    return sparks.line(sparks.timestamps(first_ns, gaps), end, axis_ms * MS, cells)


def test_the_wait_for_the_first_output_is_blank() -> None:
    assert line(30, packed(10, 10, 10), 60) == "  ·▃▃▃"


def test_a_gaps_height_is_independent_of_others() -> None:
    assert line(0, packed(40, 2, 2), 44)[3] == "▄"
    assert line(0, packed(40), 40)[3] == "▄"


def test_equal_timestamps_always_stand_in_one_column() -> None:
    short, long = line(10, packed(40), 100), line(10, packed(10, 10, 10, 10), 100)
    assert short.index("▄") == 4 == len(long.rstrip("│ ")) - 1


def test_an_end_after_the_last_output_is_marked() -> None:
    assert line(10, packed(10), 90) == "·▃      │"
    assert line(10, packed(10), 20) == "·▃"
    assert line(None, None, 35) == "   │"


def test_what_is_unknown_is_not_drawn() -> None:
    assert line(None, None, None) == ""
    assert line(50, b"", None) == "    ·"
    assert line(50, None, 50, axis_ms=0) == ""


def test_what_is_beyond_the_axis_is_left_out() -> None:
    assert line(10, packed(10, 500), 520) == "·▃"


@given(
    st.integers(0, 10**12), st.lists(st.integers(0, 10**12), max_size=30), st.integers(1, 10**13), st.integers(1, 200)
)
def test_a_line_never_takes_more_cells_than_there_are(first: int, gaps: list[int], axis: int, cells: int) -> None:
    drawing = sparks.line([*accumulate(gaps, initial=first)], first + sum(gaps), axis, cells)
    assert cell_len(drawing) == len(drawing) <= cells
    assert len(sparks.axis(axis, cells)) <= cells
    assert drawing.translate(sparks.ASCII).isascii()


@each_case(
    ("axis_ms", "cells", "expected"),
    [
        (100, 30, "╷0             ╷50 ms"),
        (3000, 40, "╷0           ╷1 s         ╷2 s"),
        (90_000, 20, "╷0         ╷50 s"),
        (119_999, 30, "╷0          ╷50 s"),
        (120_000, 30, "╷0             ╷1:00"),
        (1_836_755, 40, "╷0           ╷10:00       ╷20:00"),
        (40_000_000, 40, "╷0            ╷240:00       ╷480:00"),
        (0, 10, "╷0"),
        (100, 1, ""),
    ],
)
def test_an_axis_has_round_timestamps_where_there_is_room(axis_ms: int, cells: int, expected: str) -> None:
    assert sparks.axis(axis_ms * MS, cells) == expected


def test_round_lengths_are_of_minutes_from_120_s_on() -> None:
    lengths_s = (51, 61, 121, 301, 7_000)
    assert [sparks.scale(sparks.scale_ns(length * 10**9)) for length in lengths_s] == [
        "60 s", "2:00", "5:00", "10:00", "200:00",
    ]  # fmt: skip


@given(st.integers(MS, 10**9), st.sampled_from([1, 2, 4, 8]))
def test_jitter_around_the_median_gap_is_flat(unit: int, rows: int) -> None:
    assert {sparks.height(gap, rows, unit) for gap in (0, unit // 2, unit, 2 * unit - 1)} == {1}


@pytest.mark.parametrize(
    ("rows", "bounds"),
    [(1, [""]), (2, ["16×", ""]), (4, ["64×", "16×", "4×", ""])],
)
def test_a_bar_reaches_a_row_with_its_least_gap(rows: int, bounds: list[str]) -> None:
    assert sparks.bounds(rows) == bounds
    assert sparks.bounds(8)[:-1] == ["128×", "64×", "32×", "16×", "8×", "4×", "2×"]
    for row in range(1, 8):
        gap = 2**row * 15 * MS
        below, at = sparks.bars([sparks.height(gap - 1, 8, 15 * MS), sparks.height(gap, 8, 15 * MS)], 8)[7 - row]
        assert (below, at) == (" ", "▁")


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.sampled_from([1, 2, 4, 8]), st.integers(MS, 10**10))
def test_a_longer_gap_has_no_lower_bar(one: int, other: int, rows: int, unit: int) -> None:
    heights = [sparks.height(gap, rows, unit) for gap in sorted((one, other))]
    assert 1 <= heights[0] <= heights[1] <= 8 * rows


def test_the_unit_of_bars_is_the_median_gap() -> None:
    assert sparks.unit_ns([0, 0, 30 * MS, 0, 32 * MS, 31 * MS, 2_400 * MS]) == 31 * MS
    assert sparks.unit_ns([MS, 2 * MS, 3 * MS]) == sparks.unit_ns([]) == sparks.UNITS_NS[0]
    assert sparks.unit_ns([3_000 * MS]) == sparks.UNITS_NS[1]


def test_the_legend_has_an_ascii_sign_each() -> None:
    signs = set("▁▂▃▄▅▆▇█") | {sparks.FIRST, sparks.END}
    assert signs <= set(sparks.LEGEND)
    assert sparks.LEGEND.translate(sparks.ASCII).isascii()
    assert len({sign.translate(sparks.ASCII) for sign in signs}) == len(signs)


@pytest.mark.parametrize(
    ("axis_ms", "zero_ms", "cells", "expected"),
    [
        (1000, 400, 50, "╷−400 ms  ╷−200 ms  ╷0        ╷200 ms   ╷400 ms"),
        (3600, 400, 40, "    ╷0         ╷1 s       ╷2 s"),
        (100, 100, 30, "╷−100 ms       ╷−50 ms"),
    ],
)
def test_what_is_before_zero_has_a_minus(axis_ms: int, zero_ms: int, cells: int, expected: str) -> None:
    assert sparks.axis(axis_ms * MS, cells, zero_ms * MS) == expected
    assert expected.translate(sparks.ASCII).isascii()


@given(st.integers(0, 10**13), st.integers(0, 10**13), st.integers(1, 200))
def test_an_axis_with_negative_times_fits_its_cells(axis: int, zero: int, cells: int) -> None:
    assert len(sparks.axis(axis, cells, min(zero, axis))) <= cells


@each_case(
    ("at", "cleared"),
    [
        (0, "╷0        ╷20 ms"),
        (1, "╷         ╷20 ms"),
        (2, "╷0        ╷20 ms"),
        (10, "╷0        ╷20 ms"),
        (11, "╷0        ╷     "),
        (15, "╷0        ╷     "),
        (16, "╷0        ╷20 ms"),
    ],
)
def test_the_playhead_stands_in_the_midst_of_no_label(at: int, cleared: str) -> None:
    assert sparks.without_label("╷0        ╷20 ms", at) == cleared


def test_an_axis_leaves_out_times_without_room() -> None:
    assert sparks.axis(12, 61).endswith("╷10 ns")
    assert len(sparks.axis(12, 61)) <= 61

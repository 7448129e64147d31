"""Heatmaps: the scales of time and values, and the label of a cell."""

from tests.support.cases import each_case
from wiretape.viewer.stats import heatmap
from wiretape.viewer.stats.heatmap import Heatmap

S = 1000
NOON = 1_772_366_400 * S  # 2026-03-01T12:00:00Z
GAPS = Heatmap(
    "gap", NOON, 300 * S, ((30, 33), (22, 29), (20, 21)), [[0, 1], [99, 0], [1, 3]], [[0, 1], [7, 1], [8, 2]]
)


@each_case(
    ("share", "step"),
    [(0, 0), (1e-9, 1), (0.0099, 1), (0.01, 2), (0.05, 3), (0.2, 4), (0.4999, 4), (0.5, 5), (1, 5)],
)
def test_a_share_has_a_step_and_what_is_not_empty_is_never_without_a_mark(share: float, step: int) -> None:
    assert heatmap.step(share) == step


def test_without_colours_each_step_has_a_glyph_of_its_own() -> None:
    assert len(set(heatmap.GLYPHS)) == len(heatmap.GLYPHS) == len(heatmap.LEGEND) == 6


def test_columns_are_the_shortest_round_ones_that_fit() -> None:
    assert heatmap.columns(NOON + 7 * S, NOON + 7 * S, 20, 1) == (NOON + 7 * S, 10, 1)
    assert heatmap.columns(NOON + 7 * S + 9, NOON + 7 * S + 195, 20, 99) == (NOON + 7 * S, 10, 20)
    assert heatmap.columns(NOON + 7 * S + 9, NOON + 7 * S + 200, 20, 99) == (NOON + 7 * S, 20, 11)
    assert heatmap.columns(NOON + 7 * S, NOON + 66 * S, 20, 99) == (NOON + 5 * S, 5 * S, 13)
    assert heatmap.columns(NOON + 7 * S, NOON + 3600 * S, 20, 99) == (NOON, 300 * S, 13)
    assert heatmap.columns(0, 10**9 * S, 20, 99) == (0, (604800 << 7) * S, 13)


def test_columns_shorter_than_a_second_are_at_most_as_many_as_the_exchanges() -> None:
    assert heatmap.columns(NOON + 9, NOON + 195, 20, 10) == (NOON, 20, 10)
    assert heatmap.columns(NOON + 9, NOON + 195, 20, 9) == (NOON, 50, 4)
    assert heatmap.columns(NOON, NOON + 6 * S, 20, 7) == (NOON, S, 7)
    assert heatmap.columns(NOON, NOON, 0, 0) == (NOON, S, 1)


def test_rows_are_powers_of_two_whose_borders_do_not_depend_on_the_tape() -> None:
    assert heatmap.bands(20, 22, 5) == ((22, 22), (21, 21), (20, 20))
    assert heatmap.bands(21, 33, 7) == ((32, 33), (30, 31), (28, 29), (26, 27), (24, 25), (22, 23), (21, 21))
    assert heatmap.bands(5, 5, 0) == ((5, 5),)


def test_what_is_below_the_lowest_row_is_in_it() -> None:
    assert [heatmap.row_of(bits, GAPS.bands) for bits in (63, 30, 29, 20, 3)] == [0, 0, 1, 2, 2]


def test_a_cell_knows_its_share_of_its_column() -> None:
    assert GAPS.cell(1, 0) == heatmap.Cell(99, 0.99, 7)
    assert GAPS.cell(0, 1) == heatmap.Cell(1, 0.25, 1)
    assert [GAPS.step(row, 0) for row in range(3)] == [0, 5, 2]


def test_a_cell_knows_its_time_and_its_values() -> None:
    assert GAPS.span(1) == ("2026-03-01T12:05:00Z", "2026-03-01T12:10:00Z")
    assert GAPS.limits(0) == (1 << 29, 1 << 33)
    assert GAPS.limits(2) == (None, 1 << 21)


def test_a_column_shorter_than_a_second_has_its_milliseconds() -> None:
    short = Heatmap("ttft", NOON + 7990, 10, ((20, 20),), [[1] * 24], [[1] * 24])
    assert short.span(0) == ("2026-03-01T12:00:07.990Z", "2026-03-01T12:00:08.000Z")
    assert heatmap.axis(short, 48) == "12:00:07.990  12:00:08.060  12:00:08.130"
    assert heatmap.described(short, 0, 1).startswith("2026-03-01 12:00:08.000 UTC · 0 – 1.05 ms")


def test_rows_are_named_by_their_least_value_and_the_lowest_by_what_it_is_below() -> None:
    assert [GAPS.label(row) for row in range(3)] == ["537 ms", "2.1 ms", "<2.1 ms"]
    speeds = Heatmap("tps", NOON, 60 * S, ((8, 8), (1, 1), (0, 0)), [[1]] * 3, [[1]] * 3)
    assert [speeds.label(row) for row in range(3)] == ["128", "1", "<1"]


def test_bars_say_how_much_each_column_holds() -> None:
    assert GAPS.whole == [100, 4]
    assert [heatmap.bar(GAPS, 2, line, (0, 2, 5)) for line in (1, 0)] == ["██   ", "██▁▁▁"]
    empty = Heatmap("ttft", NOON, 60 * S, ((20, 20),), [[3, 0, 1]], [[3, 0, 1]])
    assert heatmap.bar(empty, 1, 0, (0, 1, 2, 3)) == "█ ▃"


def test_the_axis_names_a_column_where_there_is_room() -> None:
    wide = Heatmap("ttft", NOON, 3600 * S, ((20, 20),), [[1] * 10], [[1] * 10])
    assert heatmap.axis(wide, 2 * wide.columns) == "12:00   16:00"
    days = Heatmap("ttft", NOON - 43200 * S, 86400 * S, ((20, 20),), [[1] * 4], [[1] * 4])
    assert heatmap.axis(days, 4 * days.columns) == "03-01   03-03"
    assert heatmap.axis(GAPS, 2 * GAPS.columns) == ""


def test_over_days_the_axis_names_the_days_where_they_begin() -> None:
    hours = Heatmap("ttft", NOON, 6 * 3600 * S, ((20, 20),), [[1] * 12], [[1] * 12])
    assert heatmap.axis(hours, 2 * hours.columns) == "    03-02   03-03"
    assert heatmap.axis(hours, hours.columns) == "  03-02"
    one_day = Heatmap("ttft", NOON, 6 * 3600 * S, ((20, 20),), [[1] * 4], [[1] * 4])
    assert heatmap.axis(one_day, 32) == "12:00   18:00   00:00   06:00"


@each_case(
    ("step_ms", "said"),
    [
        (10, "10 ms"),
        (500, "500 ms"),
        (5 * S, "5 s"),
        (300 * S, "5 min"),
        (7200 * S, "2 h"),
        (604800 * S, "7 d"),
        (90 * S, "90 s"),
    ],
)
def test_the_length_of_a_column_is_reported_in_its_largest_unit(step_ms: int, said: str) -> None:
    assert heatmap.length(step_ms) == said


def test_a_cell_is_described_in_words() -> None:
    assert heatmap.described(GAPS, 1, 0) == (
        "2026-03-01 12:00:00 UTC · 2.1 ms – 537 ms · 99 gaps, 99.0 % · enter: 7 exchanges with such a gap"
    )
    assert heatmap.described(GAPS, 1, 1) == "2026-03-01 12:05:00 UTC · 2.1 ms – 537 ms · nothing"
    first = Heatmap("ttft", NOON, 60 * S, ((20, 20),), [[1]], [[1]])
    assert heatmap.described(first, 0, 0).endswith("0 – 1.05 ms · 1 exchange, 100.0 % · enter: 1 exchange")

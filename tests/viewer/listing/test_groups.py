"""The table of groups: what fits beside each other, and how figures are shown."""

from typing import Any

import pytest
from rich.cells import cell_len

from tests.support.cases import each_case
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.listing import groups
from wiretape.viewer.source.tape import overview
from wiretape.viewer.stats.metrics import GROUPS


@each_case(
    ("value", "expected"),
    [(None, "–"), (0.0, "0.0"), (9.94, "9.9"), (99.94, "99.9"), (100, "100"), (12345.6, "12,346")],
)
def test_a_figure_has_a_decimal_while_it_is_small(value: Any, expected: str) -> None:
    assert groups.figure(value) == expected


def test_a_percentage_is_given_to_a_tenth() -> None:
    assert [groups.percent(value) for value in (None, 98.64)] == ["–", "98.6%"]


def test_groups_of_the_screen_are_groups_of_the_statistics() -> None:
    assert set(groups.GROUPS) <= set(GROUPS)


@each_case("width", [30, 60, 80, 120, 200])
def test_a_table_fits_its_width_with_like_lines(width: int, connection: Connection) -> None:
    table = groups.table("model", overview.figures(connection, "model")[0], width)
    assert sum(table.widths) + 2 * (len(table.widths) - 1) <= width
    assert {len(line) for line in table.lines} == {len(table.heads)} == {len(table.widths)}
    assert all(cell_len(text) <= size for line in table.lines for text, size in zip(line, table.widths, strict=True))


def test_columns_give_way_by_rank(connection: Connection) -> None:
    rows = overview.figures(connection, "model")[0]
    assert groups.table("model", rows, 36).heads == ("MODEL", "N", "ERR", "TTFT ms p50")
    assert groups.table("model", rows, 200).heads[-3:] == ("TRUNCATED", "CLIENT LEFT", "IN ONE READ")
    assert "GOODPUT" in groups.table("model", rows, 200, objective=True).heads


def test_headings_have_units_where_that_costs_no_column(connection: Connection) -> None:
    rows = overview.figures(connection, "model")[0]
    assert groups.table("model", rows, 33).heads[-1] == "TTFT p50"
    assert groups.table("model", rows, 36).heads[-1] == "TTFT ms p50"
    assert {"TTFT ms p50", "GAP ms p50", "GAP ms p99", "LONGEST GAP", "DUR s p50"} <= set(
        groups.table("model", rows, 200).heads
    )


def test_several_groups_have_a_total(connection: Connection) -> None:
    rows, total = overview.figures(connection, "model")
    table = groups.table("model", rows, 80, total=total)
    assert table.total is not None
    assert table.total[:2] == ("all", "7")
    assert len(table.lines) == len(rows)
    assert len(table.total) == len(table.widths)
    assert groups.table("model", rows[:1], 80, total=total).total is None
    assert groups.table("model", rows, 80).total is None


def test_pooled_figures_are_pending_until_they_are_read(connection: Connection) -> None:
    rows = overview.figures(connection, "outcome", gaps=False)[0]
    table = groups.table("outcome", rows, 200, pooled=False)
    assert {line[table.heads.index("GAP ms p50")] for line in table.lines} == {"…"}


def test_unknown_and_hostile_groups_have_a_safe_name(connection: Connection) -> None:
    table = groups.table("model", overview.figures(connection, "model")[0], 120)
    assert table.lines[-1][0] == "–"
    assert all(text.isprintable() for line in table.lines for text in line)


@pytest.mark.parametrize(("failure", "expected"), [
    (("http_error", "rate_limited", None, 429), "429 http_error rate_limited"),
    (("truncated", "eof", None, 200), "truncated eof"),
    (("error_event", None, "x\x1b" * 60, None), "error_event " + "x␛" * 23 + "x…"),
])  # fmt: skip
def test_a_kind_of_failure_has_a_name(failure: tuple[str, str, str, int], expected: str) -> None:
    assert groups.failure(*failure) == expected


def test_percentiles_of_too_few_values_are_withheld_and_noted(connection: Connection) -> None:
    row = overview.figures(connection, "model")[1]
    assert row["ttft_n"] == 2
    assert groups.withheld(row) == "too few values: p50 needs 2, p90 needs 10, p99 needs 100"
    assert groups.withheld(row | dict.fromkeys(("ttft_n", "gap_n", "tps_user_n"), 100)) == ""
    assert groups.withheld(overview.figures(connection, "model", gaps=False)[1])


def test_a_group_says_its_longest_silence_on_each_layer() -> None:
    row = {"max_silence_max_ms": 1500.0, "max_event_silence_max_ms": None, "max_output_silence_max_ms": 3250.0}
    assert groups.silences(row) == "longest silence 1,500 ms of bytes, 3,250 ms of output"
    assert groups.silences(dict.fromkeys(row)) == ""

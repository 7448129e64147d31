"""One name for each quantity: every name and alias of the table of `help fields` means the same to every consumer."""

import csv
import io
from pathlib import Path

import pytest

from tests.support.cases import each_case
from tests.support.commands import run
from tests.support.docs import NameRow, name_rows
from wiretape.viewer.listing import layout, ranking
from wiretape.viewer.query import fields, parser
from wiretape.viewer.report import digest, tables
from wiretape.viewer.stats import check, summary
from wiretape.viewer.stats.metrics import BOUNDED, NAMES, QUANTITIES, objective

ROWS = name_rows()
COLUMNS = [row for row in ROWS if row.name in tables.COLUMNS]
STATISTICS = [row for row in ROWS if row.statistic]


def names_of(row: NameRow) -> tuple[str, ...]:
    return (row.name, *row.aliases)


def header(text: str) -> list[str]:
    return next(csv.reader(io.StringIO(text)))


@each_case("row", ROWS, ids=lambda row: row.name)
def test_filters_orders_rules_and_objectives_take_every_name(row: NameRow) -> None:
    for name in names_of(row):
        if row.name in fields.FIELDS:
            assert parser.field_named(name).name == row.name
        if row.name in tables.COLUMNS:
            assert parser.sort_order(f"-{name}")[1]
        if not row.statistic:
            continue
        quantity = QUANTITIES[NAMES[name]]
        assert quantity.name == row.statistic
        assert check.rule("min", f"{name}.n=1").field == f"{row.statistic}_n"
        if quantity.name in BOUNDED:
            assert objective(f"{name}<1{quantity.suffix[1:]}")[0].quantity is quantity


@each_case("row", STATISTICS, ids=lambda row: row.name)
def test_a_statistic_has_its_fields_name_without_unit(row: NameRow) -> None:
    assert row.statistic == row.name.removesuffix("_ms")


def test_every_name_is_accepted_and_the_fields_printed(tape: Path) -> None:
    for row in COLUMNS:
        column_names = [name for name in names_of(row) if "," not in name]
        output = run(tape, "ls", "--columns", ",".join(column_names), "--format", "csv").stdout
        assert header(output) == [row.name]


def test_exports_take_every_name_of_their_columns(tape: Path) -> None:
    for row in (column for column in COLUMNS if column.aliases and column.name in run_header(tape)):
        exported = run(tape, "export", "--columns", ",".join(names_of(row)), "--format", "csv").stdout
        assert header(exported) == [row.name]


def run_header(tape: Path) -> list[str]:
    return header(run(tape, "export", "--format", "csv").stdout)


@pytest.mark.parametrize("command", [("stats",), ("export", "--table", "summary")])
def test_statistics_take_every_name_as_columns(command: tuple[str, ...], tape: Path) -> None:
    columns = [f"{name}_{suffix}" for row in STATISTICS for name in names_of(row) for suffix in ("n", "p50", "max")]
    expected = [
        summary.field_name(QUANTITIES[row.statistic], suffix) for row in STATISTICS for suffix in ("n", "p50", "max")
    ]
    printed = header(run(tape, *command, "--columns", ",".join(columns), "--format", "csv").stdout)
    assert sorted(printed) == sorted(expected)


def test_a_histogram_takes_an_alias(tape: Path) -> None:
    assert run(tape, "stats", "--hist", "icl.p99").stdout == run(tape, "stats", "--hist", "icl_p99").stdout


@each_case(("heading", "name"), [*tables.NAMED.items()])
def test_a_lists_headings_are_their_columns_names(heading: str, name: str) -> None:
    words = heading.strip().removesuffix(" UTC").replace(" ", "_")
    quantity = name.removesuffix("_ms")
    in_seconds = f"{quantity}_s"  # a heading names the unit of its cells
    assert {fields.NAMES.get(words, words), words} & {name, f"{name}_ms", quantity, in_seconds} or name in OTHERWISE


OTHERWISE = {
    "mark",
    "happened",
    "largest",
    "sparkline",
    "last_at",
    "started_at",
    "input_tokens",
    "cache_read_input_tokens",
}
"""Columns that are no quantity, or whose headings are shorter where conversations are listed."""


def test_a_statistics_heading_is_its_columns_name() -> None:
    labels = {title: name for title, name in digest.NAMED.items() if name not in ("n", "p50", "p95", "p99", "max")}
    for title, name in labels.items():
        stem = title.removesuffix(" ms").replace(" ", "_")
        assert name in {summary.ALIASES.get(stem, stem), f"{stem}_ms", f"{stem}_p50_ms"}


@each_case(
    ("title", "name"),
    [
        *((title, name) for name, title in ranking.LABELS.items()),
        *((column.title, column.field) for column in layout.COLUMNS),
    ],
)
def test_the_viewers_headings_are_their_columns_names(title: str, name: str | None) -> None:
    words = title.lower().removesuffix(" ms").removesuffix(" s").replace(" ", "_")
    assert fields.NAMES.get(words) == name or title in ("ID", "START", "HTTP", "HAPPENED", "TIMELINE")

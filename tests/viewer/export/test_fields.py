"""The columns of an export: each is described, and rows hold values of the described kind."""

import json
from datetime import datetime
from pathlib import Path

from tests.support.cases import each_case
from tests.support.commands import run
from tests.support.golden import assert_golden
from tests.support.tables import table_rows
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.export import fields, text
from wiretape.viewer.record.fields import READ_FIELDS
from wiretape.viewer.source.tape import overview
from wiretape.viewer.stats import metrics, summary

GROUPS = (*metrics.GROUPS, "label.run")
TYPES = {
    "text": str, "integer": int, "number": (int, float), "boolean": bool, "timestamp": str, "words": (list, str),
    "json": (list, dict),
}  # fmt: skip


@each_case("table", fields.TABLES)
def test_every_column_has_a_meaning_and_numbers_units(table: str) -> None:
    for field in fields.of(table, GROUPS if table == "summary" else ()):
        assert field.meaning, field
        assert field.kind in TYPES, field
        assert bool(field.unit) == (field.kind in ("integer", "number", "timestamp")), field
        assert ("_ms" in field.name) == (field.unit == "ms"), field


def test_the_columns_are_those_of_the_tables() -> None:
    for table, names in text.TABLES.items():
        assert tuple(field.name for field in fields.of(table)) == names
    assert tuple(field.name for field in fields.of("summary", GROUPS)) == summary.fields(GROUPS)


@each_case("table", fields.TABLES)
def test_known_values_are_of_the_described_kind(connection: Connection, table: str) -> None:
    kinds = {field.name: field.kind for field in fields.of(table, ("model", "status", "day"))}
    if table == "summary":
        rows = [
            summary.row(sample, ("model", "status", "day"))
            for sample in overview.samples(connection, ("model", "status", "day"))
        ]
    else:
        rows = list(table_rows(connection, table))
    for row in rows:
        for name, value in row.items():
            assert value is None or isinstance(value, TYPES[kinds[name]]), (name, value)
            assert kinds[name] == "boolean" or not isinstance(value, bool), name
            assert kinds[name] != "timestamp" or value is None or datetime.fromisoformat(value).tzinfo, name


def test_rates_and_shares_have_units_of_their_own() -> None:
    units = {field.name: (field.kind, field.unit) for field in fields.of("exchanges")}
    assert (units["tps_user"], units["coalesced_fraction"]) == (("number", "tokens/s"), ("number", "share of 1"))
    assert (units["labels"], units["request_model"]) == (("json", None), ("text", None))


def test_a_schema_has_one_row_for_each_column(tape: Path) -> None:
    rows = json.loads(run(tape, "export", "--schema", "--table", "reads", "--format", "json").stdout)
    assert [tuple(row) for row in rows] == [fields.SCHEMA_FIELDS] * (1 + len(READ_FIELDS))
    assert rows[2] == {
        "table": "reads", "column": "at_ms", "type": "number", "unit": "ms", "meaning": "T0 → when the socket gave it",
    }  # fmt: skip


def test_the_schema_is_the_golden_file(tape: Path) -> None:
    assert_golden("schema.tsv", run(tape, "export", "--schema").stdout_bytes)

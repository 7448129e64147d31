"""Parquet: rows that are read back are the same, and typed; the bytes of the file are up to pyarrow."""

import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.tables import table_rows
from wiretape.recorder.tape.reader import Connection

pyarrow = pytest.importorskip("pyarrow")

import pyarrow.parquet as arrow  # noqa: E402

from tests.support.commands import run  # noqa: E402
from tests.support.sample_tape import HOSTILE, ODD  # noqa: E402
from wiretape.recorder.errors import WiretapeError  # noqa: E402
from wiretape.viewer.export import fields, parquet  # noqa: E402
from wiretape.viewer.export import text as export  # noqa: E402
from wiretape.viewer.export.fields import ExportField  # noqa: E402
from wiretape.viewer.record import (  # noqa: E402
    cells,
    rows,
)


def read_back(columns: tuple[ExportField, ...], table: list[rows.TableRow]) -> Any:
    out = io.BytesIO()
    assert parquet.write(out, columns, iter(table)) == len(table)
    return arrow.read_table(io.BytesIO(out.getvalue()))


def expected(field: ExportField, value: Any) -> Any:
    if value is None:
        return None
    match field.kind:
        case "timestamp":
            return datetime.fromisoformat(value)
        case "words":
            return value.split() if isinstance(value, str) else value
        case "json":
            return cells.flat(value)
    return value


@each_case("table", export.TABLES)
def test_a_table_comes_back_as_it_was(connection: Connection, table: str) -> None:
    columns, lines = fields.of(table), list(table_rows(connection, table))
    back = read_back(columns, lines).to_pylist()
    assert back == [{field.name: expected(field, row[field.name]) for field in columns} for row in lines]


def test_columns_are_typed_and_say_their_unit_and_meaning() -> None:
    schema = read_back(fields.of("exchanges"), []).schema
    assert schema.field("started_at").type == pyarrow.timestamp("us", tz="UTC")
    assert schema.field("flags").type.value_type == pyarrow.string()
    assert [schema.field(name).type for name in ("ttft_ms", "bytes", "model")] == [
        pyarrow.float64(), pyarrow.int64(), pyarrow.string(),
    ]  # fmt: skip
    assert schema.field("bytes").metadata[b"unit"] == b"bytes"
    assert all(schema.field(field.name).metadata[b"meaning"] for field in fields.of("exchanges"))


def test_what_parquet_cannot_hold_is_an_escape_or_null() -> None:
    columns = (ExportField("a", "text", None, "a"), ExportField("b", "integer", "count", "b"))
    table = [{"a": "\ud83d!", "b": 1 << 63}, {"a": "é", "b": -(1 << 63)}]
    assert read_back(columns, table).to_pylist() == [{"a": "\\ud83d!", "b": None}, {"a": "é", "b": -(1 << 63)}]


def test_zeros_and_ones_of_the_tape_are_booleans() -> None:
    column = next(field for field in fields.of("exchanges", ()) if field.name == "connection_reused")
    table = read_back((column,), [{"connection_reused": value} for value in (0, 1, None)])
    assert table["connection_reused"].to_pylist() == [False, True, None]


def test_row_groups_are_limited_by_rows_and_text() -> None:
    columns = (ExportField("a", "text", None, "a"),)
    for size, count, groups in ((1, 10_001, 2), (1 << 21, 5, 3)):
        out = io.BytesIO()
        text = "x" * size
        parquet.write(out, columns, ({"a": text} for _ in range(count)))
        assert arrow.ParquetFile(io.BytesIO(out.getvalue())).num_row_groups == groups


def test_a_parquet_suffix_returns_hostile_text_exactly(tape: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.PARQUET"
    run(tape, "export", ODD, "--table", "texts", "-o", str(path))
    (row,) = arrow.read_table(path).to_pylist()
    assert (row["content"], row["started_at"]) == (HOSTILE, datetime(2026, 3, 1, 12, 0, 6, tzinfo=UTC))


def test_a_summary_can_be_parquet(tape: Path, tmp_path: Path) -> None:
    path = tmp_path / "summary.parquet"
    run(tape, "export", "--table", "summary", "--by", "model,status", "-o", str(path))
    assert [row["n"] for row in arrow.read_table(path).to_pylist()] == [1, 1, 4, 1]


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(WiretapeError, match=r"\[parquet\]"):
        parquet.write(io.BytesIO(), (), [])

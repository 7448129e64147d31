"""What is exported, and where to."""

import json
from pathlib import Path

import pytest
from click import UsageError
from sqlalchemy import Connection

from recorder.errors import NotFound
from tests.viewer.commanding import on_terminal, run
from tests.viewer.conftest import COMPLETE, COMPLETE_READS, LIMITED, ODD, ODD_READS, TOOLS
from tests.viewer.golden import assert_golden
from viewer import rows
from viewer.commands import exports
from viewer.commands.exports import Asked
from viewer.stats import summary
from viewer.tape import queries


def written(connection: Connection, tmp_path: Path, table: str, format: str, limit: int | None = None) -> bytes:
    path = tmp_path / "out"
    exports.run(connection, Asked(table, format, path, limit=limit))
    return path.read_bytes()


@pytest.mark.parametrize("id", [COMPLETE, ODD])
def test_sse_is_the_body_byte_for_byte(tape: Path, id: str) -> None:
    body = b"".join(data for _, data in (COMPLETE_READS if id == COMPLETE else ODD_READS))
    found = run(tape, "export", id, "--format", "sse").stdout_bytes
    assert found == body
    assert_golden(f"{id[:4]}.sse", found)


def test_a_summary_is_the_golden_file_byte_for_byte(tape: Path) -> None:
    assert_golden("summary.csv", run(tape, "export", "--table", "summary").stdout_bytes)
    assert_golden("summary_by_model.csv", run(tape, "export", "--table", "summary", "--by", "model").stdout_bytes)


def test_a_summary_is_what_stats_gives(tape: Path) -> None:
    for by in ((), ("--by", "outcome,label.run")):
        asked = ("--format", "jsonl", *by)
        assert run(tape, "export", "--table", "summary", *asked).stdout == run(tape, "stats", *asked).stdout
    (row,) = map(json.loads, run(tape, "export", TOOLS, "--table", "summary", "--format", "jsonl").stdout.splitlines())
    assert (tuple(row), row["n"]) == (summary.fields(()), 1)


def test_a_file_says_how_much_it_holds(tape: Path, tmp_path: Path) -> None:
    told = {"x.csv": "7 rows", "x.har": "7 exchanges"}
    for name, holds in told.items():
        assert run(tape, "export", "-o", str(tmp_path / name)).stderr == f"wrote {tmp_path / name} ({holds})\n"
    one = tmp_path / "x.sse"
    assert run(tape, "export", LIMITED, "-o", str(one)).stderr == f"wrote {one} ({one.stat().st_size} bytes)\n"


@pytest.mark.parametrize("table", ["exchanges", "texts", "chunks", "reads", "summary"])
def test_a_limit_is_one_of_rows(connection: Connection, tmp_path: Path, table: str) -> None:
    assert len(written(connection, tmp_path, table, "jsonl", 1).splitlines()) == 1
    assert written(connection, tmp_path, table, "jsonl", 0) == b""


@pytest.mark.parametrize("format", ["sse", "asciicast"])
def test_what_is_of_one_exchange_takes_no_more_and_no_less(connection: Connection, format: str) -> None:
    with pytest.raises(UsageError, match="one exchange"):
        exports.run(connection, Asked("exchanges", format))
    with pytest.raises(NotFound, match="no exchange matches"):
        exports.run(connection, Asked("exchanges", format), queries.among([]))


def test_parquet_of_many_rows_has_them_all(connection: Connection, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow.parquet")
    written(connection, tmp_path, "chunks", "parquet")
    table = arrow.read_table(tmp_path / "out")
    assert table.column_names == list(rows.CHUNK_FIELDS)
    assert table.num_rows == len(list(queries.all_chunks(connection)))


def test_a_failure_leaves_no_file(connection: Connection, tmp_path: Path) -> None:
    def put(out: object) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exports.save(tmp_path / "x.csv", put, "rows")
    assert list(tmp_path.iterdir()) == []


def test_a_schema_is_laid_out_for_people_on_a_terminal(tape: Path) -> None:
    shown = on_terminal(tape, "export", "--schema", "--table", "reads", columns=140)
    assert "T0 → when the socket gave it" in shown
    assert "\t" not in shown

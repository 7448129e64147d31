"""The command `export`: contents and destinations."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Connection

from tests.support.commands import on_terminal, run
from tests.support.golden import assert_golden
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, LIMITED, ODD, ODD_READS, TOOLS
from wiretape.viewer import rows
from wiretape.viewer.source.tape import queries
from wiretape.viewer.stats import summary


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
def test_a_limit_is_one_of_rows(tape: Path, table: str) -> None:
    limited = ("export", "--table", table, "--format", "jsonl", "-n")
    assert len(run(tape, *limited, "1").stdout.splitlines()) == 1
    assert run(tape, *limited, "0").stdout == ""


@pytest.mark.parametrize("format", ["sse", "asciicast"])
def test_what_is_of_one_exchange_takes_no_more(tape: Path, format: str) -> None:
    assert "of one exchange: name its ID" in run(tape, "export", "--format", format, code=2).stderr


def test_parquet_of_many_rows_has_them_all(tape: Path, connection: Connection, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow.parquet")
    run(tape, "export", "--table", "chunks", "-o", str(tmp_path / "x.parquet"))
    table = arrow.read_table(tmp_path / "x.parquet")
    assert table.column_names == list(rows.CHUNK_FIELDS)
    assert table.num_rows == len(list(queries.all_chunks(connection)))


def test_a_schema_is_laid_out_for_people_on_a_terminal(tape: Path) -> None:
    shown = on_terminal(tape, "export", "--schema", "--table", "reads", columns=140)
    assert "T0 → when the socket gave it" in shown
    assert "\t" not in shown

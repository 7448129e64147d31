"""The tables, as people meet them who open a tape with plain SQL."""

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from tests.support.frames import begin, exchange, opened, record
from wiretape.recorder.decode.metrics import METRICS, Measures
from wiretape.recorder.tape import schema
from wiretape.recorder.tape.schema import measures, metadata


def test_measures_and_columns_are_the_same() -> None:
    fields = {field.name for field in dataclasses.fields(Measures)}
    assert {column.name for column in measures.columns} == {"exchange_no", *fields}


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)
def test_tables_have_meanings_and_fit_postgresql(table: Table) -> None:
    assert table.comment
    assert [column.name for column in table.c if not column.comment] == []
    assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=postgresql.dialect()))


def test_timestamps_are_named_for_their_unit() -> None:
    for table in metadata.sorted_tables:
        for column in table.columns:
            assert not column.name.endswith(("_ms", "_s", "_us")), column


def test_plain_sqlite_shows_each_columns_meaning_and_unit(tape: Path) -> None:
    with opened(tape):
        pass
    with closing(sqlite3.connect(tape)) as connection:
        statements = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        assert connection.execute("PRAGMA user_version").fetchone() == (int(schema.REVISION),)
    for table in metadata.sorted_tables:
        lines = statements[table.name].splitlines()
        for column in table.c:
            (line,) = (line for line in lines if line.split()[0] == column.name)
            assert f"-- {column.comment}" in line
            assert line.endswith(("; ns", "; ns since T0")) == column.name.endswith("_ns")
        assert lines[0] == f"CREATE TABLE {table.name} ( -- {table.comment}"


def test_the_statements_are_those_of_a_new_tape(tape: Path) -> None:
    with opened(tape):
        pass
    with closing(sqlite3.connect(tape)) as connection, closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(";".join(schema.statements()))
        for query in ("SELECT type, name, sql FROM sqlite_master", "PRAGMA user_version", "PRAGMA application_id"):
            assert memory.execute(query).fetchall() == connection.execute(query).fetchall()


def test_the_view_has_each_exchange_with_times_in_ms(tape: Path) -> None:
    with opened(tape) as store:
        record(store, [*exchange("e1"), begin("e2")])
    with closing(sqlite3.connect(tape)) as connection:
        connection.row_factory = sqlite3.Row
        finished, open_row = connection.execute("SELECT * FROM exchange_metrics ORDER BY no").fetchall()
    assert {name: finished[name] for name in ("id", "model", "outcome", "ttft_ms", "duration_ms", "output_chunks")} == {
        "id": "e1", "model": "gpt-test", "outcome": "complete", "ttft_ms": 4.0, "duration_ms": 7.0, "output_chunks": 2,
    }  # fmt: skip
    assert (open_row["id"], open_row["model"], open_row["outcome"], open_row["ttft_ms"]) == (
        "e2",
        "gpt-test",
        "open",
        None,
    )
    assert {f"{name[:-3]}_ms" if name.endswith("_ns") else name for name in METRICS} <= set(finished.keys())
    assert not any(isinstance(value, bytes) for value in finished)


def test_views_of_reads_read_the_requested_exchange_only(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1"))
    with closing(sqlite3.connect(tape)) as connection:
        for view in ("reads", "read_gaps"):
            plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM {view} WHERE exchange_no = 1").fetchall()
            steps = [step[3] for step in plan if "bodies" in step[3] or "segments" in step[3]]
            assert steps
            assert all(step.startswith("SEARCH ") for step in steps), steps


def test_the_view_withholds_what_lists_and_statistics_withhold(tape: Path) -> None:
    with opened(tape) as store:
        for number in range(3):
            record(store, exchange(f"e{number}"))
    with closing(sqlite3.connect(tape)) as connection:
        connection.execute("UPDATE measures SET tpot_ns = 2e6, tps_user = 500.0")
        connection.execute("UPDATE measures SET flags = 'burst' WHERE exchange_no = 2")
        connection.execute("UPDATE measures SET flags = 'empty hidden_tokens' WHERE exchange_no = 3")
        found = connection.execute("SELECT tpot_ms, tps_user FROM exchange_metrics ORDER BY no").fetchall()
        assert found == [(2.0, 500.0), (2.0, None), (None, None)]
        connection.rollback()

"""SQL of programs reads no text, ends in time, and finds no way round either limit."""

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import BigInteger, Column, LargeBinary, Text

from tests.support.agent_session import turns
from tests.support.cases import each_case
from tests.support.frames import begin, end, opened, record
from tests.support.sample_tape import frames, recorded
from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape.schema import metadata
from wiretape.viewer.source import sql

WITHHELD = {
    "sessions": {"salt"},
    "exchanges": {"request_headers", "request_body", "response_headers", "response_trailers"},
    "uploads": {"data"},
    "segments": {"data"},
    "client_segments": {"data"},
    "request_parts": {"data"},
    "bodies": {"data"},
    "client_bodies": {"data"},
    "measures": {
        "content", "reasoning", "refusal", "error_message", "tool_calls", "choices", "asked", "conversation_parent",
        "messages_hash", "continues_hash", "continued_answer_hash", "answer_hash",
    },
}  # fmt: skip
"""Columns with texts, and a key. A new column is withheld, too, unless it is opened by its name or its type."""


@pytest.fixture(scope="module")
def tape_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("sql") / "tape.db", list(frames()))


def asking(tape_path: Path, query: str, limit: int = 100, texts: bool = False) -> sql.SqlAnswer:
    return sql.answer(tape_path, query, limit, texts=texts)


@each_case("table", sorted(table for table in metadata.tables))
def test_columns_with_texts_are_withheld_and_keys_always(table: str) -> None:
    columns, texts = metadata.tables[table].c, WITHHELD.get(table, set())
    assert {column.name for column in columns if not sql.is_open(column, False)} >= texts
    assert {column.name for column in columns if not sql.is_open(column, True)} == texts & {"salt"}


def test_a_new_column_is_withheld_unless_it_holds_numbers() -> None:
    assert not sql.is_open(Column("new", Text), False)
    assert not sql.is_open(Column("new", LargeBinary), False)
    assert sql.is_open(Column("new", BigInteger), False)


@each_case(
    "query",
    [
        "SELECT content FROM measures",
        "SELECT * FROM measures",
        "SELECT m.content AS outcome FROM measures m",
        "SELECT length(request_body) FROM exchanges",
        "SELECT count(content) FROM measures",
        "SELECT json_object('a', content) FROM measures",
        "SELECT j.value FROM measures, json_each(tool_calls) j",
        "SELECT quote(x) FROM (SELECT content AS x FROM measures)",
        "SELECT group_concat(c) FROM (SELECT content AS c FROM measures)",
        "WITH x AS (SELECT content c FROM measures) SELECT c FROM x",
        "WITH measures_ AS MATERIALIZED (SELECT * FROM measures) SELECT outcome FROM measures_",
        "SELECT (SELECT content FROM measures LIMIT 1)",
        "SELECT id FROM exchanges UNION ALL SELECT content FROM measures",
        "SELECT id FROM exchanges INTERSECT SELECT content FROM measures",
        "SELECT 1 FROM measures WHERE content LIKE 'H%'",
        "SELECT 1 FROM measures ORDER BY content",
        "SELECT 1 FROM measures GROUP BY content",
        "SELECT max(content) OVER () FROM measures",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM measures WHERE content > 'a')",
        "SELECT 1 FROM measures a JOIN measures b ON a.content = b.content",
        "SELECT CASE WHEN content > 'a' THEN 1 END FROM measures",
        "SELECT request_headers ->> '$[0]' FROM exchanges",
        "SELECT data FROM bodies",
        "SELECT data FROM request_parts",
        "VALUES ((SELECT content FROM measures LIMIT 1))",
        "EXPLAIN SELECT content FROM measures",
        "SELECT count(*) FROM turns",
        "SELECT max(ttft_ms) FROM turns",
        "WITH turns AS (SELECT m.turns FROM measures m) SELECT * FROM turns",
    ],
)
def test_a_text_is_refused_wherever_a_query_reads_it(tape_path: Path, query: str) -> None:
    with pytest.raises(WiretapeError, match=r"holds recorded text: name other columns, or start .* with --with-text"):
        asking(tape_path, query)


@each_case("query", ["SELECT asked FROM exchange_metrics", "SELECT asked || '' AS asked FROM exchange_metrics"])
def test_a_views_text_is_null_and_reported_withheld(tape_path: Path, query: str) -> None:
    answer = asking(tape_path, query)
    assert ({row[0] for row in answer.rows}, answer.withheld) == ({None}, ["asked"])


def test_requests_in_parts_are_withheld_as_whole_ones_are(tmp_path: Path) -> None:
    requests = turns(4)
    with opened(tape := tmp_path / "tape.db") as store:
        for number, request in enumerate(requests):
            record(store, [begin(f"e{number}", body=request), end(f"e{number}", [])])
    answer = asking(tape, "SELECT exchange_no, request_body FROM requests")
    assert (answer.rows, answer.withheld) == ([[no, None] for no in range(1, 5)], ["request_body"])
    with_texts = asking(tape, "SELECT request_body FROM requests", texts=True)
    assert with_texts.rows == [[f"{len(request)} bytes"] for request in requests]


@pytest.mark.damages
def test_a_view_that_another_program_made_gives_no_text(tape_path: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    foreign.write_bytes(tape_path.read_bytes())
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE VIEW more AS SELECT content AS outcome FROM measures")
        connection.execute("CREATE TABLE copies AS SELECT content FROM measures")
        connection.execute("DROP VIEW exchange_metrics")
        connection.execute("CREATE VIEW exchange_metrics AS SELECT content AS id FROM measures")
        connection.commit()
    for query in ("SELECT * FROM more", "SELECT * FROM copies"):
        with pytest.raises(WiretapeError, match=r"holds recorded text|is no table or view of a tape"):
            asking(foreign, query)
    assert {row[0] for row in asking(foreign, "SELECT id FROM exchange_metrics").rows} == {None}


@each_case(
    "query",
    [
        "DELETE FROM exchanges", "UPDATE measures SET outcome = 'x'", "INSERT INTO uploads VALUES (1, 2, 3)",
        "DROP TABLE exchanges", "CREATE TEMP TABLE t (a)", "CREATE VIEW v AS SELECT 1", "ATTACH 'x.db' AS x",
        "DETACH main", "PRAGMA query_only = 0", "PRAGMA table_info(measures)", "VACUUM INTO 'x.db'", "BEGIN", "COMMIT",
        "SELECT load_extension('x')", "SELECT fts3_tokenizer('simple')", "REINDEX", "ANALYZE",
        "SELECT name FROM pragma_table_info('measures')", "SELECT * FROM dbstat", "SELECT * FROM sqlite_dbpage",
        "SELECT * FROM sqlite_stmt", "SELECT 1; SELECT 2", "", "-- nothing",
    ],
)  # fmt: skip
def test_anything_but_one_select_from_the_tape_is_refused(tape_path: Path, query: str) -> None:
    content = tape_path.read_bytes()
    with pytest.raises(WiretapeError):
        asking(tape_path, query)
    assert tape_path.read_bytes() == content


@each_case(
    "query",
    [
        "SELECT * FROM exchange_metrics",
        "SELECT * FROM reads",
        "SELECT * FROM read_gaps",
        "SELECT name, sql FROM sqlite_master",
        "SELECT count(*) FROM measures",
        "SELECT rowid FROM measures",
        "SELECT j.key, j.value FROM measures, json_each(usage) j",
        "SELECT e.key FROM exchanges, json_each(labels) e",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3) SELECT count(*) FROM n",
        "SELECT outcome, count(*) OVER (PARTITION BY outcome) FROM measures",
        "SELECT id, ttft_ns / 1e6 FROM exchanges JOIN measures ON no = exchange_no WHERE started_at > '2026'",
    ],
)
def test_a_query_of_other_columns_is_answered(tape_path: Path, query: str) -> None:
    assert asking(tape_path, query).rows


def test_with_texts_they_are_answered_and_blobs_are_sizes(tape_path: Path) -> None:
    (row,) = asking(tape_path, "SELECT content, request_body FROM measures JOIN exchanges ON no = exchange_no LIMIT 1",
                   texts=True).rows  # fmt: skip
    assert row == ["Hello, world", "39 bytes"]


@each_case("texts", [False, True])
@each_case(
    "query",
    [
        "SELECT hex(salt) FROM (SELECT x'00' AS salt) FULL JOIN sessions USING(salt)",
        "SELECT content FROM (SELECT 'x' AS content) FULL JOIN measures USING(content)",
        "SELECT * FROM measures a natural full join measures b",
        "SELECT count(*) FROM measures a JOIN measures b/**/USING/**/(content)",
    ],
)
def test_a_join_whose_columns_nobody_judges_is_refused(tape_path: Path, query: str, texts: bool) -> None:
    with pytest.raises(WiretapeError, match="is refused, in quotes, too: join tables by ON"):
        asking(tape_path, query, texts=texts)


@each_case("texts", [False, True])
def test_the_key_of_the_hashes_is_never_answered(tape_path: Path, texts: bool) -> None:
    for query in ("SELECT salt FROM sessions", "SELECT * FROM sessions", "SELECT 1 FROM sessions WHERE salt > x'00'"):
        with pytest.raises(WiretapeError, match=r"sessions\.salt is a key, and never shown"):
            asking(tape_path, query, texts=texts)


def test_rows_beyond_the_limit_are_cut_and_reported(tape_path: Path) -> None:
    all_rows = asking(tape_path, "SELECT id FROM exchanges ORDER BY no")
    page = asking(tape_path, "SELECT id FROM exchanges ORDER BY no", limit=2)
    assert (page.rows, page.is_cut) == (all_rows.rows[:2], True)
    assert not all_rows.is_cut
    assert not asking(tape_path, "SELECT id FROM exchanges", limit=len(all_rows.rows)).is_cut


def test_a_query_is_stopped_after_a_second(tape_path: Path) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(WiretapeError, match="stopped after 1 s"):
        sql.answer(tape_path, endless, 1, texts=False, clock=Clock(itertools.count(0, 500_000_000).__next__))


def test_a_slow_functions_value_is_refused(tape_path: Path) -> None:
    for query in ("SELECT instr(hex(zeroblob(600000)), 'a')", "SELECT replace(zeroblob(2000000), 'a', '')"):
        with pytest.raises(WiretapeError, match="a value of it is longer than 1,048,576 bytes"):
            asking(tape_path, query)


def test_a_long_value_is_shortened(tape_path: Path) -> None:
    ((value,),) = asking(tape_path, "SELECT printf('%.*c', 500000, 'x')").rows
    assert (len(value), value[-1]) == (sql.LONGEST, "…")

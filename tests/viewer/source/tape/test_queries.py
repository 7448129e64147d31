"""Queries: their rows, their order, and the messages where there are none."""

import itertools
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.support.cases import each_case
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, FAILED, LIMITED, LIVE, ODD, TOOLS, TRUNCATED
from wiretape.recorder import errors
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.query import values
from wiretape.viewer.query.parser import parse
from wiretape.viewer.query.values import TooSlow
from wiretape.viewer.record import rows
from wiretape.viewer.record.fields import FIELDS
from wiretape.viewer.source.tape import columns, conditions, exchange, queries

ALL = [COMPLETE, TOOLS, TRUNCATED]


def test_exchanges_come_oldest_first_and_newest_first_on_request(connection: Connection) -> None:
    ids = [row["id"] for row in queries.exchanges(connection)]
    assert ids[:3] == ALL
    assert [row["id"] for row in queries.exchanges(connection, newest_first=True)] == ids[::-1]


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 8])
def test_batches_neither_lose_nor_repeat_rows(
    connection: Connection, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = lists(connection)
    monkeypatch.setattr(Connection, "batch", batch)
    assert lists(connection) == expected


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_a_filter_comes_before_the_limit(connection: Connection, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "batch", batch)
    filter_ = conditions.condition(parse("is:err"))
    failed = queries.exchanges(connection, ("id",), newest_first=True, limit=3, where=filter_)
    assert [row["id"] for row in failed] == [ODD, FAILED, LIMITED]


def test_each_query_may_search_for_so_long_anew(tape: Path) -> None:
    filter_ = conditions.condition(parse('text~"o"'))
    with queries.opened(tape) as connection:
        expected = queries.count(connection, filter_)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(values, "QUERY_SECONDS", -1)
            with pytest.raises(TooSlow), queries.explained(tape):
                queries.count(connection, filter_)
        assert queries.count(connection, filter_) == expected > 1


def test_reads_and_chunks_belong_to_matching_exchanges(connection: Connection) -> None:
    filter_ = conditions.condition(parse("is:ok"))
    for source in (queries.all_reads, queries.all_chunks):
        expected = [row for row in source(connection) if row["id"] in (COMPLETE, TOOLS)]
        assert list(source(connection, filter_)) == expected
        assert expected != []


@pytest.mark.parametrize("batch", [1, 3, 1000])
@pytest.mark.parametrize(
    ("by", "descending", "ids"),
    [
        ("ttft_ms", False, [ODD, FAILED, TOOLS, TRUNCATED, COMPLETE, LIVE, LIMITED]),
        ("ttft_ms", True, [TRUNCATED, COMPLETE, TOOLS, FAILED, ODD, LIVE, LIMITED]),
        ("id", False, [COMPLETE, TOOLS, TRUNCATED, LIMITED, FAILED, ODD, LIVE]),
    ],
)
def test_orders_put_unknowns_last_and_newest_equals_first(
    connection: Connection, by: str, descending: bool, ids: list[str], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "batch", batch)
    ordered_rows = queries.ordered(connection, ("id",), by, descending=descending)
    assert [row["id"] for row in ordered_rows] == ids
    filter_ = conditions.condition(parse("ttft>=100ms"))
    limited = queries.ordered(connection, ("id",), by, descending=descending, limit=1, where=filter_)
    assert [row["id"] for row in limited] == [next(id for id in ids if id in (COMPLETE, TRUNCATED))]


def lists(connection: Connection) -> list[list[rows.TableRow]]:
    """Read everything that comes in batches; a batch that repeats itself ends after 100 rows."""
    row_sources = (
        queries.exchanges(connection),
        queries.exchanges(connection, newest_first=True),
        queries.exchanges(connection, newest_first=True, limit=5),
        queries.all_reads(connection),
        queries.all_chunks(connection),
    )
    return [list(itertools.islice(some, 100)) for some in row_sources]


@each_case(("limit", "count"), [(1, 1), (3, 3), (7, 7), (99, 7)])
def test_a_limit_is_the_number_of_rows(connection: Connection, limit: int, count: int) -> None:
    assert len(list(queries.exchanges(connection, newest_first=True, limit=limit))) == count


def test_a_complete_exchange_has_the_timestamps_that_were_recorded(connection: Connection) -> None:
    row = next(queries.exchanges(connection))
    assert tuple(row) == FIELDS
    known = (
        "model",
        "outcome",
        "ttfb_ms",
        "ttfc_ms",
        "ttft_ms",
        "ttst_ms",
        "latency_ms",
        "duration_ms",
        "max_gap_ms",
    )
    assert [row[field] for field in known] == ["gpt-x-mini", "complete", 20.0, 100.0, 110.0, 10.0, 170.0, 180.0, 50.0]
    assert (row["reads"], row["events"], row["output_chunks"], row["output_tokens"]) == (6, 8, 4, 4)


def test_an_open_exchange_counts_only_what_is_there(connection: Connection) -> None:
    row = queries.detail(connection, queries.find(connection, LIVE))
    counted = sum(len(data) for _, data in COMPLETE_READS[:2])
    assert (row.outcome, row.model, row.reads, row.bytes, row.flags) == ("open", "gpt-x", 2, counted, [])
    assert {rows.value(row, field) for field in FIELDS if field.endswith(("_ms", "_tokens"))} == {None}
    items = queries.observed(connection, queries.find(connection, LIVE))[2].items()
    assert [item.data[:1] for item in items] == ["{", "{"]


@each_case(
    ("reference", "id"),
    [
        ("@", LIVE),
        ("@-0", LIVE),
        ("@-6", COMPLETE),
        ("b000", TRUNCATED),
        (TOOLS, TOOLS),
        ("B000", TRUNCATED),
        ("@err", ODD),
        ("last", LIVE),
        ("@stall", TOOLS),
        ("@slow", TRUNCATED),
    ],
)
def test_an_exchange_is_found_by_prefix_or_by_age(connection: Connection, reference: str, id: str) -> None:
    assert queries.detail(connection, queries.find(connection, reference)).id == id


@each_case(
    ("reference", "message"),
    [
        ("aaaa", f"fits several exchanges: {COMPLETE}, {TOOLS}: give more"),
        ("bbbb", f"no exchange bbbb; the newest: {LIVE}, e0"),
        ("b00", "at least 4 characters"),
        ("@-7", "no exchange @-7; the newest"),
        ("@x", "@ is the newest"),
        ("@err-1", "@err a failed one"),
        ("%%%%", "no exchange %%%%"),
        ("\x1b[2Jx", "no exchange ␛[2Jx"),
    ],
)
def test_a_reference_that_fits_none_or_several_is_explained(
    connection: Connection, reference: str, message: str
) -> None:
    with pytest.raises(errors.NotFound) as failure:
        queries.find(connection, reference)
    assert message in str(failure.value)


def test_a_body_and_a_request_come_byte_for_byte(connection: Connection) -> None:
    assert queries.body(connection, queries.find(connection, COMPLETE)) == b"".join(data for _, data in COMPLETE_READS)
    request = queries.request(connection, queries.find(connection, "c000"))
    assert (request.body, request.text) == (b"\xff\xfe not UTF-8", None)
    assert "sk-secret" not in str(rows.request(request))


def test_a_reader_holds_no_transaction_between_rows(tape: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tape.db"
    shutil.copy(tape, copy)
    with queries.opened(copy) as connection:
        found = queries.exchanges(connection)
        next(found)
        with sqlite3.connect(copy) as writer:
            busy, _, _ = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        writer.close()
    assert busy == 0


def test_what_one_transaction_reads_is_of_one_moment(tape: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tape.db"
    shutil.copy(tape, copy)
    count = "SELECT count(*) FROM segments"
    with queries.opened(copy) as connection, connection.begin():
        count_before = connection.exec_driver_sql(count).scalar()
        with sqlite3.connect(copy) as writer:
            writer.execute("INSERT INTO segments VALUES (1, 0, 0, '[]', '[]', '[]', x'00')")
        within = connection.exec_driver_sql(count).scalar()
        writer.execute("DELETE FROM segments WHERE exchange_no = 1")
        writer.commit()
        writer.close()
    assert (count_before, within) == (1, 1)


def test_a_reader_cannot_write(connection: Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match=r"readonly|read-only"):
        connection.driver.execute("DELETE FROM segments")


def test_a_missing_tape_and_a_foreign_file_are_distinguished(tmp_path: Path) -> None:
    other_tape = tmp_path / "other.db"
    with sqlite3.connect(other_tape) as foreign:
        foreign.execute("CREATE TABLE t (x)")
    foreign.close()
    with pytest.raises(errors.ForeignFile, match="another application's database"), queries.opened(other_tape):
        pass
    with pytest.raises(errors.NotFound, match="no tape at"), queries.opened(tmp_path / "none.db"):
        pass


@pytest.mark.damages
def test_a_newer_schema_is_refused(tape: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tape.db"
    shutil.copy(tape, copy)
    with sqlite3.connect(copy) as writer:
        writer.execute("UPDATE alembic_version SET version_num = '9999'")
    writer.close()
    with pytest.raises(errors.SchemaMismatch, match="newer"), queries.opened(copy):
        pass


def harmed(tape: Path, tmp_path: Path, harm: str) -> Path:
    copy = tmp_path / "tape.db"
    shutil.copy(tape, copy)
    with sqlite3.connect(copy) as writer:
        writer.execute(f"UPDATE {harm}")
    writer.close()
    return copy


@pytest.mark.damages
def test_damaged_values_are_unknown_with_a_line_each(tape: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    copy = harmed(tape, tmp_path, "measures SET tool_calls = '[{', ttft_ns = 'soon', icl = x'01' WHERE exchange_no = 2")
    with queries.opened(copy, messages.append) as connection:
        row = queries.detail(connection, 2)
        assert (row.tool_calls, row.ttft_ms, row.outcome) == (None, None, "complete")
        assert [gaps for id, gaps in queries.packed_gaps(connection) if id == TOOLS] == [b""]
    assert messages == [
        f"exchange {TOOLS} is damaged: measures.icl is a blob of 1 bytes, not a packed array of numbers; "
        "measures.tool_calls is text, not JSON of its shape; measures.ttft_ns is text, not a number of nanoseconds: "
        "run 'wiretape db rebuild'"
    ]


@pytest.mark.damages
def test_a_damaged_body_is_reported_and_empty_not_raw(tape: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    with queries.opened(
        harmed(tape, tmp_path, "bodies SET data = x'00' WHERE exchange_no = 1"), messages.append
    ) as connection:
        assert queries.observed(connection, 1)[2].items() == []
        assert len(list(queries.all_chunks(connection))) > 1
        with pytest.raises(errors.TapeDamaged, match="see 'wiretape db check'"):
            queries.body(connection, 1)
    assert messages == [f"exchange {COMPLETE} is damaged: its body cannot be unpacked: see 'wiretape db check'"]


def test_exchanges_are_counted_and_numbered_as_a_filter_says(connection: Connection) -> None:
    assert queries.count(connection) == len(list(queries.numbers(connection))) == 7
    failed = conditions.condition(parse("is:err"))
    assert queries.count(connection, failed) == len(list(queries.numbers(connection, failed))) > 0


def test_any_number_of_exchanges_can_be_named(connection: Connection) -> None:
    assert list(queries.numbers(connection, columns.among([3, 1, 3]))) == [1, 3]
    assert queries.count(connection, columns.among(range(50_000))) == 7
    assert queries.count(connection, columns.among([])) == 0


def test_an_exchange_is_read_as_a_whole(connection: Connection) -> None:
    recorded = exchange.full(connection, queries.find(connection, COMPLETE))
    assert recorded.body == queries.body(connection, queries.find(connection, COMPLETE))
    assert (recorded.row.outcome, recorded.row.model, len(recorded.reads)) == ("complete", "gpt-x-mini", 6)
    assert len(recorded.decoded.kinds) == 9

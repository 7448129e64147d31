import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy.exc import OperationalError

from tests.support.frames import bodies_of, exchange, opened, outcomes_of, reading, record, snapshot
from wiretape.recorder.errors import (
    ForeignFile,
    NotFound,
    SchemaMismatch,
    TapeBusy,
    TapeDamaged,
    TapeError,
    WiretapeError,
)
from wiretape.recorder.tape import definitions, file, peek, reader
from wiretape.recorder.tape.peek import APPLICATION_ID
from wiretape.recorder.tape.schema import metadata


@pytest.fixture
def umask_0() -> Iterator[None]:
    mask = os.umask(0)
    yield
    os.umask(mask)


def write(path: Path, purpose: str = "another") -> None:
    with file.writing(path, purpose):
        pass


def read_all(path: Path) -> None:
    file.read_engine(path)


def sqlite(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def make_text(path: Path) -> None:
    path.write_text("dear diary")


def make_database(path: Path) -> None:
    sqlite(path, "CREATE TABLE theirs (it)")


def make_other_application(path: Path) -> None:
    sqlite(path, "PRAGMA journal_mode=WAL", "PRAGMA application_id=1234", "CREATE TABLE exchanges (it)")


def make_stub(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00")


def make_newer(path: Path) -> None:
    write(path)
    sqlite(path, "UPDATE alembic_version SET version_num = '9999'")


def make_unreleased(path: Path) -> None:
    write(path)
    sqlite(path, "UPDATE alembic_version SET version_num = '0024'")


def make_damaged(path: Path) -> None:
    write(path)
    with path.open("r+b") as opened_file:
        opened_file.seek(100)
        opened_file.write(b"\xff" * 3000)


REFUSED = [
    (make_text, ForeignFile, 8, "is not a database"),
    (make_stub, ForeignFile, 8, "another application's database"),
    (make_database, ForeignFile, 8, "another application's database"),
    (make_other_application, ForeignFile, 8, "another application's database"),
    (Path.mkdir, ForeignFile, 8, "not a regular file"),
    (os.mkfifo, ForeignFile, 8, "not a regular file"),
    (make_newer, SchemaMismatch, 5, "use a newer wiretape"),
    (make_unreleased, SchemaMismatch, 5, "is not supported"),
    (make_damaged, TapeDamaged, 3, "is damaged"),
]


@pytest.mark.damages
@pytest.mark.parametrize("access", [write, read_all])
@pytest.mark.parametrize(("make", "error", "code", "words"), REFUSED, ids=lambda it: getattr(it, "__name__", None))
def test_a_foreign_file_is_refused_and_stays_unchanged(  # type: ignore[no-untyped-def]
    tape: Path, access, make, error, code, words
) -> None:
    make(tape)
    files = snapshot(tape.parent)
    with pytest.raises(TapeError, match=words) as raised:
        access(tape)
    assert (type(raised.value), raised.value.exit_code) == (error, code)
    assert str(tape) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert snapshot(tape.parent) == files


@pytest.mark.damages
def test_a_newer_tape_with_a_wal_stays_unchanged(tape: Path) -> None:
    make_newer(tape)
    with closing(sqlite3.connect(tape)) as connection_beside:  # keeps the -wal from being merged
        connection_beside.execute("UPDATE alembic_version SET version_num = '9998'")
        connection_beside.commit()
        files = snapshot(tape.parent)
        with pytest.raises(SchemaMismatch, match="9998"):
            write(tape)
        assert snapshot(tape.parent) == files


@pytest.mark.parametrize("access", [read_all, lambda path: write_existing(path)])
def test_looking_for_a_tape_does_not_make_one(tape: Path, access) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(NotFound, match="no tape at"):
        access(tape)
    assert snapshot(tape.parent) == {}


def write_existing(path: Path) -> None:
    with file.writing(path, "another", create=False):
        pass


def test_a_new_tape_may_not_have_a_texts_name(tmp_path: Path) -> None:
    with pytest.raises(ForeignFile, match="name another, such as tape"):
        write(tmp_path / "tape.jsonl")
    assert not list(tmp_path.iterdir())


def test_even_root_does_not_write_a_read_only_tape(tape: Path) -> None:
    write(tape)
    tape.chmod(0o444)
    files = snapshot(tape.parent)
    with pytest.raises(TapeBusy, match="is read-only: make it writable") as raised:
        write(tape)
    assert raised.value.exit_code == 6
    assert snapshot(tape.parent) == files


def test_a_read_only_directory_hides_an_unclosed_tape(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tape)
    Path(f"{tape}-wal").touch()
    monkeypatch.setattr("os.access", lambda *_: False)
    refused = sqlite3.OperationalError("unable to open database file")
    refused.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    with pytest.raises(TapeBusy, match=r"copy tape\.db and tape\.db-wal to another"), peek.explained(tape):
        raise refused


def test_the_refusal_of_a_second_writer_names_the_first(tape: Path) -> None:
    link = tape.with_name("link.db")
    with opened(tape) as store:
        link.symlink_to(tape)
        record(store, exchange("e1"))
        files = snapshot(tape.parent)
        for path in (tape, link):
            with pytest.raises(TapeBusy, match=r"tape\.db is being written by a test \(pid \d+\): stop it") as raised:
                write(path)
            assert raised.value.exit_code == 6
        assert snapshot(tape.parent) == files
    write(link)


def test_a_tape_that_another_program_locks_is_busy(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "BUSY_MS", 20)
    write(tape)
    content = tape.read_bytes()
    with closing(sqlite3.connect(tape, isolation_level=None)) as connection_beside:
        connection_beside.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TapeBusy, match="locked by another program"), opened(tape):
            pass
    assert tape.read_bytes() == content


def test_a_new_tapes_files_are_private_at_once(tape: Path, umask_0: None) -> None:
    new = tape.parent / "a" / "tape.db"
    with opened(new) as store:
        record(store, exchange("e1"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in new.parent.iterdir()}
    assert modes == dict.fromkeys(("tape.db", "tape.db-wal", "tape.db-shm", "tape.db.lock"), 0o600)
    assert new.parent.stat().st_mode & 0o777 == 0o700
    assert not file.too_open(new)
    new.chmod(0o640)
    assert file.too_open(new)


def test_each_commit_is_synced_and_no_wal_remains(tape: Path) -> None:
    with file.writing(tape, "a test") as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "application_id")
        }
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "application_id": APPLICATION_ID,
    }
    assert {path.name for path in tape.parent.iterdir()} == {"tape.db", "tape.db.lock"}


def test_a_reader_sees_commits_and_can_change_nothing(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1"))
        assert outcomes_of(tape) == {"e1": "complete"}
        with reading(tape) as connection, pytest.raises(OperationalError, match="readonly"):
            connection.exec_driver_sql("DELETE FROM bodies")


def test_a_tape_may_have_any_name(tape: Path) -> None:
    for name in ("with space.db", "100%.db", "a?mode=memory#b.db", "ünïcode.db", "quote'd.db", "plain"):
        path = tape.with_name(name)
        with opened(path) as store:
            record(store, exchange("e1"))
        assert list(bodies_of(path)) == ["e1"]


@pytest.mark.parametrize("statements", [(), (f"PRAGMA application_id={APPLICATION_ID}",)])
def test_the_next_writer_finishes_a_half_made_tape(tape: Path, statements: tuple[str, ...]) -> None:
    tape.touch(0o600)
    sqlite(tape, *statements)
    with pytest.raises(SchemaMismatch, match="was stopped before it began"):
        read_all(tape)
    write(tape)
    read_all(tape)


def test_a_tape_that_cannot_be_made_is_explained(tape: Path) -> None:
    (tape.parent / "file").touch()
    with pytest.raises(TapeError, match="record to another tape with --db"):
        write(tape.parent / "file" / "tape.db")


@pytest.mark.damages
def test_damage_that_shows_while_writing_is_called_so(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1"))
    pages, size = tape.stat().st_size // 4096, 4096
    with tape.open("r+b") as file:
        for page in range(2, pages):
            file.seek(page * size)
            file.write(b"\xff" * size)
    with pytest.raises(TapeDamaged, match="restore it from a backup"), opened(tape) as store:
        record(store, exchange("e2"))


def test_errors_do_not_quote_what_was_recorded(tape: Path) -> None:
    with opened(tape) as store:
        store.connection.connection.execute("PRAGMA query_only=ON")
        with pytest.raises(OperationalError) as raised:
            record(store, exchange("e1", [b"a confidential answer"]))
    assert "confidential" not in str(raised.value)


def altered(tape: Path, *statements: str) -> Path:
    """Return a tape whose schema another program has changed."""
    write(tape)
    with closing(sqlite3.connect(tape)) as connection:
        connection.executescript(";".join(statements))
    return tape


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS exchange_no FROM n"
FOREIGN = {
    "a trigger": ("CREATE TRIGGER t AFTER INSERT ON exchanges BEGIN DELETE FROM bodies; END", "holds the trigger t"),
    "a view": ("CREATE VIEW v AS SELECT 1", "holds the view v"),
    "a table": ("CREATE TABLE x (a)", "holds the table x"),
    "a unique index": ("CREATE UNIQUE INDEX i ON exchanges (started_at)", "holds the index i"),
    "a partial index": ("CREATE INDEX i ON exchanges (path) WHERE status > 200", "holds the index i"),
    "an index of an expression": ("CREATE INDEX i ON exchanges (length(path))", "holds the index i"),
    "another column": ("ALTER TABLE bodies ADD COLUMN x INTEGER", "another definition of the table bodies"),
    "another view of that name": (
        "DROP VIEW exchange_metrics; CREATE VIEW exchange_metrics AS SELECT 1",
        "has another definition of the view exchange_metrics",
    ),
    "no view": ("DROP VIEW exchange_metrics", "lacks the view exchange_metrics"),
    "a missing index": ("DROP INDEX ix_exchanges_ended_by", "lacks the index ix_exchanges_ended_by"),
}


@pytest.mark.parametrize("statement_name", FOREIGN)
def test_a_tape_with_a_foreign_schema_is_only_read(tape: Path, statement_name: str) -> None:
    statement, reason = FOREIGN[statement_name]
    altered(tape, statement)
    files = snapshot(tape.parent)
    with pytest.raises(ForeignFile, match=f"{reason}, so it is only read") as raised:
        write(tape)
    assert raised.value.exit_code == 8
    assert snapshot(tape.parent) == files
    with file.read_engine(tape).connect():
        pass


@pytest.mark.parametrize(
    "statement_name", ["TABLE theirs (it)", "VIEW theirs AS SELECT 1", "INDEX theirs ON bodies (size)"]
)
def test_a_look_at_a_tape_finds_foreign_names(tape: Path, statement_name: str) -> None:
    write(tape)
    assert peek.check_writable(tape)
    sqlite(tape, f"CREATE {statement_name}")
    assert not peek.check_writable(tape)


def test_a_users_plain_indexes_and_statistics_are_allowed(tape: Path) -> None:
    write(altered(tape, "CREATE INDEX mine ON exchanges (path, status)", "ANALYZE"))


@pytest.mark.damages
@pytest.mark.parametrize("name", ["measures", "EXCHANGES", "alembic_version"])
def test_a_view_in_place_of_a_table_is_refused(tmp_path: Path, name: str) -> None:
    tape = altered(tmp_path / "tape.db", f"DROP TABLE {name}", f"CREATE VIEW {name} AS {ENDLESS}")
    with pytest.raises(ForeignFile, match=f"holds {name} as a view, not as a table of rows") as raised:
        file.read_engine(tape)
    assert raised.value.exit_code == 8
    with pytest.raises(ForeignFile):
        write(tape)


@pytest.mark.damages
def test_a_virtual_table_is_not_read(tmp_path: Path) -> None:
    tape = altered(tmp_path / "tape.db", "DROP TABLE segments", "CREATE VIRTUAL TABLE segments USING fts5(data)")
    with pytest.raises(ForeignFile, match="holds segments as a virtual table"):
        file.read_engine(tape)


@pytest.mark.damages
def test_a_computed_column_is_not_read(tmp_path: Path) -> None:
    computed = "ALTER TABLE bodies ADD COLUMN x GENERATED ALWAYS AS (zeroblob(1000000000)) VIRTUAL"
    tape = altered(tmp_path / "tape.db", computed)
    with pytest.raises(ForeignFile, match="holds bodies with the computed column x"):
        file.read_engine(tape)


def test_a_query_that_never_ends_is_stopped(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tape)
    monkeypatch.setenv("WIRETAPE_QUERY_TIMEOUT", "0.05")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with file.read_engine(tape).connect() as connection:
        with pytest.raises(TapeError, match=r"a query was stopped after 0\.05 s"), peek.explained(tape):
            connection.exec_driver_sql(endless)
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    with pytest.raises(TapeError, match=r"a query was stopped after 0\.05 s"), reader.opened(tape) as rows_reader:
        rows_reader.exec_driver_sql(endless)


def test_a_query_within_its_time_limit_completes(tape: Path) -> None:
    write(tape)
    long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000) SELECT count(*) FROM n"
    with file.read_engine(tape).connect() as connection, reader.opened(tape) as rows_reader:
        for execute in (connection.exec_driver_sql, rows_reader.driver.execute, rows_reader.exec_driver_sql):
            execute(long)


@pytest.mark.parametrize("limit", ["-1", "soon", "nan", "inf"])
def test_a_time_limit_that_is_none_is_refused(tape: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    write(tape)
    monkeypatch.setenv("WIRETAPE_QUERY_TIMEOUT", limit)
    with pytest.raises(WiretapeError, match="is not a number of seconds"):
        file.read_engine(tape)


@pytest.mark.parametrize(
    "definition",
    [
        "CREATE TABLE reads ( -- what a read, gave (\n  start BIGINT, -- ',\n  size INTEGER NOT NULL -- bytes\n)",
        'CREATE TABLE "reads"(size INTEGER /* , */ NOT NULL,start BIGINT)',
        "CREATE TABLE reads (start BIGINT, size INTEGER NOT NULL) /* to the end",
    ],
)
def test_comments_quotes_blanks_and_column_order_mean_nothing(definition: str) -> None:
    assert definitions.normalized(definition) == definitions.normalized(
        "CREATE TABLE reads (start BIGINT, size INTEGER NOT NULL)"
    )


@pytest.mark.parametrize(
    "trick",
    [
        '"size --" CHECK (1), x\n INTEGER NOT NULL',
        "[size --] CHECK (1), x\n INTEGER NOT NULL",
        "`size --` CHECK (1), x\n INTEGER NOT NULL",
        "size INTEGER NOT NULL DEFAULT '--' CHECK (1)",
        '"size INTEGER" NOT NULL',
    ],
)
def test_a_comment_within_a_string_is_no_comment(trick: str) -> None:
    plain = "CREATE TABLE reads (start BIGINT, size INTEGER NOT NULL)"
    definition = plain.replace("size INTEGER NOT NULL", trick)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(definition)
    assert definitions.normalized(definition) != definitions.normalized(plain)


def test_the_schemas_tables_must_be_plain() -> None:
    assert tuple(sorted([*metadata.tables, "alembic_version"])) == definitions.TABLES


@pytest.mark.parametrize(
    ("code", "free", "error", "words"),
    [
        (sqlite3.SQLITE_FULL, 1 << 30, TapeBusy, "the disk is full"),
        (sqlite3.SQLITE_IOERR_WRITE, 4096, TapeBusy, "the disk is full"),
        (sqlite3.SQLITE_IOERR_WRITE, 1 << 30, TapeError, "cannot be used (whatever)"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, 1 << 30, TapeBusy, "is locked by another program"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, 1 << 30, TapeBusy, "cannot be written (whatever)"),
        (None, 1 << 30, TapeDamaged, "is damaged (whatever)"),
    ],
)
def test_sqlites_errors_are_explained_by_their_codes(
    tape: Path, code: int | None, free: int, error: type[TapeError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    reported = sqlite3.OperationalError("whatever")
    if code is not None:
        reported.sqlite_errorcode = code
    with pytest.raises(error, match=re.escape(words)) as raised, peek.explained(tape):
        raise reported
    assert type(raised.value) is error


def test_bugs_of_ours_are_not_explained_as_damage(tape: Path) -> None:
    with pytest.raises(sqlite3.IntegrityError), peek.explained(tape):
        raise sqlite3.IntegrityError("a bug of ours")


@pytest.mark.damages
@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("DROP VIEW exchange_metrics; ALTER TABLE measures DROP COLUMN max_silence_ns", "measures.max_silence_ns"),
        ("ALTER TABLE exchanges RENAME COLUMN request_sha256 TO x", "exchanges.request_sha256"),
        ("DROP TABLE segments", "segments.exchange_no"),
    ],
)
def test_a_missing_column_is_refused_in_one_line(tape: Path, statement: str, missing: str) -> None:
    altered(tape, statement)
    with pytest.raises(SchemaMismatch, match=f"lacks {missing}:.*name another tape"):
        file.read_engine(tape).connect()
    with pytest.raises(SchemaMismatch, match=f"lacks {missing}:"):
        write(tape)

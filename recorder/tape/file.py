"""The tape as a file: its place, its identification, the right to write it, and the two ways to connect to it.

A tape is created with mode 0600 before SQLite sees it, so that its `-wal` and `-shm` are private too. It has one writer
at a time: the holder of an advisory lock on `<tape>.lock`. Everybody else connects with `mode=ro`. SQLite before 3.51.3
has a WAL-reset bug that needs two connections that write or checkpoint; there is only ever one.

A new tape is made from `wiretape.recorder.tape.schema`; an older one is brought to it by the migrations. Its rows are
written by `wiretape.recorder.tape.append` and `settle`.
"""

import contextlib
import glob
import json
import operator
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, pool
from sqlalchemy.exc import SQLAlchemyError

from wiretape.recorder import paths
from wiretape.recorder.errors import (
    ForeignFile,
    TapeError,
    WiretapeError,
)
from wiretape.recorder.tape import definitions, reader, schema
from wiretape.recorder.tape import lock as locking
from wiretape.recorder.tape.column_types import damage_of
from wiretape.recorder.tape.peek import (
    APPLICATION_ID,
    BUSY_MS,
    REVISION,
    check_revision,
    connect,
    explained,
    identify,
    peeked,
    query_seconds,
    revision,
    set_up_reader,
    uri_of,
)
from wiretape.recorder.tape.reader import check_columns
from wiretape.recorder.tape.schema import metadata

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = "tape_lock"
_READER = "reader"


def read_engine(path: Path, *, limited: bool = True) -> Engine:
    """Connect for reading only; raises `NotFound`, `ForeignFile`, `SchemaMismatch` or `TapeError`.

    If `limited`, each query may take `query_seconds`.
    """
    reader.check(path)
    seconds = query_seconds() if limited else 0
    return _engine(lambda: reader.connect(path, seconds))


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Connection]:
    """Connect for reading only, with errors `explained`; raises as `read_engine` does."""
    with explained(path), read_engine(path).connect() as connection:
        yield connection


def reader_beside_writer(path: Path) -> Engine:
    """Connect for reading in the process that writes the tape.

    Only SQLite opens the file there: closing any other descriptor of it drops the locks that SQLite holds.
    """
    path = paths.real(path)
    engine = _engine(lambda: connect(uri_of(path, settled=False)))
    event.listen(engine, "connect", lambda connection, _: set_up_reader(connection, path))
    return engine


def _check_ours(connection: sqlite3.Connection, path: Path, number: str | None) -> None:
    """Raise `ForeignFile` unless a tape has exactly the definitions of its revision (None: it has none yet)."""
    if number == REVISION:
        check_columns(connection, path)
    # SQLAlchemy's default pool of a database in memory closes no connection.
    with create_engine("sqlite://", poolclass=pool.NullPool).connect() as empty:
        if number == REVISION:
            _make_schema(empty)
        elif number is not None:
            migrate(empty, number)
        expected = definitions.entries(driver_of(empty))
    replaced = () if number == REVISION else schema.VIEWS  # a migration replaces them
    if reason := definitions.foreign(connection, expected, replaced):
        raise ForeignFile(
            f"{path} {reason}, so it is only read, and not written to: record to another tape with --db; "
            "'wiretape db merge' copies the exchanges of this one"
        )


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Return SQLite's own connection."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def reader_of(connection: Connection) -> reader.Connection:
    """Return a reader over SQLite's own connection, in the same transactions and with the same damage."""
    tape_reader = connection.info.get(_READER)
    if tape_reader is None or tape_reader.driver is not driver_of(connection):
        tape_reader = connection.info[_READER] = reader.Connection(driver_of(connection), damage_of(connection))
    return tape_reader


def statements(path: Path) -> list[str]:
    """Return the SQL that makes a tape with this tape's schema, of any revision."""
    identify(path)
    with peeked(paths.real(path)) as driver:
        numbers = [
            f"PRAGMA {name} = {driver.execute(f'PRAGMA {name}').fetchone()[0]}"
            for name in ("auto_vacuum", "application_id", "user_version")
        ]
        rows = driver.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
        return [*numbers, *(str(sql) for (sql,) in rows)]


@contextlib.contextmanager
def writing(
    path: Path,
    purpose: str,
    *,
    create: bool = True,
    claimed: locking.Claim | None = None,
) -> Iterator[Connection]:
    """Open the tape for writing: lock it, create it if it does not exist, check it, and connect.

    `purpose` describes the holder to others that find the tape taken; a writer has the lock that its client `claimed`.
    Raises `TapeError` and its kinds; nothing has been written then, not even a lock.
    """
    try:
        path = _admit(path, create=create)
    except WiretapeError:
        if claimed is not None:
            claimed.withdraw()
        raise
    holding = locking.held(path, purpose) if claimed is None else locking.adopted(claimed, purpose)
    with holding as lock:
        if not paths.exists(path):
            _create(path)
        with lock.on_file():  # before SQLite opens the file
            engine = _writer(path)
            with explained(path), engine.connect() as connection:
                _prepare(connection, path)
            with explained(path), engine.connect() as connection:
                lock.renew()
                connection.info[_LOCK] = lock
                try:
                    yield connection
                finally:  # the log of a moved tape would be taken for that of the next file of its name
                    with contextlib.suppress(SQLAlchemyError, sqlite3.Error):
                        connection.rollback()
                        connection.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _writer(path: Path) -> Engine:
    engine = _engine(lambda: connect(paths.sqlite_uri(path, "mode=rw")))
    event.listen(engine, "connect", _set_up_writer)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def keep_lock(connection: Connection) -> None:
    """Put the lock file of a tape that is held for writing back, if it was removed. Raises `TapeGone`."""
    connection.info[_LOCK].renew()


def name_holder(connection: Connection, purpose: str) -> None:
    """Write another purpose of holding the tape into its lock file."""
    connection.info[_LOCK].write_holder(purpose)


def _admit(path: Path, *, create: bool, is_upgrade: bool = False) -> Path:
    """Return the real path; raise, without leaving a trace, unless it may become, or is, a tape to be written."""
    if not create:
        identify(path)
    locking.check_place(path)
    path = paths.real(path)
    if not paths.exists(path):
        return path
    identify(path)
    with peeked(path) as driver:
        number = revision(driver)
        if number is not None:
            check_revision(number, path, is_upgrade=is_upgrade)
        _check_ours(driver, path, number)
    return path


def _engine(creator: Callable[[], sqlite3.Connection]) -> Engine:
    return create_engine(
        "sqlite+pysqlite://",
        creator=creator,
        poolclass=pool.NullPool,
        json_serializer=compact_json,
        hide_parameters=True,  # they are recorded data, and errors are printed
    )


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def compact_json(value: Any) -> str:
    return _COMPACT.encode(value)


def _create(path: Path) -> None:
    """Make the file private before SQLite opens it, and make its name durable."""
    if not paths.exists(path.parent):
        path.parent.mkdir(mode=0o700, parents=True)
    # SQLite gives `-wal` and `-shm` the mode of the tape when it makes them: a later chmod would not change theirs.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        cure = paths.shortage(path) or "record to another tape with --db"
        raise TapeError(f"{path} cannot be created ({error.strerror}): {cure}") from error
    # SQLite does this for its journals only: without it, a power cut soon after could lose the whole tape.
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


def _set_up_writer(connection: sqlite3.Connection, _: Any) -> None:
    # A transaction that begins by reading fails at once when it writes after another's commit, without a wait for the
    # lock: so each begins by BEGIN IMMEDIATE.
    connection.isolation_level = None
    # With `synchronous=NORMAL`, a power cut may cost all commits since the last checkpoint, which can be hours; FULL
    # costs one fsync a commit. `fullfsync` is macOS's, whose fsync leaves data in the disk's cache.
    settings = ("synchronous=FULL", "fullfsync=1", "foreign_keys=ON", "trusted_schema=OFF", "cell_size_check=ON")
    # A reader that takes long keeps the log from being reset; without a limit, it would stay as large afterwards.
    for setting in (f"busy_timeout={BUSY_MS}", f"journal_size_limit={64 << 20}", *settings):
        connection.execute(f"PRAGMA {setting}")


def _prepare(connection: Connection, path: Path) -> None:
    """Make an empty file a tape; the header is written before WAL mode, so that it is in the file itself."""
    driver = driver_of(connection)
    if driver.execute("PRAGMA application_id").fetchone()[0] == 0:
        driver.execute("BEGIN")  # between the two, others would take the file for another application's
        driver.execute(f"PRAGMA auto_vacuum={schema.AUTO_VACUUM}")  # before anything is written
        driver.execute(f"PRAGMA application_id={APPLICATION_ID}")
        driver.execute("COMMIT")
    driver.execute("PRAGMA journal_mode=WAL")
    if revision(driver) is None:
        connection.rollback()
        with connection.begin():
            _make_schema(connection)
    check_revision(revision(driver), path)


def _make_schema(connection: Connection) -> None:
    for statement in schema.statements():
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (REVISION,))


def _alembic() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    return config


def migrate(connection: Connection, target: str = "head") -> None:
    """Bring an older tape's schema to this program's, or to another revision, inside the connection's transaction."""
    from alembic import command

    config = _alembic()
    config.attributes["connection"] = connection
    # A table that a view names cannot be replaced.
    views = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'view'").scalars().all()
    for name in set(views) & set(schema.VIEWS):
        connection.exec_driver_sql(f"DROP VIEW {name}")
    command.upgrade(config, target)
    if target == "head":
        _describe(connection)


def _describe(connection: Connection) -> None:
    """Add the views, and comments to the definitions of a tape that older versions made, for people.

    SQLite documents this way to change a definition where the data stays as it is (ALTER TABLE, section 7).
    """
    connection.exec_driver_sql(f"PRAGMA user_version = {int(REVISION)}")
    for view in schema.views():
        connection.exec_driver_sql(view)
    (version,) = connection.exec_driver_sql("PRAGMA schema_version").one()
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    for table in (schema.alembic_version, *metadata.tables.values()):
        entry = "WHERE type = 'table' AND name = ?"
        (sql,) = connection.exec_driver_sql(f"SELECT sql FROM sqlite_master {entry}", (table.name,)).one()
        commented = schema.commented(table, sql)
        assert definitions.normalized(commented) == definitions.normalized(sql)
        connection.exec_driver_sql(f"UPDATE sqlite_master SET sql = ? {entry}", (commented, table.name))
    connection.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    connection.exec_driver_sql("PRAGMA writable_schema = OFF")


def scripts() -> Path:
    """Return the directory of the migrations: in an installed wiretape inside the package, else beside it."""
    package = Path(__file__).parents[1]
    shipped = package / "migrations"
    return shipped if paths.is_directory(shipped) else paths.real(package).parent / "migrations"


def upgrade(
    path: Path, purpose: str, report: Callable[[int, int], None] = lambda done, total: None
) -> tuple[str, Path] | None:
    """Migrate a tape of an older schema to this program's; return the old schema, and the new path of the old tape.

    None: it has this program's schema.

    A copy beside it is migrated and takes its place at the end. Until then the tape does not change; the copy of an
    interrupted upgrade is continued. Tape and copy take at most twice the tape's space. `report` gets the amount of
    work done, and the total. Raises `TapeError` and its kinds.
    """
    path = _admit(path, create=False, is_upgrade=True)
    with locking.held(path, purpose) as lock, lock.on_file():
        with explained(path), _writer(path).connect() as connection:
            old_revision = revision(driver_of(connection))
            if old_revision in (REVISION, None):
                return None
            work = _work_beside(connection, path)
        with explained(work), _writer(work).connect() as connection:
            _migrate_by_steps(connection, report)
        return str(old_revision), _put_in_place(path, work)


def _work_beside(connection: Connection, path: Path) -> Path:
    """Return a copy of the tape to migrate: a new one, or that of an interrupted upgrade.

    Its name has the tape's time and size: a copy of a tape that has changed since is not used.
    """
    connection.rollback()
    driver = driver_of(connection)
    # Its log is moved into the tape, and no other process may have it open: that would continue with the old file.
    driver.execute("PRAGMA journal_mode=DELETE")
    status = path.stat()
    work = path.with_name(f"{path.name}.{status.st_mtime_ns:x}-{status.st_size:x}.upgrading")
    for leftover in path.parent.glob(f"{glob.escape(path.name)}.*.upgrading*"):
        if not leftover.name.startswith(work.name) or not paths.exists(work):
            leftover.unlink()
    if not paths.exists(work):
        _back_up(connection, path, f"{work.name.removeprefix(path.name + '.')}.begun").rename(work)
    return work


def _migrate_by_steps(connection: Connection, report: Callable[[int, int], None]) -> None:
    """Migrate a tape that no other process has open; a migration's `steps` are committed one by one."""
    from alembic.script import ScriptDirectory

    driver = driver_of(connection)
    driver.execute("PRAGMA journal_mode=WAL")
    # A migration may replace a table that others refer to; SQLite asks for this outside of the transaction.
    driver.execute("PRAGMA foreign_keys=OFF")
    number = revision(driver) or ""
    connection.rollback()
    scripts = ScriptDirectory.from_config(_alembic()).walk_revisions()
    for script in sorted(scripts, key=operator.attrgetter("revision")):
        if script.revision > number and hasattr(script.module, "steps"):
            with connection.begin():
                migrate(connection, script.module.down_revision)
            for done, total in script.module.steps(connection):
                report(done, total)
    with connection.begin():
        migrate(connection)
    while driver.execute("PRAGMA freelist_count").fetchone()[0]:
        driver.executescript("PRAGMA incremental_vacuum(1000)")  # `execute` would free one page
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _put_in_place(path: Path, work: Path) -> Path:
    """Put a migrated copy in the place of the tape, and return where the tape is now."""
    old_tape = path.with_name(f"{path.name}.before-{REVISION}")
    with work.open("rb") as file:
        os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
        os.fsync(file.fileno())
    old_tape.unlink(missing_ok=True)
    try:
        old_tape.hardlink_to(path)  # so that there is a tape at any moment
    except OSError:  # a file system without links
        path.rename(old_tape)
    work.replace(path)
    _sync_directory(path.parent)
    return old_tape


def too_open(path: Path) -> bool:
    """Return True if others on this machine may read the tape."""
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _back_up(connection: Connection, path: Path, name: str) -> Path:
    """Copy the tape to a private and durable file beside it; the connection may not be in a transaction."""
    copy = path.with_name(f"{path.name}.{name}")
    copy.unlink(missing_ok=True)
    _create(copy)
    connection.connection.execute("VACUUM INTO ?", (paths.sqlite_uri(copy, "mode=rw"),))
    with copy.open("rb") as file:  # SQLite does not
        os.fsync(file.fileno())
    return copy

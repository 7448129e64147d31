"""A look at a tape's file by SQLite alone: what it is, its schema's revision, and errors in words.

Commands and relays begin with it, before a library for the database is loaded.
"""

import contextlib
import hashlib
import math
import operator
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import (
    DAMAGED,
    ForeignFile,
    NotFound,
    SchemaMismatch,
    SchemaMissing,
    TapeBusy,
    TapeDamaged,
    TapeError,
    WiretapeError,
    sqlite_code,
)
from wiretape.recorder.tape import definitions

APPLICATION_ID = 0x77746170
"""SQLite's `application_id` of every tape: the letters `wtap`."""
REVISION = "0001"
"""The alembic revision that this program reads and writes; as a number, the `user_version` of a tape."""
BUSY_MS = 5000
QUERY_SECONDS = 60.0
"""Default timeout of a query for reading, in seconds; `WIRETAPE_QUERY_TIMEOUT` sets another (0: none).

The longest known query, counting over 10 million exchanges, takes a tenth of it: reading comes in batches.
"""
_MAGIC = b"SQLite format 3\x00"
_ID_OFFSET = 68


def command(words: str, path: Path) -> str:
    """Return a command for a tape as messages quote it."""
    return f"'wiretape {words} --db {paths.argument(path)}'"


def identify(path: Path) -> None:
    """Raise unless `path` is a tape: `NotFound`, `ForeignFile`, or `TapeBusy` if the system lets nobody look.

    Reads the file's header and nothing else.
    """
    if reason := paths.refusal(path):
        raise _unreadable(path, reason)
    if not paths.exists(path):
        raise NotFound(f"no tape at {path}: record one with 'wiretape record', or name another with --db")
    if not paths.is_file(path):
        raise ForeignFile(f"{path} is not a regular file, so it cannot be a tape: name another with --db")
    if _application_id(path) == APPLICATION_ID:
        return
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    application_id = int.from_bytes(head[_ID_OFFSET : _ID_OFFSET + 4], "big")
    if head and (not head.startswith(_MAGIC) or application_id != APPLICATION_ID):
        kind = "another application's database" if head.startswith(_MAGIC) else "not a database"
        raise ForeignFile(f"{path} is {kind}, not a wiretape tape: name another with --db")


def _unreadable(path: Path, reason: str) -> TapeBusy:
    return TapeBusy(f"{path} cannot be read ({reason}): ask its owner, or name another with --db")


def _application_id(path: Path) -> int:
    """Return a database's application id; 0 if it cannot be read.

    SQLite reads it: a process that closes a descriptor of its own loses the locks of its connections to the file.
    """
    uri = paths.sqlite_uri(paths.real(path), "mode=ro&immutable=1")
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            return int(connection.execute("PRAGMA application_id").fetchone()[0])
    except sqlite3.Error:
        return 0


NAMES_DIGEST = "3f5c9d438bc6e375"
"""A digest of the names in the schema of `REVISION`, as `names_digest` computes it."""


def check_writable(path: Path) -> bool:
    """Raise if SQLite shows within 0.05 s that a writer would refuse a tape; the writer checks the rest.

    Return False if the tape has other tables, columns, indexes, views or triggers than ours: it depends on them.
    """
    if is_there := paths.exists(path):
        identify(path)
    # A tape that has its schema may have room in its log, and its writer waits for more.
    if not (is_there and path.stat().st_size) and (reason := paths.shortage(path)):
        raise TapeError(f"{path} cannot be created: {reason}")
    if not is_there:
        return True
    with peeked(paths.real(path)) as driver:
        if (number := revision(driver)) is not None:
            check_revision(number, path)
        has_our_names = number is None or names_digest(driver) == NAMES_DIGEST
        _check_pages(driver, path)
    return has_our_names


def names_digest(driver: sqlite3.Connection) -> str:
    """Return a digest of the names of a schema's entries and columns: their definitions take longer to compare."""
    names = "SELECT m.type, m.name, c.name FROM sqlite_master AS m LEFT JOIN pragma_table_xinfo(m.name) AS c"
    rows = driver.execute(f"{names} WHERE m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    return hashlib.sha256(repr(sorted(map(str, rows))).encode("utf-8", "replace")).hexdigest()[:16]


def _check_pages(driver: sqlite3.Connection, path: Path) -> None:
    """Raise `TapeDamaged` if a page is, as far as can be seen in 0.05 s."""
    until = SYSTEM.now() + 50_000_000
    driver.set_progress_handler(lambda: SYSTEM.now() > until, 10_000)  # steps of SQLite's, less than a ms
    try:
        ((problem, *_), *_) = driver.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.OperationalError as error:
        if sqlite_code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
    else:
        if problem != "ok":
            raise damaged(path, problem)


def damaged(path: Path, problem: str) -> TapeDamaged:
    """Return the error for a tape that is not written to, as a check found a problem."""
    return TapeDamaged(
        f"{path} is damaged ({problem}): see {command('db check', path)}, restore it from a backup, or record to"
        " another tape with --db"
    )


@contextlib.contextmanager
def peeked(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect without leaving files behind, if possible: a tape without a `-wal` needs no `-shm`."""
    with explained(path), contextlib.closing(connect(uri_of(path, settled=is_settled(path)))) as connection:
        set_up_reader(connection, path)
        yield connection


def is_settled(path: Path) -> bool:
    """Return True if a tape has no `-wal`: all of it is in its file."""
    return not paths.exists(f"{path}-wal")


_READABLE = operator.methodcaller("decode", "utf-8", "replace")


def set_up_reader(connection: sqlite3.Connection, path: Path) -> None:
    """Prepare a connection for reading a tape. Raises `ForeignFile` if its tables are not plain ones."""
    connection.isolation_level = None
    connection.text_factory = _READABLE  # a text that is no UTF-8 fails a query otherwise
    for setting in (f"busy_timeout={BUSY_MS}", "query_only=ON", "trusted_schema=OFF", "cell_size_check=ON"):
        connection.execute(f"PRAGMA {setting}")
    if reason := definitions.unreadable(connection):
        raise ForeignFile(f"{path} {reason}: it is not read. Name another tape with --db")


def uri_of(path: Path, *, settled: bool) -> str:
    """Return the URI that opens a file for reading only."""
    return paths.sqlite_uri(path, "mode=ro&immutable=1" if settled else "mode=ro")


def is_immutable(path: Path) -> bool:
    """Return True if a tape can only be opened as immutable: it has no `-wal`, and its directory is not writable."""
    return is_settled(path) and not os.access(path.parent, os.W_OK)


def read_uri(path: Path) -> str:
    """Return the SQLite URI that opens a tape for reading only."""
    path = paths.real(path)
    return uri_of(path, settled=is_immutable(path))


def connect(uri: str, kind: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=BUSY_MS / 1000, check_same_thread=False, factory=kind)


def revision(driver: sqlite3.Connection) -> str | None:
    """Return the tape's alembic revision; None if it has none yet."""
    if driver.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None:
        return None
    row = driver.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None or row[0] is None else str(row[0])


_UNRELEASED = "0024"
"""The last revision before 0.1.0; of the numbers up to it, only 0001 was released."""


def check_revision(number: str | None, path: Path, *, is_upgrade: bool = False) -> None:
    """Raise `SchemaMismatch` unless the tape's schema is this program's or, for an upgrade, an older one."""
    if number == REVISION:
        return
    if number is None:
        raise SchemaMissing(f"{path} has no schema: its recorder was stopped before it began; record to it again")
    if number <= _UNRELEASED and number != "0001":
        raise SchemaMismatch(
            f"{path} has schema {number}, which was used before wiretape 0.1.0 and is not supported: read it with the "
            "program that made it, or name another tape with --db"
        )
    if number < REVISION:
        if is_upgrade:
            return
        raise SchemaMismatch(f"{path} has the older schema {number}, not {REVISION}: run {command('db upgrade', path)}")
    raise SchemaMismatch(f"{path} has schema {number}, newer than this wiretape's {REVISION}: use a newer wiretape")


def query_seconds() -> float:
    """Return the timeout of a query for reading, in seconds; 0: none."""
    value = os.environ.get("WIRETAPE_QUERY_TIMEOUT", "")
    try:
        seconds = float(value or QUERY_SECONDS)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise WiretapeError(f"WIRETAPE_QUERY_TIMEOUT={value!r} is not a number of seconds: give one, or 0 for no limit")
    return seconds


def stopped(path: Path) -> TapeError:
    """Return the error for a query that reached the time limit."""
    limit = f"{query_seconds():g} s"
    return TapeError(f"{path}: a query was stopped after {limit}: filter more, or set WIRETAPE_QUERY_TIMEOUT (seconds)")


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Translate SQLite's errors to a `TapeError` that names the failure, its cause and the remedy."""
    try:
        yield
    except Exception as error:
        code, cause = sqlite_code(error), getattr(error, "orig", error)  # SQLAlchemy's have SQLite's
        if code not in DAMAGED and not isinstance(cause, sqlite3.OperationalError):
            raise  # a bug of ours
        raise _explanation(path, code, cause) from error


def _explanation(path: Path, code: int | None, cause: object) -> TapeError:
    match code:
        case sqlite3.SQLITE_INTERRUPT:
            return stopped(path)
        case sqlite3.SQLITE_FULL:
            return TapeBusy(f"{path} cannot be written, {paths.shortage(path) or 'the disk is full: free some space'}")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return TapeBusy(f"{path} is locked by another program: close it there, or use another tape")
        case sqlite3.SQLITE_READONLY:
            return TapeBusy(f"{path} cannot be written ({cause}): record to another tape with --db")
        case sqlite3.SQLITE_CANTOPEN if not (is_settled(path) or os.access(path.parent, os.W_OK)):
            files = f"{path.name} and {path.name}-wal"
            return TapeBusy(f"{path} was not closed, and its directory is read-only: copy {files} to another")
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN if reason := paths.shortage(path):
            return TapeBusy(f"{path} cannot be written, {reason}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | None:  # None: a text that cannot be decoded
            return TapeDamaged(
                f"{path} is damaged ({cause}): run {command('db check', path)}, or restore it from a backup"
            )
    return TapeError(f"{path} cannot be used ({cause}): run {command('db check', path)}")

"""SELECT statements of a program that may not change a tape, nor read its texts unless it is allowed to.

SQLite's authorizer judges each access when a statement is compiled, also within views, subqueries and expressions. A
column with a text is closed until it is named here as open. Columns of `USING` and `NATURAL` joins are not judged by
SQLite, and a full join returns them: no query may have one.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Boolean, Column, Float, Integer

from wiretape.recorder.clock import SYSTEM, Clock
from wiretape.recorder.errors import WiretapeError, sqlite_code
from wiretape.recorder.facts import FACTS
from wiretape.recorder.sanitize import clipped, safe
from wiretape.recorder.tape import reader
from wiretape.recorder.tape.column_types import declared
from wiretape.recorder.tape.schema import VIEWS, alembic_version, metadata, turns

TIMEOUT_S: Final = 1.0
"""Timeout of a query, in seconds."""
LONGEST: Final = 1000
"""Length of a value in an answer, in characters."""

STOPPED: Final = f"the query was stopped after {TIMEOUT_S:g} s: select fewer rows, by exchange_no or by started_at"
"""The message for a query that exceeded its timeout."""

_LARGEST: Final = 1 << 20
"""Length of a value in a query, in bytes: this limits its memory."""
_STEPS: Final = 1000
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: _LARGEST,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_UNJUDGED: Final = re.compile(r"\b(using|natural)\b", re.IGNORECASE)
_ALLOWED: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)
_FORBIDDEN_FUNCTIONS: Final = ("load_extension", "fts3_tokenizer")
_FUNCTION_TABLES: Final = ("json_each", "json_tree")
_OTHER_TABLES: Final = ("sqlite_master", *_FUNCTION_TABLES)
"""SQLite's own tables without texts of a tape; any other one, such as `sqlite_dbpage`, is closed."""
_SECRETS: Final = ("salt",)
"""Columns that are closed even with texts."""
_OPEN_TEXTS: Final = frozenset({
    "id", "uuid", "version", "boot_id", "listen", "upstreams", "started_at", "heartbeat_at", "ended_at",
    "imported_from", "request_model", "request_sha256", "sha256", "labels", "version_num", "dialect_version", *FACTS,
    "outcome", "outcome_detail", "error_code", "finish_reason", "flags", "usage", "operation", "api",
    "response_model", "response_id", "sparkline", "conversation_key", "conversation_key_from",
    "previous_response_id", "at_ns", "relayed_ns", "sizes", "icl", "gap_hist", "rpc_method",
    "tool_name",
})  # fmt: skip
"""Columns of texts and bytes that hold no prompt, answer or header."""
_TABLES: Final = {table.name: table for table in (*metadata.tables.values(), alembic_version)}


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The first rows of a query; `is_cut` is True if it has more.

    `withheld` are columns of a view that are NULL here, as they may not be read.
    """

    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool
    withheld: list[str]


def is_open(column: Column[Any], texts: bool) -> bool:
    """Return True if a query may read a column; `texts` opens those with prompts, answers and headers."""
    if column.name in _SECRETS:
        return False
    if column.table is turns:  # its rows are made from one text
        return texts
    return texts or column.name in _OPEN_TEXTS or isinstance(declared(column), Integer | Float | Boolean)


def answer(path: Path, query: str, limit: int, *, texts: bool, clock: Clock = SYSTEM) -> SqlAnswer:
    """Answer a query with at most `limit` rows. Raises `WiretapeError`."""
    if unjudged := _UNJUDGED.search(query):
        raise WiretapeError(f"{unjudged[0].upper()} is refused, in quotes, too: join tables by ON a.x = b.y")
    access = _Access(texts)
    with _limited(path, access, clock) as connection:
        cursor = connection.execute(query)
        if cursor.description is None:
            raise WiretapeError("this is no query: give one SELECT")
        names = [name for name, *_ in cursor.description]
        withheld = [name for name in names if name in access.withheld]
        rows = list[list[Any]]()
        for row in cursor:
            if len(rows) == limit:
                return SqlAnswer(names, rows, True, withheld)
            rows.append([_shown(value) for value in row])
    return SqlAnswer(names, rows, False, withheld)


@contextmanager
def _limited(path: Path, access: "_Access", clock: Clock) -> Iterator[sqlite3.Connection]:
    """Connect for queries within the limits; SQLite's errors are raised as `WiretapeError`."""
    deadline_ns = clock.now() + round(TIMEOUT_S * 1e9)
    with reader.opened(path) as opened:
        connection = opened.driver
        for kind, limit in _LIMITS.items():
            connection.setlimit(kind, limit)
        for name in _FUNCTION_TABLES:  # the first use of one changes SQLite's schema in memory, as no query may
            connection.execute(f"SELECT 1 FROM {name}('[]')")
        connection.set_progress_handler(lambda: clock.now() > deadline_ns, _STEPS)
        connection.set_authorizer(access.judge)
        try:
            yield connection
        except (sqlite3.Error, sqlite3.Warning) as error:  # a warning: of several statements
            raise WiretapeError(access.refused or _failure(error)) from error
        finally:
            connection.set_authorizer(None)


def _failure(error: Exception) -> str:
    if sqlite_code(error) == sqlite3.SQLITE_INTERRUPT:
        return STOPPED
    if sqlite_code(error) == sqlite3.SQLITE_TOOBIG:
        return f"the query failed: a value of it is longer than {_LARGEST:,} bytes: select its length, or show it"
    return f"the query failed: {safe(str(error))}"


class _Access:
    """The accesses of one query: the reason why it is `refused`, if it is, and the columns `withheld` in views."""

    def __init__(self, texts: bool) -> None:
        self.texts = texts
        self.refused: str | None = None
        self.withheld = set[str]()

    def judge(self, action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
        """Judge an access, as SQLite's authorizer."""
        if action == sqlite3.SQLITE_READ:
            return self._judge_column(str(first), second or "", database, view)
        if action in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and second not in _FORBIDDEN_FUNCTIONS):
            return sqlite3.SQLITE_OK
        self.refused = self.refused or "only SELECT can be run: it reads, and changes, attaches or sets nothing"
        return sqlite3.SQLITE_DENY

    def _judge_column(self, table: str, column: str, database: str | None, view: str | None) -> int:
        is_subquery = database is None and not column
        if is_subquery or (reason := _closed(table, column, self.texts)) is None:
            return sqlite3.SQLITE_OK
        if view in VIEWS and view != turns.name:  # which would have no rows without its text
            self.withheld.add(column)
            return sqlite3.SQLITE_IGNORE  # NULL: the other columns of a view stay readable
        self.refused = self.refused or reason
        return sqlite3.SQLITE_DENY


def _closed(table: str, column: str, texts: bool) -> str | None:
    """Return the reason why a column may not be read, or None if it may; a column "" is the count of rows."""
    described = _TABLES.get(table)
    if described is None:
        return None if table in (*VIEWS, *_OTHER_TABLES) else f"{safe(table)} is no table or view of a tape: see schema"
    stored = described.c.get(column)
    if stored is None and column not in ("", "ROWID"):
        return f"{table} has no open column {safe(column)}"
    if stored is None or is_open(stored, texts):
        return None
    if column in _SECRETS:
        return f"{table}.{column} is a key, and never shown"
    return f"{table}.{column} holds recorded text: name other columns, or start the server with --with-text"


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return clipped(value, LONGEST) if isinstance(value, str) else value

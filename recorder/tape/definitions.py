"""What a tape's schema may hold: whether a file made by others can be read, and whether it may be written.

A tape is a SQLite file, and whoever made it may have put anything into its schema. Reading asks for little: what has
the name of one of our tables is a plain table, so that no view and no virtual table runs when it is read, and none of
its columns is computed. Writing asks for all: nothing but what the migrations make, so that no trigger and no
constraint of others acts on what is written. Two things of a user's own are let pass: plain indexes, and what ANALYZE
keeps.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final

TABLES: Final = ("alembic_version", "bodies", "exchanges", "measures", "reads", "segments", "sessions")

Entries = dict[tuple[str, str], str]
"""The entries of a schema: kind and name, and the normalised SQL."""

_OURS: Final = frozenset({"6aa468a84f1f7f42722bd1c2666960c6"})
"""Digests of the schemas that the migrations make: of any other, it takes a run of them to tell."""
_OF_SQLITE: Final = ("sqlite_sequence", "sqlite_stat1", "sqlite_stat4")


def unreadable(connection: sqlite3.Connection) -> str | None:
    """Return why the tables cannot be read, as a predicate of the tape; None if they can."""
    for kind, name, root in connection.execute("SELECT type, name, rootpage FROM sqlite_master"):
        if str(name).lower() not in TABLES:
            continue
        if kind != "table" or not root:
            return f"holds {name!s:.40} as a {kind if kind != 'table' else 'virtual table'}, not as a table of rows"
        for column in connection.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden IN (2, 3)", (name,)):
            return f"holds {name!s:.40} with the computed column {column[0]!s:.40}"
    return None


def lacking(connection: sqlite3.Connection, columns: Iterable[tuple[str, str]]) -> str | None:
    """Return the first of these columns (table and name) that the tables lack; None if they have all."""
    listed = "SELECT lower(m.name), lower(c.name) FROM sqlite_master AS m, pragma_table_info(m.name) AS c"
    present = set(connection.execute(f"{listed} WHERE m.type = 'table'"))
    return next((".".join(one) for one in columns if one not in present), None)


def entries(connection: sqlite3.Connection) -> Entries:
    """Read a schema's entries, except those that SQLite makes by itself."""
    found = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(kind, name): _normalised(str(sql)) for kind, name, sql in found}


def _normalised(sql: str) -> str:
    """Return a definition without what differs from one run of the migrations to the next: quotes, spaces, order."""
    sql = " ".join(sql.replace('"', "").split())
    start, end = sql.find("("), sql.rfind(")")
    if not sql.startswith("CREATE TABLE") or start == -1:
        return sql
    return f"{sql[:start]}({', '.join(sorted(_items(sql[start + 1 : end])))}){sql[end + 1 :]}"


def _items(text: str) -> Iterator[str]:
    """Split a list at the commas that are in no brackets."""
    depth = start = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def is_known(present: Entries) -> bool:
    """Say whether a schema is one that the migrations of this version make, without running them."""
    return digest(present) in _OURS


def digest(present: Entries) -> str:
    """Return a digest of a schema."""
    return hashlib.sha256(repr(sorted(present.items())).encode()).hexdigest()[:32]


def foreign(connection: sqlite3.Connection, expected: Entries) -> str | None:
    """Return what a schema holds, or lacks, that keeps us from writing, in words; None if it is ours."""
    present = entries(connection)
    for key in expected:
        if key not in present:
            return f"lacks the {key[0]} {key[1]}"
        if present[key] != expected[key]:
            return f"has another definition of the {key[0]} {key[1]}"
    for kind, name in present:
        if (kind, name) not in expected and name not in _OF_SQLITE and not _is_plain_index(connection, kind, name):
            return f"holds the {kind} {name!s:.40}"
    return None


def _is_plain_index(connection: sqlite3.Connection, kind: str, name: str) -> bool:
    """Say whether an index is of columns alone: not unique, of all rows, without an expression."""
    return kind == "index" and not any(_unusual(connection, name))


def _unusual(connection: sqlite3.Connection, name: str) -> Iterator[bool]:
    (table,) = connection.execute(
        "SELECT tbl_name FROM sqlite_master WHERE type='index' AND name=?", (name,)
    ).fetchone()
    listed = 'SELECT "unique" OR partial FROM pragma_index_list(?) WHERE name = ?'
    yield from (bool(one) for (one,) in connection.execute(listed, (table, name)))
    columns = connection.execute("SELECT cid, coll FROM pragma_index_xinfo(?)", (name,))
    yield from (place == -2 or collation not in ("BINARY", "NOCASE", "RTRIM") for place, collation in columns)

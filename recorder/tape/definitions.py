"""The SQL definitions in a tape's schema: comments for people, and the comparison of a file's with ours.

A tape is a SQLite file, and its maker may have put anything into its schema. Reading requires little: each name of our
tables belongs to a plain table, so that no view and no virtual table runs when it is read, and none of its columns is
computed. Writing requires all: exactly the definitions of `wiretape.recorder.tape.schema`, so that no foreign trigger
or constraint acts on written rows. Three additions of a user are allowed: comments, plain indexes, and the tables of
ANALYZE.
"""

import functools
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

TABLES: Final = (
    "alembic_version", "bodies", "client_bodies", "client_segments", "exchanges", "measures", "request_parts",
    "request_versions", "segments", "sessions", "settlements", "uploads",
)  # fmt: skip

Entries = dict[tuple[str, str], str]
"""The entries of a schema: kind and name, and the normalized definition."""

_TOKEN: Final = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^]]*(?:\]|\Z)|\s+|\w+|.""", re.DOTALL
)


def commented(sql: str, about: str, meanings: Mapping[str, str]) -> str:
    """Return a CREATE TABLE statement with each column on a line of its own and its meaning behind it.

    `about` is the table's meaning; `meanings` are by the names of the columns. Only comments and blanks are changed.
    """
    tokens = [" " if _is_blank(token) else token for token in _TOKEN.findall(sql.strip())]
    start, end = tokens.index("("), len(tokens) - 1 - tokens[::-1].index(")")
    items = ["".join(item).strip() for item in _items(tokens[start + 1 : end])]
    body = lined([(item, meanings.get(item.split(" ")[0].strip('"'), "")) for item in items])
    return f"{''.join(tokens[:start])}( -- {about}\n{body}\n) {''.join(tokens[end + 1 :]).strip()}".rstrip()


def lined(items: Sequence[tuple[str, str]]) -> str:
    """Return a list with each item on a line of its own and its meaning behind it as a comment; "" is none."""
    texts = [f"{item}," for item, _ in items[:-1]] + [items[-1][0]]
    lines = (f"  {text:<40} -- {note}" if note else f"  {text}" for text, (_, note) in zip(texts, items, strict=True))
    return "\n".join(lines)


@functools.lru_cache(64)
def normalized(sql: str) -> str:
    """Return a definition without insignificant parts: comments, blanks, quotes of plain names, the order of columns.

    Two definitions that are normalized to the same text are the same to SQLite.
    """
    tokens = [re.sub(r'"([A-Za-z_]\w*)"', r"\1", token) for token in _TOKEN.findall(sql) if not _is_blank(token)]
    if tokens[:2] != ["CREATE", "TABLE"] or not {"(", ")"} <= set(tokens):
        return " ".join(tokens)
    start, end = tokens.index("("), len(tokens) - 1 - tokens[::-1].index(")")
    items = sorted(" ".join(item) for item in _items(tokens[start + 1 : end]))
    return " ".join([*tokens[: start + 1], " , ".join(items), *tokens[end:]])


def _is_blank(token: str) -> bool:
    return token.isspace() or token.startswith(("--", "/*"))


def _items(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Split a list at the commas that are in no brackets."""
    depth = start = 0
    for place, token in enumerate(tokens):
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            yield [*tokens[start:place]]
            start = place + 1
    yield [*tokens[start:]]


def unreadable(connection: sqlite3.Connection) -> str | None:
    """Return the reason that the tables cannot be read, as a predicate of the tape, or None."""
    for kind, name, root in connection.execute("SELECT type, name, rootpage FROM sqlite_master"):
        if str(name).lower() in TABLES and (kind != "table" or not root):
            return f"holds {name!s:.40} as a {kind if kind != 'table' else 'virtual table'}, not as a table of rows"
    computed = "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c WHERE c.hidden IN (2, 3)"
    for name, column in connection.execute(f"{computed} AND m.type = 'table' AND m.rootpage"):  # no virtual ones
        if str(name).lower() in TABLES:
            return f"holds {name!s:.40} with the computed column {column!s:.40}"
    return None


def lacking(connection: sqlite3.Connection, columns: Iterable[tuple[str, str]]) -> str | None:
    """Return the first of these columns (table and name) that the tables lack; None if they have all."""
    names = "SELECT lower(m.name), lower(c.name) FROM sqlite_master AS m, pragma_table_info(m.name) AS c"
    present = set(connection.execute(f"{names} WHERE m.type = 'table'"))
    return next((".".join(column) for column in columns if column not in present), None)


def entries(connection: sqlite3.Connection) -> Entries:
    """Read a schema's entries, except those that SQLite makes by itself."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {(kind, name): normalized(str(sql)) for kind, name, sql in rows}


def foreign(connection: sqlite3.Connection, expected: Entries, ignored: Sequence[str] = ()) -> str | None:
    """Return a description of the first difference that prevents writing; None if the schema is this program's.

    Views of the names `ignored` may be there or not.
    """
    present = {entry: sql for entry, sql in entries(connection).items() if entry not in [("view", n) for n in ignored]}
    for (kind, name), definition in expected.items():
        if (kind, name) not in present:
            return f"lacks the {kind} {name}"
        if present[kind, name] != definition:
            return f"has another definition of the {kind} {name}"
    for kind, name in present:
        is_sqlites = name in ("sqlite_sequence", "sqlite_stat1", "sqlite_stat4")
        if (kind, name) not in expected and not is_sqlites and not _is_plain_index(connection, kind, name):
            return f"holds the {kind} {name!s:.40}"
    return None


def _is_plain_index(connection: sqlite3.Connection, kind: str, name: str) -> bool:
    """Return True if an index is of columns alone: not unique, of all rows, without an expression."""
    if kind != "index":
        return False
    options = connection.execute(
        'SELECT l."unique" OR l.partial FROM sqlite_master AS m, pragma_index_list(m.tbl_name) AS l'
        " WHERE m.type = 'index' AND m.name = ?1 AND l.name = ?1", (name,),
    )  # fmt: skip
    columns = connection.execute("SELECT cid, coll FROM pragma_index_xinfo(?)", (name,))
    return not any(unusual for (unusual,) in options) and all(
        place != -2 and collation in ("BINARY", "NOCASE", "RTRIM") for place, collation in columns
    )

"""A server as a database driver (PEP 249) for `dialect`: a statement is a request, its rows the answer.

Values are put into a statement as literals (`literal`), and come back as the tape has them: labels as JSON,
gaps packed. There are no transactions.
"""

import json
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from clickhouse_connect.dbapi.cursor import Cursor

from wiretape.recorder.tape import packing
from wiretape.viewer.wings.clickhouse import ddl
from wiretape.viewer.wings.clickhouse.client import Centre


class DriverConnection:
    """A connection of DB-API, without a state of its own: it uses the client's."""

    text_factory: Callable[[bytes], Any] = str
    """An attribute of `sqlite3`'s connections; the client has always decoded a server's texts."""

    def __init__(self, centre: Centre) -> None:
        self.centre = centre

    def cursor(self) -> "DriverCursor":
        return DriverCursor(self.centre)

    def commit(self) -> None:
        """Ignore the call: there are no transactions, and the client's owner closes it."""

    rollback = close = commit


class DriverCursor(Cursor):
    """The rows of one statement, all of them in memory."""

    def __init__(self, centre: Centre) -> None:
        self.centre = centre
        self.data, self.arraysize = [], 1

    def execute(self, operation: str, parameters: Mapping[str, object] | None = None, *_: object, **__: object) -> None:
        """Query the server. Raises `UnusableServer` and `Unavailable`.

        The client's own binding takes braces within a literal for parameters.
        """
        statement = operation % {name: literal(value) for name, value in (parameters or {}).items()}
        answer = self.centre.query(statement)
        self.names, types = answer.column_names, [type.name for type in answer.column_types]
        if not self.names:  # the engine in this process names no columns where there are no rows
            described = self.centre.rows(f"DESCRIBE ({statement})")
            self.names, types = [row[0] for row in described], [row[1] for row in described]
        self.types, self.data, self._ix = types, _as_stored(types, answer.result_rows), 0

    @property
    def description(self) -> list[tuple[Any, ...]]:
        """The name and the type of each column."""
        return [(name, type, *[None] * 5) for name, type in zip(self.names, self.types, strict=True)]

    def setinputsizes(self, sizes: object) -> None:
        """Ignore the sizes, as DB-API allows."""


def literal(value: object) -> str:
    """Return a value as a literal. A lone surrogate, which no text of the server has, becomes a question mark.

    Raises `TypeError` for a value that has no literal.
    """
    match value:
        case None:
            return "NULL"
        case str():
            return ddl.literal(value.encode("utf-8", "replace").decode())
        case float() if not math.isfinite(value):
            return f"({value})"  # nan, inf, -inf
        case bool() | int() | float():
            return f"{+value!r}" if value >= 0 else f"({value!r})"
    raise TypeError(f"{type(value).__name__} has no literal")


def _as_stored(types: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return rows with their values as the tape has them."""
    converters = [_STORED.get(type) for type in types]
    if not any(converters):
        return [tuple(row) for row in rows]
    return [
        tuple(
            value if convert is None or value is None else convert(value)
            for convert, value in zip(converters, row, strict=True)
        )
        for row in rows
    ]


def _labels(pair: Sequence[Sequence[str]]) -> str:
    return json.dumps(dict(zip(*pair, strict=True)), ensure_ascii=False, separators=(",", ":"))


_STORED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Array(Array(String))": _labels,
    "Array(Int64)": lambda gaps: packing.pack_gaps(array("q", gaps).tobytes()),
}
"""Converters from an engine's value to the tape's type."""

"""A server as a database driver (PEP 249) for `dialect`: a statement is a request, its rows the answer.

Values are put into a statement as literals (`literal`), and come back as the tape has them: labels as JSON,
gaps packed. There are no transactions.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from wiretape.recorder.tape import packing
from wiretape.viewer.source.clickhouse import ddl
from wiretape.viewer.source.clickhouse.client import Centre

apilevel: Final = "2.0"
threadsafety: Final = 1
paramstyle: Final = "pyformat"


class Error(Exception):
    """An error of the driver itself; a server's error is raised as `client` raises it."""


class DriverConnection:
    """A connection of DB-API, without a state of its own: it uses the client's."""

    text_factory: Callable[[bytes], Any] = str
    """An attribute of `sqlite3`'s connections; the client has always decoded a server's texts."""

    def __init__(self, centre: Centre) -> None:
        self.centre = centre

    def cursor(self) -> "DriverCursor":
        """Return a cursor."""
        return DriverCursor(self.centre)

    def commit(self) -> None:
        """Ignore the call: there are no transactions."""

    def rollback(self) -> None:
        """Ignore the call: there are no transactions."""

    def close(self) -> None:
        """Ignore the call: the client's owner closes it."""


class DriverCursor:
    """The rows of one statement, all of them in memory."""

    arraysize = 1
    rowcount = -1
    lastrowid = None

    def __init__(self, centre: Centre) -> None:
        self._centre = centre
        self._rows: list[Any] = []
        self._next = 0
        self.description: list[tuple[Any, ...]] | None = None

    def execute(self, statement: str, parameters: Mapping[str, object] | None = None) -> None:
        """Query the server. Raises `UnusableServer` and `Unavailable`."""
        text = statement % {name: literal(value) for name, value in (parameters or {}).items()}
        answer = self._centre.select(text)
        self.description = [(name, type, *[None] * 5) for name, type in answer.columns]
        self._rows, self._next = _as_stored([type for _, type in answer.columns], answer.rows), 0

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int = 1) -> list[Any]:
        """Return the next rows."""
        found = self._rows[self._next : self._next + size]
        self._next += len(found)
        return found

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        return self.fetchmany(len(self._rows))

    def close(self) -> None:
        """Forget the rows."""
        self._rows = []

    def setinputsizes(self, sizes: object) -> None:
        """Ignore the sizes, as DB-API allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Ignore the size, as DB-API allows."""


def literal(value: object) -> str:
    """Return a value as a literal. A lone surrogate, which no text of the server has, becomes a question mark.

    Raises `TypeError` for a value that has no literal.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(int(value))
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float():
            return _number(value)
        case str():
            return ddl.literal(value.encode("utf-8", "replace").decode())
    raise TypeError(f"{type(value).__name__} has no literal")


def _number(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "(-inf)"
    return repr(value) if value >= 0 else f"({value!r})"


def _as_stored(types: Sequence[str], rows: list[list[Any]]) -> list[Any]:
    """Return rows with their values as the tape has them."""
    opened = {place: _OPENED[type] for place, type in enumerate(types) if type in _OPENED}
    for row in rows:
        for place, convert in opened.items():
            if row[place] is not None:
                row[place] = convert(row[place])
    return [tuple(row) for row in rows]


def _labels(pair: Sequence[Sequence[str]]) -> str:
    return json.dumps(dict(zip(*pair, strict=True)), ensure_ascii=False, separators=(",", ":"))


def _gaps(numbers: Sequence[int]) -> bytes:
    return packing.pack_gaps(b"".join(number.to_bytes(8, "little", signed=True) for number in numbers))


_OPENED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Array(Array(String))": _labels,
    "Array(Int64)": _gaps,
}
"""Converters from a JSON value to the tape's type."""

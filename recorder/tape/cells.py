"""Column types that trust nothing on a tape: every cell is checked when it is read, in this one place.

SQLite keeps any value in any column, and a tape from elsewhere may hold any. So each column of the schema has one of
these types over its declared one. A cell that is not of its kind becomes unknown (None), or in a column without unknown
values the `instead` of its kind; readers see only values of the declared type. Bad cells are noted in the `Damage` of
the connection, which names their rows to people. Bound values are not checked.
"""

import functools
import json
import math
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final, get_origin

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    func,
    select,
    type_coerce,
)
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

from wiretape.recorder.clock import YEARS
from wiretape.recorder.decode.exchange import OUTCOMES
from wiretape.recorder.decode.turns import TurnMeasures
from wiretape.recorder.errors import sqlite_code
from wiretape.recorder.tape import packing
from wiretape.recorder.tape.packing import Place, Timestamp

MOST: Final = packing.MOST
"""Bound of measured values (ns, bytes): they are less than this."""

EPOCH: Final = "1970-01-01T00:00:00.000000Z"
_KEYS: Final = ("no", "exchange_no", "session_no")
_ROWS_LISTED: Final = 10
_ROWS_AT_ONCE: Final = 1000
_SHORT: Final = 256


class StoredToolCall(msgspec.Struct):
    """A tool call as `measures.tool_calls` has it."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """The valid values of a column: of some types, within limits if there are any (both included), that fit a test.

    `instead` stands for a bad cell that cannot be unknown.
    """

    meaning: str
    types: frozenset[type]
    limits: tuple[float, float] | None = None
    fits: Callable[[Any], bool] | None = None
    instead: Any = None

    def is_good(self, value: Any) -> bool:
        """Return True if a column may hold a value that is not None."""
        if type(value) not in self.types or (self.limits and not self.limits[0] <= value <= self.limits[1]):
            return False
        return self.fits is None or self.fits(value)

    def are_good(self, values: Sequence[Any]) -> bool:
        """Return True if all values are good, None included."""
        if not set(map(type, values)) - {type(None)} <= self.types:
            return False
        if self.fits is not None and not all(map(self.fits, {*values} - {None})):
            return False
        if self.limits is None:
            return True
        known = [value for value in values if value is not None]
        return not known or (self.limits[0] <= min(known) and max(known) <= self.limits[1])


def _is_moment(value: str) -> bool:
    try:
        time = datetime.fromisoformat(value)
        return time.year in YEARS and time.tzinfo is not None
    except ValueError:
        return False


def _has_shape(shape: Any, text: str) -> bool:
    return _short_has_shape(shape, text) if len(text) <= _SHORT else _short_has_shape.__wrapped__(shape, text)


@functools.lru_cache(maxsize=1024)  # labels are the same in many exchanges
def _short_has_shape(shape: Any, text: str) -> bool:
    try:
        msgspec.convert(json.loads(text, parse_constant=_refuse), shape)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _json(shape: Any) -> Kind:
    empty = "{}" if get_origin(shape) is dict else "[]"
    return Kind("JSON of its shape", frozenset({str}), None, functools.partial(_has_shape, shape), empty)


_Time = Timestamp | None
_WHOLE: Final = frozenset({int})
_NUMBERS: Final = frozenset({int, float})
_BLOB: Final = frozenset({bytes})
_PAIRS: Final = _json(list[tuple[str, str]])
_TIMES: Final = _json(list[Timestamp | None] | None)
_GAPS: Final = Kind("a packed array of numbers", _BLOB, None, packing.are_gaps)
_DIGITS: Final = Kind("an array of decimal digits", _BLOB, None, packing.is_array)
_TIMESTAMP: Final = Kind("a number of nanoseconds", _WHOLE, (1 - MOST, MOST - 1))
_DURATION: Final = Kind("a number of nanoseconds", _NUMBERS, (math.nextafter(-MOST, 0), math.nextafter(MOST, 0)))
_SIZE: Final = Kind("a size or a position", _WHOLE, (0, MOST - 1))
_MOMENT: Final = Kind("a time in UTC", frozenset({str}), None, _is_moment, EPOCH)
_SIZES: Final = frozenset(
    {"start", "size", "seq", "bytes", "gap_bytes", "request_size", "client_bytes", "client_gap_bytes"}
)
_SEGMENTS: Final = ("segments", "client_segments")
_BODIES: Final = ("bodies", "client_bodies")
_NAMED: Final = {
    "sessions.upstreams": _PAIRS,
    "exchanges.request_headers": _PAIRS,
    "exchanges.response_headers": _PAIRS,
    "exchanges.response_trailers": _PAIRS,
    "exchanges.labels": _json(dict[str, str]),
    **{f"{table}.{column}": _TIMES for table in _SEGMENTS for column in ("at_ns", "relayed_ns")},
    **{f"{table}.sizes": _json(list[Place]) for table in _SEGMENTS},
    **{f"{table}.{column}": _DIGITS for table in _BODIES for column in ("at_ns", "relayed_ns", "sizes")},
    "sessions.dialects": _json(list[dict[str, Any]]),
    "settlements.version": _SIZE,
    "measures.attributes": _json(dict[str, Any]),
    "measures.usage": _json(dict[str, Any]),
    "measures.tool_calls": _json(list[StoredToolCall]),
    "measures.choices": _json(list[dict[str, Any]]),
    "measures.turn_spans": _json(list[tuple[Timestamp, _Time, _Time, _Time, Place, bool, bool]]),
    "measures.event_runs": _json(list[tuple[str, Place, _Time]]),
    "measures.tool_spans": _json(list[tuple[Timestamp, Timestamp]]),
    "measures.turns": _json(list[TurnMeasures]),
    "measures.outcome": Kind("an outcome", frozenset({str}), None, OUTCOMES.__contains__, "open"),
    "measures.icl": _GAPS,
    "measures.gap_hist": Kind("a packed array of 64 numbers", _BLOB, None, lambda value: len(value) in (0, 4 * 64)),
}
_DECLARED: Final = (
    (Boolean, Kind("0 or 1", _WHOLE, (0, 1))),
    (Float, Kind("a finite number", _NUMBERS, (-sys.float_info.max, sys.float_info.max))),
    (BigInteger, Kind("a whole number", _WHOLE)),
    (Integer, Kind("a whole number of 32 bits", _WHOLE, (-(1 << 31), (1 << 31) - 1))),
    (String, Kind("text", frozenset({str}), instead="\ufffd")),
    (LargeBinary, Kind("a blob", _BLOB)),
)
"""Kinds of columns by their declared types, for columns without a kind of their own."""


def _kind(declared: TypeEngine[Any], name: str) -> Kind:
    if name in _NAMED:
        return _NAMED[name]
    column = name.partition(".")[2]
    if column.endswith("_at"):
        return _MOMENT
    if column.endswith("_ns"):
        return _TIMESTAMP if isinstance(declared, Integer) else _DURATION
    if column in _SIZES:
        return _SIZE
    return next(kind for type, kind in _DECLARED if isinstance(declared, type))


class ColumnType(TypeDecorator[Any]):
    """The type of one column: the declared one, checked when it is read.

    `nullable` is the column's; if it is `joined` to others, None is good nevertheless. `decoded` is whether JSON and
    booleans are given as values, and not as the text, or the 0 or 1, that the tape has. Gaps are packed when they are
    bound, and int64 when read.
    """

    impl: Any = NullType
    cache_ok = True

    def __init__(
        self, declared: TypeEngine[Any], name: str, nullable: bool, joined: bool, decoded: bool = True
    ) -> None:
        super().__init__()
        self.declared, self.name, self.nullable, self.joined, self.decoded = declared, name, nullable, joined, decoded
        self.impl, self.kind = declared, _kind(declared, name)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return a value as the tape has it."""
        return packing.pack_gaps(value) if self.kind is _GAPS and value else value

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        """Compare as the declared type does."""
        return self.declared.coerce_compared_value(op, value)

    @property
    def python_type(self) -> type[Any]:
        """The type of its values."""
        return self.declared.python_type

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Return a function that checks a value, and decodes JSON."""
        kind, name, damage = self.kind, self.name, damage_of(dialect)
        types, instead = kind.types, None if self.nullable else kind.instead
        may_be_none = self.nullable or self.joined

        def checked(value: Any) -> Any:
            if (value is None and may_be_none) or kind.is_good(value):
                return value
            return damage.noted(name, instead)

        if kind.fits is None and kind.limits is None:  # most cells: saves a call for each
            if may_be_none:
                types |= {type(None)}
            return lambda value: value if type(value) in types else damage.noted(name, instead)
        if may_be_none and (kind is _TIMESTAMP or kind is _DURATION):
            return lambda value: (
                value
                if value is None or (type(value) in types and -MOST < value < MOST)
                else damage.noted(name, instead)
            )
        if (decode := self._decoder()) is None:
            return checked
        return lambda value: None if (good := checked(value)) is None else decode(good)

    def _decoder(self) -> Callable[[Any], Any] | None:
        """Return the converter for a valid cell, or None if none is needed."""
        if self.kind is _GAPS:
            return packing.unpack_gaps
        if self.kind is _DIGITS:
            return packing.listed
        if self.kind.instead in ("[]", "{}") and self.decoded:
            return json.loads
        return bool if isinstance(self.declared, Boolean) and self.decoded else None

    def takes(self, values: Sequence[Any]) -> bool:
        """Return True if all of these are valid and need no change."""
        may_be_none = self.nullable or self.joined
        return self._decoder() is None and (may_be_none or None not in values) and self.kind.are_good(values)


def fetch(connection: Connection, statement: Select[Any]) -> list[tuple[Any, ...]]:
    """Execute a statement and return its rows, checked column by column: that costs a fraction of cell by cell."""
    columns: list[Sequence[Any]] = [*zip(*_unchecked(connection, statement), strict=True)]
    for place, (column, values) in enumerate(zip(statement.selected_columns, columns, strict=False)):
        kind = column.type
        if isinstance(kind, ColumnType) and kind.takes(values):
            continue
        if isinstance(kind, ColumnType) and kind.kind is _GAPS and _GAPS.are_good(values):
            columns[place] = packing.unpack_all_gaps(values)
            continue
        processor = kind if isinstance(kind, ColumnType) else kind.dialect_impl(connection.dialect)
        if process := processor.result_processor(connection.dialect, None):
            columns[place] = [*map(process, values)]
    return [*zip(*columns, strict=True)]


def _unchecked(connection: Connection, statement: Select[Any]) -> Sequence[Any]:
    """Execute a statement and return its raw rows; text that is no UTF-8 is decoded with replacements."""
    driver: Any = connection.connection.driver_connection
    tolerant, driver.text_factory = driver.text_factory, str  # saves a call for each text
    try:
        return _all(connection, statement)
    except OperationalError as error:
        if sqlite_code(error) is not None:  # SQLite's own error, not a text that Python cannot decode
            raise
    finally:
        driver.text_factory = tolerant
    return _all(connection, statement)


def _all(connection: Connection, statement: Select[Any]) -> Sequence[Any]:
    with connection.execute(statement) as result:
        assert result.cursor is not None
        try:
            return result.cursor.fetchall()
        except sqlite3.Error as error:
            raise DBAPIError.instance(None, None, error, sqlite3.Error) from error


def check_when_read(metadata: MetaData) -> None:
    """Set checking types on the columns of all tables, except for keys."""
    for table in metadata.tables.values():
        joined = table.name not in ("exchanges", "sessions")
        for column in table.c:
            if column.name not in _KEYS:
                column.type = ColumnType(column.type, f"{table.name}.{column.name}", bool(column.nullable), joined)


def declared(column: Column[Any]) -> TypeEngine[Any]:
    return column.type.declared if isinstance(column.type, ColumnType) else column.type


def text_of(column: Column[Any]) -> ColumnType:
    """Return the type that gives a column as the tape has it, but checked: JSON as text, a boolean as 0 or 1."""
    cell: Any = column.type
    return ColumnType(cell.declared, cell.name, cell.nullable, cell.joined, decoded=False)


def least(column: Column[Any]) -> ColumnElement[Any]:
    """Return the least value of a column; None if there are no rows, even if the column is never unknown."""
    return _of_rows(func.min(column), column)


def greatest(column: Column[Any]) -> ColumnElement[Any]:
    """Return the greatest value of a column; None if there are no rows."""
    return _of_rows(func.max(column), column)


def _of_rows(expression: ColumnElement[Any], column: Column[Any]) -> ColumnElement[Any]:
    cell: Any = column.type
    return type_coerce(expression, ColumnType(cell.declared, cell.name, cell.nullable, joined=True))


@dataclass(slots=True)
class Damage:
    """The damage found by the queries of a connection: columns, and exchanges with other problems."""

    columns: set[str] = field(default_factory=set)
    exchanges: dict[int, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.columns or self.exchanges)

    def noted(self, column: str, instead: Any) -> Any:
        """Note that a cell of a column is damaged, and return its replacement."""
        self.columns.add(column)
        return instead

    def lines(self, connection: Connection, tables: MetaData) -> Iterator[str]:
        """Find the damaged rows, and yield a line for each."""
        problems: dict[tuple[str, int], list[str]] = {}
        for name in sorted(self.columns | {_BEHIND[name] for name in self.columns if name in _BEHIND}):
            table, _, column = name.partition(".")
            for key, problem in islice(faults(connection, [tables.tables[table].c[column]]), _ROWS_LISTED + 1):
                problems.setdefault((table, key), []).append(problem)
        for no, problem in self.exchanges.items():
            problems.setdefault(("exchanges", no), []).append(problem)
        for table, key in list(problems)[:_ROWS_LISTED]:
            cure = "run 'wiretape db rebuild'" if table == "measures" else "see 'wiretape db check'"
            row = row_of(connection, tables.tables[table], key)
            yield f"{row} is damaged: {'; '.join(problems[table, key])}: {cure}"
        if len(problems) > _ROWS_LISTED:
            yield "more rows are damaged: see 'wiretape db check'"


_BEHIND: Final = {"exchanges.request_model": "measures.response_model"}
"""A column that may be the source of an expression of the same type."""


def damage_of(reader: Dialect | Engine | Connection) -> Damage:
    """Return the damage that an engine has found."""
    dialect = reader if isinstance(reader, Dialect) else reader.dialect
    damage: Damage = dialect.__dict__.setdefault("tape_damage", Damage())
    return damage


def faults(connection: Connection, columns: Iterable[Column[Any]]) -> Iterator[tuple[int, str]]:
    """Find the damaged cells of columns of one table; yield the key of the row and the problem."""
    checked = [column for column in columns if isinstance(column.type, ColumnType)]
    table = checked[0].table
    key = table.c["no" if "no" in table.c else "exchange_no"]
    cells: list[Any] = [column.type for column in checked]
    names = ", ".join(f'"{column.name}"' for column in (key, *checked))
    # Plain SQL: SQLAlchemy takes longer to compile all these columns than SQLite to read a small tape.
    for batch in connection.exec_driver_sql(f'SELECT {names} FROM "{table.name}"').partitions(_ROWS_AT_ONCE):
        _, *stored = zip(*batch, strict=True)
        doubtful = [
            at
            for at, (cell, values) in enumerate(zip(cells, stored, strict=True))
            if not ((cell.nullable or None not in values) and cell.kind.are_good(values))
        ]
        for number, *values in batch if doubtful else ():
            for at in doubtful:
                cell, value = cells[at], values[at]
                if not (cell.kind.is_good(value) if value is not None else cell.nullable):
                    yield number, f"{cell.name} is {_described(value)}, not {cell.kind.meaning}"


def row_of(connection: Connection, table: Table, key: int) -> str:
    """Name a row for people, by the exchange that it belongs to."""
    if table.name == "sessions":
        return f"session {key}"
    exchanges = table.metadata.tables["exchanges"]
    statement = select(type_coerce(exchanges.c.id, NullType())).where(exchanges.c.no == key)
    id: Any = connection.execute(statement).scalar()
    return f"exchange {id}" if isinstance(id, str) else f"exchange number {key}"


def _described(value: Any) -> str:
    if isinstance(value, bytes):
        return f"a blob of {len(value)} bytes"
    if isinstance(value, float):
        return f"{value:.6g}"
    return {type(None): "missing", str: "text"}.get(type(value)) or str(value)

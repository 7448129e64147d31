"""Column types that take nothing from a tape on trust: every cell is checked when it is read, in this one place.

SQLite keeps any value in any column, and whoever made a tape may have put there what they like. So each column of the
schema has one of these types over its declared one. A cell that is not of its kind becomes unknown (None), or where a
column is never unknown the `Kind.instead` of its kind; whoever reads sees only values of the declared type. What was
found is noted in the `Damage` of the connection, which tells people which rows it was. Binding values is left to the
declared type.
"""

import functools
import json
import math
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, Final

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

from recorder.decode.outcome import OUTCOMES
from recorder.errors import sqlite_code


class ToolCall(msgspec.Struct):
    """A tool call as `measures.tool_calls` has it."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


Pairs = list[tuple[str, str]]
SHAPES: Final[dict[str, Any]] = {
    "sessions.upstreams": Pairs,
    "exchanges.request_headers": Pairs,
    "exchanges.response_headers": Pairs,
    "exchanges.labels": dict[str, str],
    "measures.usage": dict[str, Any],
    "measures.tool_calls": list[ToolCall],
    "measures.choices": list[dict[str, Any]],
}
"""What the JSON columns hold."""

MOST: Final = 1 << 53
"""What is measured (ns, bytes) is less than this, so that floats have it exactly and dates do not overflow."""
Place = Annotated[int, msgspec.Meta(ge=0, lt=MOST)]
Timestamp = Annotated[int, msgspec.Meta(gt=-MOST, lt=MOST)]


_EPOCH: Final = "1970-01-01T00:00:00.000000Z"
_UNREADABLE: Final = "\ufffd"
_SIZES: Final = frozenset({"start", "size", "seq", "bytes", "gap_bytes", "request_size"})
_ROWS_TOLD: Final = 10
_SHORT: Final = 256


@dataclass(frozen=True, slots=True)
class Kind:
    """What a column may hold: a test, what it means in words, and what stands for a bad cell that cannot be unknown."""

    is_good: Callable[[Any], bool]
    meaning: str
    instead: Any = None


class Cell(TypeDecorator[Any]):
    """The type of one column: the declared one, checked when it is read.

    `nullable` is the column's; if it is `joined` to others, None is good nevertheless. `decoded` is whether JSON is
    given as values, and not as the text that the tape has.
    """

    impl: Any = NullType
    cache_ok = True

    def __init__(
        self, declared: TypeEngine[Any], name: str, nullable: bool, joined: bool, decoded: bool = True
    ) -> None:
        super().__init__()
        self.declared, self.name, self.nullable, self.joined, self.decoded = declared, name, nullable, joined, decoded
        self.impl = declared

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        """Compare as the declared type does."""
        return self.declared.coerce_compared_value(op, value)

    @property
    def python_type(self) -> type[Any]:
        """The type of its values."""
        return self.declared.python_type

    @property
    def kind(self) -> Kind:
        """What the column may hold."""
        return _kind(self.declared, self.name)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Return a function that checks a value, and decodes JSON."""
        is_good, name, damage = self.kind.is_good, self.name, damage_of(dialect)
        instead = None if self.nullable else self.kind.instead
        may_be_none = self.nullable or self.joined

        def checked(value: Any) -> Any:
            if is_good(value) or (value is None and may_be_none):
                return value
            return damage.noted(name, instead)

        if (types := _ANY_OF.get(is_good)) is not None:  # most cells: a call less for each
            types |= {NoneType} if may_be_none else frozenset()
            return lambda value: value if type(value) in types else damage.noted(name, instead)
        if may_be_none and (is_good is _is_duration or is_good is _is_timestamp):
            numeric = _WITHIN[is_good].types
            return lambda value: (
                value
                if value is None or (type(value) in numeric and -MOST < value < MOST)
                else damage.noted(name, instead)
            )
        if name in SHAPES and self.decoded:
            return lambda value: None if (text := checked(value)) is None else json.loads(text)
        if isinstance(self.declared, Boolean):
            return lambda value: None if (number := checked(value)) is None else bool(number)
        return checked

    def takes(self, values: Sequence[Any]) -> bool:
        """Return whether all of these are good and left as they are; False if that takes a look at each of them."""
        types = set(map(type, values))
        if has_none := NoneType in types and (self.nullable or self.joined):
            types.discard(NoneType)
        is_good = self.kind.is_good
        if (any_of := _ANY_OF.get(is_good)) is not None:
            return types <= any_of
        within = _WITHIN.get(is_good)
        if within is None or not types <= within.types:
            return False
        numbers = [value for value in values if value is not None] if has_none else values
        return not numbers or (within.least <= min(numbers) and max(numbers) <= within.greatest)


def fetch(connection: Connection, statement: Select[Any]) -> list[tuple[Any, ...]]:
    """Execute a statement and return its rows, checked column by column: that costs a fraction of cell by cell."""
    columns: list[Sequence[Any]] = [*zip(*_unchecked(connection, statement), strict=True)]
    for place, (column, values) in enumerate(zip(statement.selected_columns, columns, strict=False)):
        kind = column.type
        if isinstance(kind, Cell) and kind.takes(values):
            continue
        processor = kind if isinstance(kind, Cell) else kind.dialect_impl(connection.dialect)
        if process := processor.result_processor(connection.dialect, None):
            columns[place] = [*map(process, values)]
    return [*zip(*columns, strict=True)]


def _unchecked(connection: Connection, statement: Select[Any]) -> Sequence[Any]:
    """Execute a statement and return its rows as SQLite has them; of text that is no UTF-8, what can be decoded."""
    driver: Any = connection.connection.driver_connection
    tolerant, driver.text_factory = driver.text_factory, str  # which costs no call for each text
    try:
        return _all(connection, statement)
    except OperationalError as error:
        if sqlite_code(error) is not None:  # not that Python could not decode a text
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
    """Give the columns of all tables, their keys apart, a type that checks what is read."""
    for table in metadata.tables.values():
        joined = table.name not in ("exchanges", "sessions")
        for column in table.c:
            if column.name not in ("no", "exchange_no", "session_no"):
                column.type = Cell(column.type, f"{table.name}.{column.name}", bool(column.nullable), joined)


def checked(table: Table) -> list[Column[Any]]:
    """Return the columns of a table whose cells are checked."""
    return [column for column in table.c if isinstance(column.type, Cell)]


def declared(column: Column[Any]) -> TypeEngine[Any]:
    """Return the type that a column was declared with."""
    return column.type.declared if isinstance(column.type, Cell) else column.type


def text_of(column: Column[Any]) -> Cell:
    """Return the type that gives a JSON column as text, checked all the same."""
    cell = column.type
    assert isinstance(cell, Cell)
    return Cell(cell.declared, cell.name, cell.nullable, cell.joined, decoded=False)


def least(column: Column[Any]) -> ColumnElement[Any]:
    """Return the least value of a column, None of no rows: what is never unknown in a row may be so of none."""
    return type_coerce(func.min(column), _of_rows(column))


def greatest(column: Column[Any]) -> ColumnElement[Any]:
    """Return the greatest value of a column, None of no rows."""
    return type_coerce(func.max(column), _of_rows(column))


def _of_rows(column: Column[Any]) -> Cell:
    cell = column.type
    assert isinstance(cell, Cell)
    return Cell(cell.declared, cell.name, cell.nullable, joined=True)


@dataclass(slots=True)
class Damage:
    """The damage that the queries of a connection have come upon: columns, and exchanges in which more is wrong."""

    columns: set[str] = field(default_factory=set)
    exchanges: dict[int, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.columns or self.exchanges)

    def noted(self, column: str, instead: Any) -> Any:
        """Note that a cell of a column is damaged, and return what is to stand for it."""
        self.columns.add(column)
        return instead

    def lines(self, connection: Connection, tables: MetaData) -> Iterator[str]:
        """Find the damaged rows, and tell of each in one line."""
        told: dict[tuple[str, int], list[str]] = {}
        for name in sorted(self.columns | {_BEHIND[name] for name in self.columns if name in _BEHIND}):
            table, _, column = name.partition(".")
            for key, problem in faults(connection, [tables.tables[table].c[column]], _ROWS_TOLD + 1):
                told.setdefault((table, key), []).append(problem)
        for no, problem in self.exchanges.items():
            told.setdefault(("exchanges", no), []).append(problem)
        for table, key in list(told)[:_ROWS_TOLD]:
            cure = "run 'wiretape db rebuild'" if table == "measures" else "see 'wiretape db check'"
            yield f"{row_of(connection, tables.tables[table], key)} is damaged: {'; '.join(told[table, key])}: {cure}"
        if len(told) > _ROWS_TOLD:
            yield "more rows are damaged: see 'wiretape db check'"


_BEHIND: Final = {"measures.model": "exchanges.request_model"}
"""A column that an expression of another one's type may have come from."""


def damage_of(reader: Dialect | Engine | Connection) -> Damage:
    """Return what has been found damaged through an engine."""
    dialect = reader if isinstance(reader, Dialect) else reader.dialect
    damage = dialect.__dict__.get("tape_damage")
    if damage is None:
        damage = dialect.__dict__["tape_damage"] = Damage()
    return damage


def faults(
    connection: Connection, columns: Sequence[Column[Any]], most: int | None = None
) -> Iterator[tuple[int, str]]:
    """Find the damaged cells of columns of one table: yield the key of the row and what is wrong, at most `most`."""
    table = columns[0].table
    key = table.c["no" if "no" in table.c else "exchange_no"]
    tests = [(cell.name, cell.kind, cell.nullable) for column in columns if isinstance(cell := column.type, Cell)]
    count = 0
    for number, *values in connection.execute(select(key, *(type_coerce(column, NullType()) for column in columns))):
        for (name, kind, nullable), value in zip(tests, values, strict=True):
            if not (kind.is_good(value) if value is not None else nullable):
                yield number, f"{name} is {_described(value)}, not {kind.meaning}"
                count += 1
                if count == most:
                    return


def row_of(connection: Connection, table: Table, key: int) -> str:
    """Name a row for people, by the exchange that it belongs to."""
    if table.name == "sessions":
        return f"session {key}"
    exchanges = table.metadata.tables["exchanges"]
    statement = select(type_coerce(exchanges.c.id, NullType())).where(exchanges.c.no == key)
    id: Any = connection.execute(statement).scalar()
    return f"exchange {id}" if isinstance(id, str) else f"exchange number {key}"


def _described(value: Any) -> str:
    match value:
        case None:
            return "missing"
        case bytes():
            return f"a blob of {len(value)} bytes"
        case str():
            return "text"
        case float() | int():
            return f"{value:.6g}" if isinstance(value, float) else str(value)
    return "something else"


@functools.cache
def _kind(declared: TypeEngine[Any], name: str) -> Kind:
    if name == "measures.outcome":
        return Kind(OUTCOMES.__contains__, "an outcome", "open")
    if name in SHAPES:
        return Kind(functools.partial(_has_shape, SHAPES[name]), "JSON of its shape", _empty(SHAPES[name]))
    if name in _PACKED:
        return _PACKED[name]
    column = name.partition(".")[2]
    if column.endswith("_at"):
        return Kind(_is_moment, "a time in UTC", _EPOCH)
    if column.endswith("_ns"):
        whole = isinstance(declared, Integer)
        return Kind(_is_timestamp if whole else _is_duration, "a number of nanoseconds")
    if column in _SIZES:
        return Kind(_is_size, "a size or a position")
    return next(kind for type, kind in _DECLARED if isinstance(declared, type))


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_blob(value: Any) -> bool:
    return type(value) is bytes


def _is_integer(value: Any) -> bool:
    return type(value) is int


def _is_small(value: Any) -> bool:
    return type(value) is int and -(1 << 31) <= value < 1 << 31


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_flag(value: Any) -> bool:
    return value in (0, 1) and type(value) is int


def _is_timestamp(value: Any) -> bool:
    return type(value) is int and -MOST < value < MOST


def _is_duration(value: Any) -> bool:
    return type(value) in (float, int) and -MOST < value < MOST


def _is_number(value: Any) -> bool:
    return type(value) in (float, int) and math.isfinite(value)


def _is_array(value: Any) -> bool:
    return type(value) is bytes and len(value) % 8 == 0


def _is_histogram(value: Any) -> bool:
    return type(value) is bytes and len(value) in (0, 4 * 64)


def _is_moment(value: Any) -> bool:
    try:
        return "1970" <= value[:4] < "9000" and datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _has_shape(shape: Any, value: Any) -> bool:
    return _shape_is_known(shape, value) if isinstance(value, str) and len(value) <= _SHORT else _fits(shape, value)


@functools.lru_cache(maxsize=1024)
def _shape_is_known(shape: Any, text: str) -> bool:
    """Say whether a short text has a shape: labels are the same in many exchanges."""
    return _fits(shape, text)


def _fits(shape: Any, value: Any) -> bool:
    try:
        _shaped(shape, value)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return False
    return True


def _shaped(shape: Any, text: Any) -> Any:
    if not isinstance(text, str):
        raise TypeError
    value = json.loads(text, parse_constant=_refuse)
    msgspec.convert(value, shape)
    return value


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _empty(shape: Any) -> str:
    return "{}" if getattr(shape, "__origin__", None) is dict else "[]"


@dataclass(frozen=True, slots=True)
class _Range:
    """What a test of numbers asks for: a type, and both ends included, limits."""

    types: frozenset[type]
    least: float
    greatest: float


_WHOLE: Final = frozenset({int})
_NUMBERS: Final = frozenset({int, float})
_WITHIN: Final[dict[Callable[[Any], bool], _Range]] = {
    _is_timestamp: _Range(_WHOLE, 1 - MOST, MOST - 1),
    _is_duration: _Range(_NUMBERS, math.nextafter(-MOST, 0), math.nextafter(MOST, 0)),
    _is_number: _Range(_NUMBERS, -sys.float_info.max, sys.float_info.max),
    _is_small: _Range(_WHOLE, -(1 << 31), (1 << 31) - 1),
    _is_size: _Range(_WHOLE, 0, MOST - 1),
}
_ANY_OF: Final[dict[Callable[[Any], bool], frozenset[type]]] = {
    _is_text: frozenset({str}),
    _is_blob: frozenset({bytes}),
    _is_integer: _WHOLE,
}
"""Tests that ask for nothing but a type."""
_PACKED: Final = {
    "measures.icl": Kind(_is_array, "a packed array of numbers"),
    "measures.gap_hist": Kind(_is_histogram, "a packed array of 64 numbers"),
}
_DECLARED: Final = (
    (Boolean, Kind(_is_flag, "0 or 1")),
    (Float, Kind(_is_number, "a finite number")),
    (BigInteger, Kind(_is_integer, "a whole number")),
    (Integer, Kind(_is_small, "a whole number of 32 bits")),
    (String, Kind(_is_text, "text", _UNREADABLE)),
    (LargeBinary, Kind(_is_blob, "a blob")),
)
"""What columns hold of which nothing else is known, by their declared types."""

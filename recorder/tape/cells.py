"""Cells of a tape, none of which is trusted: every cell is checked when it is read, in this one place.

SQLite keeps any value in any column, and a tape from elsewhere may hold any. A cell that is not of its column's kind
becomes unknown (None), or in a column without unknown values the `instead` of its kind; readers see only values of the
declared type. Bad cells are noted in the `Damage` of the connection, which names their rows to people.
"""

import functools
import json
import math
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, get_origin

import msgspec

from wiretape.recorder.clock import YEARS
from wiretape.recorder.decode.exchange import OUTCOMES
from wiretape.recorder.decode.turns import TurnMeasures
from wiretape.recorder.tape import packing
from wiretape.recorder.tape.packing import Place, Timestamp

MOST: Final = packing.MOST
"""Bound of measured values (ns, bytes): they are less than this."""

EPOCH: Final = "1970-01-01T00:00:00.000000Z"


class StoredToolCall(msgspec.Struct):
    """A tool call as `measures.tool_calls` has it."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class CellKind:
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
        numbers = [value for value in values if value is not None]
        return not numbers or (self.limits[0] <= min(numbers) and max(numbers) <= self.limits[1])


def _is_moment(value: str) -> bool:
    try:
        time = datetime.fromisoformat(value)
        return time.year in YEARS and time.tzinfo is not None
    except ValueError:
        return False


def _has_shape(shape: Any, text: str) -> bool:
    # Long texts would fill the cache's memory, and are hardly the same twice.
    return _short_has_shape(shape, text) if len(text) <= 256 else _short_has_shape.__wrapped__(shape, text)


@functools.lru_cache(maxsize=1024)  # labels are the same in many exchanges
def _short_has_shape(shape: Any, text: str) -> bool:
    try:
        msgspec.convert(json.loads(text, parse_constant=_refuse), shape)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _json(shape: Any) -> CellKind:
    empty = "{}" if get_origin(shape) is dict else "[]"
    return CellKind("JSON of its shape", frozenset({str}), None, functools.partial(_has_shape, shape), empty)


_Time = Timestamp | None
_WHOLE: Final = frozenset({int})
_NUMBERS: Final = frozenset({int, float})
_BLOB: Final = frozenset({bytes})
_PAIRS: Final = _json(list[tuple[str, str]])
_TIMES: Final = _json(list[Timestamp | None] | None)
_GAPS: Final = CellKind("a packed array of numbers", _BLOB, None, packing.are_gaps)
_DIGITS: Final = CellKind("an array of decimal digits", _BLOB, None, packing.is_array)
_TIMESTAMP: Final = CellKind("a number of nanoseconds", _WHOLE, (1 - MOST, MOST - 1))
_DURATION: Final = CellKind("a number of nanoseconds", _NUMBERS, (math.nextafter(-MOST, 0), math.nextafter(MOST, 0)))
_SIZE: Final = CellKind("a size or a position", _WHOLE, (0, MOST - 1))
_MOMENT: Final = CellKind("a time in UTC", frozenset({str}), None, _is_moment, EPOCH)
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
    "measures.turn_spans": _json(list[tuple[Timestamp, _Time, _Time, _Time, Place, bool, bool, str | None]]),
    "measures.event_runs": _json(list[tuple[str, Place, _Time]]),
    "measures.tool_spans": _json(list[tuple[Timestamp, Timestamp]]),
    "measures.turns": _json(list[TurnMeasures]),
    "measures.outcome": CellKind("an outcome", frozenset({str}), None, OUTCOMES.__contains__, "open"),
    **dict.fromkeys(("measures.icl", "measures.silences", "measures.ping_gaps"), _GAPS),
    "measures.gap_hist": CellKind("a packed array of 64 numbers", _BLOB, None, lambda value: len(value) in (0, 4 * 64)),
}
_BY_TYPE: Final = {
    "Boolean": CellKind("0 or 1", _WHOLE, (0, 1)),
    "Float": CellKind("a finite number", _NUMBERS, (-sys.float_info.max, sys.float_info.max)),
    "BigInteger": CellKind("a whole number", _WHOLE),
    "Integer": CellKind("a whole number of 32 bits", _WHOLE, (-(1 << 31), (1 << 31) - 1)),
    "Text": CellKind("text", frozenset({str}), instead="\ufffd"),
    "LargeBinary": CellKind("a blob", _BLOB),
}
"""Kinds of columns by their declared types, for columns without a kind of their own."""


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a SQL expression, by the name that SQLAlchemy gives it; its values are given as they are."""

    name: str

    @property
    def python_type(self) -> type[Any]:
        """The type of its values; of one that has no type, and of texts, `str`."""
        python_types = {"Boolean": bool, "Float": float, "BigInteger": int, "Integer": int, "LargeBinary": bytes}
        return python_types.get(self.name, str)

    def converter(self, damage: "Damage") -> Callable[[Any], Any] | None:
        """Return the function for each value, or None if values need no change."""
        return (lambda value: None if value is None else bool(value)) if self.name == "Boolean" else None

    def column(self, values: Sequence[Any], damage: "Damage") -> Sequence[Any]:
        """Return many values converted."""
        convert = self.converter(damage)
        return [*map(convert, values)] if convert else values


@functools.cache
def _kind(type: str, name: str) -> CellKind:
    if name in _NAMED:
        return _NAMED[name]
    column = name.partition(".")[2]
    if column.endswith("_at"):
        return _MOMENT
    if column.endswith("_ns"):
        return _TIMESTAMP if type.endswith("Integer") else _DURATION
    return _SIZE if column in _SIZES else _BY_TYPE[type]


@dataclass(frozen=True, slots=True)
class Cell(Type):
    """The type of a column's cells, by the name of the declared one: checked when it is read.

    `nullable` is the column's; if it is `joined` to others, None is good nevertheless. `decoded` is whether JSON and
    booleans are given as values, and not as the text, or the 0 or 1, that the tape has.
    """

    column_name: str
    nullable: bool
    joined: bool
    decoded: bool = True

    @property
    def kind(self) -> CellKind:
        """The kind of its valid values."""
        return _kind(self.name, self.column_name)

    def converter(self, damage: "Damage") -> Callable[[Any], Any]:
        """Return a function that checks a value, and decodes JSON."""
        kind, name = self.kind, self.column_name
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
        """Return the function that decodes a valid cell, or None if none is needed."""
        if self.kind is _GAPS:
            return packing.unpack_gaps
        if self.kind is _DIGITS:
            return packing.numbers_of
        if self.kind.instead in ("[]", "{}") and self.decoded:
            return json.loads
        return bool if self.name == "Boolean" and self.decoded else None

    def column(self, values: Sequence[Any], damage: "Damage") -> Sequence[Any]:
        """Return many cells checked: that costs a fraction of one by one."""
        is_good = (self.nullable or self.joined or None not in values) and self.kind.are_good(values)
        if is_good and self.kind is _GAPS:
            return packing.unpack_all_gaps(values)
        return values if is_good and self._decoder() is None else [*map(self.converter(damage), values)]


def pack(value: Any, cell: Cell) -> Any:
    """Return a value of a column as the tape has it."""
    return packing.pack_gaps(value) if cell.kind is _GAPS and value else value


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


def faults(driver: sqlite3.Connection, table: str, cells: Sequence[Cell]) -> Iterator[tuple[int, str]]:
    """Find the damaged cells of columns of a table; yield the key of the row and the problem."""
    # The tables whose key is `no`.
    key = "no" if table in ("exchanges", "sessions", "request_parts") else "exchange_no"
    names = ", ".join(f'"{name}"' for name in (key, *(cell.column_name.partition(".")[2] for cell in cells)))
    cursor = driver.execute(f'SELECT {names} FROM "{table}"')
    while batch := cursor.fetchmany(1000):
        _, *columns = zip(*batch, strict=True)
        doubtful = [
            place
            for place, (cell, values) in enumerate(zip(cells, columns, strict=True))
            if not ((cell.nullable or None not in values) and cell.kind.are_good(values))
        ]
        for number, *values in batch if doubtful else ():
            for place in doubtful:
                cell, value = cells[place], values[place]
                if not (cell.kind.is_good(value) if value is not None else cell.nullable):
                    yield number, f"{cell.column_name} is {_described(value)}, not {cell.kind.meaning}"


def row_of(driver: sqlite3.Connection, table: str, key: int) -> str:
    """Name a row for people, by the exchange that it belongs to."""
    if table == "sessions":
        return f"session {key}"
    row = driver.execute("SELECT id FROM exchanges WHERE no = ?", (key,)).fetchone()
    return f"exchange {row[0]}" if row and isinstance(row[0], str) else f"exchange number {key}"


def _described(value: Any) -> str:
    if isinstance(value, bytes):
        return f"a blob of {len(value)} bytes"
    if isinstance(value, float):
        return f"{value:.6g}"
    return {type(None): "missing", str: "text"}.get(type(value)) or str(value)

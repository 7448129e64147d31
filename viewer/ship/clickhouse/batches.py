"""Pure: an encoder of the tape's rows as rows of the server's tables, in RowBinary.

Equal rows always make equal bytes, so that a server recognises a repeated batch.

RowBinary has little-endian numbers; texts are a length (LEB128) and bytes, arrays a length and elements. A flag byte
precedes each nullable value. The format does not describe itself: the columns of the table must have exactly these
types. Texts may be any bytes, without escapes.
"""

import calendar
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from wiretape.recorder.destinations import TENANT
from wiretape.viewer.ship.sink import ShippedLabels
from wiretape.viewer.source.clickhouse import tables
from wiretape.viewer.source.clickhouse.tables import EngineColumn, EngineTable

_LAST_SECOND: Final = (1 << 32) - 1

Values = Sequence[Any]


class RowEncoder:
    """Encodes data of the tape as rows of one table: the values of `sources`, in their order."""

    def __init__(self, table: EngineTable, origin: ShippedLabels) -> None:
        self.table = table
        self.origin = origin
        named = {column.name: column.source for column in table.columns if column.source is not None}
        self.sources = tuple(named.values())
        self._places = {name: place for place, name in enumerate(named)}
        self._encoders = [(column, column_encoder(column.type)) for column in table.columns]

    def encode(
        self,
        rows: Sequence[Values],
        labels: Sequence[Mapping[str, str]] = (),
        added: Mapping[str, object] = MappingProxyType({}),
    ) -> bytes:
        """Return rows as the server reads them; `labels` are those of each, `added` are columns that all share."""
        if not rows:
            return b""
        columns = [*zip(*rows, strict=True)]
        whose = {TENANT: self.origin.tenant} if self.origin.tenant else {}  # which no client can say
        merged = [[*{**self.origin.labels, **own, **whose}.items()] for own in labels]
        shared = {"tenant": self.origin.tenant, "host": self.origin.host, **added}
        return joined_rows(
            encode(
                [shared[column.name]] * len(rows) if column.name in shared else self._values(column, columns, merged)
            )
            for column, encode in self._encoders
        )

    def _values(
        self, column: EngineColumn, columns: Sequence[Values], labels: Sequence[list[tuple[str, str]]]
    ) -> Values:
        match column.name:
            case "started":
                return [*map(second, columns[self._places["started_at"]])]
            case "label_names" | "label_values":
                return [[pair[column.name == "label_values"] for pair in pairs] for pairs in labels]
        values = columns[self._places[column.name]]
        return _PREPARED[column.type](values) if column.type in _PREPARED else values


def second(moment: str) -> int:
    """Return a timestamp of the tape in whole seconds since 1970, within the limits of the engine's clock."""
    return min(max(calendar.timegm(datetime.fromisoformat(moment).utctimetuple()), 0), _LAST_SECOND)


def _packed(values: Values) -> Values:
    return [value or b"" for value in values]


def _listed(values: Values) -> Values:
    return [value or [] for value in values]  # null, where nobody knows the times, has none


_PREPARED: Final[Mapping[str, Callable[[Values], Values]]] = {
    tables.GAPS: _packed,
    tables.COUNTS: _packed,
    tables.PLACES: _listed,
}


_NULL: Final = b"\x01"
_FORMATS: Final = {
    "Int64": "q", "UInt64": "Q", "Int32": "i", "UInt32": "I", "UInt8": "B", "Float64": "d", "DateTime('UTC')": "I",
}  # fmt: skip
_SHORT: Final = [bytes([length]) for length in range(0x80)]
ColumnEncoder = Callable[[Sequence[Any]], Sequence[bytes]]
"""An encoder of a column's values."""


def column_encoder(type: str) -> ColumnEncoder:
    """Return the encoder of a column's type. Raises `ValueError` for one that no column here has."""
    if type.startswith("Nullable("):
        return _nullable(type[len("Nullable(") : -1])
    if type.startswith("Array("):
        return _array(type[len("Array(") : -1])
    if type == "String":
        return _texts
    if type not in _FORMATS:
        raise ValueError(f"{type} is not encoded")
    pack = struct.Struct(f"<{_FORMATS[type]}").pack
    return lambda values: [*map(pack, values)]


def joined_rows(columns: Iterable[Sequence[bytes]]) -> bytes:
    """Join columns of encoded values row by row."""
    return b"".join(chain.from_iterable(zip(*columns, strict=True)))


def length(number: int) -> bytes:
    """Return a length as LEB128."""
    if number < 0x80:
        return _SHORT[number]
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
    return length(len(data)) + data


def _texts(values: Sequence[Any]) -> Sequence[bytes]:
    """Encode texts, each that occurs again once: most columns have few."""
    known = {value: _text(value) for value in set(values)}
    return [known[value] for value in values]


def _nullable(type: str) -> ColumnEncoder:
    if type == "String":
        return _nullable_texts
    pack = struct.Struct(f"<B{_FORMATS[type]}").pack
    return lambda values: [_NULL if value is None else pack(0, value) for value in values]


def _nullable_texts(values: Sequence[Any]) -> Sequence[bytes]:
    known = {value: _NULL if value is None else b"\0" + _text(value) for value in set(values)}
    return [known[value] for value in values]


def _array(type: str) -> ColumnEncoder:
    if type in _FORMATS:
        size = struct.calcsize(f"<{_FORMATS[type]}")
        return lambda values: [length(len(data) // size) + data for data in values]  # numbers come packed
    element = column_encoder(type)
    return lambda values: [length(len(items)) + b"".join(element(items)) for items in values]

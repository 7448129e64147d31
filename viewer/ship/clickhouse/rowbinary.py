"""ClickHouse's RowBinary: values as the server reads them, column by column, joined row by row. Pure.

Numbers are little-endian, a text is its length (LEB128) and its bytes, an array its length and its elements, and before
a value that may be NULL stands a flag byte. The format does not describe itself: rows fit only if the columns of the
table have exactly these types. A text may be any bytes: nothing has to be escaped.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Final

_NULL: Final = b"\x01"
_FORMATS: Final = {
    "Int64": "q", "UInt64": "Q", "Int32": "i", "UInt32": "I", "UInt8": "B", "Float64": "d", "DateTime('UTC')": "I",
}  # fmt: skip
_SHORT: Final = [bytes([length]) for length in range(0x80)]

Encoder = Callable[[Sequence[Any]], Sequence[bytes]]
"""An encoder of a column's values."""


def encoder(type: str) -> Encoder:
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


def rows(columns: Iterable[Sequence[bytes]]) -> bytes:
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


def _nullable(type: str) -> Encoder:
    if type == "String":
        return _nullable_texts
    pack = struct.Struct(f"<B{_FORMATS[type]}").pack
    return lambda values: [_NULL if value is None else pack(0, value) for value in values]


def _nullable_texts(values: Sequence[Any]) -> Sequence[bytes]:
    known = {value: _NULL if value is None else b"\0" + _text(value) for value in set(values)}
    return [known[value] for value in values]


def _array(type: str) -> Encoder:
    if type in _FORMATS:
        size = struct.calcsize(f"<{_FORMATS[type]}")
        return lambda values: [length(len(data) // size) + data for data in values]  # numbers come packed
    element = encoder(type)
    return lambda values: [length(len(items)) + b"".join(element(items)) for items in values]

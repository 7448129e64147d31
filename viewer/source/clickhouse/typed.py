"""The values of an answer in JSON, by the types of its columns: there, whole numbers of 64 bits are texts. Pure."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

Convert = Callable[[Any], Any]

_PARTS: Final = re.compile(r"\w+|[(),]|'[^']*'")
_PLAIN: Final[dict[str, Convert]] = {"Int64": int, "UInt64": int, "Float64": float, "Float32": float}
"""Converters of JSON values, by type; values of other types need none."""


def rows(types: Sequence[str], rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows with their values converted in place. Raises `ValueError` and `TypeError` for invalid values."""
    converts = {place: convert for place, type in enumerate(types) if (convert := _convert(type)) is not None}
    for row in rows:
        for place, convert in converts.items():
            if row[place] is not None:
                row[place] = convert(row[place])
    return rows


def _convert(type: str) -> Convert | None:
    """Return the converter for a type's values other than null, or None if none is needed."""
    return _read(_PARTS.findall(type))


def _read(parts: list[str]) -> Convert | None:
    """Return the converter for the type at the front of these parts, which it consumes."""
    name, inner = parts.pop(0), list[Convert | None]()
    if parts and parts[0] == "(":
        while parts.pop(0) != ")":  # an opening parenthesis, or a comma
            inner.append(_read(parts))
    match name:
        case "Nullable" | "LowCardinality":
            return inner[0]
        case "Array":
            return _each(inner[0])
        case "Tuple":
            return _together(inner)
    return _PLAIN.get(name)


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if value is None else convert(value) for value in values]


def _together(converts: list[Convert | None]) -> Convert:
    def converted(values: Sequence[object]) -> list[Any]:
        pairs = zip(converts, values, strict=True)
        return [value if convert is None or value is None else convert(value) for convert, value in pairs]

    return converted

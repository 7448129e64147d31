"""Rows as a Parquet file, through pyarrow, the extra `wiretape[parquet]`: the only module that loads it.

Columns are typed as `fields` says: integers are int64, numbers float64, texts UTF-8 strings, timestamps microseconds of
UTC, words (`flags`, `kinds`, `warnings`) lists of strings; structures are strings of JSON. Unknown is null. Unit and
meaning are in each column's metadata. Row groups are written as they fill, so that memory does not grow with the tape.
A lone surrogate, which UTF-8 has no bytes for, is written as its escape, and an integer beyond 64 bits is null.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, BinaryIO, Final

from wiretape.recorder.commands.options import install_hint
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer.export.fields import ExportField, Kind
from wiretape.viewer.record import cells, units
from wiretape.viewer.record.rows import TableRow

# A group is held in memory as a whole, and one text may have megabytes.
_ROWS: Final = 10_000
_CHARACTERS: Final = 1 << 22
"""Limits of a row group: its rows, and the characters of their texts."""

_INT64: Final = range(-(1 << 63), 1 << 63)


def write(out: BinaryIO, fields: Sequence[ExportField], table_rows: Iterable[TableRow]) -> int:
    """Write rows and return their count. Raises `WiretapeError` if pyarrow is not installed."""
    arrow = pyarrow()
    schema, count = _schema(arrow, fields), 0
    with arrow.parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for group in _groups(table_rows, [field.name for field in fields if field.kind in ("text", "json")]):
            arrays = []
            for field, column in zip(fields, schema, strict=True):
                values, converter = [row[field.name] for row in group], _CONVERTERS.get(field.kind)
                if converter is not None:
                    values = [None if value is None else converter(value) for value in values]
                arrays.append(arrow.array(values, column.type))
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            count += len(group)
    return count


def pyarrow() -> ModuleType:
    """Return pyarrow, with its `parquet`. Raises `WiretapeError` where it is not installed."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise WiretapeError(f"Parquet needs pyarrow: {install_hint('parquet')}") from error


def _schema(arrow: ModuleType, fields: Sequence[ExportField]) -> Any:
    types = {
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "boolean": arrow.bool_(),
        "timestamp": arrow.timestamp("us", tz="UTC"),
        "words": arrow.list_(arrow.string()),
    }
    columns = []
    for field in fields:
        unit = {} if field.unit is None else {"unit": field.unit}
        metadata = {"type": field.kind, **unit, "meaning": field.meaning}
        columns.append(arrow.field(field.name, types.get(field.kind, arrow.string()), metadata=metadata))
    return arrow.schema(columns)


def _groups(table_rows: Iterable[TableRow], texts: Sequence[str]) -> Iterator[list[TableRow]]:
    group: list[TableRow] = []
    size = 0
    for row in table_rows:
        group.append(row)
        for name in texts:
            if (value := row[name]) is not None:
                size += len(value if type(value) is str else str(cells.flat(value)))
        if len(group) >= _ROWS or size >= _CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _words(value: str | list[str]) -> list[str]:
    return [cells.encodable(word) for word in (value.split() if isinstance(value, str) else value)]


_CONVERTERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    "text": cells.encodable,
    "json": cells.encodable,
    "words": _words,
    "boolean": bool,
    "timestamp": units.timestamp,
    "integer": lambda value: value if value in _INT64 else None,
}
"""Converters of known values for pyarrow, by kind; the values of other kinds need none."""

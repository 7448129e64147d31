"""Rows of an archive: the columns of the centre's tables as Parquet, and the partitions in which they are.

A file is `TABLE/date=YYYY-MM-DD/host=NAME/…parquet`: `date` is the day when an exchange started, UTC, and both are
columns to whoever reads it. Columns are typed as `viewer.export.parquet` does, gaps and reads are lists of int64, and
texts that were recorded as bytes are binary. Unknown is null.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from types import ModuleType
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import LargeBinary

from recorder.tape.cells import declared
from viewer import rows
from viewer.fleet import tables
from viewer.fleet.batches import Origin
from viewer.fleet.tables import EngineColumn, EngineTable

VERSION: Final = tables.ROW_VERSION
KEY: Final = ("tenant", "id")
"""Of rows with the same key, all of which are of one day, that with the highest `VERSION` counts."""

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_LEFT_OUT: Final = frozenset({"started", "host", "label_values"})
"""What the partition says, or `labels`, which stands where the centre has the names of labels."""


def day(date: str, host: str) -> str:
    """Return the path of a partition, below that of its table."""
    return f"date={date}/host={escaped(host)}"


def escaped(value: str) -> str:
    """Return a text as the value of a partition: percent-encoded as Hive does, and more."""
    return quote(value.encode("utf-8", "replace"), safe="") or _NULL


@dataclass(frozen=True, slots=True)
class Cells:
    """A column: its name, its type, and what makes an array of its values."""

    name: str
    type: Any
    meaning: str
    array: Callable[[Sequence[Any]], Any]


class Maker:
    """Makes Arrow tables of what is read of the tape: the version, the labels, and the values of `sources`."""

    def __init__(self, arrow: ModuleType, table: EngineTable, origin: Origin) -> None:
        self._arrow, self._origin = arrow, origin
        kept = [column for column in table.columns if column.name not in _LEFT_OUT]
        self._columns = kept
        self.sources = tuple(column.source for column in kept if column.source is not None)
        self._cells = [self._cell(column) for column in kept]
        self.schema = arrow.schema(
            arrow.field(cell.name, cell.type, metadata={"meaning": cell.meaning}) for cell in self._cells
        )
        self._started = 2 + [column.name for column in kept if column.source is not None].index("started_at")

    def by_day(self, found: Sequence[Sequence[Any]]) -> Iterator[tuple[str, Any]]:
        """Yield the days on which exchanges started, and a table of those."""
        days: dict[str, list[Sequence[Any]]] = {}
        for row in found:
            started = rows.timestamp(row[self._started]).astimezone(UTC)
            days.setdefault(started.date().isoformat(), []).append(row)
        for date, its in days.items():
            yield date, self._table(its)

    def _table(self, found: Sequence[Sequence[Any]]) -> Any:
        _, labels, *values = zip(*found, strict=True)
        of_source = iter(values)
        arrays = []
        for column, cell in zip(self._columns, self._cells, strict=True):
            if column.source is not None:
                arrays.append(cell.array(next(of_source)))
            elif column.name == "tenant":
                arrays.append(cell.array([self._origin.tenant] * len(found)))
            else:
                arrays.append(cell.array([self._labels(own) for own in labels]))
        return self._arrow.Table.from_arrays(arrays, schema=self.schema)

    def _labels(self, own: Mapping[str, str]) -> str:
        return json.dumps({**self._origin.labels, **own}, ensure_ascii=False, sort_keys=True)

    def _cell(self, column: EngineColumn) -> Cells:
        arrow = self._arrow
        if column.name == "label_names":
            return self._plain("labels", arrow.string(), "its labels: {key: value}", _text)
        if column.type in (tables.GAPS, tables.COUNTS):
            number = arrow.int64() if column.type == tables.GAPS else arrow.uint32()
            return Cells(
                column.name, arrow.list_(arrow.int64()), column.meaning, lambda values: _packed(arrow, number, values)
            )
        type, written = self._typed(column)
        return self._plain(column.name, type, column.meaning, written)

    def _typed(self, column: EngineColumn) -> tuple[Any, Callable[[Any], Any] | None]:
        """Return the type of a column, and what makes a cell of a known value, where it is not the value itself."""
        arrow = self._arrow
        if column.name.endswith("_at"):
            return arrow.timestamp("us", tz="UTC"), rows.timestamp
        if column.name == "flags":
            return arrow.list_(arrow.string()), lambda value: _text(value).split()
        if column.type == tables.PLACES:
            return arrow.list_(arrow.int64()), None
        if column.source is not None and isinstance(declared(column.source), LargeBinary):
            return arrow.binary(), None
        if "UInt8" in column.type:
            return arrow.bool_(), bool
        if "Int" in column.type:
            return arrow.int64(), None
        return (arrow.float64(), None) if "Float" in column.type else (arrow.string(), _text)

    def _plain(self, name: str, type: Any, meaning: str, written: Callable[[Any], Any] | None) -> Cells:
        def array(values: Sequence[Any]) -> Any:
            known = values if written is None else [None if value is None else written(value) for value in values]
            return self._arrow.array(known, type)

        return Cells(name, type, meaning, array)


def _text(value: Any) -> str:
    return rows.encodable(value)


def _packed(arrow: ModuleType, number: Any, values: Sequence[bytes | None]) -> Any:
    """Return packed numbers as lists of int64, without making a Python object of each."""
    width, offsets = number.bit_width // 8, [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or b"") // width)
    buffer = arrow.py_buffer(b"".join(value or b"" for value in values))
    items = arrow.Array.from_buffers(number, offsets[-1], [None, buffer]).cast(arrow.int64())
    mask = arrow.array([value is None for value in values], arrow.bool_())
    return arrow.ListArray.from_arrays(arrow.array(offsets, arrow.int32()), items, mask=mask)


_NEWEST: Final = "row_number() OVER (PARTITION BY date, tenant, id ORDER BY row_version DESC)"
STATEMENTS: Final = {
    "DuckDB": (
        "CREATE VIEW exchanges AS SELECT * FROM read_parquet('DIR/exchanges/*/*/*.parquet', union_by_name = true, "
        "hive_partitioning = true, hive_types = {'date': DATE, 'host': VARCHAR}) "
        f"QUALIFY {_NEWEST} = 1"
    ),
    "Spark": (
        "CREATE TEMPORARY VIEW archived USING parquet OPTIONS (path 'DIR/exchanges', mergeSchema 'true'); "
        "CREATE TEMPORARY VIEW exchanges AS SELECT * FROM "
        f"(SELECT *, {_NEWEST} AS place FROM archived) WHERE place = 1"
    ),
    "ClickHouse": (
        "CREATE VIEW exchanges AS SELECT * FROM file('DIR/exchanges/*/*/*.parquet', Parquet) "
        "ORDER BY row_version DESC LIMIT 1 BY date, tenant, id "
        "SETTINGS use_hive_partitioning = 1, schema_inference_mode = 'union'"
    ),
}
"""How engines read an archive in DIR: each exchange once, in the newest version."""

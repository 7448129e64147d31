"""Rows of an archive: the columns of the server's tables as Parquet, and the partitions in which they are.

A file is `TABLE/date=YYYY-MM-DD/host=NAME/…parquet`: `date` is the day when an exchange, or the run of a recorder,
started, UTC; both are columns to readers. Columns are typed as `wiretape.viewer.export.parquet` does, gaps and reads
are lists of int64, and texts that were recorded as bytes are binary. Unknown is null.

Engines read an archive through a view of each of its tables, with every row once, in its newest version.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate, chain
from operator import is_not
from types import MappingProxyType, ModuleType
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import LargeBinary

from wiretape.recorder.tape.cells import declared
from wiretape.viewer import rows
from wiretape.viewer.ship.sink import ShippedLabels
from wiretape.viewer.source.clickhouse import tables
from wiretape.viewer.source.clickhouse.tables import EngineColumn, EngineTable

VERSION: Final = tables.ROW_VERSION
GROUP_BYTES: Final = 2 << 20
"""A row group ends at this size in memory: one is held while it is written, or read to be merged."""
_PAGE_BYTES: Final = 64 << 10
"""With pages of 1 MiB, which is usual, a writer takes 10 MiB more."""
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LABEL_NAMES: Final = "label_names"
_LEFT_OUT: Final = frozenset({"started", "host", "label_values"})
"""Columns that the partition replaces, or `labels`, which stands for the server's columns of labels."""

ArrowValue = Any
"""A value of pyarrow, which is optional and has no types."""

Build = Callable[[Sequence[Any]], ArrowValue]
"""Makes an array of values; None is unknown."""

_INT64: Final = "q"
_FLOAT64: Final = "d"
_INT32: Final = "i"
_is_known: Final = partial(is_not, None)
_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")


class ArrayBuilders:
    """Builders of the arrays of one pyarrow."""

    def __init__(self, arrow: ModuleType) -> None:
        self._arrow = arrow

    def integers(self, type: object) -> Build:
        """Return a builder of a type that is stored as int64."""
        return lambda values: self._numbers(type, _INT64, values)

    def floats(self) -> Build:
        """Return a builder of float64."""
        return lambda values: self._numbers(self._arrow.float64(), _FLOAT64, values)

    def booleans(self, values: Sequence[bool | int | None]) -> ArrowValue:
        """Return an array of true and false; 0 is false."""
        bits = self._bits(map(bool, values))
        return self._arrow.Array.from_buffers(self._arrow.bool_(), len(values), [self._known(values), bits])

    def texts(self, values: Sequence[str | None]) -> ArrowValue:
        """Return an array of texts; each that occurs again is encoded once."""
        encoded = {value: value.encode("utf-8", "backslashreplace") for value in {*values} if value is not None}
        return self._strings(self._arrow.string(), [None if value is None else encoded[value] for value in values])

    def blobs(self, values: Sequence[bytes | None]) -> ArrowValue:
        """Return an array of bytes."""
        return self._strings(self._arrow.binary(), values)

    def lists(self, element: object, build: Build) -> Build:
        """Return a builder of lists, whose elements `build` makes an array of."""

        def made(values: Sequence[Sequence[object] | None]) -> ArrowValue:
            lengths = [0 if value is None else len(value) for value in values]
            elements = build([*chain.from_iterable(value for value in values if value is not None)])
            return self._lists(element, values, lengths, elements)

        return made

    def packed(self, code: str) -> Build:
        """Return a builder of lists of int64 whose numbers come packed, as those of an `array` of a type."""
        element = self._arrow.int64()

        def made(values: Sequence[bytes | None]) -> ArrowValue:
            numbers = array(code, b"".join(value for value in values if value is not None))
            lengths = [0 if value is None else len(value) // numbers.itemsize for value in values]
            data = self._arrow.py_buffer(numbers if code == _INT64 else array(_INT64, numbers))
            elements = self._arrow.Array.from_buffers(element, len(numbers), [None, data])
            return self._lists(element, values, lengths, elements)

        return made

    def _numbers(self, type: object, code: str, values: Sequence[Any]) -> ArrowValue:
        data = array(code, [0 if value is None else value for value in values])
        buffers = [self._known(values), self._arrow.py_buffer(data)]
        return self._arrow.Array.from_buffers(type, len(values), buffers)

    def _strings(self, type: object, values: Sequence[bytes | None]) -> ArrowValue:
        offsets = self._offsets(0 if value is None else len(value) for value in values)
        data = self._arrow.py_buffer(b"".join(value for value in values if value is not None))
        return self._arrow.Array.from_buffers(type, len(values), [self._known(values), offsets, data])

    def _lists(self, element: object, values: Sequence[object], lengths: Sequence[int], elements: object) -> ArrowValue:
        buffers = [self._known(values), self._offsets(lengths)]
        type = self._arrow.list_(element)
        return self._arrow.Array.from_buffers(type, len(values), buffers, children=[elements])

    def _offsets(self, lengths: Iterable[int]) -> ArrowValue:
        return self._arrow.py_buffer(array(_INT32, accumulate(lengths, initial=0)))

    def _known(self, values: Sequence[object]) -> ArrowValue:
        """Return a bitmap of the values that are not None; None: all."""
        return self._bits(map(_is_known, values)) if None in values else None

    def _bits(self, values: Iterable[bool]) -> ArrowValue:
        """Return a bit for each value, that of the first one lowest."""
        digits = bytes(values)[::-1].translate(_DIGITS)
        return self._arrow.py_buffer(int(b"0" + digits, 2).to_bytes(len(digits) // 8 + 1, "little"))


def key(table: EngineTable) -> tuple[str, ...]:
    """Return the key columns: of rows with the same key, the one with the highest `VERSION` counts.

    Such rows are all of one day.
    """
    return tuple(name for name in table.key if name not in _LEFT_OUT)


def day(started_at: str) -> str:
    """Return the day of a wall time, UTC."""
    return rows.timestamp(started_at).astimezone(UTC).date().isoformat()


def partition(table: EngineTable, date: str, host: str) -> str:
    """Return the directory of a day and a host."""
    return f"{table.name}/date={date}/{host_directory(host)}"


def host_directory(host: str) -> str:
    """Return the name of a host's directory: percent-encoded as Hive does, and more."""
    return f"host={quote(host.encode('utf-8', 'replace'), safe='') or _NULL}"


class TableMaker:
    """Makes Arrow tables from data of the tape: the values of `sources`, in their order."""

    def __init__(self, arrow: ModuleType, table: EngineTable, origin: ShippedLabels) -> None:
        self._arrow, self._origin = arrow, origin
        self._columns = [column for column in table.columns if column.name not in _LEFT_OUT]
        self.sources = tuple(column.source for column in self._columns if column.source is not None)
        types = [_type(arrow, column) for column in self._columns]
        self._builds = [build for _, build in types]
        self.schema = arrow.schema(
            _field(arrow, column, type) for column, (type, _) in zip(self._columns, types, strict=True)
        )

    def table(
        self,
        values: Sequence[Sequence[object]],
        labels: Sequence[Mapping[str, str]] = (),
        added: Mapping[str, object] = MappingProxyType({}),
    ) -> ArrowValue:
        """Return rows as a table; `labels` are those of each, `added` are columns that all share."""
        of_source = iter(zip(*values, strict=True))
        shared = {"tenant": self._origin.tenant, **added}
        arrays = []
        for column, build in zip(self._columns, self._builds, strict=True):
            if column.source is not None:
                arrays.append(build(next(of_source)))
            elif column.name in shared:
                arrays.append(build([shared[column.name]] * len(values)))
            else:
                arrays.append(build([self._labels(own) for own in labels]))
        return self._arrow.Table.from_arrays(arrays, schema=self.schema)

    def _labels(self, own: Mapping[str, str]) -> str:
        return json.dumps({**self._origin.labels, **own}, ensure_ascii=False, sort_keys=True)


def _field(arrow: ModuleType, column: EngineColumn, type: object) -> ArrowValue:
    name, about = column.name, column.meaning
    if name == _LABEL_NAMES:
        name, about = "labels", "its labels: {key: value}"
    return arrow.field(name, type, metadata={"meaning": about})


def _type(arrow: ModuleType, column: EngineColumn) -> tuple[ArrowValue, Build]:
    """Return the type of a column, and the builder of arrays of its values."""
    arrays, source = ArrayBuilders(arrow), column.source
    integers = arrow.list_(arrow.int64())
    if column.type in (tables.GAPS, tables.COUNTS):
        return integers, arrays.packed("q" if column.type == tables.GAPS else "I")
    if column.type == tables.PLACES:
        return integers, arrays.lists(arrow.int64(), arrays.integers(arrow.int64()))
    if column.name == "flags":
        words = arrays.lists(arrow.string(), arrays.texts)
        return arrow.list_(arrow.string()), lambda values: words([value and value.split() for value in values])
    if column.name.endswith("_at"):
        moment = arrow.timestamp("us", tz="UTC")
        build = arrays.integers(moment)
        return moment, lambda values: build([value and _microseconds(value) for value in values])
    if source is not None and isinstance(declared(source), LargeBinary):
        return arrow.binary(), arrays.blobs
    if "UInt8" in column.type:
        return arrow.bool_(), arrays.booleans
    if "Int" in column.type:
        return arrow.int64(), arrays.integers(arrow.int64())
    return (arrow.float64(), arrays.floats()) if "Float" in column.type else (arrow.string(), arrays.texts)


def _microseconds(moment: str) -> int:
    return (rows.timestamp(moment) - _EPOCH) // _MICROSECOND


def write_tables(arrow: ModuleType, schema: ArrowValue, parts: Iterable[ArrowValue], out: ArrowValue) -> None:
    """Write tables to an open file as row groups of about `GROUP_BYTES`."""
    with _writer(arrow, schema, out) as writer:
        group, size = [], 0
        for part in parts:
            group.append(part)
            size += part.nbytes
            if size >= GROUP_BYTES:
                writer.write_table(arrow.concat_tables(group))
                group, size = [], 0
        if group:
            writer.write_table(arrow.concat_tables(group))


def _writer(arrow: ModuleType, schema: ArrowValue, out: object) -> ArrowValue:
    """Return a writer. Texts come again and again, gaps do not: a dictionary of these takes memory and time."""
    texts, numbers = [], {}
    for field in schema:
        is_list = arrow.types.is_list(field.type)
        name, type = (f"{field.name}.list.element", field.type.value_type) if is_list else (field.name, field.type)
        if arrow.types.is_string(type):
            texts.append(name)
        elif is_list:
            numbers[name] = "DELTA_BINARY_PACKED"
    return arrow.parquet.ParquetWriter(
        out,
        schema,
        compression="zstd",
        use_dictionary=texts,
        column_encoding=numbers or None,
        data_page_size=_PAGE_BYTES,
    )


Statement = Callable[[str, str], str]
"""Makes the statement of a table's view; the columns of its key are separated by commas."""


def _duckdb(table: str, key: str) -> str:
    return (
        f"CREATE VIEW {table} AS SELECT * FROM read_parquet('DIR/{table}/*/*/*.parquet', union_by_name = true, "
        "hive_partitioning = true, hive_types = {'date': DATE, 'host': VARCHAR}) "
        f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {VERSION} DESC) = 1"
    )


def _spark(table: str, key: str) -> str:
    return (
        f"CREATE TEMPORARY VIEW {table}_files USING parquet OPTIONS (path 'DIR/{table}', mergeSchema 'true'); "
        f"CREATE TEMPORARY VIEW {table} AS SELECT * FROM (SELECT *, "
        f"row_number() OVER (PARTITION BY {key} ORDER BY {VERSION} DESC) AS place FROM {table}_files) WHERE place = 1"
    )


def _clickhouse(table: str, key: str) -> str:
    return (
        f"CREATE VIEW {table} AS SELECT * FROM file('DIR/{table}/*/*/*.parquet', Parquet) "
        f"ORDER BY {VERSION} DESC LIMIT 1 BY {key} "
        "SETTINGS use_hive_partitioning = 1, schema_inference_mode = 'union'"
    )


ENGINES: Final[dict[str, Statement]] = {"DuckDB": _duckdb, "Spark": _spark, "ClickHouse": _clickhouse}
JOIN: Final = "SELECT id, sessions.host, pid FROM exchanges LEFT JOIN sessions USING (tenant, session)"
"""Exchanges with the runs of recorders that they are of, in each of these engines."""


def view_statements(engine: str) -> Iterator[str]:
    """Yield the statements that make the views of an archive in DIR."""
    for table in tables.SHIPPED:
        yield ENGINES[engine](table.name, ", ".join(("date", *key(table))))

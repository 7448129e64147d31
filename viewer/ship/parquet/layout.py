"""Rows of an archive: the columns of the server's tables as Parquet, and the partitions in which they are.

A file is `TABLE/date=YYYY-MM-DD/host=NAME/…parquet`: `date` is the day when an exchange, or the run of a recorder,
started, UTC; both are columns to readers. Columns are typed as `wiretape.viewer.export.parquet` does, gaps and reads
are lists of int64, and texts that were recorded as bytes are binary. Unknown is null.

Engines read an archive through a view of each of its tables, with every row once, in its newest version.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType, ModuleType
from typing import Final
from urllib.parse import quote

from sqlalchemy import LargeBinary

from wiretape.recorder.tape.cells import declared
from wiretape.viewer import rows
from wiretape.viewer.ship.parquet.arrays import Arrays, ArrowValue, Build
from wiretape.viewer.ship.sink import Origin
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


class Maker:
    """Makes Arrow tables from data of the tape: the values of `sources`, in their order."""

    def __init__(self, arrow: ModuleType, table: EngineTable, origin: Origin) -> None:
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
    """Return the type of a column, and what makes an array of its values."""
    arrays, source = Arrays(arrow), column.source
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


def write(arrow: ModuleType, schema: ArrowValue, parts: Iterable[ArrowValue], out: ArrowValue) -> None:
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


def statements(engine: str) -> Iterator[str]:
    """Yield the statements that make the views of an archive in DIR."""
    for table in tables.SHIPPED:
        yield ENGINES[engine](table.name, ", ".join(("date", *key(table))))

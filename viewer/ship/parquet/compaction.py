"""Merges small files of an archive into larger ones, of past days, when little is added to them.

The merged file exists before its parts are removed. A reader in between finds rows twice, as also after a crash:
therefore every row has a version, and readers take one of those with the same key.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import ModuleType
from typing import Any, Final

from wiretape.viewer.ship.parquet import layout
from wiretape.viewer.ship.parquet.files import SUFFIX, File, Files, cause
from wiretape.viewer.ship.parquet.layout import VERSION, ArrayBuilders, ArrowValue
from wiretape.viewer.source.clickhouse.tables import EngineTable

SMALL: Final = 64 << 20
"""Limit of the size of a file to merge, in bytes."""
MOST_ROWS: Final = 20_000
"""Limit of rows of a merged file, exceeded by one file at most: the keys of its rows are held in memory."""
_ROWS: Final = 200
"""Rows decoded at once: a whole row group at once takes some times its size."""


def compact(files: Files, table: EngineTable, host: str, today: str) -> Iterator[str]:
    """Merge small files of a host in each partition before `today`; yield what could not be merged, and why.

    Raises `OSError` if the files cannot be listed. Nothing is lost in either case.
    """
    small = [file for file in files.below(table.name) if file.size < SMALL]
    for directory, group in groupby(small, key=lambda file: file.path.rpartition("/")[0]):
        _, date, owner = directory.split("/") if directory.count("/") == 2 else ("", "", "")
        if owner == layout.host_directory(host) and date < f"date={today}":
            try:
                for paths in _groups(files, list(group)):
                    _merge(files, directory, paths, layout.key(table))
            except FileNotFoundError:  # another process has just merged them
                continue
            except (OSError, files.arrow.ArrowException) as error:  # the latter: broken, or of other types
                yield f"{directory}: {cause(error)}"


def _groups(files: Files, small: Sequence[File]) -> Iterator[list[str]]:
    """Yield the paths of files that make one."""
    paths, size, rows = list[str](), 0, 0
    for file in small if len(small) > 1 else ():
        with _opened(files, file.path) as parquet:
            paths, size, rows = [*paths, file.path], size + file.size, rows + parquet.metadata.num_rows
        if size >= SMALL or rows >= MOST_ROWS:
            if len(paths) > 1:
                yield paths
            paths, size, rows = [], 0, 0
    if len(paths) > 1:
        yield paths


def _merge(files: Files, directory: str, paths: Sequence[str], key: Sequence[str]) -> None:
    schema, newest = _schema(files, paths), _newest(files, paths, key)

    def kept() -> Iterator[ArrowValue]:
        for place, rows in _batches(files, paths):
            is_kept = [place + row in newest for row in range(len(rows))]
            if not all(is_kept):  # what filters takes memory of its own
                rows = rows.filter(ArrayBuilders(files.arrow).booleans(is_kept))
            yield _fitted(files.arrow, rows, schema)

    digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()[:16]
    path = f"{directory}/merged-{digest}{SUFFIX}"
    files.put(path, lambda out: layout.write_tables(files.arrow, schema, kept(), out))
    for merged in paths:
        files.remove(merged)


@contextmanager
def _opened(files: Files, path: str) -> Iterator[ArrowValue]:
    with files.open(path) as file:
        yield files.arrow.parquet.ParquetFile(file)


def _schema(files: Files, paths: Sequence[str]) -> ArrowValue:
    schemas = []
    for path in paths:
        with _opened(files, path) as parquet:
            schemas.append(parquet.schema_arrow)
    return files.arrow.unify_schemas(schemas)


def _newest(files: Files, paths: Sequence[str], key: Sequence[str]) -> set[int]:
    """Return the places of the rows that count, numbered through all files."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for place, rows in _batches(files, paths, [*key, VERSION]):
        *keys, versions = (rows.column(name).to_pylist() for name in (*key, VERSION))
        for row, (version, *values) in enumerate(zip(versions, *keys, strict=True), place):
            if version > found.get(tuple(values), (-1, 0))[0]:
                found[tuple(values)] = version, row
    return {row for _, row in found.values()}


def _batches(files: Files, paths: Sequence[str], columns: list[str] | None = None) -> Iterator[tuple[int, ArrowValue]]:
    """Yield the rows of files, some of a row group at once, and the place of the first of them."""
    place = 0
    for path in paths:
        with _opened(files, path) as parquet:
            for group in range(parquet.num_row_groups):
                for batch in parquet.iter_batches(_ROWS, [group], columns, use_threads=False):
                    yield place, batch
                    place += len(batch)


def _fitted(arrow: ModuleType, rows: ArrowValue, schema: ArrowValue) -> ArrowValue:
    """Return a table with the columns of a schema; those that an older version did not have are null."""
    own = set(rows.schema.names)
    columns = [rows.column(one.name) if one.name in own else arrow.nulls(len(rows), one.type) for one in schema]
    return arrow.Table.from_arrays(columns, schema=schema)

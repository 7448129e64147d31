"""Merges small files of an archive into one, of past days, when little is added to them.

The merged file is there before those that it is made of are removed. Who reads in between finds rows twice, as also
after a crash; that is why every row has a version, and of those with one key a single one is read.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from viewer.fleet.archived import KEY, VERSION, escaped
from viewer.fleet.files import SUFFIX, Files

SMALL: Final = 64 << 20
"""Files that are larger, in bytes, are left as they are."""
_ROWS: Final = 5000


def compact(files: Files, table: str, host: str, today: str) -> int:
    """Merge small files of a host in each partition before `today`; return how many partitions changed.

    Raises `OSError`, and `ValueError` for files whose columns do not go together. Nothing is lost then.
    """
    small = [file.path for file in files.below(table) if file.size < SMALL]
    count = 0
    for directory, group in groupby(small, key=lambda path: path.rpartition("/")[0]):
        paths = list(group)
        _, date, owner = directory.split("/") if directory.count("/") == 2 else ("", "", "")
        if len(paths) > 1 and owner == f"host={escaped(host)}" and date < f"date={today}":
            count += _merge(files, directory, paths)
    return count


def _merge(files: Files, directory: str, paths: Sequence[str]) -> bool:
    """Merge files; False if another process has just done that."""
    arrow = files.arrow
    try:
        schema = arrow.unify_schemas([_schema(files, path) for path in paths])
        newest = _newest(files, paths)
        digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()[:16]

        def write(out: Any) -> None:
            with arrow.parquet.ParquetWriter(out, schema, compression="zstd") as writer:
                for place, batch in _batches(files, paths):
                    kept = [place + row in newest for row in range(len(batch))]
                    writer.write_batch(_fitted(arrow, batch.filter(arrow.array(kept, arrow.bool_())), schema))

        files.put(f"{directory}/merged-{digest}{SUFFIX}", write)
    except FileNotFoundError:
        return False
    for path in paths:
        files.remove(path)
    return True


def _schema(files: Files, path: str) -> Any:
    with files.open(path) as file:
        return files.arrow.parquet.read_schema(file)


def _newest(files: Files, paths: Sequence[str]) -> set[int]:
    """Return the places of the rows that count, numbered through all files."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for place, batch in _batches(files, paths, [*KEY, VERSION]):
        *keys, versions = (batch.column(name).to_pylist() for name in (*KEY, VERSION))
        for row, (version, *key) in enumerate(zip(versions, *keys, strict=True), place):
            if version > found.get(tuple(key), (-1, 0))[0]:
                found[tuple(key)] = version, row
    return {row for _, row in found.values()}


def _batches(files: Files, paths: Sequence[str], columns: list[str] | None = None) -> Iterator[tuple[int, Any]]:
    """Yield the rows of files, some at once, and the place of the first of them."""
    place = 0
    for path in paths:
        with files.open(path) as file:
            for batch in files.arrow.parquet.ParquetFile(file).iter_batches(_ROWS, columns=columns):
                yield place, batch
                place += len(batch)


def _fitted(arrow: Any, batch: Any, schema: Any) -> Any:
    """Return rows with the columns of a schema; those that an older version did not have are null."""
    own = set(batch.schema.names)
    columns = [batch.column(one.name) if one.name in own else arrow.nulls(len(batch), one.type) for one in schema]
    return arrow.RecordBatch.from_arrays(columns, schema=schema)

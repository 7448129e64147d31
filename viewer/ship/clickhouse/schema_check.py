"""Check that a server's tables are those of this version: RowBinary fits exactly, or stores other values.

It runs before anything is sent, since the format does not describe itself.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from wiretape.recorder.plurals import counted
from wiretape.viewer.source.clickhouse.client import Centre, Refused
from wiretape.viewer.source.clickhouse.tables import EngineTable

_CLUSTER: Final = re.compile(r"Distributed\('?([A-Za-z_][A-Za-z0-9_]*)'?,")
_MOST_QUORUM: Final = 2


def columns(centre: Centre, table: str) -> dict[str, str]:
    """Return the columns of a table of the server, and their types. Raises as `Centre.query` does."""
    return {str(name): str(kind) for name, kind, *_ in centre.query(f"DESCRIBE TABLE {table}")}


def check(centre: Centre, tables: Iterable[EngineTable], note: Callable[[str], object]) -> None:
    """Raise `Refused` unless the tables have the columns that are shipped; columns of a newer version are noted."""
    unknown = 0
    for table in tables:
        present = columns(centre, table.name)
        for column in table.columns:
            kind = present.pop(column.name, None)
            if kind is None:
                raise Refused(
                    f"{table.name} of {centre.target.name} has an older schema, without {column.name}: run 'wiretape "
                    "fleet init --to …' of this version, which adds it"
                )
            if not same_type(kind, column.type):
                raise Refused(
                    f"{table.name}.{column.name} of {centre.target.name} is {kind:.60}, not {column.type}: another "
                    "version made it; use that version, or another database"
                )
        unknown += len(present)
    if unknown:
        note(f"{centre.target.name} has {counted(unknown, 'column')} of a newer version, which stay empty")


def same_type(one: str, other: str) -> bool:
    """Return True if two types are the same, in any notation."""
    return one.replace(" ", "").replace('"', "'") == other.replace(" ", "")


def cluster(centre: Centre) -> str | None:
    """Return the cluster that the tables are spread over; None: they are on one server."""
    rows = centre.query(
        "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'exchanges'"
    )
    match = _CLUSTER.match(str(rows[0][0])) if rows else None
    return match[1] if match else None


def quorum(centre: Centre) -> int:
    """Return the number of replicas that must have a batch: the configured one, else 2, or 0 without replication."""
    if centre.target.quorum is not None:
        return centre.target.quorum
    name = cluster(centre)
    if name is None:
        return 0
    rows = centre.query(f"SELECT count() FROM system.clusters WHERE cluster = '{name}' GROUP BY shard_num")
    replicas = min((int(count) for (count,) in rows), default=0)
    return min(replicas, _MOST_QUORUM) if replicas > 1 else 0

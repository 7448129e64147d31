"""The statements that make and migrate the server's tables, and its accounts. Pure.

On one server, and in ClickHouse Cloud, which replicates by itself, a table is a `ReplacingMergeTree`. In a cluster each
node has `…_local` tables, replicated within their shard, and a `Distributed` table over them that takes and gives all:
rows of one exchange are always on the same shard, so that `FINAL` finds them together.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from wiretape.viewer.wings.clickhouse.address import identifier
from wiretape.viewer.wings.clickhouse.tables import SHIPPED, STREAMS, EngineColumn, EngineTable

SHIPPER, ANALYST = "wiretape_ship", "wiretape_read"
"""The accounts: one may only insert, the other only read, and of `streams` nothing."""

_LOCAL: Final = "_local"


def literal(text: str) -> str:
    """Quote a text as a string literal of the engine, with all special characters escaped."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
    return f"'{escaped}'"


def database(name: str, cluster: str | None = None) -> str:
    return f"CREATE DATABASE IF NOT EXISTS {identifier(name)}{_on(cluster)}"


def create(table: EngineTable, name: str, cluster: str | None = None, *, expires: bool = True) -> Iterator[str]:
    """Yield the statements that make a table of a database: of one server, or of a cluster.

    Unless it `expires`, it keeps all rows: those of a directory are its owner's to remove.
    """
    ttl = f"\nTTL started + INTERVAL {table.keep}" if table.keep and (expires or cluster) else ""
    storage = (
        f"\nPARTITION BY {table.partition}\nORDER BY ({', '.join(table.key)}){ttl}"
        f"\nSETTINGS index_granularity = {table.granularity}"
    )
    if cluster is None:
        # A table without replication remembers no batch by itself: so many tokens are kept, to drop one that it has.
        window = "non_replicated_deduplication_window = 10000"
        yield f"{_head(table, table.name, name, None)}ReplacingMergeTree(row_version){storage}, {window}"
        return
    path = f"/clickhouse/tables/{{shard}}/{name}/{table.name}"
    engine = f"ReplicatedReplacingMergeTree({literal(path)}, '{{replica}}', row_version)"
    yield f"{_head(table, table.name + _LOCAL, name, cluster)}{engine}{storage}"
    spread = f"Distributed({identifier(cluster)}, {name}, {table.name}{_LOCAL}, {table.shard_by})"
    yield f"{_head(table, table.name, name, cluster)}{spread}"


def names(table: EngineTable, cluster: str | None) -> list[str]:
    """Return the names under which a table has its columns: in a cluster those of each node, and those over them."""
    return [table.name] if cluster is None else [table.name + _LOCAL, table.name]


def migrate(
    table: EngineTable, table_name: str, present: Container[str], name: str, cluster: str | None = None
) -> Iterator[str]:
    """Yield the statement that adds the columns which one of a table's `names` lacks; no row is ever dropped."""
    if missing := [column for column in table.columns if column.name not in present]:
        added = ", ".join(f"ADD COLUMN {_column(column)}" for column in missing)
        yield f"ALTER TABLE {name}.{table_name}{_on(cluster)} {added}"


def accounts(name: str, hashes: Mapping[str, str], tables: Sequence[EngineTable], cluster: str | None) -> Iterator[str]:
    """Yield the statements that make the accounts; `hashes` are SHA-256 of their passwords, in hex."""
    for account, hashed in hashes.items():
        identified = f"IDENTIFIED WITH sha256_hash BY {literal(hashed)}"
        yield f"CREATE USER IF NOT EXISTS {account}{_on(cluster)} {identified}"
        yield f"ALTER USER {account}{_on(cluster)} {identified}"
        privileges = ", ".join(f"SELECT ON system.{name}" for name in ("tables", "clusters", "parts", "columns"))
        yield f"GRANT{_on(cluster)} {privileges} TO {account}"
    for table in tables:
        for table_name in names(table, cluster):
            if table in SHIPPED:
                yield f"GRANT{_on(cluster)} SHOW COLUMNS, INSERT ON {name}.{table_name} TO {SHIPPER}"
            if table is not STREAMS:
                yield f"GRANT{_on(cluster)} SELECT ON {name}.{table_name} TO {ANALYST}"


def _on(cluster: str | None) -> str:
    return "" if cluster is None else f" ON CLUSTER {identifier(cluster)}"


def _head(table: EngineTable, engine_name: str, name: str, cluster: str | None) -> str:
    columns = ",\n".join(f"    {_column(column)}" for column in table.columns)
    return f"CREATE TABLE IF NOT EXISTS {identifier(name)}.{engine_name}{_on(cluster)} (\n{columns}\n) ENGINE = "


def _column(column: EngineColumn) -> str:
    return f"{column.name} {column.type} COMMENT {literal(column.meaning)}"

"""The statements that make and migrate the server's tables, and its accounts. Pure.

On one server, and in ClickHouse Cloud, which replicates by itself, a table is a `ReplacingMergeTree`. In a cluster each
node has `…_local` tables, replicated within their shard, and a `Distributed` table over them that takes and gives all:
rows of one exchange are always on the same shard, so that `FINAL` finds them together.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from wiretape.recorder.destinations import identifier
from wiretape.viewer.source.clickhouse.tables import SHIPPED, STREAMS, EngineColumn, EngineTable

SHIPPER, ANALYST = "wiretape_ship", "wiretape_read"
"""The accounts: one may only insert, the other only read, and of `streams` nothing."""

EXPIRING_SINCE: Final = (19, 6)
"""Servers before it drop no rows by themselves, and take columns with comments for others than those without."""
ACCOUNTS_SINCE: Final = (20, 5)
_LOCAL: Final = "_local"
_READ_OF_SYSTEM: Final = ("tables", "clusters", "parts", "columns")
_CACHED: Final = "(coalesce(cache_read_input_tokens, 0) + coalesce(cache_creation_input_tokens, 0))"
_FORMER: Final = {
    "max_gap_ns": "max_stall_ns",
    "cache_write_input_tokens": "cache_creation_input_tokens",
    "cache_write_1h_input_tokens": "cache_creation_1h_input_tokens",
    "input_uncached_tokens": "multiIf(coalesce(api, '') IN ('anthropic.messages', 'bedrock.converse', "
    f"'bedrock.invoke'), input_tokens, input_tokens >= {_CACHED}, input_tokens - {_CACHED}, NULL)",
}
"""Values of new columns in the rows of older recorders: renamed columns, and the input tokens without a cache."""
_USER: Final = """    <{account}>
      <password_sha256_hex>{hash}</password_sha256_hex>
      <networks><ip>::/0</ip></networks>
      <profile>{account}</profile>
      <quota>default</quota>
      <allow_databases><database>{database}</database></allow_databases>
    </{account}>"""


def literal(text: str) -> str:
    """Quote a text as a string literal of the engine, with all special characters escaped."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
    return f"'{escaped}'"


def database(name: str, cluster: str | None = None) -> str:
    """Return the statement that makes the database."""
    return f"CREATE DATABASE IF NOT EXISTS {identifier(name)}{_on(cluster)}"


def create(table: EngineTable, name: str, cluster: str | None = None, *, plain: bool = False) -> Iterator[str]:
    """Yield the statements that make a table of a database: of one server, or of a cluster.

    `plain` is without expiry and comments, for servers before `EXPIRING_SINCE`.
    """
    if cluster is None:
        head = _head(table, table.name, name, None, plain)
        yield f"{head}ENGINE = ReplacingMergeTree(row_version)\n{_sorted(table, plain)}"
        return
    path = f"/clickhouse/tables/{{shard}}/{name}/{table.name}"
    engine = f"ReplicatedReplacingMergeTree({literal(path)}, '{{replica}}', row_version)"
    yield f"{_head(table, table.name + _LOCAL, name, cluster, plain)}ENGINE = {engine}\n{_sorted(table, plain)}"
    spread = f"Distributed({identifier(cluster)}, {name}, {table.name}{_LOCAL}, {table.shard_by})"
    yield f"{_head(table, table.name, name, cluster, plain)}ENGINE = {spread}"


def names(table: EngineTable, cluster: str | None) -> list[str]:
    """Return the names under which a table has its columns: in a cluster those of each node, and those over them."""
    return [table.name] if cluster is None else [table.name + _LOCAL, table.name]


def migrate(
    table: EngineTable,
    each: str,
    present: Container[str],
    name: str,
    cluster: str | None = None,
    *,
    plain: bool = False,
) -> Iterator[str]:
    """Yield the statements that add the columns which one of a table's `names` lacks; no row is ever dropped.

    A table over those of the nodes, which has no rows of its own, is made again on `plain` servers: they cannot alter
    it in a cluster of replicas.
    """
    missing = [column for column in table.columns if column.name not in present]
    filled = _FORMER if "cache_creation_input_tokens" in present else {}
    added = ", ".join(f"ADD COLUMN {_column(column, plain, filled.get(column.name))}" for column in missing)
    if missing and plain and cluster is not None and each == table.name:
        yield f"DROP TABLE {name}.{each}{_on(cluster)}"
        yield from list(create(table, name, cluster, plain=plain))[1:]
    elif missing:
        yield f"ALTER TABLE {name}.{each}{_on(cluster)} {added}"


def accounts(name: str, hashes: Mapping[str, str], tables: Sequence[EngineTable], cluster: str | None) -> Iterator[str]:
    """Yield the statements that make the accounts; `hashes` are SHA-256 of their passwords, in hex."""
    for account, hashed in hashes.items():
        identified = f"IDENTIFIED WITH sha256_hash BY {literal(hashed)}"
        yield f"CREATE USER IF NOT EXISTS {account}{_on(cluster)} {identified}"
        yield f"ALTER USER {account}{_on(cluster)} {identified}"
        of_system = ", ".join(f"SELECT ON system.{one}" for one in _READ_OF_SYSTEM)
        yield f"GRANT{_on(cluster)} {of_system} TO {account}"
    for table in tables:
        for each in names(table, cluster):
            if table in SHIPPED:
                yield f"GRANT{_on(cluster)} SHOW COLUMNS, INSERT ON {name}.{each} TO {SHIPPER}"
            if table is not STREAMS:
                yield f"GRANT{_on(cluster)} SELECT ON {name}.{each} TO {ANALYST}"


def users_xml(name: str, hashes: Mapping[str, str]) -> str:
    """Return the accounts as the configuration of a server before `ACCOUNTS_SINCE`, which knows no grants.

    There the shipper may also read, but change no table, and the analyst reads `streams`, too.
    """
    limits = {SHIPPER: "<allow_ddl>0</allow_ddl>", ANALYST: "<readonly>1</readonly>"}
    profiles = "\n".join(f"    <{account}>{limits[account]}</{account}>" for account in hashes)
    users = "\n".join(_USER.format(account=account, hash=hashed, database=name) for account, hashed in hashes.items())
    return f"<yandex>\n  <profiles>\n{profiles}\n  </profiles>\n  <users>\n{users}\n  </users>\n</yandex>"


def _on(cluster: str | None) -> str:
    return "" if cluster is None else f" ON CLUSTER {identifier(cluster)}"


def _head(table: EngineTable, engine_name: str, name: str, cluster: str | None, plain: bool) -> str:
    columns = ",\n".join(f"    {_column(column, plain)}" for column in table.columns)
    return f"CREATE TABLE IF NOT EXISTS {identifier(name)}.{engine_name}{_on(cluster)} (\n{columns}\n) "


def _column(column: EngineColumn, plain: bool, default: str | None = None) -> str:
    filled = "" if default is None else f" DEFAULT {default}"
    return f"{column.name} {column.type}{filled}" + ("" if plain else f" COMMENT {literal(column.meaning)}")


def _sorted(table: EngineTable, plain: bool) -> str:
    lines = [f"PARTITION BY {table.partition}", f"ORDER BY ({', '.join(table.key)})"]
    if table.keep and not plain:
        lines.append(f"TTL started + INTERVAL {table.keep}")
    lines.append(f"SETTINGS index_granularity = {table.granularity}")
    return "\n".join(lines)

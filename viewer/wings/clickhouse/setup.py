"""Makes, migrates and checks the tables of a server, and makes its accounts."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from wiretape.recorder import paths
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.wings.clickhouse import ddl
from wiretape.viewer.wings.clickhouse.client import LOCK_FILE, Centre, UnusableServer
from wiretape.viewer.wings.clickhouse.tables import EXCHANGES, EngineTable

LEAST_VERSION: Final = 23


def make_directory(directory: Path) -> bool:
    """Make the directory of an engine; return False if it is there. Raises `UnusableServer` for other contents.

    It has prompts and answers, if bodies are shipped: nobody else may read it.
    """
    lock = directory / LOCK_FILE
    try:
        directory.mkdir(0o700, parents=True, exist_ok=True)
        if paths.exists(lock):
            return False
        if any(directory.iterdir()):
            raise UnusableServer(f"{safe(str(directory))} has other contents: name a new or an empty directory")
        directory.chmod(0o700)
        lock.touch(0o600)
        return True
    except OSError as error:
        raise UnusableServer(f"{safe(str(directory))} cannot be made ({error.strerror})") from error


def setup_statements(name: str, tables: tuple[EngineTable, ...], cluster: str | None) -> Iterator[str]:
    yield ddl.database(name, cluster)
    for table in tables:
        yield from ddl.create(table, name, cluster)


def prepare(centre: Centre, tables: tuple[EngineTable, ...], cluster: str | None, tell: Callable[[str], None]) -> None:
    """Create the missing tables, and add the missing columns. Raises `UnusableServer` and `Unavailable`."""
    name, server = centre.target.database, centre.target.shown
    version = str(centre.rows("SELECT version()", "default")[0][0])
    if int(version.partition(".")[0]) < LEAST_VERSION:
        raise UnusableServer(f"{server} is ClickHouse {version:.20}: wiretape needs {LEAST_VERSION} or later")
    if cluster is not None:
        clusters = {str(row[0]) for row in centre.rows("SELECT DISTINCT cluster FROM system.clusters", "default")}
        if cluster not in clusters:
            known = ", ".join(sorted(clusters)) or "none"
            raise UnusableServer(f"{centre.node} knows no cluster {cluster}: there is {known} (system.clusters)")
    centre.execute(ddl.database(name, cluster), "default")
    rows = centre.rows(f"SELECT name FROM system.tables WHERE database = {ddl.literal(name)}", "default")
    present = {str(table) for (table,) in rows}
    if EXCHANGES.name in present:
        existing = tables_cluster(centre)
        if cluster not in (None, existing):
            place = "on one server" if existing is None else f"in the cluster {existing}"
            raise UnusableServer(f"the tables of {server} are {place}, and are not moved: use another database")
        cluster = existing
    for table in tables:
        if table.name not in present:
            for statement in ddl.create(table, name, cluster, expires=centre.target.directory is None):
                centre.execute(statement)
            tell(f"{name}.{table.name} made")
            continue
        added = 0
        for table_name in ddl.names(table, cluster):
            columns = _columns(centre, table, table_name)
            added = max(sum(column.name not in columns for column in table.columns), added)
            for statement in ddl.migrate(table, table_name, columns, name, cluster):
                centre.execute(statement)
        tell(f"{name}.{table.name} " + (f"has {counted(added, 'more column')}" if added else "is up to date"))


def make_accounts(
    centre: Centre,
    tables: tuple[EngineTable, ...],
    cluster: str | None,
    passwords: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    """Create the accounts, or change their passwords. Raises `UnusableServer` and `Unavailable`."""
    hashes = {account: hashlib.sha256(password.encode()).hexdigest() for account, password in passwords.items()}
    for statement in ddl.accounts(centre.target.database, hashes, tables, cluster):
        centre.execute(statement)
    tell(f"accounts {' and '.join(passwords)} made")


def _columns(centre: Centre, table: EngineTable, name: str) -> list[str]:
    """Return the columns of a table as it is on the server. Raises `UnusableServer` if one has another type."""
    types = {str(column): str(kind) for column, kind, *_ in centre.rows(f"DESCRIBE TABLE {name}")}
    for column in table.columns:
        kind = types.get(column.name, column.type)
        if kind.replace(" ", "").replace('"', "'") != column.type.replace(" ", ""):
            raise UnusableServer(
                f"{name}.{column.name} of {centre.target.shown} is {kind:.60}, not {column.type}: another version made "
                "it, and it is not changed; use that version, or another database"
            )
    return [*types]


def check_tables(centre: Centre, tables: Iterable[EngineTable], note: Callable[[str], object]) -> None:
    """Raise `UnusableServer` unless the tables have the shipped columns; columns of a newer version are noted."""
    newer_count, server = 0, centre.target.shown
    for table in tables:
        columns = _columns(centre, table, table.name)
        if missing := [column.name for column in table.columns if column.name not in columns]:
            raise UnusableServer(
                f"{table.name} of {server} has an older schema, without {missing[0]}: run 'wiretape fleet init --to …' "
                "of this version, which adds it"
            )
        newer_count += len(columns) - len(table.columns)
    if newer_count:
        note(f"{server} has {counted(newer_count, 'column')} of a newer version, which stay empty")


def tables_cluster(centre: Centre) -> str | None:
    """Return the cluster that the tables are spread over; None: they are on one server."""
    rows = centre.rows(
        "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'exchanges'"
    )
    match = re.match(r"Distributed\('?([A-Za-z_][A-Za-z0-9_]*)'?,", str(rows[0][0])) if rows else None
    return match[1] if match else None


def write_quorum(centre: Centre) -> int:
    """Return the number of replicas that must have a batch: the configured one, else 2, or 0 without replication."""
    if centre.target.quorum is not None:
        return centre.target.quorum
    if (name := tables_cluster(centre)) is None:
        return 0
    rows = centre.rows(f"SELECT count() FROM system.clusters WHERE cluster = '{name}' GROUP BY shard_num")
    replicas = min((int(count) for (count,) in rows), default=0)
    return min(replicas, 2) if replicas > 1 else 0

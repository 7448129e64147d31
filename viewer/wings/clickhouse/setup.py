"""Makes, migrates and checks the tables of a server, and makes its accounts."""

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from wiretape.recorder import paths
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.wings.clickhouse import ddl
from wiretape.viewer.wings.clickhouse.client import LOCK_FILE, Centre, UnusableServer
from wiretape.viewer.wings.clickhouse.tables import EXCHANGES, EngineTable

_CLUSTER: Final = re.compile(r"Distributed\('?([A-Za-z_][A-Za-z0-9_]*)'?,")
_MOST_QUORUM: Final = 2
LEAST_VERSION: Final = 23


def _check_version(centre: Centre) -> None:
    """Raise `UnusableServer` for a server that is too old."""
    version = str(centre.rows("SELECT version()", "default")[0][0])
    if int(version.partition(".")[0]) < LEAST_VERSION:
        raise UnusableServer(
            f"{centre.target.shown} is ClickHouse {version:.20}: wiretape needs {LEAST_VERSION} or later"
        )


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
    """Yield the statements that make all tables of an empty server of today."""
    yield ddl.database(name, cluster)
    for table in tables:
        yield from ddl.create(table, name, cluster)


def prepare(centre: Centre, tables: tuple[EngineTable, ...], cluster: str | None, tell: Callable[[str], None]) -> None:
    """Create the missing tables, and add the missing columns. Raises `UnusableServer` and `Unavailable`."""
    name = centre.target.database
    _check_version(centre)
    _check_cluster(centre, cluster)
    centre.execute(ddl.database(name, cluster), "default")
    made = centre.rows(f"SELECT name FROM system.tables WHERE database = {ddl.literal(name)}", "default")
    there = {str(row[0]) for row in made}
    cluster = _cluster_of_tables(centre, there, cluster)
    for table in tables:
        if table.name in there:
            _migrate(centre, table, cluster, tell)
        else:
            for statement in ddl.create(table, name, cluster, expires=centre.target.directory is None):
                centre.execute(statement)
            tell(f"{name}.{table.name} made")


def _check_cluster(centre: Centre, cluster: str | None) -> None:
    """Raise `UnusableServer` if the server knows no cluster of this name."""
    if cluster is None:
        return
    known = {str(row[0]) for row in centre.rows("SELECT DISTINCT cluster FROM system.clusters", "default")}
    if cluster not in known:
        names = ", ".join(sorted(known)) or "none"
        raise UnusableServer(f"{centre.node} knows no cluster {cluster}: there is {names} (system.clusters)")


def _cluster_of_tables(centre: Centre, there: Container[str], asked_for: str | None) -> str | None:
    """Return the cluster of the existing tables. Raises `UnusableServer` if another one is requested."""
    if EXCHANGES.name not in there:
        return asked_for
    known = tables_cluster(centre)
    if asked_for not in (None, known):
        where = "on one server" if known is None else f"in the cluster {known}"
        raise UnusableServer(
            f"the tables of {centre.target.shown} are {where}, and are not moved: use another database"
        )
    return known


def _migrate(centre: Centre, table: EngineTable, cluster: str | None, tell: Callable[[str], None]) -> None:
    name, added = centre.target.database, 0
    for each in ddl.names(table, cluster):
        present = table_columns(centre, each)
        _check_types(table, f"{name}.{each}", present)
        added = max(sum(column.name not in present for column in table.columns), added)
        for statement in ddl.migrate(table, each, present, name, cluster):
            centre.execute(statement)
    state = f"has {counted(added, 'more column')}" if added else "is up to date"
    tell(f"{name}.{table.name} {state}")


def _check_types(table: EngineTable, shown: str, present: Mapping[str, str]) -> None:
    for column in table.columns:
        kind = present.get(column.name)
        if kind is not None and not same_type(kind, column.type):
            raise UnusableServer(
                f"{shown}.{column.name} is {kind:.60}, not {column.type}, and is not changed: use another "
                "database, or move that table away"
            )


def make_accounts(
    centre: Centre,
    tables: tuple[EngineTable, ...],
    cluster: str | None,
    passwords: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    """Create the accounts, or change their passwords. Raises `UnusableServer` and `Unavailable`."""
    name = centre.target.database
    hashes = {account: hashlib.sha256(password.encode()).hexdigest() for account, password in passwords.items()}
    for statement in ddl.accounts(name, hashes, tables, cluster):
        centre.execute(statement)
    tell(f"accounts {' and '.join(passwords)} made")


def table_columns(centre: Centre, table: str) -> dict[str, str]:
    """Return the columns of a table of the server, and their types. Raises as `Centre.rows` does."""
    return {str(name): str(kind) for name, kind, *_ in centre.rows(f"DESCRIBE TABLE {table}")}


def check_tables(centre: Centre, tables: Iterable[EngineTable], note: Callable[[str], object]) -> None:
    """Raise `UnusableServer` unless the tables have the shipped columns; columns of a newer version are noted."""
    unknown = 0
    for table in tables:
        present = table_columns(centre, table.name)
        for column in table.columns:
            kind = present.pop(column.name, None)
            if kind is None:
                raise UnusableServer(
                    f"{table.name} of {centre.target.shown} has an older schema, without {column.name}: run 'wiretape "
                    "fleet init --to …' of this version, which adds it"
                )
            if not same_type(kind, column.type):
                raise UnusableServer(
                    f"{table.name}.{column.name} of {centre.target.shown} is {kind:.60}, not {column.type}: another "
                    "version made it; use that version, or another database"
                )
        unknown += len(present)
    if unknown:
        note(f"{centre.target.shown} has {counted(unknown, 'column')} of a newer version, which stay empty")


def same_type(one: str, other: str) -> bool:
    """Return True if two types are the same, in any notation."""
    return one.replace(" ", "").replace('"', "'") == other.replace(" ", "")


def tables_cluster(centre: Centre) -> str | None:
    """Return the cluster that the tables are spread over; None: they are on one server."""
    rows = centre.rows(
        "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'exchanges'"
    )
    match = _CLUSTER.match(str(rows[0][0])) if rows else None
    return match[1] if match else None


def write_quorum(centre: Centre) -> int:
    """Return the number of replicas that must have a batch: the configured one, else 2, or 0 without replication."""
    if centre.target.quorum is not None:
        return centre.target.quorum
    name = tables_cluster(centre)
    if name is None:
        return 0
    rows = centre.rows(f"SELECT count() FROM system.clusters WHERE cluster = '{name}' GROUP BY shard_num")
    replicas = min((int(count) for (count,) in rows), default=0)
    return min(replicas, _MOST_QUORUM) if replicas > 1 else 0

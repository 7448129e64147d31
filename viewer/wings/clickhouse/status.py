"""The progress of a fleet's shipping, host by host, and the size of the server's tables. Reads the server."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from wiretape.viewer.wings.clickhouse import setup
from wiretape.viewer.wings.clickhouse.client import Centre, UnusableServer
from wiretape.viewer.wings.clickhouse.ddl import literal

MEANINGS: Final = {
    "kind": "host: one that ships; table: one of the server",
    "name": "of the host, or the table",
    "tenant": "whose exchanges the host ships",
    "rows": "of exchanges of the host, or of the table on one replica of each shard; those included that a newer "
    "version replaces, so that there may be fewer exchanges",
    "newest_at": "when the newest exchange of the host began, UTC",
    "heard_at": "when the host last reported its progress, by its own clock, UTC",
    "silent_ms": "how long that was ago, by the clock of the server",
    "waiting": "exchanges of its tapes that were not shipped then",
    "lag_ms": "how long the first of these had been settled then; unknown: none was waiting, or not reported",
    "bytes": "of the table on disk, on one replica of each shard",
}
"""The fields of a row; one that is of no use for its kind is unknown."""
FIELDS: Final = tuple(MEANINGS)


def rows(centre: Centre, note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Yield the hosts that ship to a server, and its tables. Raises `UnusableServer` and `Unavailable`.

    A query of all servers of a cluster needs a privilege that an account for reading may lack: then `note` reports it.
    """
    unknown = dict.fromkeys(FIELDS)
    counts = centre.rows("SELECT tenant, host, count(), max(started_at) FROM exchanges GROUP BY tenant, host")
    shipped = {(tenant, host): (count, newest) for tenant, host, count, newest in counts}
    # The newest row of a tape's runs has its progress; `argMax` would pass over a lag that is NULL.
    progress = """SELECT tenant, host, max(heard), sum(rest), max(late), toUnixTimestamp(now()) FROM
        (SELECT tenant, host, tape, max(shipped_at) AS heard, argMax(waiting, row_version) AS rest,
        argMax(ifNull(lag_ms, -1), row_version) AS late FROM sessions FINAL GROUP BY tenant, host, tape)
        GROUP BY tenant, host ORDER BY tenant, host"""
    for tenant, host, heard_at, unshipped, lag_ms, now in centre.rows(progress):
        count, newest = shipped.get((tenant, host), (0, None))
        silent_ms = max(round(1000 * (now - datetime.fromisoformat(heard_at).timestamp())), 0)
        yield unknown | {
            "kind": "host", "name": host, "tenant": tenant, "rows": count, "newest_at": newest or None,
            "heard_at": heard_at, "silent_ms": silent_ms, "waiting": unshipped,
            "lag_ms": lag_ms if lag_ms >= 0 else None,
        }  # fmt: skip
    cluster = setup.tables_cluster(centre)  # the parts of one are those of its local tables
    parts = "system.parts" if cluster is None else f"cluster('{cluster}', system, parts)"
    statement = (
        f"SELECT table, sum(rows), sum(bytes_on_disk) FROM {parts} "
        f"WHERE active AND database = {literal(centre.target.database)} GROUP BY table ORDER BY table"
    )
    try:
        sizes = centre.rows(statement)
    except UnusableServer as refused:
        if cluster is None:
            raise
        note(f"the sizes of tables are left out: {refused}")
        return
    for table, count, size in sizes:
        name = str(table).removesuffix("_local")
        yield unknown | {"kind": "table", "name": name, "rows": int(count), "bytes": int(size)}

"""How engines read an archive: a view of each of its tables, with every row once, in its newest version. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from viewer.fleet.archive_rows import VERSION, key
from viewer.source.clickhouse import tables

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

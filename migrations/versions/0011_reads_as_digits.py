"""reads as digits: the reads of a finished exchange are decimal digits, two in a byte.

`steps` does nearly all of the work in transactions of their own, and goes on where it was cut short. A damaged array
stays the text that it was.
"""

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

from wiretape.recorder.tape import packing

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_TABLES = ("bodies", "client_bodies")
_AT_ONCE = 100
"""Bodies converted in one transaction."""
_COLUMNS = "exchange_no, size, sha256, at_ns, relayed_ns, sizes"


def _definition(table: str, type: str) -> str:
    return f"""CREATE TABLE IF NOT EXISTS new_{table} (exchange_no INTEGER NOT NULL,
    size BIGINT NOT NULL, sha256 VARCHAR(64) NOT NULL,
    at_ns {type} NOT NULL, relayed_ns {type} NOT NULL, sizes {type} NOT NULL, data BLOB NOT NULL,
    CONSTRAINT pk_{table} PRIMARY KEY (exchange_no),
    CONSTRAINT fk_{table}_exchange_no FOREIGN KEY(exchange_no) REFERENCES exchanges (no))"""


def steps(connection: sa.Connection) -> Iterator[tuple[int, int]]:
    """Convert the remaining bodies, some at a time; yield the count of converted ones and of all."""
    with connection.begin():
        _prepare(connection)
        counts = [_count(connection, table) for table in (*_TABLES, *(f"new_{table}" for table in _TABLES))]
    total, done = sum(counts), sum(counts[2:])
    for table in _TABLES:
        while True:
            with connection.begin():
                moved = _convert(connection, table)
            if not moved:
                break
            done += moved
            yield done, total


def upgrade() -> None:
    connection = op.get_bind()
    _prepare(connection)
    for table in _TABLES:
        while _convert(connection, table):
            pass
        _replace(table)


def _prepare(connection: sa.Connection) -> None:
    for table in _TABLES:
        connection.exec_driver_sql(_definition(table, "BLOB"))


def _count(connection: sa.Connection, table: str) -> int:
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())


def _convert(connection: sa.Connection, table: str) -> int:
    """Move the first bodies to the new table; return their count."""
    rows = connection.exec_driver_sql(f"SELECT {_COLUMNS} FROM {table} ORDER BY exchange_no LIMIT {_AT_ONCE}").all()
    for no, *facts, at_ns, relayed_ns, sizes in rows:
        arrays = map(packing.as_digits, (at_ns, relayed_ns, sizes))
        insert = f"INSERT INTO new_{table} ({_COLUMNS}, data) SELECT ?, ?, ?, ?, ?, ?, data FROM {table}"
        connection.exec_driver_sql(f"{insert} WHERE exchange_no = ?", (no, *facts, *arrays, no))
        connection.exec_driver_sql(f"DELETE FROM {table} WHERE exchange_no = ?", (no,))
    return len(rows)


def _replace(table: str) -> None:
    op.drop_table(table)
    op.rename_table(f"new_{table}", table)


def downgrade() -> None:
    connection = op.get_bind()
    for view in ("read_gaps", "reads", "exchange_metrics"):
        op.execute(f"DROP VIEW IF EXISTS {view}")
    for table in _TABLES:
        connection.exec_driver_sql(_definition(table, "TEXT"))
        op.execute(f"INSERT INTO new_{table} ({_COLUMNS}, data) SELECT {_COLUMNS}, data FROM {table}")
        for row in connection.exec_driver_sql(f"SELECT at_ns, relayed_ns, sizes, exchange_no FROM {table}").all():
            texts = [packing.as_json(array) if isinstance(array, bytes) else array for array in row[:3]]
            update = f"UPDATE new_{table} SET at_ns = ?, relayed_ns = ?, sizes = ? WHERE exchange_no = ?"
            connection.exec_driver_sql(update, (*texts, row[3]))
        _replace(table)

"""request bodies in pieces, kept connections, and what the timestamps are worth.

Of exchanges that were recorded before, none of it is known: NULL.
"""

import re

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NEW = {
    "request_truncated": sa.Boolean(),
    "connection_reused": sa.Boolean(),
    "clock": sa.Text(),
    "clock_error_ns": sa.BigInteger(),
}
_UNKNOWN = {"request_size": sa.BigInteger(), "request_sha256": sa.String(64)}


def upgrade() -> None:
    for name, kind in _NEW.items():
        op.add_column("exchanges", sa.Column(name, kind, nullable=True))
    _make_nullable()
    op.create_table(
        "uploads",
        sa.Column("exchange_no", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["exchange_no"], ["exchanges.no"], name="fk_uploads_exchange_no"),
        sa.PrimaryKeyConstraint("exchange_no", "start", name="pk_uploads"),
    )


def _make_nullable() -> None:
    """Change the definition alone: the table has the bodies of all requests, and SQLite allows this for NOT NULL."""
    connection = op.get_bind()
    (version,) = connection.exec_driver_sql("PRAGMA schema_version").one()
    (sql,) = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE name = 'exchanges'").one()
    changed, count = re.subn(rf'("?\b(?:{"|".join(_UNKNOWN)})\b"? [A-Z0-9()]+) NOT NULL', r"\1", sql)
    assert count == len(_UNKNOWN)
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    connection.exec_driver_sql("UPDATE sqlite_master SET sql = ? WHERE name = 'exchanges'", (changed,))
    connection.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    connection.exec_driver_sql("PRAGMA writable_schema = OFF")


def downgrade() -> None:
    op.drop_table("uploads")
    op.execute("UPDATE exchanges SET request_size = coalesce(request_size, length(request_body), 0)")
    op.execute("UPDATE exchanges SET request_sha256 = coalesce(request_sha256, '')")
    with op.batch_alter_table("exchanges", table_kwargs={"sqlite_autoincrement": True}) as table:
        for name in _NEW:
            table.drop_column(name)
        for name, kind in _UNKNOWN.items():
            table.alter_column(name, existing_type=kind, nullable=False)

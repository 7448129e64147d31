"""request bodies in pieces, kept connections, and what the timestamps are worth.

Of exchanges that were recorded before, none of it is known: NULL.
"""

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
    with op.batch_alter_table("exchanges", table_kwargs={"sqlite_autoincrement": True}) as table:
        for name, kind in _NEW.items():
            table.add_column(sa.Column(name, kind, nullable=True))
        for name, kind in _UNKNOWN.items():
            table.alter_column(name, existing_type=kind, nullable=True)
    op.create_table(
        "uploads",
        sa.Column("exchange_no", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["exchange_no"], ["exchanges.no"], name="fk_uploads_exchange_no"),
        sa.PrimaryKeyConstraint("exchange_no", "start", name="pk_uploads"),
    )


def downgrade() -> None:
    op.drop_table("uploads")
    op.execute("UPDATE exchanges SET request_size = coalesce(request_size, length(request_body), 0)")
    op.execute("UPDATE exchanges SET request_sha256 = coalesce(request_sha256, '')")
    with op.batch_alter_table("exchanges", table_kwargs={"sqlite_autoincrement": True}) as table:
        for name in _NEW:
            table.drop_column(name)
        for name, kind in _UNKNOWN.items():
            table.alter_column(name, existing_type=kind, nullable=False)

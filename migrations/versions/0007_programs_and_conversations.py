"""what a client sends over a WebSocket or offers in TLS, and the conversation that a request is part of.

Of exchanges that were recorded before there is nothing of the first two; `wiretape db rebuild` works out the last.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_EXCHANGES = {"client_bytes": sa.BigInteger(), "client_gap_bytes": sa.BigInteger(), "h2_offered": sa.Boolean()}
_TEXTS = (
    "conversation_key", "conversation_key_from", "conversation_parent", "previous_response_id", "messages_hash",
    "continues_hash", "continued_answer_hash", "answer_hash", "asked",
)  # fmt: skip
_MEASURES = {**dict.fromkeys(_TEXTS, sa.Text()), "retries": sa.BigInteger()}


def upgrade() -> None:
    for name, kind in _EXCHANGES.items():
        op.add_column("exchanges", sa.Column(name, kind, nullable=True))
    for name, kind in _MEASURES.items():
        op.add_column("measures", sa.Column(name, kind, nullable=True))
    _create_stream("client_segments", sa.Column("seq", sa.Integer(), autoincrement=False), _size("start"), keys=2)
    _create_stream("client_bodies", _size("size"), sa.Column("sha256", sa.String(64), nullable=False))


def _create_stream(table: str, *columns: sa.Column, keys: int = 1) -> None:
    key = sa.Column("exchange_no", sa.Integer(), nullable=False)
    arrays = (sa.Column(name, sa.Text(), nullable=False) for name in ("at_ns", "relayed_ns", "sizes"))
    named = [column.name for column in (key, *columns)][:keys]
    op.create_table(
        table,
        key,
        *columns,
        *arrays,
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["exchange_no"], ["exchanges.no"], name=f"fk_{table}_exchange_no"),
        sa.PrimaryKeyConstraint(*named, name=f"pk_{table}"),
    )


def _size(name: str) -> sa.Column:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    for table in ("client_bodies", "client_segments"):
        op.drop_table(table)
    for name in _EXCHANGES:
        op.drop_column("exchanges", name)
    for name in _MEASURES:
        op.drop_column("measures", name)

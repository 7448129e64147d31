"""boot clock: the time since the machine's boot at which an exchange began, beside its wall time.

Of exchanges that were recorded before, it is not known.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_EXCHANGES = {"boot_ns": sa.BigInteger()}


def upgrade() -> None:
    for name, type in _EXCHANGES.items():
        op.add_column("exchanges", sa.Column(name, type, nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    for name in _EXCHANGES:
        op.drop_column("exchanges", name)

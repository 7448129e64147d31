"""boot clock: the time of an exchange's beginning since the machine's boot, and facts for the time account.

Of exchanges that were recorded before, the first is not known, and the rest until they are derived again
(`wiretape db rebuild`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_COLUMNS = {
    "exchanges": {"boot_ns": sa.BigInteger()},
    "measures": {"answers_tools": sa.Boolean(), "turn_spans": sa.JSON()},
}


def upgrade() -> None:
    for table, columns in _COLUMNS.items():
        for name, type in columns.items():
            op.add_column(table, sa.Column(name, type, nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    for table, columns in _COLUMNS.items():
        for name in columns:
            op.drop_column(table, name)

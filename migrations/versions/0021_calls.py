"""Methods and tools of calls as columns.

They are not known of exchanges that were measured before: `db rebuild` derives them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_COLUMNS = ("rpc_method", "tool_name")


def upgrade() -> None:
    for name in _COLUMNS:
        op.add_column("measures", sa.Column(name, sa.Text(), nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    for name in _COLUMNS:
        op.drop_column("measures", name)

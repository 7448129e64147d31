"""what was imported: where from, and whether the bytes are those that came.

On a tape from before, everything was recorded.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sessions", sa.Column("imported_from", sa.Text(), nullable=True))
    op.add_column("exchanges", sa.Column("rebuilt", sa.Boolean(), nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    op.drop_column("sessions", "imported_from")
    op.drop_column("exchanges", "rebuilt")

"""Requests whose Accept-Encoding is not the client's.

NULL, of requests that were recorded before, says nothing of them: those that ask for identity had it from wiretape.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("exchanges", sa.Column("asks_identity", sa.Boolean(), nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    op.drop_column("exchanges", "asks_identity")

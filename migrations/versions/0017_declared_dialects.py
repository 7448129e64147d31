"""declared dialects: those given for a recording, and of each exchange the one that decoded it and its attributes.

Of exchanges that were measured before these are unknown until they are derived again (`wiretape db rebuild`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_MEASURES = {"attributes": sa.JSON(), "dialect_version": sa.Text()}


def upgrade() -> None:
    op.add_column("sessions", sa.Column("dialects", sa.JSON(), nullable=True))
    for name, kind in _MEASURES.items():
        op.add_column("measures", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    for name in _MEASURES:
        op.drop_column("measures", name)
    op.drop_column("sessions", "dialects")

"""turns of sessions over a WebSocket: of each exchange a JSON list, which the view turns shows as rows.

Of exchanges that were measured before it is unknown until they are derived again (`wiretape db rebuild`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("measures", sa.Column("turns", sa.JSON(), nullable=True))


def downgrade() -> None:
    for view in ("exchange_metrics", "turns"):
        op.execute(f"DROP VIEW IF EXISTS {view}")
    op.drop_column("measures", "turns")

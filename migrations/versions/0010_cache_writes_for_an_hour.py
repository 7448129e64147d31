"""how many of the tokens that were written to a provider's cache are kept for an hour.

Of exchanges that were measured before this is unknown until they are derived again (`wiretape db rebuild`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_COLUMN = "cache_creation_1h_input_tokens"


def upgrade() -> None:
    op.add_column("measures", sa.Column(_COLUMN, sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    op.drop_column("measures", _COLUMN)

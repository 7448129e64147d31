"""elements of prompts: bytes of each request by source, and the elements of its prompt with their digests.

Of exchanges that were measured before these are unknown until they are derived again (`wiretape db rebuild`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_SOURCES = ("system", "tools", "user", "assistant", "tool_results", "images", "documents", "other")
_SIZES = [f"context_{source}_bytes" for source in _SOURCES]
_ELEMENTS = "prompt_elements"


def upgrade() -> None:
    for name in _SIZES:
        op.add_column("measures", sa.Column(name, sa.BigInteger(), nullable=True))
    op.add_column("measures", sa.Column(_ELEMENTS, sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    for name in (*_SIZES, _ELEMENTS):
        op.drop_column("measures", name)

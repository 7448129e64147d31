"""Indexes by which the exchanges of one conversation are found without reading all of the tape."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_COLUMNS = (
    "conversation_key", "conversation_parent", "response_id", "previous_response_id", "messages_hash", "continues_hash",
)  # fmt: skip


def upgrade() -> None:
    for name in _COLUMNS:
        op.create_index(f"ix_measures_{name}", "measures", [name], sqlite_where=sa.text(f"{name} IS NOT NULL"))


def downgrade() -> None:
    for name in _COLUMNS:
        op.drop_index(f"ix_measures_{name}", "measures")

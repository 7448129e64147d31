"""the longest gap: a stall is a gap above a limit, and this is the longest gap of any length."""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE measures RENAME COLUMN max_stall_ns TO max_gap_ns")


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    op.execute("ALTER TABLE measures RENAME COLUMN max_gap_ns TO max_stall_ns")

"""later parts of answers: the view of exchanges withholds their times to first output, as lists and statistics do."""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing but the view, which is made anew after every upgrade."""


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")

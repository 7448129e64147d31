"""in which order exchanges were settled, for what reads a tape along.

What was settled before has the order of its numbers.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "settlements",
        sa.Column("exchange_no", sa.Integer(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["exchange_no"], ["exchanges.no"], name="fk_settlements_exchange_no"),
        sa.PrimaryKeyConstraint("exchange_no", name="pk_settlements"),
        sa.UniqueConstraint("version", name="uq_settlements_version"),
    )
    op.execute("INSERT INTO settlements (exchange_no, version) SELECT exchange_no, exchange_no FROM bodies")


def downgrade() -> None:
    op.drop_table("settlements")

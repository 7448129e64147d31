"""numbers of exchanges are not reused, and the longest silence is measured."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Exchanges can be deleted from now on. Whoever follows a tape looks for numbers above the last one it has seen.
    with op.batch_alter_table("exchanges", recreate="always", table_kwargs={"sqlite_autoincrement": True}):
        pass
    meaning = "longest silence: no byte of the body, from its first to the end"
    op.add_column("measures", sa.Column("max_silence_ns", sa.BigInteger(), nullable=True, comment=meaning))


def downgrade() -> None:
    op.drop_column("measures", "max_silence_ns")
    with op.batch_alter_table("exchanges", recreate="always"):
        pass

"""numbers of exchanges are not reused."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Exchanges can be deleted from now on. Whoever follows a tape looks for numbers above the last one it has seen.
    with op.batch_alter_table("exchanges", recreate="always", table_kwargs={"sqlite_autoincrement": True}):
        pass


def downgrade() -> None:
    with op.batch_alter_table("exchanges", recreate="always"):
        pass

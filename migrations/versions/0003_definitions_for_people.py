"""definitions for people: comments on columns, the view exchange_metrics, user_version.

They are made anew after the last migration, from the tables as they are then (`wiretape.recorder.tape.file.migrate`):
no migration need know them.
"""

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass

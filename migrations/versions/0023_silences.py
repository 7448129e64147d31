"""silences of output: the longest and the first one, stalls that never ended, and who let a stream end in one.

Of exchanges that were measured before they are unknown until they are derived again (`wiretape db rebuild`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_COLUMNS = {
    "max_output_silence_ns": sa.BigInteger(),
    "first_output_silence_ns": sa.BigInteger(),
    "answers": sa.BigInteger(),
    "stalled_answers": sa.BigInteger(),
    "given_up_answers": sa.BigInteger(),
    "last_silence_ns": sa.BigInteger(),
    "tool_spans": sa.JSON(),
    "silent_end_by": sa.Text(),
    "silent_end_is_quiet": sa.Boolean(),
}


def upgrade() -> None:
    for name, type in _COLUMNS.items():
        op.add_column("measures", sa.Column(name, type, nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    for name in _COLUMNS:
        op.drop_column("measures", name)

"""HTTP/2: the protocol spoken with upstream, the trailers of answers, and the error that ended a stream.

They are not known of exchanges that were recorded before.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_COLUMNS = {"protocol": sa.Text(), "response_trailers": sa.JSON(), "reset_code": sa.Text()}


def upgrade() -> None:
    for name, type in _COLUMNS.items():
        op.add_column("exchanges", sa.Column(name, type, nullable=True))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    for name in _COLUMNS:
        op.drop_column("exchanges", name)

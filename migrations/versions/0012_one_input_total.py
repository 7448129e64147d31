"""one input total: input_tokens includes the tokens that a cache read and wrote, for every API.

The counts are read again from the stored usage, also where the bytes of an exchange are gone.
"""

import json

import sqlalchemy as sa
from alembic import op

from wiretape.recorder.decode.assembly import token_counts

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_RENAMED = {
    "cache_creation_input_tokens": "cache_write_input_tokens",
    "cache_creation_1h_input_tokens": "cache_write_1h_input_tokens",
}
_NEW = "input_uncached_tokens"
_COUNTED = ("input_tokens", _NEW, "total_tokens")


def upgrade() -> None:
    for old, new in _RENAMED.items():
        op.execute(f"ALTER TABLE measures RENAME COLUMN {old} TO {new}")
    op.add_column("measures", sa.Column(_NEW, sa.BigInteger(), nullable=True))
    connection = op.get_bind()
    update = f"UPDATE measures SET {', '.join(f'{name} = ?' for name in _COUNTED)} WHERE exchange_no = ?"
    for no, api, usage in connection.exec_driver_sql("SELECT exchange_no, api, usage FROM measures").all():
        if counts := _counts(api, usage):
            connection.exec_driver_sql(update, (*(counts[name] for name in _COUNTED), no))


def _counts(api: object, usage: object) -> dict[str, int | None]:
    """Return the counts of a usage; none if its cell, or that of its API, is damaged or has none."""
    try:
        found = json.loads(usage) if isinstance(usage, str) else None
    except (ValueError, RecursionError):
        return {}
    return token_counts(api, found) if isinstance(found, dict) and isinstance(api, str) else {}


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS exchange_metrics")
    op.drop_column("measures", _NEW)
    for old, new in _RENAMED.items():
        op.execute(f"ALTER TABLE measures RENAME COLUMN {new} TO {old}")

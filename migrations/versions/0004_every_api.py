"""every API: what was asked for, usage in OpenTelemetry's terms.

Exchanges that were measured before keep their values until they are derived again (`wiretape db rebuild`).
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_RENAMED = {
    "dialect": "api",
    "model": "response_model",
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
}
_NEW = {
    "operation": sa.Text(),
    "cache_read_input_tokens": sa.BigInteger(),
    "cache_creation_input_tokens": sa.BigInteger(),
}


def upgrade() -> None:
    for old, new in _RENAMED.items():
        op.execute(f"ALTER TABLE measures RENAME COLUMN {old} TO {new}")
    op.execute("UPDATE measures SET api = 'openai.chat' WHERE api = 'chat'")
    for name, kind in _NEW.items():
        op.add_column("measures", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for name in _NEW:
        op.drop_column("measures", name)
    op.execute("UPDATE measures SET api = 'chat' WHERE api = 'openai.chat'")
    for old, new in _RENAMED.items():
        op.execute(f"ALTER TABLE measures RENAME COLUMN {new} TO {old}")

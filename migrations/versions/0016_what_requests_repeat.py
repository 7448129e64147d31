"""what requests repeat: parts of their bodies, which several share.

Bodies that were recorded before stay whole.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_JOINED = """SELECT CAST(group_concat(data, '') OVER (
        ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    ) AS BLOB)
    FROM request_versions AS of JOIN request_parts AS part
    ON part.family = of.family AND version BETWEEN since AND until
    WHERE of.exchange_no = exchanges.no LIMIT 1"""


def upgrade() -> None:
    op.create_table(
        "request_versions",
        sa.Column("exchange_no", sa.Integer(), nullable=False),
        sa.Column("family", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["exchange_no"], ["exchanges.no"], name="fk_request_versions_exchange_no"),
        sa.PrimaryKeyConstraint("exchange_no", name="pk_request_versions"),
    )
    op.create_index("ix_request_versions_family", "request_versions", ["family", "version"])
    op.create_table(
        "request_parts",
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("family", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.Integer(), nullable=False),
        sa.Column("until", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("no", name="pk_request_parts"),
    )
    op.create_index("ix_request_parts_family", "request_parts", ["family"])


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS requests")
    op.execute(
        f"UPDATE exchanges SET request_body = ({_JOINED}) WHERE no IN (SELECT exchange_no FROM request_versions)"
    )
    op.drop_table("request_parts")
    op.drop_table("request_versions")

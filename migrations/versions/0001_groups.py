"""Groups, their logs of records, and their recorded rebalances."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "groups",
        sa.Column("group_id", sa.String(249), primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "group_records",
        sa.Column("group_id", sa.String(249), sa.ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "rebalances",
        sa.Column("group_id", sa.String(249), sa.ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("generation_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("now_ms", sa.BigInteger, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("rebalances")
    op.drop_table("group_records")
    op.drop_table("groups")

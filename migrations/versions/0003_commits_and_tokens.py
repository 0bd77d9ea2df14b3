"""Where a commit ends in a group's log, how many bytes a group takes, and the tokens that the service knows.

Of logs of earlier releases it is not known where their commits end. Their bytes are counted here, once.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("group_records", sa.Column("ends_commit", sa.Boolean, nullable=True))
    op.add_column("groups", sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(
        "UPDATE groups SET stored_bytes = "
        "(SELECT COALESCE(SUM(LENGTH(body)), 0) FROM group_records WHERE group_records.group_id = groups.group_id) + "
        "(SELECT COALESCE(SUM(LENGTH(document)), 0) FROM rebalances WHERE rebalances.group_id = groups.group_id)"
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("right", sa.String(16), nullable=False),
        sa.Column("group_prefix", sa.String(249), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.String(64), nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=True),
    )


def downgrade() -> None:
    op.drop_table("tokens")
    with op.batch_alter_table("groups") as table:
        table.drop_column("stored_bytes")
    with op.batch_alter_table("group_records") as table:
        table.drop_column("ends_commit")

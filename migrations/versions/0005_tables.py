"""Creates all tables. A database of version 0001 to 0004 cannot be migrated, because these versions named records
differently.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "groups",
        sa.Column("group_id", sa.String(249), primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("owner", sa.String(64), nullable=True),
        sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("members", sa.Integer, nullable=False, server_default="0"),
    )
    op.create_table(
        "group_records",
        sa.Column("group_id", sa.String(249), sa.ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
        sa.Column("ends_commit", sa.Boolean, nullable=False),
    )
    op.create_table(
        "rebalances",
        sa.Column("group_id", sa.String(249), sa.ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("generation_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("now_ms", sa.BigInteger, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
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
    op.create_table(
        "coordinators",
        sa.Column("coordinator_id", sa.String(64), primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("renewals", sa.BigInteger, nullable=False),
        sa.Column("lease_ms", sa.BigInteger, nullable=False),
        sa.Column("release", sa.String(32), nullable=False),
        sa.Column("takes", sa.Boolean, nullable=False),
    )
    support = op.create_table(
        "schema_support",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("oldest", sa.String(32), nullable=False),
    )
    op.bulk_insert(support, [{"id": 1, "oldest": revision}])
    checks = op.create_table(
        "store_checks",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    # insert this row here, because coordinators only update the row and never insert it
    op.bulk_insert(checks, [{"id": 1, "number": 0}])


def downgrade() -> None:
    for table in ("store_checks", "schema_support", "coordinators", "tokens", "rebalances", "group_records", "groups"):
        op.drop_table(table)

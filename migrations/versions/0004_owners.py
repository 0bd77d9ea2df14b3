"""Which coordinator owns a group, the coordinators, and which releases may run with this schema.

Groups have no owner at first. From this version on, a coordinator may run with a newer schema that says so.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("groups", sa.Column("owner", sa.String(64), nullable=True))
    op.add_column("groups", sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("groups", sa.Column("members", sa.Integer, nullable=False, server_default="0"))
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
    # several coordinators change this row at one time, and none of them has to make it
    op.execute("INSERT INTO store_checks (id, number) SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM store_checks)")


def downgrade() -> None:
    op.drop_table("schema_support")
    op.drop_table("coordinators")
    with op.batch_alter_table("groups") as table:
        table.drop_column("members")
        table.drop_column("epoch")
        table.drop_column("owner")

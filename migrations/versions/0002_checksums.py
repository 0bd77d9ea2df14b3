"""A checksum beside each record, and a row that shows whether the database can be written.

Records of earlier releases have no checksum, and are taken as they are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("group_records", sa.Column("checksum", sa.BigInteger, nullable=True))
    op.create_table(
        "store_checks",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("store_checks")
    with op.batch_alter_table("group_records") as table:
        table.drop_column("checksum")

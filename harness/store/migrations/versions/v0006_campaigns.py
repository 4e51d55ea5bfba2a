"""Campaigns: what fixes each, and when it ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "campaigns",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.Column("started_at", sa.String, nullable=False),
        sa.Column("finished_at", sa.String),
        sa.PrimaryKeyConstraint("number", name="pk_campaigns"),
    )

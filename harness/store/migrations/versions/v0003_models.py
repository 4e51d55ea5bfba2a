"""What runs asked of models, and what came of each answer; both tables are append-only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

APPEND_ONLY = ("exchanges", "outcomes")


def upgrade() -> None:
    """Make the tables and their guards."""
    op.create_table(
        "exchanges",
        *_place("exchanges"),
        sa.Column("request", sa.String, nullable=False),
        sa.Column("model", sa.LargeBinary, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("parents", sa.LargeBinary, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String, nullable=False),
    )
    op.create_table(
        "outcomes",
        *_place("outcomes"),
        sa.Column("reason", sa.String),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String, nullable=False),
    )
    if op.get_bind().dialect.name == "sqlite":
        _guard_in_sqlite()
    else:
        _guard_in_postgresql()


def _place(table: str) -> tuple[sa.Column[int] | sa.PrimaryKeyConstraint, ...]:
    return (
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", name=f"fk_{table}_run"), nullable=False),
        sa.Column("position", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("run", "position", "number", name=f"pk_{table}"),
    )


def _guard_in_sqlite() -> None:
    for table in APPEND_ONLY:
        for change in ("update", "delete"):
            op.execute(
                f"CREATE TRIGGER append_only_{table}_{change} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )


def _guard_in_postgresql() -> None:
    for table in APPEND_ONLY:
        for change in ("update", "delete", "truncate"):
            op.execute(
                f"CREATE TRIGGER append_only_{table}_{change} BEFORE {change} ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
            )

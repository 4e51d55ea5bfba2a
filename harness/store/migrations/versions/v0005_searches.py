"""Live searches: what fixes each, what its policy decided, what became of each attempt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

APPEND_ONLY = ("decisions", "attempts")


def upgrade() -> None:
    """Make the tables and their guards."""
    op.create_table(
        "searches",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("task", sa.LargeBinary, nullable=False),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.Column("root", sa.LargeBinary, nullable=False),
        sa.Column("stop", sa.String),
        sa.Column("tree", sa.String, sa.ForeignKey("trees.digest", name="fk_searches_tree")),
        sa.Column("started_at", sa.String, nullable=False),
        sa.Column("finished_at", sa.String),
        sa.PrimaryKeyConstraint("number", name="pk_searches"),
    )
    op.create_table(
        "decisions",
        *_place("decisions"),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String, nullable=False),
    )
    op.create_table(
        "attempts",
        *_place("attempts"),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("decision", sa.Integer, nullable=False),
        sa.Column("parent", sa.Integer),
        sa.Column("snapshot", sa.String),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("elapsed", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String, nullable=False),
        sa.UniqueConstraint("search", "attempt", name="uq_attempts_search"),
    )
    if op.get_bind().dialect.name == "sqlite":
        _guard_in_sqlite()
    else:
        _guard_in_postgresql()


def _place(table: str) -> tuple[sa.Column[int] | sa.PrimaryKeyConstraint, ...]:
    return (
        sa.Column("search", sa.Integer, sa.ForeignKey("searches.number", name=f"fk_{table}_search"), nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("search", "number", name=f"pk_{table}"),
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

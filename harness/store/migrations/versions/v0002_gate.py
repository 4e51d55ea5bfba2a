"""The gate's tables: the ledger of looks at held-out trees, and verdicts; both are append-only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

APPEND_ONLY = ("looks", "verdicts")


def upgrade() -> None:
    """Make the tables and their guards."""
    op.create_table(
        "looks",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("previous", sa.String, nullable=False),
        sa.Column("entry", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_looks"),
        sa.UniqueConstraint("previous", name="uq_looks_previous"),
        sa.UniqueConstraint("digest", name="uq_looks_digest"),
    )
    op.create_table(
        "verdicts",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("candidate", sa.Integer, sa.ForeignKey("versions.number", name="fk_verdicts_candidate"), nullable=False),
        sa.Column("incumbent", sa.Integer, sa.ForeignKey("versions.number", name="fk_verdicts_incumbent")),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("manifest", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("by", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_verdicts"),
    )
    op.create_index("ix_verdicts_candidate", "verdicts", ["candidate"])
    op.create_index("ix_verdicts_incumbent", "verdicts", ["incumbent"])
    if op.get_bind().dialect.name == "sqlite":
        _guard_in_sqlite()
    else:
        _guard_in_postgresql()


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

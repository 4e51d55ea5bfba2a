"""The first tables: trees, versions, runs, proposals, evaluations with their replays, events; history is append-only."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

APPEND_ONLY = ("versions", "proposals", "evaluations", "replays", "events")


def upgrade() -> None:
    """Make the tables and their guards."""
    _make_tables()
    if op.get_bind().dialect.name == "sqlite":
        _guard_in_sqlite()
    else:
        _guard_in_postgresql()


def _provenance(table: str) -> tuple[Any, ...]:
    return (
        sa.Column("origin", sa.String, nullable=False),
        sa.Column("rationale", sa.LargeBinary, nullable=False),
        sa.Column("template", sa.LargeBinary),
        sa.Column("params", sa.LargeBinary, nullable=False),
        sa.Column("parent", sa.Integer, sa.ForeignKey("versions.number", name=f"fk_{table}_parent")),
    )


def _make_tables() -> None:
    op.create_table(
        "trees",
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("task", sa.LargeBinary, nullable=False),
        sa.Column("system", sa.LargeBinary, nullable=False),
        sa.Column("direction", sa.String, nullable=False),
        sa.Column("frontier", sa.String, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("best", sa.Double),
        sa.Column("header", sa.LargeBinary, nullable=False),
        sa.Column("nodes", sa.LargeBinary, nullable=False),
        sa.Column("added_at", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_trees"),
    )
    op.create_table(
        "versions",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("source", sa.LargeBinary, nullable=False),
        *_provenance("versions"),
        sa.Column("created_at", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_versions"),
        sa.UniqueConstraint("digest", name="uq_versions_digest"),
    )
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("started_at", sa.String, nullable=False),
        sa.Column("finished_at", sa.String),
        sa.PrimaryKeyConstraint("number", name="pk_runs"),
        sa.CheckConstraint("state in ('running', 'finished')", name="ck_runs_state"),
    )
    op.create_table(
        "proposals",
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", name="fk_proposals_run"), nullable=False),
        sa.Column("position", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer, sa.ForeignKey("versions.number", name="fk_proposals_version"), nullable=False),
        *_provenance("proposals"),
        sa.PrimaryKeyConstraint("run", "position", name="pk_proposals"),
    )
    op.create_table(
        "evaluations",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", name="fk_evaluations_run"), nullable=False),
        sa.Column("version", sa.Integer, sa.ForeignKey("versions.number", name="fk_evaluations_version"), nullable=False),
        sa.Column("split", sa.String, nullable=False),
        sa.Column("policy", sa.String, nullable=False),
        sa.Column("sandbox", sa.String, nullable=False),
        sa.Column("settings", sa.LargeBinary, nullable=False),
        sa.Column("replays", sa.Integer, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("judged_at", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_evaluations"),
        sa.UniqueConstraint("run", "version", "split", name="uq_evaluations_run"),
    )
    op.create_table(
        "replays",
        sa.Column("evaluation", sa.Integer, sa.ForeignKey("evaluations.number", name="fk_replays_evaluation"), nullable=False),
        sa.Column("place", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("tree", sa.String, sa.ForeignKey("trees.digest", name="fk_replays_tree"), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("stop", sa.String, nullable=False),
        sa.Column("fault", sa.String),
        sa.Column("result", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("evaluation", "place", name="pk_replays"),
    )
    op.create_table(
        "events",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("version", sa.Integer, sa.ForeignKey("versions.number", name="fk_events_version"), nullable=False),
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", name="fk_events_run")),
        sa.Column("to", sa.Integer, sa.ForeignKey("versions.number", name="fk_events_to")),
        sa.Column("reason", sa.LargeBinary, nullable=False),
        sa.Column("facts", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_events"),
    )
    op.create_index("ix_events_version", "events", ["version"])
    op.create_index("ix_events_run", "events", ["run"])
    op.create_index("ix_replays_tree", "replays", ["tree"])


def _guard_in_sqlite() -> None:
    for table in APPEND_ONLY:
        for change in ("update", "delete"):
            op.execute(
                f"CREATE TRIGGER append_only_{table}_{change} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )


def _guard_in_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    for table in APPEND_ONLY:
        for change in ("update", "delete", "truncate"):
            op.execute(
                f"CREATE TRIGGER append_only_{table}_{change} BEFORE {change} ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
            )

"""Every try to reach a model with what it may and did cost, and why models were put aside; all three tables are append-only.

What was asked before this has one try for each exchange: how many it took is not known any more.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

APPEND_ONLY = ("tries", "charges", "asides")
_FRAME_TOKENS = 32
_Row = sa.Row[*tuple[Any, ...]]


def upgrade() -> None:
    """Make the tables, fill in the tries of earlier exchanges, and set the guards."""
    tries = op.create_table(
        "tries",
        *_place("tries"),
        sa.Column("request", sa.String, nullable=False),
        sa.Column("model", sa.LargeBinary, nullable=False),
        sa.Column("bound", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String, nullable=False),
    )
    charges = op.create_table(
        "charges",
        *_place("charges"),
        sa.Column("paid", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String, nullable=False),
    )
    op.create_table(
        "asides",
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", name="fk_asides_run"), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("because", sa.String, nullable=False),
        sa.Column("reason", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("run", name="pk_asides"),
    )
    _fill(tries, charges)
    if op.get_bind().dialect.name == "sqlite":
        _guard_in_sqlite()
    else:
        _guard_in_postgresql()


def _place(table: str) -> tuple[sa.Column[int] | sa.PrimaryKeyConstraint, ...]:
    return (
        sa.Column("run", sa.Integer, sa.ForeignKey("runs.number", name=f"fk_{table}_run"), nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("run", "number", name=f"pk_{table}"),
    )


def _fill(tries: sa.Table, charges: sa.Table) -> None:
    connection = op.get_bind()
    exchanges = sa.table("exchanges", *map(sa.column, ("run", "position", "number", "request", "model", "document", "at")))
    place = (exchanges.c.run, exchanges.c.position, exchanges.c.number)
    numbers: dict[int, int] = {}
    for where in connection.execute(sa.select(*place).order_by(*place)).all():
        # One at a time: prompts add up to much.
        query = sa.select(exchanges).where(*(column == value for column, value in zip(place, where, strict=True)))
        row = connection.execute(query).one()
        number = numbers[row.run] = numbers.get(row.run, 0) + 1
        bound, paid = _costs(row)
        key = {"run": row.run, "number": number, "at": row.at}
        connection.execute(tries.insert().values(**key, request=row.request, model=row.model, bound=_json(bound)))
        connection.execute(charges.insert().values(**key, paid=_json(paid)))


def _costs(row: _Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what an exchange may have cost, in money unknown, and what it did cost."""
    try:
        said = json.loads(bytes(row.document).decode("utf-8", "surrogatepass"))
        request, answer = said["request"], said["answer"]
        texts = [message["text"].encode("utf-8", "surrogatepass") for message in request["messages"]]
        most = sum(len(text) + _FRAME_TOKENS for text in texts) + request["max_output_tokens"]
    except (ValueError, KeyError, TypeError):  # damaged: `harness doctor` says so, and an upgrade does not stop at it
        return _bound(0), _paid(None, None)
    if answer is None:
        is_timeout = said.get("kind") == "timeout"
        return _bound(most), _paid(None, None) if is_timeout else _paid(0.0, 0)
    counts = answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]
    return _bound(most), _paid(answer["cost_usd"], None if None in counts else sum(counts))


def _bound(tokens: int) -> dict[str, Any]:
    return {"usd": None, "tokens": tokens, "calls": 1}


def _paid(usd: float | None, tokens: int | None) -> dict[str, Any]:
    return {"usd": usd, "tokens": tokens}


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


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

"""Runs of evolve in rows: each begins once and finishes once; which version is its best is read from the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from harness.errors import InputError
from harness.store import rows, tables
from harness.store.history import CHOICES
from harness.store.reading import last, one
from harness.store.records import Run, RunPlan, RunState

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select


def begin(connection: Connection, plan: RunPlan, at: str) -> Run:
    """Record that a run begins. The caller has seen to it that the store holds what the plan names."""
    number = last(connection, tables.runs.c.number) + 1
    started = {"state": RunState.RUNNING.value, "started_at": at}
    connection.execute(insert(tables.runs).values(number=number, plan=rows.plan_row(plan), **started))
    return run(connection, number)


def finish(connection: Connection, number: int, at: str) -> Run:
    """Record that a run has come to its end, once."""
    refuse_finished(connection, number)
    finished = {"state": RunState.FINISHED.value, "finished_at": at}
    connection.execute(update(tables.runs).where(tables.runs.c.number == number).values(**finished))
    return run(connection, number)


def run(connection: Connection, number: int) -> Run:
    """Return a run."""
    return rows.run_from(one(connection, _runs().where(tables.runs.c.number == number), f"there is no run {number}"))


def runs(connection: Connection) -> list[Run]:
    """Return all runs, the first one first."""
    return list(map(rows.run_from, connection.execute(_runs().order_by(tables.runs.c.number))))


def unfinished(connection: Connection) -> Run | None:
    """Return the latest run that has not finished."""
    query = _runs().where(tables.runs.c.state == RunState.RUNNING.value).order_by(tables.runs.c.number.desc()).limit(1)
    row = connection.execute(query).first()
    return None if row is None else rows.run_from(row)


def refuse_finished(connection: Connection, number: int) -> None:
    """Refuse to add anything to a run that has finished."""
    if run(connection, number).state is RunState.FINISHED:
        raise InputError(f"run {number} has finished; nothing can be added to it")


def _runs() -> Select[Any]:
    columns, events = tables.runs.c, tables.events.c
    best = (
        select(events.to)
        .where(events.run == columns.number, events.kind.in_([kind.value for kind in CHOICES]))
        .order_by(events.number.desc())
        .limit(1)
        .scalar_subquery()
    )
    return select(tables.runs, best.label("best"))

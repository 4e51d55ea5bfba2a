"""Evaluations in rows, one for each split of a run that a version was judged on, with every replay. What repeats must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select

from harness.errors import StoreError
from harness.store import rows, tables
from harness.store.reading import last

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from harness.policy import Version
    from harness.score import Evaluation


def record(connection: Connection, run: int, version: Version, split: str, evaluation: Evaluation, *, at: str) -> None:
    """Record an evaluation; where the split was judged before in this run, see that it repeats.

    Raises:
        StoreError: it was judged before with another outcome.
    """
    if evaluation.policy != version.candidate.digest:
        message = f"the evaluation of policy {evaluation.policy!r} is not one of version {version.number}"
        raise ValueError(message)
    before = find(connection, run, version.number, split)
    if before is None:
        _insert(connection, run, version.number, split, evaluation, at=at)
    elif _outcome(before) != _outcome(evaluation):
        raise StoreError(
            f"run {run} judged version {version.number} on {split} before, with another outcome; "
            "the policy or the sandbox does not repeat"
        )


def find(connection: Connection, run: int, version: int, split: str) -> Evaluation | None:
    """Return an evaluation as it was recorded, None where there is none."""
    columns = tables.evaluations.c
    query = select(tables.evaluations).where(columns.run == run, columns.version == version, columns.split == str(split))
    row = connection.execute(query).first()
    if row is None:
        return None
    replays = (
        select(tables.replays, tables.trees.c.task)
        .join_from(tables.replays, tables.trees, tables.replays.c.tree == tables.trees.c.digest)
        .where(tables.replays.c.evaluation == row.number)
        .order_by(tables.replays.c.place)
    )
    return rows.evaluation_from(row, connection.execute(replays))


def _insert(connection: Connection, run: int, version: int, split: str, evaluation: Evaluation, *, at: str) -> None:
    number = last(connection, tables.evaluations.c.number) + 1
    head = {
        "number": number,
        "run": run,
        "version": version,
        "split": str(split),
        "policy": evaluation.policy,
        "sandbox": evaluation.sandbox,
        "settings": rows.settings_row(evaluation.settings),
        "replays": len(evaluation.results),
        "value": evaluation.value,
        "judged_at": at,
    }
    connection.execute(insert(tables.evaluations).values(**head))
    replays = [
        {"evaluation": number, "place": place} | rows.result_row(result) for place, result in enumerate(evaluation.results)
    ]
    if replays:
        connection.execute(insert(tables.replays), replays)


def _outcome(evaluation: Evaluation) -> list[Any]:
    """Return what must repeat: all but times, memory and the words of a fault."""
    return [(result.tree, result.trajectory.rounds, result.trajectory.stop, result.figures) for result in evaluation.results]

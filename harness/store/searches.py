"""Live searches in rows: each begins once and ends once; decisions and attempts are appended as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select, update

from harness.errors import InputError, StoreError
from harness.search import Decision, Finished, Search, SearchStop, decision_fields, decision_of, plan_fields, plan_of
from harness.store import tables
from harness.store.reading import last, one
from harness.tree import attempt_fields, attempt_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection, Row

    from harness.search import SearchPlan


def begin(connection: Connection, plan: SearchPlan, root: Mapping[str, Any], at: str) -> Search:
    """Record that a search begins; `root` has the fields start, score and metrics. The store holds its version."""
    number = last(connection, tables.searches.c.number) + 1
    row = {"number": number, "plan": plan_fields(plan), "root": dict(root), "task": plan.task, "started_at": at}
    connection.execute(insert(tables.searches).values(**row))
    return search(connection, number)


def search(connection: Connection, number: int) -> Search:
    """Return a search."""
    query = select(tables.searches).where(tables.searches.c.number == number)
    return _search(one(connection, query, f"there is no search {number}"))


def searches(connection: Connection) -> list[Search]:
    """Return all searches, the first one first."""
    return list(map(_search, connection.execute(select(tables.searches).order_by(tables.searches.c.number))))


def decide(connection: Connection, number: int, decision: Decision, at: str) -> None:
    """Append a decision."""
    refuse_ended(connection, number)
    _refuse_gap(connection, tables.decisions, number, decision.number)
    row = {"search": number, "number": decision.number, "document": decision_fields(decision), "at": at}
    connection.execute(insert(tables.decisions).values(**row))


def finish_attempt(connection: Connection, number: int, finished: Finished, at: str) -> None:
    """Append an attempt that ended."""
    refuse_ended(connection, number)
    row = {
        "search": number,
        "number": finished.order,
        "attempt": finished.number,
        "decision": finished.decision,
        "parent": finished.parent,
        "snapshot": finished.attempt.snapshot,
        "document": attempt_fields(finished.attempt),
        "elapsed": {"s": finished.elapsed_s},
        "at": at,
    }
    _refuse_gap(connection, tables.attempts, number, finished.order)
    connection.execute(insert(tables.attempts).values(**row))


def decisions(connection: Connection, number: int) -> list[Decision]:
    """Return the decisions of a search, in order."""
    columns = tables.decisions.c
    query = select(columns.document).where(columns.search == number).order_by(columns.number)
    return [decision_of(row.document) for row in connection.execute(query)]


def attempts(connection: Connection, number: int) -> list[Finished]:
    """Return the attempts of a search in the order in which they ended."""
    columns = tables.attempts.c
    return list(
        map(_finished, connection.execute(select(tables.attempts).where(columns.search == number).order_by(columns.number)))
    )


def end(connection: Connection, number: int, stop: SearchStop, tree: str, at: str) -> Search:
    """Record that a search has ended, once."""
    refuse_ended(connection, number)
    ended = {"stop": stop.value, "tree": tree, "finished_at": at}
    connection.execute(update(tables.searches).where(tables.searches.c.number == number).values(**ended))
    return search(connection, number)


def refuse_ended(connection: Connection, number: int) -> None:
    """Refuse to add anything to a search that has ended."""
    if search(connection, number).stop is not None:
        raise InputError(f"search {number} has ended; nothing can be added to it")


def snapshots(connection: Connection) -> set[str]:
    """Return the address of every workspace that a search needs: its start, its attempts, and tries that were kept."""
    needed = {row.root["start"] for row in connection.execute(select(tables.searches.c.root))}
    for row in connection.execute(select(tables.attempts.c.document)):
        attempt = attempt_of(row.document)
        tries = [one.get("snapshot") for one in attempt.extra.get("rollouts", ())]
        needed |= {address for address in (attempt.snapshot, *tries) if address}
    return needed


def problems(connection: Connection) -> Iterator[str]:
    """Tell which decisions or attempts are missing, or belong to nothing."""
    links = select(tables.attempts.c.attempt, tables.attempts.c.parent)
    for number in connection.execute(select(tables.searches.c.number).order_by(tables.searches.c.number)).scalars():
        for table, what in ((tables.decisions, "decision"), (tables.attempts, "attempt")):
            found = connection.execute(select(table.c.number).where(table.c.search == number).order_by(table.c.number)).scalars()
            numbers = list(found)
            if numbers != list(range(1, len(numbers) + 1)):
                yield f"search {number}: the numbers of its {what}s have a gap"
        made = {row.attempt: row.parent for row in connection.execute(links.where(tables.attempts.c.search == number))}
        lost = sorted(parent for parent in set(made.values()) if parent is not None and parent not in made)
        if lost:
            yield f"search {number}: attempts continue attempt {lost[0]}, which is not on record"


def _refuse_gap(connection: Connection, table: Any, search: int, number: int) -> None:
    there = connection.execute(select(func.count()).select_from(table).where(table.c.search == search)).scalar_one()
    if there != number - 1:
        raise StoreError(f"search {search} has gone on meanwhile; another process may be taking it on")


def _search(row: Row[*tuple[Any, ...]]) -> Search:
    root = row.root
    return Search(
        row.number,
        plan_of(row.plan),
        root["start"],
        root["score"],
        root["metrics"],
        row.started_at,
        row.finished_at,
        None if row.stop is None else SearchStop(row.stop),
        row.tree,
    )


def _finished(row: Row[*tuple[Any, ...]]) -> Finished:
    return Finished(row.attempt, row.number, row.decision, row.parent, attempt_of(row.document), row.elapsed["s"])

"""What a run asked of models, in rows: the exchanges, and what came of each answer. Both are written once and read whole."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, insert, select

from harness.errors import StoreError
from harness.models.base import exchange_fields, exchange_of
from harness.models.journal import Asked, Because, Call, Outcome, PutAside
from harness.store import tables
from harness.store.records import UnusableAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement, Connection, Row, Table

    from harness.models.base import Exchange


def calls(connection: Connection, run: int) -> list[Call]:
    """Return the calls of a run, by position and number."""
    exchanges, outcomes = tables.exchanges, tables.outcomes
    query = (
        select(exchanges, outcomes.c.document.label("outcome"))
        .join_from(exchanges, outcomes, _same(), isouter=True)
        .where(exchanges.c.run == run)
        .order_by(exchanges.c.position, exchanges.c.number)
    )
    return list(map(_call, connection.execute(query)))


class Place(NamedTuple):
    """Where a call stands: the n-th for a position of a run."""

    run: int
    position: int
    number: int


def exchanged(connection: Connection, place: Place, asked: Asked, exchange: Exchange) -> None:
    """Record an exchange.

    Raises:
        StoreError: another one stands at its place.
    """
    row = {
        "request": exchange.request.digest,
        "model": exchange.request.model,
        "kind": asked.kind,
        "parents": list(asked.parents),
        "document": exchange_fields(exchange),
        "at": exchange.at,
    }
    there = _there(connection, tables.exchanges, place)
    if there is None:
        connection.execute(insert(tables.exchanges).values(**place._asdict(), **row))
    elif there.request != row["request"]:
        where = f"call {place.number} for position {place.position}"
        raise StoreError(f"run {place.run} asked another question as {where} before; another process may be taking it on")


def ended(connection: Connection, place: Place, outcome: Outcome, at: str) -> None:
    """Record what came of an answer, where that is not known yet."""
    if _there(connection, tables.outcomes, place) is None:
        row = {"reason": outcome.reason, "document": asdict(outcome), "at": at}
        connection.execute(insert(tables.outcomes).values(**place._asdict(), **row))


def put_aside(connection: Connection, run: int, aside: PutAside, at: str) -> None:
    """Record why the models of a run are asked no more, where that is not known yet."""
    if aside_of(connection, run) is None:
        row = {"run": run, "position": aside.position, "because": aside.because.value, "reason": aside.reason, "at": at}
        connection.execute(insert(tables.asides).values(**row))


def aside_of(connection: Connection, run: int) -> PutAside | None:
    """Return why the models of a run are asked no more."""
    row = connection.execute(select(tables.asides).where(tables.asides.c.run == run)).first()
    return None if row is None else PutAside(row.position, Because(row.because), row.reason)


def unusable_answers(connection: Connection, run: int | None) -> list[UnusableAnswer]:
    """Return what came to nothing, in one run or in all, in order of time."""
    exchanges, outcomes = tables.exchanges, tables.outcomes
    place = (exchanges.c.run, exchanges.c.position, exchanges.c.number, exchanges.c.model, exchanges.c.kind)
    query = (
        select(*place, outcomes.c.reason, outcomes.c.document, outcomes.c.at)
        .join_from(exchanges, outcomes, _same())
        .where(outcomes.c.reason.is_not(None))
        .order_by(outcomes.c.at, *place[:3])
    )
    found = connection.execute(query if run is None else query.where(exchanges.c.run == run))
    return [
        UnusableAnswer(row.run, row.position, row.number, row.model, row.kind, row.reason, row.document["message"], row.at)
        for row in found
    ]


def problems(connection: Connection) -> Iterator[str]:
    """Tell which exchanges are not those that were recorded."""
    columns = tables.exchanges.c
    for row in connection.execute(select(tables.exchanges).order_by(columns.run, columns.position, columns.number)):
        if exchange_of(row.document).request.digest != row.request:
            where = f"call {row.number} for position {row.position} of run {row.run}"
            yield f"{where} is not the one that was recorded: the digest of its request differs"
    outcomes = tables.outcomes.c
    place = (outcomes.run, outcomes.position, outcomes.number)
    orphans = select(*place).join_from(tables.outcomes, tables.exchanges, _same(), isouter=True)
    for run, position, number in connection.execute(orphans.where(columns.number.is_(None)).order_by(*place)):
        yield f"call {number} for position {position} of run {run} is missing, though what came of it is there"


def _there(connection: Connection, table: Table, place: Place) -> Row[*tuple[Any, ...]] | None:
    return connection.execute(select(table).filter_by(**place._asdict())).first()


def _same() -> ColumnElement[bool]:
    exchanges, outcomes = tables.exchanges.c, tables.outcomes.c
    return and_(outcomes.run == exchanges.run, outcomes.position == exchanges.position, outcomes.number == exchanges.number)


def _call(row: Row[*tuple[Any, ...]]) -> Call:
    asked = Asked(row.position, row.kind, tuple(row.parents))
    outcome = None if row.outcome is None else Outcome(**row.outcome)
    return Call(asked, row.number, exchange_of(row.document), outcome)

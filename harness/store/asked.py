"""What a run asked of models, in rows: the exchanges, and what came of each answer. Both are written once and read whole."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, insert, select

from harness.errors import StoreError
from harness.models.base import exchange_fields, exchange_of
from harness.models.journal import Asked, Call, Outcome
from harness.store import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Row, Table

    from harness.models.base import Exchange


def calls(connection: Connection, run: int) -> list[Call]:
    """Return the calls of a run, by position and number."""
    exchanges, outcomes = tables.exchanges, tables.outcomes
    same = and_(
        outcomes.c.run == exchanges.c.run,
        outcomes.c.position == exchanges.c.position,
        outcomes.c.number == exchanges.c.number,
    )
    query = (
        select(exchanges, outcomes.c.document.label("outcome"))
        .join_from(exchanges, outcomes, same, isouter=True)
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


def problems(connection: Connection) -> Iterator[str]:
    """Tell which exchanges are not those that were recorded."""
    columns = tables.exchanges.c
    for row in connection.execute(select(tables.exchanges).order_by(columns.run, columns.position, columns.number)):
        if exchange_of(row.document).request.digest != row.request:
            where = f"call {row.number} for position {row.position} of run {row.run}"
            yield f"{where} is not the one that was recorded: the digest of its request differs"


def _there(connection: Connection, table: Table, place: Place) -> Row[*tuple[Any, ...]] | None:
    return connection.execute(select(table).filter_by(**place._asdict())).first()


def _call(row: Row[*tuple[Any, ...]]) -> Call:
    asked = Asked(row.position, row.kind, tuple(row.parents))
    outcome = None if row.outcome is None else Outcome(**row.outcome)
    return Call(asked, row.number, exchange_of(row.document), outcome)

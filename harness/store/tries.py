"""Every try of a run to reach a model, in rows: what it may cost, and what it did cost. Both are written once."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, insert, select

from harness.errors import StoreError
from harness.models.tries import Charge, Paid, Try
from harness.store import tables
from harness.store.reading import last

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement, Connection, Row

    from harness.models.base import Request


def reserve(connection: Connection, run: int, request: Request, bound: Charge, *, known: int, at: str) -> int:
    """Record what a try costs at most, and return its number: the one after those that are known."""
    number = known + 1
    if last(connection, tables.tries.c.number, run=run) != known:
        raise StoreError(f"run {run} has gone on meanwhile; another process may be taking it on")
    row = {"request": request.digest, "model": request.model, "bound": asdict(bound), "at": at}
    connection.execute(insert(tables.tries).values(run=run, number=number, **row))
    return number


def charge(connection: Connection, run: int, number: int, paid: Paid, at: str) -> None:
    """Record what a try did cost, where that is not known yet."""
    there = select(tables.charges.c.number).filter_by(run=run, number=number)
    if connection.execute(there).first() is None:
        connection.execute(insert(tables.charges).values(run=run, number=number, paid=asdict(paid), at=at))


def tries(connection: Connection, run: int) -> list[Try]:
    """Return the tries of a run in order."""
    query = (
        select(tables.tries, tables.charges.c.paid)
        .join_from(tables.tries, tables.charges, _same(), isouter=True)
        .where(tables.tries.c.run == run)
        .order_by(tables.tries.c.number)
    )
    return list(map(_try, connection.execute(query)))


def problems(connection: Connection) -> Iterator[str]:
    """Tell which charges are of no try."""
    charges = tables.charges.c
    query = (
        select(charges.run, charges.number)
        .join_from(tables.charges, tables.tries, _same(), isouter=True)
        .where(tables.tries.c.number.is_(None))
        .order_by(charges.run, charges.number)
    )
    for run, number in connection.execute(query):
        yield f"try {number} of run {run} is missing, though what it did cost is there"


def _same() -> ColumnElement[bool]:
    return and_(tables.charges.c.run == tables.tries.c.run, tables.charges.c.number == tables.tries.c.number)


def _try(row: Row[*tuple[Any, ...]]) -> Try:
    paid = None if row.paid is None else Paid(**row.paid)
    return Try(row.number, row.request, row.model, Charge(**row.bound), paid)

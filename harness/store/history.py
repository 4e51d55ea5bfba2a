"""The history in rows: events are appended, numbered without gaps, and never changed.

The incumbent is read from it: what the last `promoted` or `rolled_back` event outside of any run names. Within a run of evolve,
`rolled_back` says that development went back to an earlier version; that never touches the incumbent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select

from harness.policy import Event, EventKind
from harness.store import rows, tables
from harness.store.reading import last

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import ColumnElement, Connection

    from harness.store.records import Run

TURNS = (EventKind.PROMOTED, EventKind.ROLLED_BACK)
"""The events that say which version is the incumbent, where they belong to no run."""
CHOICES = (EventKind.SELECTED, EventKind.ROLLED_BACK)
"""The events of a run that say which of its versions is the best."""


def head(connection: Connection, run: Run | None) -> int:
    """Return how many events there are, in all or in one run."""
    if run is None:
        return last(connection, tables.events.c.number)
    query = select(func.count()).select_from(tables.events).where(tables.events.c.run == run.number)
    return connection.execute(query).scalar_one()


def append(connection: Connection, new: Sequence[Event], at: str) -> list[Event]:
    """Append events and return them with number and time."""
    added = []
    for number, event in enumerate(new, start=last(connection, tables.events.c.number) + 1):
        if event.run is None and event.kind in TURNS and event.to is None:
            message = f"the event {event.kind.value!r} names no version in `to`; the incumbent is read from it"
            raise ValueError(message)
        added.append(rows.event_row(event) | {"number": number, "at": at})
    if added:
        connection.execute(insert(tables.events), added)
    return [
        Event(event.kind, event.version, event.run, event.reason, event.to, event.facts, row["number"], at)
        for event, row in zip(new, added, strict=True)
    ]


def events(
    connection: Connection,
    *,
    version: int | None,
    run: int | None,
    kinds: Collection[EventKind] | None,
    after: int | None,
    limit: int | None,
) -> list[Event]:
    """Return events in order; each argument but None leaves some out."""
    columns = tables.events.c
    query = select(tables.events).order_by(columns.number).limit(limit)
    if version is not None:
        query = query.where(columns.version == version)
    if run is not None:
        query = query.where(columns.run == run)
    if kinds is not None:
        query = query.where(columns.kind.in_([kind.value for kind in kinds]))
    if after is not None:
        query = query.where(columns.number > after)
    return list(map(rows.event_from, connection.execute(query)))


def incumbent(connection: Connection) -> int | None:
    """Return the number of the incumbent, None before the first promotion."""
    columns = tables.events.c
    query = select(columns.to).where(*_turns()).order_by(columns.number.desc()).limit(1)
    return connection.execute(query).scalar()


def last_turn(connection: Connection) -> int:
    """Return the number of the event that decided last which version is the incumbent, 0 before the first."""
    query = select(func.max(tables.events.c.number)).where(*_turns())
    return connection.execute(query).scalar_one() or 0


def _turns() -> tuple[ColumnElement[bool], ...]:
    columns = tables.events.c
    return columns.run.is_(None), columns.kind.in_([kind.value for kind in TURNS])

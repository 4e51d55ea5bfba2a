"""Versions in rows. A source is recorded once and keeps its number; each proposal of it keeps its own origin and rationale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select

from harness.policy import Event, EventKind, Version
from harness.store import history, rows, tables
from harness.store.reading import last, one

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from harness.policy import Candidate
    from harness.store.records import Run


def propose(connection: Connection, run: Run | None, candidate: Candidate, at: str) -> Version:
    """Record a candidate as a version where its source is new, as a proposal where a run made it, and the event in any case."""
    query = select(tables.versions.c.number, tables.versions.c.created_at).where(tables.versions.c.digest == candidate.digest)
    known = connection.execute(query).first()
    number, created_at = known or (last(connection, tables.versions.c.number) + 1, at)
    came_from = rows.provenance_row(candidate)
    if known is None:
        new = {"number": number, "digest": candidate.digest, "source": candidate.source, "created_at": created_at}
        connection.execute(insert(tables.versions).values(**new, **came_from))
    facts: dict[str, Any] = {"digest": candidate.digest, "known": known is not None}
    if run is not None:
        position = facts["position"] = last(connection, tables.proposals.c.position, run=run.number) + 1
        proposal = {"run": run.number, "position": position, "version": number}
        connection.execute(insert(tables.proposals).values(**proposal, **came_from))
    event = Event(EventKind.PROPOSED, number, run.number if run else None, candidate.rationale, facts=facts)
    history.append(connection, [event], at)
    return Version(number, candidate, created_at)


def version(connection: Connection, number: int) -> Version:
    """Return a version as it was proposed first."""
    query = select(tables.versions).where(tables.versions.c.number == number)
    return rows.version_from(one(connection, query, f"there is no version {number}"))


def by_digest(connection: Connection, digest: str) -> Version | None:
    """Return the version with this source as it was proposed first, None where it was never recorded."""
    row = connection.execute(select(tables.versions).where(tables.versions.c.digest == digest)).first()
    return None if row is None else rows.version_from(row)


def versions(connection: Connection) -> list[Version]:
    """Return all versions by number."""
    return list(map(rows.version_from, connection.execute(select(tables.versions).order_by(tables.versions.c.number))))


def of_run(connection: Connection, run: int) -> list[Version]:
    """Return what was proposed in a run, in order of position."""
    columns, proposals = tables.versions.c, tables.proposals.c
    proposed = (proposals.origin, proposals.rationale, proposals.template, proposals.params, proposals.parent)
    query = (
        select(columns.number, columns.source, columns.created_at, *proposed)
        .join_from(tables.proposals, tables.versions, proposals.version == columns.number)
        .where(proposals.run == run)
        .order_by(proposals.position)
    )
    return list(map(rows.version_from, connection.execute(query)))

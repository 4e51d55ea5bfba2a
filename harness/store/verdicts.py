"""Verdicts as rows, and what the store knows of a version's development: both are what a promotion rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, or_, select

from harness.gate.document import document, verdict_from
from harness.policy import Event, EventKind
from harness.store import digests, history, tables
from harness.store.reading import last, one
from harness.store.records import RecordedVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection, Row

    from harness.gate.verdict import Verdict
    from harness.policy import Version


def digest_of(written: Any, manifest: Any) -> str:
    """Return the digest of a verdict with its manifest."""
    return digests.digest_of({"verdict": written, "manifest": manifest})


def record(
    connection: Connection,
    judged: Verdict,
    candidate: Version,
    incumbent: Version | None,
    *,
    by: str,
    manifest: Mapping[str, Any],
    at: str,
) -> int:
    """Record a verdict, tell the history of it, and return its number.

    Raises:
        InputError: it rests on a look that the ledger does not hold.
    """
    for named, version, digest in (("candidate", candidate, judged.candidate), ("incumbent", incumbent, judged.incumbent)):
        if version is not None and version.candidate.digest != digest:
            message = f"the verdict's {named} is policy {digest!r}, not version {version.number}"
            raise ValueError(message)
    if judged.look is not None and judged.look.ledger:
        of_look = select(tables.looks.c.number).where(tables.looks.c.digest == judged.look.ledger)
        one(connection, of_look, f"there is no look {judged.look.ledger!r}")
    number = last(connection, tables.verdicts.c.number) + 1
    versions = {"candidate": candidate.number, "incumbent": None if incumbent is None else incumbent.number}
    written = document(judged)
    digest = digest_of(written, manifest)
    row = {"outcome": judged.outcome.value, "document": written, "manifest": manifest, "digest": digest}
    connection.execute(insert(tables.verdicts).values(number=number, **versions, by=by, at=at, **row))
    facts = {"verdict": number, "digest": digest, "outcome": judged.outcome.value, "incumbent": versions["incumbent"]}
    told = Event(EventKind.GATED, candidate.number, None, judged.reason, facts=facts | {"policy": judged.incumbent, "by": by})
    history.append(connection, [told], at)
    return number


def verdict(connection: Connection, number: int) -> RecordedVerdict:
    """Return a verdict."""
    query = select(tables.verdicts).where(tables.verdicts.c.number == number)
    return _verdict(one(connection, query, f"there is no verdict {number}"))


def verdicts(connection: Connection, version: int | None) -> list[RecordedVerdict]:
    """Return verdicts in order, all or those about one version on either side."""
    columns = tables.verdicts.c
    query = select(tables.verdicts).order_by(columns.number)
    if version is not None:
        query = query.where(or_(columns.candidate == version, columns.incumbent == version))
    return list(map(_verdict, connection.execute(query)))


def problems(connection: Connection) -> Iterator[str]:
    """Tell which verdicts were edited or deleted, or rest on a look that is not in the ledger."""
    looks = set(connection.execute(select(tables.looks.c.digest)).scalars())
    there = {}
    for row in connection.execute(select(tables.verdicts).order_by(tables.verdicts.c.number)):
        there[row.number] = row.digest
        if digest_of(row.document, row.manifest) != row.digest:
            yield f"verdict {row.number} was edited: its content does not give its digest"
            continue
        said = verdict_from(row.document)
        if said.outcome.value != row.outcome:
            yield f"verdict {row.number} was edited: it is recorded as {row.outcome}, its content says {said.outcome}"
        if said.look is not None and said.look.ledger and said.look.ledger not in looks:
            yield f"verdict {row.number} rests on a look that the ledger does not hold"
    events = tables.events.c
    told = connection.execute(select(events.facts).where(events.kind == EventKind.GATED.value)).scalars()
    history = {facts.get("verdict"): facts.get("digest") for facts in told}
    for number in sorted(there.keys() | history.keys()):
        if number not in there:
            yield f"verdict {number} was deleted: the history tells of it, and the store does not hold it"
        elif there[number] != history.get(number):
            yield f"verdict {number} is not one that the history tells of"


def development_trees(connection: Connection, version: int) -> set[str]:
    """Return the trees that a version or what it descends from was developed on.

    A run that only started from a version, and found a better one, taught nothing about it: it does not count.
    """
    line = _line(connection, version)
    best = _best(connection)
    proposals, runs = tables.proposals.c, tables.runs.c
    query = select(runs.number, runs.plan, proposals.version, proposals.position).join_from(
        tables.proposals, tables.runs, proposals.run == runs.number
    )
    found: set[str] = set()
    for run, plan, proposed, position in connection.execute(query.where(proposals.version.in_(line))):
        started_from = position == 1 and plan["incumbent"] == proposed
        if not started_from or best.get(run) == proposed:
            found.update(plan["development"])
    return found


def _verdict(row: Row[*tuple[Any, ...]]) -> RecordedVerdict:
    said = verdict_from(row.document)
    manifest_digest = digests.digest_of(row.manifest) if row.manifest else None
    versions = row.candidate, row.incumbent
    return RecordedVerdict(row.number, *versions, said, row.manifest, manifest_digest, row.digest, row.by, row.at)


def _line(connection: Connection, version: int) -> set[int]:
    """Return a version and all that it descends from, by whichever proposal."""
    parents: dict[int, set[int]] = {}
    for number, parent in (
        *connection.execute(select(tables.versions.c.number, tables.versions.c.parent)),
        *connection.execute(select(tables.proposals.c.version, tables.proposals.c.parent)),
    ):
        if parent is not None:
            parents.setdefault(number, set()).add(parent)
    line, waiting = {version}, [version]
    while waiting:
        new = parents.get(waiting.pop(), set()) - line
        line |= new
        waiting += new
    return line


def _best(connection: Connection) -> dict[int, int]:
    """Return the version that each run selected last or went back to."""
    events = tables.events.c
    choices = [kind.value for kind in history.CHOICES]
    query = select(events.run, events.to).where(events.run.is_not(None), events.kind.in_(choices)).order_by(events.number)
    return {row.run: row.to for row in connection.execute(query)}

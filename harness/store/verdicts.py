"""Verdicts as rows, and what the store knows of a version's development: both are what a promotion rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, or_, select

from harness.gate.document import document, verdict_from
from harness.policy import EventKind
from harness.store import digests, tables
from harness.store.records import RecordedVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Connection, Row, Select

    from harness.gate.verdict import Verdict


def digest_of(written: Any, manifest: Any) -> str:
    """Return the digest of a verdict with its manifest."""
    return digests.digest_of({"verdict": written, "manifest": manifest})


def insert_verdict(
    connection: Connection, head: Mapping[str, Any], verdict: Verdict, manifest: Mapping[str, Any]
) -> dict[str, Any]:
    """Record a verdict and return what the history says of it. `head` is number, versions, `by` and `at`."""
    written = document(verdict)
    row = {"outcome": verdict.outcome.value, "document": written, "manifest": dict(manifest)}
    digest = digest_of(written, dict(manifest))
    connection.execute(insert(tables.verdicts).values(**head, **row, digest=digest))
    facts = {"verdict": head["number"], "digest": digest, "outcome": verdict.outcome.value}
    return facts | {"incumbent": head["incumbent"], "policy": verdict.incumbent, "by": head["by"]}


def verdicts_of(version: int | None) -> Select[Any]:
    """Return the query for verdicts, all or those about one version on either side."""
    columns = tables.verdicts.c
    query = select(tables.verdicts).order_by(columns.number)
    return query if version is None else query.where(or_(columns.candidate == version, columns.incumbent == version))


def verdict_of(row: Row[*tuple[Any, ...]]) -> RecordedVerdict:
    """Return the verdict of a row."""
    verdict = verdict_from(row.document)
    manifest_digest = digests.digest_of(row.manifest) if row.manifest else None
    versions = row.candidate, row.incumbent
    return RecordedVerdict(row.number, *versions, verdict, row.manifest, manifest_digest, row.digest, row.by, row.at)


def problems(connection: Connection) -> Iterator[str]:
    """Tell which verdicts were edited or deleted, or rest on a look that is not in the ledger."""
    looks = set(connection.execute(select(tables.looks.c.digest)).scalars())
    there = {}
    for row in connection.execute(verdicts_of(None)):
        there[row.number] = row.digest
        if digest_of(row.document, row.manifest) != row.digest:
            yield f"verdict {row.number} was edited: its content does not give its digest"
            continue
        verdict = verdict_from(row.document)
        if verdict.outcome.value != row.outcome:
            yield f"verdict {row.number} was edited: it is recorded as {row.outcome}, its content says {verdict.outcome}"
        if verdict.look is not None and verdict.look.ledger and verdict.look.ledger not in looks:
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
    choices = (EventKind.SELECTED.value, EventKind.ROLLED_BACK.value)
    query = select(events.run, events.to).where(events.run.is_not(None), events.kind.in_(choices)).order_by(events.number)
    return {row.run: row.to for row in connection.execute(query)}

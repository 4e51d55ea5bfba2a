"""The ledger of looks at held-out trees: who looked at which trees to ask what, and which level that used up.

Entries are bound into a chain: each one's digest covers its content and the digest before it. The history holds an event with
that digest for each entry, so that one taken from the end is missed as well. A broken one answers nothing.
"""

from __future__ import annotations

import hashlib
import math
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select

from harness.errors import StoreError
from harness.gate.spending import level
from harness.gate.verdict import Look
from harness.policy import Event, EventKind
from harness.score import settings_from
from harness.store import digests, history, rows, tables
from harness.store.reading import one
from harness.store.records import LedgerEntry, Question, Spent
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Row

BEGINNING = hashlib.sha256(b"looks/1").hexdigest()
"""What stands for the digest before the first entry."""


def digest_of(previous: str, entry: Any) -> str:
    """Return the digest that binds an entry to the one before."""
    return digests.digest_of({"previous": previous, "entry": entry})


def entries(connection: Connection) -> list[LedgerEntry]:
    """Return all entries, the first one first.

    Raises:
        StoreError: the ledger was tampered with.
    """
    trouble = next(chain(problems(connection), _missing_events(connection)), None)
    if trouble is not None:
        raise StoreError(
            f"{trouble}; no look can be taken: restore the store from a copy (`harness doctor` says all that is broken)"
        )
    return [_entry(row) for row in _rows(connection)]


def take(connection: Connection, question: Question, trees: frozenset[str], *, alpha: float, by: str, at: str) -> Look:
    """Record a look and tell the history of it. The caller holds the write lock.

    Raises:
        InputError: the store does not hold the candidate.
        StoreError: the ledger was tampered with.
    """
    if not trees:
        raise ValueError("a look without trees shows nothing")
    known = entries(connection)
    entry = next((entry for entry in known if entry.question == question and frozenset(entry.trees) == trees), None)
    if entry is not None:
        return _look(entry, known, alpha, is_again=True)
    of_candidate = select(tables.versions.c.number).where(tables.versions.c.digest == question.candidate)
    candidate = one(connection, of_candidate, f"there is no version of policy {question.candidate}").number
    entry = _append(connection, known, question, trees, alpha=alpha, by=by, at=at)
    history.append(connection, [_looked(candidate, entry)], at)
    return _look(entry, [*known, entry], alpha, is_again=False)


def spent(known: Sequence[LedgerEntry], trees: frozenset[str], alpha: float) -> Spent:
    """Return what the looks used up at the most looked-at of these trees."""
    earlier = [(entry.level, trees & set(entry.trees)) for entry in known]
    looks = sum(bool(shared) for _, shared in earlier)
    each = (math.fsum(used for used, shared in earlier if tree in shared) for tree in trees)
    most = max(each, default=0.0)
    return Spent(looks, most, max(0.0, alpha - most), level(alpha, looks + 1))


def problems(connection: Connection) -> Iterator[str]:
    """Tell where the ledger does not hold together: edited, deleted from, reordered, or not what the history says."""
    found, told = _rows(connection), _told(connection)
    previous, number = BEGINNING, 0
    for row in found:
        where = f"entry {row.number} of the ledger of looks"
        recorded = row.entry.get("number") if isinstance(row.entry, dict) else None
        if digest_of(row.previous, row.entry) != row.digest:
            yield f"{where} was edited: its content does not give its digest"
        elif recorded != row.number:
            yield f"{where} was recorded as entry {recorded}: the ledger was reordered"
        if (row.previous, row.number) != (previous, number + 1):
            yield f"{where} does not follow on the one before it: entries were deleted, edited or reordered"
        if (row.number, row.digest) not in told:
            yield f"{where} is not one that the history tells of"
        previous, number = row.digest, row.number
    there = {row.digest for row in found}
    for number, digest in told:
        if digest not in there:
            yield f"entry {number} of the ledger of looks was deleted or edited: it is not as the history tells"


def _missing_events(connection: Connection) -> Iterator[str]:
    """Tell of a history with gaps: an entry that was deleted together with its event is missed nowhere else."""
    number = tables.events.c.number
    count, first, last = connection.execute(select(func.count(number), func.min(number), func.max(number))).one()
    if count and (first, last) != (1, count):
        yield f"events are {count}, numbered {first} to {last}: some are missing"


def _append(
    connection: Connection,
    known: Sequence[LedgerEntry],
    question: Question,
    trees: frozenset[str],
    *,
    alpha: float,
    by: str,
    at: str,
) -> LedgerEntry:
    before = spent(known, trees, alpha)
    content = {
        "number": len(known) + 1,
        "candidate": question.candidate,
        "incumbent": question.incumbent,
        "settings": rows.settings_row(question.settings),
        "trees": sorted(trees),
        "alpha": alpha,
        "look": before.looks + 1,
        "level": before.following,
        "spent": before.spent,
        "by": by,
        "at": at,
    }
    previous = known[-1].digest if known else BEGINNING
    row = {"number": len(known) + 1, "previous": previous, "entry": content, "digest": digest_of(previous, content)}
    connection.execute(insert(tables.looks).values(**row))
    return _entry(connection.execute(select(tables.looks).where(tables.looks.c.digest == row["digest"])).one())


def _look(entry: LedgerEntry, known: Sequence[LedgerEntry], alpha: float, *, is_again: bool) -> Look:
    """Return a look as the gate takes it: never at a higher level than the one recorded, or than this alpha allows."""
    now = spent(known, frozenset(entry.trees), alpha)
    allowed = min(entry.level, level(alpha, entry.look))
    return Look(entry.look, allowed, entry.spent, now.left, is_again, entry.digest)


def _looked(candidate: int, entry: LedgerEntry) -> Event:
    reason = f"look {entry.look} at {counted(len(entry.trees), 'held-out tree')}, at level {entry.level:.4g}"
    facts = {"look": entry.number, "ledger": entry.digest, "trees": len(entry.trees), "level": entry.level, "by": entry.by}
    return Event(EventKind.LOOKED, candidate, None, reason, facts=facts | {"policy": entry.question.incumbent})


def _rows(connection: Connection) -> Sequence[Row[*tuple[Any, ...]]]:
    return connection.execute(select(tables.looks).order_by(tables.looks.c.number)).all()


def _told(connection: Connection) -> list[tuple[int, str]]:
    """Return number and digest of each entry, as the history tells."""
    events = tables.events.c
    query = select(events.facts).where(events.kind == EventKind.LOOKED.value).order_by(events.number)
    return [(facts.get("look"), facts.get("ledger")) for facts in connection.execute(query).scalars()]


def _entry(row: Row[*tuple[Any, ...]]) -> LedgerEntry:
    said = row.entry
    question = Question(said["candidate"], said["incumbent"], settings_from(said["settings"]))
    figures = said["alpha"], said["look"], said["level"], said["spent"]
    return LedgerEntry(row.number, question, tuple(said["trees"]), *figures, said["by"], said["at"], row.previous, row.digest)

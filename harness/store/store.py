"""What the rest of the system asks of the store. Each write is one transaction: all of it is recorded, or nothing.

History is append-only and its events are numbered without gaps. A writer says at which event it decided (`expected_head`);
if the history has moved on, it is refused. A write moves the head by one for each event it appends, and `propose` appends one.

The incumbent is read from the history: what the last `promoted` or `rolled_back` event outside of any run names. Within a run
of evolve, `rolled_back` says that development went back to an earlier version; that never touches the incumbent.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import func, insert, select, update

from harness.errors import InputError, StaleError, StoreError
from harness.policy import Event, EventKind, Version
from harness.store import asked as asking
from harness.store import ledger, rows, tables, verdicts
from harness.store.database import Database
from harness.store.migrate import migrate
from harness.store.records import Run, RunPlan, RunState, TreeRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from sqlalchemy import Column, Connection, Row, Select

    from harness.gate.verdict import Look, Verdict
    from harness.models.base import Exchange
    from harness.models.journal import Asked, Call, Outcome
    from harness.policy import Candidate
    from harness.score import Evaluation
    from harness.store.records import LedgerEntry, Question, RecordedVerdict, Spent
    from harness.tree import Tree

TURNS = (EventKind.PROMOTED, EventKind.ROLLED_BACK)
"""The events that say which version is the incumbent, where they belong to no run."""
CHOICES = (EventKind.SELECTED, EventKind.ROLLED_BACK)
"""The events of a run that say which of its versions is the best."""


class Store:
    """Trees, runs, versions, evaluations and events of one database. May be used from several threads, not across a fork.

    Every method raises StoreError where the database is out of reach, damaged, full or held by another process for too long,
    and InputError where asked for something that is not there.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, url: str) -> Self:
        """Open a store, making the file, its folder and the tables where they are missing.

        Raises:
            StoreError: the URL names no database that can be used, or one of a newer version or of another program.
        """
        database = Database(url)
        try:
            migrate(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Close every connection. May be called again."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Return the store's URL without its password."""
        return self._database.name

    def head(self, run: Run | None = None) -> int:
        """Return how many events there are, in all or in one run: what a writer names as the history it has seen."""
        with self._database.read() as connection:
            return _head(connection, run)

    def check(self) -> list[str]:
        """Return what is broken, a sentence each; empty when all is well. Reads everything."""
        from harness.store.check import problems  # noqa: PLC0415 - it imports Alembic, which takes longer than most commands

        return problems(self._database)

    # Trees

    def add_trees(self, trees: Iterable[Tree]) -> int:
        """Add the trees that are not there yet and return how many that were; all are added, or none.

        One tree is held at a time. Others cannot write meanwhile.
        """
        added = 0
        with self._database.write() as connection:
            for tree in trees:
                known = select(tables.trees.c.digest).where(tables.trees.c.digest == tree.digest)
                if connection.execute(known).first() is None:
                    connection.execute(insert(tables.trees).values(**rows.tree_row(tree), added_at=_now()))
                    added += 1
        return added

    def tree(self, digest: str) -> Tree:
        """Return a tree."""
        query = select(tables.trees.c.header, tables.trees.c.nodes).where(tables.trees.c.digest == digest)
        with self._database.read() as connection:
            return rows.tree_from(_one(connection, query, f"there is no tree {digest!r}"))

    def tree_rows(self) -> list[TreeRow]:
        """Return all trees without their attempts, by name."""
        heavy = {"header", "nodes"}
        query = select(*(column for column in tables.trees.c if column.name not in heavy))
        with self._database.read() as connection:
            found = connection.execute(query.order_by(tables.trees.c.name, tables.trees.c.digest))
            return list(map(rows.tree_line, found))

    # Runs of evolve

    def begin_run(self, plan: RunPlan) -> Run:
        """Record that a run begins.

        Raises:
            InputError: the plan names trees or an incumbent that the store does not hold.
        """
        with self._database.write() as connection:
            _refuse_unknown_trees(connection, {*plan.development, *plan.held_out})
            if plan.incumbent is not None:
                _version(connection, plan.incumbent)
            number = _last(connection, tables.runs.c.number) + 1
            started = {"state": RunState.RUNNING.value, "started_at": _now()}
            connection.execute(insert(tables.runs).values(number=number, plan=rows.plan_row(plan), **started))
            return _run(connection, number)

    def run(self, number: int) -> Run:
        """Return a run."""
        with self._database.read() as connection:
            return _run(connection, number)

    def runs(self) -> list[Run]:
        """Return all runs, the first one first."""
        with self._database.read() as connection:
            return list(map(rows.run_from, connection.execute(_runs().order_by(tables.runs.c.number))))

    def unfinished_run(self) -> Run | None:
        """Return the latest run that has not finished."""
        query = _runs().where(tables.runs.c.state == RunState.RUNNING.value).order_by(tables.runs.c.number.desc()).limit(1)
        with self._database.read() as connection:
            row = connection.execute(query).first()
            return None if row is None else rows.run_from(row)

    def finish_run(self, run: Run) -> Run:
        """Record that a run has come to its end, and return it as it is now."""
        with self._database.write() as connection:
            _refuse_finished(connection, run)
            finished = {"state": RunState.FINISHED.value, "finished_at": _now()}
            connection.execute(update(tables.runs).where(tables.runs.c.number == run.number).values(**finished))
            return _run(connection, run.number)

    # Versions

    def propose(self, run: Run | None, candidate: Candidate, expected_head: int) -> Version:
        """Record a candidate as a version, and the event `proposed`.

        Source that was recorded before keeps its number. The proposal takes the next position of the run in any case, and the
        version returned, as in `run_versions`, carries origin, rationale and parameters of this proposal. `run` of None
        records a candidate that no run developed. `expected_head` counts the run's events, or all events without a run.

        Raises:
            StaleError: the history has moved on.
            InputError: the run has finished.
        """
        with self._write(expected_head, run) as connection:
            return _propose(connection, run, candidate)

    def record(self, candidate: Candidate) -> Version:
        """Return the version with this source as it was proposed first; where it is new, record it as one of no run."""
        with self._database.write() as connection:
            row = connection.execute(select(tables.versions).where(tables.versions.c.digest == candidate.digest)).first()
            return _propose(connection, None, candidate) if row is None else rows.version_from(row)

    def version(self, number: int) -> Version:
        """Return a version as it was proposed first."""
        with self._database.read() as connection:
            return _version(connection, number)

    def version_by_digest(self, digest: str) -> Version | None:
        """Return the version with this source, None where it was never recorded."""
        with self._database.read() as connection:
            row = connection.execute(select(tables.versions).where(tables.versions.c.digest == digest)).first()
            return None if row is None else rows.version_from(row)

    def versions(self) -> list[Version]:
        """Return all versions by number."""
        with self._database.read() as connection:
            found = connection.execute(select(tables.versions).order_by(tables.versions.c.number))
            return list(map(rows.version_from, found))

    def run_versions(self, run: Run) -> list[Version]:
        """Return what was proposed in a run, in order of position; a version stands there as often as it was proposed."""
        versions, proposals = tables.versions.c, tables.proposals.c
        proposed = (proposals.origin, proposals.rationale, proposals.template, proposals.params, proposals.parent)
        query = (
            select(versions.number, versions.source, versions.created_at, *proposed)
            .join_from(tables.proposals, tables.versions, proposals.version == versions.number)
            .where(proposals.run == run.number)
            .order_by(proposals.position)
        )
        with self._database.read() as connection:
            return list(map(rows.version_from, connection.execute(query)))

    # Models

    def calls(self, run: Run) -> list[Call]:
        """Return what a run asked of models, by position and number, with what came of it."""
        with self._database.read() as connection:
            return asking.calls(connection, run.number)

    def exchanged(self, run: Run, asked: Asked, number: int, exchange: Exchange) -> None:
        """Record an exchange with a model; one that stands there already is the same, and is not recorded again.

        Raises:
            StoreError: another one stands at its place.
            InputError: the run has finished.
        """
        with self._database.write() as connection:
            _refuse_finished(connection, run)
            asking.exchanged(connection, asking.Place(run.number, asked.position, number), asked, exchange)

    def ended(self, run: Run, asked: Asked, number: int, outcome: Outcome) -> None:
        """Record what came of a model's answer; what is known already stays as it is.

        Raises:
            InputError: the run has finished.
        """
        with self._database.write() as connection:
            _refuse_finished(connection, run)
            asking.ended(connection, asking.Place(run.number, asked.position, number), outcome, _now())

    # Evaluations

    def judge(
        self,
        run: Run,
        version: Version,
        evaluations: Mapping[str, Evaluation],
        events: Sequence[Event],
        expected_head: int,
    ) -> None:
        """Record what a version was found to be worth on each split ("development", "held_out"), and the events that follow.

        A split that was judged before in this run (its source was proposed twice) is not recorded again; it must repeat.
        `expected_head` counts the run's events.

        Raises:
            StaleError: the history has moved on.
            StoreError: a split was judged before with another outcome.
            InputError: the run has finished.
        """
        with self._write(expected_head, run) as connection:
            _refuse_finished(connection, run)
            for split, evaluation in evaluations.items():
                if evaluation.policy != version.candidate.digest:
                    message = f"the evaluation of policy {evaluation.policy!r} is not one of version {version.number}"
                    raise ValueError(message)
                before = _evaluation(connection, run, version, split)
                if before is None:
                    _insert_evaluation(connection, run, version, split, evaluation)
                elif _outcome(before) != _outcome(evaluation):
                    raise StoreError(
                        f"run {run.number} judged version {version.number} on {split} before, with another outcome; "
                        "the policy or the sandbox does not repeat"
                    )
            _append(connection, events)

    def evaluation(self, run: Run, version: Version, split: str) -> Evaluation | None:
        """Return an evaluation as it was recorded, None where there is none."""
        with self._database.read() as connection:
            return _evaluation(connection, run, version, split)

    # Events

    def append(self, events: Sequence[Event], expected_head: int) -> list[Event]:
        """Append events and return them with number and time.

        Raises:
            StaleError: the history has moved on.
        """
        with self._write(expected_head) as connection:
            return _append(connection, events)

    def events(
        self,
        version: int | None = None,
        run: int | None = None,
        kinds: Collection[EventKind] | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """Return events in order: those of a version, of a run, of some kinds, those after a number; `limit` takes the first."""
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
        with self._database.read() as connection:
            return list(map(rows.event_from, connection.execute(query)))

    def incumbent(self) -> Version | None:
        """Return the version promoted last, or the one that a later rollback returned to; None before the first promotion."""
        events = tables.events.c
        query = (
            select(events.to)
            .where(events.run.is_(None), events.kind.in_([kind.value for kind in TURNS]))
            .order_by(events.number.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            number = connection.execute(query).scalar()
            return None if number is None else _version(connection, number)

    def turns(self) -> list[Event]:
        """Return the promotions and rollbacks that made a version the incumbent, in order."""
        return [event for event in self.events(kinds=TURNS) if event.run is None]

    def turn(self, event: Event, seen: int) -> Event:
        """Append a promotion or rollback. `seen` is the number of the last one that the writer knows of, 0 for none.

        Raises:
            StaleError: there was another one since.
        """
        events = tables.events.c
        kinds = [kind.value for kind in TURNS]
        with self._database.write() as connection:
            query = select(func.coalesce(func.max(events.number), 0)).where(events.run.is_(None), events.kind.in_(kinds))
            last = connection.execute(query).scalar_one()
            if last != seen:
                raise StaleError(seen, last)
            return _append(connection, [event])[0]

    # The gate

    def look(self, question: Question, trees: Iterable[str], alpha: float, by: str) -> Look:
        """Record that held-out trees are looked at, before they are; the same question is the same look, and costs nothing.

        Raises:
            InputError: the store does not hold the candidate.
            StoreError: the ledger was tampered with.
        """
        wanted = frozenset(trees)
        if not wanted:
            raise ValueError("a look without trees shows nothing")
        with self._database.write() as connection:
            known = ledger.entries(connection)
            entry = ledger.again(known, question, wanted)
            if entry is not None:
                return ledger.look(entry, known, alpha, is_again=True)
            candidate = _one(
                connection,
                select(tables.versions.c.number).where(tables.versions.c.digest == question.candidate),
                f"there is no version of policy {question.candidate}",
            ).number
            entry = ledger.append(connection, known, question, wanted, alpha=alpha, by=by, at=_now())
            _append(connection, [_looked(candidate, entry)])
            return ledger.look(entry, [*known, entry], alpha, is_again=False)

    def looks(self) -> list[LedgerEntry]:
        """Return the ledger, the first look first.

        Raises:
            StoreError: it was tampered with.
        """
        with self._database.read() as connection:
            return ledger.entries(connection)

    def spent(self, trees: Iterable[str], alpha: float) -> Spent:
        """Return what looks at these trees have used up of alpha, and what is left.

        Raises:
            StoreError: the ledger was tampered with.
        """
        return ledger.spent(self.looks(), frozenset(trees), alpha)

    def record_verdict(
        self,
        verdict: Verdict,
        candidate: Version,
        incumbent: Version | None,
        *,
        by: str = "",
        manifest: Mapping[str, Any] | None = None,
    ) -> int:
        """Record a verdict and return its number. `incumbent` is None where the store does not hold it.

        Raises:
            InputError: the verdict rests on a look that the ledger does not hold, or the store holds no such version.
        """
        for named, version, digest in (
            ("candidate", candidate, verdict.candidate),
            ("incumbent", incumbent, verdict.incumbent),
        ):
            if version is not None and version.candidate.digest != digest:
                message = f"the verdict's {named} is policy {digest!r}, not version {version.number}"
                raise ValueError(message)
        with self._database.write() as connection:
            if verdict.look is not None and verdict.look.ledger:
                of_look = select(tables.looks.c.number).where(tables.looks.c.digest == verdict.look.ledger)
                _one(connection, of_look, f"there is no look {verdict.look.ledger!r}")
            number = _last(connection, tables.verdicts.c.number) + 1
            versions = {"candidate": candidate.number, "incumbent": incumbent.number if incumbent else None}
            head = {"number": number, **versions, "by": by, "at": _now()}
            facts = verdicts.insert_verdict(connection, head, verdict, manifest or {})
            _append(connection, [Event(EventKind.GATED, candidate.number, None, verdict.reason, facts=facts)])
            return number

    def verdict(self, number: int) -> RecordedVerdict:
        """Return a verdict."""
        query = select(tables.verdicts).where(tables.verdicts.c.number == number)
        with self._database.read() as connection:
            return verdicts.verdict_of(_one(connection, query, f"there is no verdict {number}"))

    def verdicts(self, version: int | None = None) -> list[RecordedVerdict]:
        """Return verdicts in order, all or those about one version, as candidate or as incumbent."""
        with self._database.read() as connection:
            return list(map(verdicts.verdict_of, connection.execute(verdicts.verdicts_of(version))))

    def development_trees(self, version: Version) -> set[str]:
        """Return the digests of the trees that a version or what it descends from was developed on; the gate leaves them out."""
        with self._database.read() as connection:
            return verdicts.development_trees(connection, version.number)

    @contextmanager
    def _write(self, expected_head: int, run: Run | None = None) -> Iterator[Connection]:
        with self._database.write() as connection:
            head = _head(connection, run)
            if head != expected_head:
                raise StaleError(expected_head, head)
            yield connection


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _last(connection: Connection, column: Column[int], **where: int) -> int:
    query = select(func.coalesce(func.max(column), 0)).filter_by(**where)
    return connection.execute(query).scalar_one()


def _head(connection: Connection, run: Run | None) -> int:
    if run is None:
        return _last(connection, tables.events.c.number)
    query = select(func.count()).select_from(tables.events).where(tables.events.c.run == run.number)
    return connection.execute(query).scalar_one()


def _one(connection: Connection, query: Select[Any], missing: str) -> Row[*tuple[Any, ...]]:
    row = connection.execute(query).first()
    if row is None:
        raise InputError(f"{missing} in the store")
    return row


def _propose(connection: Connection, run: Run | None, candidate: Candidate) -> Version:
    query = select(tables.versions.c.number, tables.versions.c.created_at).where(tables.versions.c.digest == candidate.digest)
    known = connection.execute(query).first()
    number, created_at = known or (_last(connection, tables.versions.c.number) + 1, _now())
    came_from = rows.provenance_row(candidate)
    if known is None:
        new = {"number": number, "digest": candidate.digest, "source": candidate.source, "created_at": created_at}
        connection.execute(insert(tables.versions).values(**new, **came_from))
    facts: dict[str, Any] = {"digest": candidate.digest, "known": known is not None}
    if run is not None:
        _refuse_finished(connection, run)
        position = facts["position"] = _last(connection, tables.proposals.c.position, run=run.number) + 1
        proposal = {"run": run.number, "position": position, "version": number}
        connection.execute(insert(tables.proposals).values(**proposal, **came_from))
    event = Event(EventKind.PROPOSED, number, run.number if run else None, candidate.rationale, facts=facts)
    _append(connection, [event])
    return Version(number, candidate, created_at)


def _looked(candidate: int, entry: LedgerEntry) -> Event:
    reason = f"look {entry.look} at these {len(entry.trees)} trees, at level {entry.level:.4g}"
    facts = {"look": entry.number, "ledger": entry.digest, "trees": len(entry.trees), "level": entry.level, "by": entry.by}
    return Event(EventKind.LOOKED, candidate, None, reason, facts=facts | {"policy": entry.question.incumbent})


def _version(connection: Connection, number: int) -> Version:
    query = select(tables.versions).where(tables.versions.c.number == number)
    return rows.version_from(_one(connection, query, f"there is no version {number}"))


def _runs() -> Select[Any]:
    runs, events = tables.runs.c, tables.events.c
    best = (
        select(events.to)
        .where(events.run == runs.number, events.kind.in_([kind.value for kind in CHOICES]))
        .order_by(events.number.desc())
        .limit(1)
        .scalar_subquery()
    )
    return select(tables.runs, best.label("best"))


def _run(connection: Connection, number: int) -> Run:
    return rows.run_from(_one(connection, _runs().where(tables.runs.c.number == number), f"there is no run {number}"))


def _refuse_finished(connection: Connection, run: Run) -> None:
    if _run(connection, run.number).state is RunState.FINISHED:
        raise InputError(f"run {run.number} has finished; nothing can be added to it")


def _refuse_unknown_trees(connection: Connection, digests: set[str]) -> None:
    known = set(connection.execute(select(tables.trees.c.digest)).scalars())
    unknown = sorted(digests - known)
    if unknown:
        raise InputError(f"the plan names {len(unknown)} trees that the store does not hold, {unknown[0]!r} first; add them")


def _insert_evaluation(connection: Connection, run: Run, version: Version, split: str, evaluation: Evaluation) -> None:
    number = _last(connection, tables.evaluations.c.number) + 1
    head = {
        "number": number,
        "run": run.number,
        "version": version.number,
        "split": str(split),
        "policy": evaluation.policy,
        "sandbox": evaluation.sandbox,
        "settings": rows.settings_row(evaluation.settings),
        "replays": len(evaluation.results),
        "value": evaluation.value,
        "judged_at": _now(),
    }
    connection.execute(insert(tables.evaluations).values(**head))
    replays = [
        {"evaluation": number, "place": place} | rows.result_row(result) for place, result in enumerate(evaluation.results)
    ]
    if replays:
        connection.execute(insert(tables.replays), replays)


def _evaluation(connection: Connection, run: Run, version: Version, split: str) -> Evaluation | None:
    columns = tables.evaluations.c
    query = select(tables.evaluations).where(
        columns.run == run.number, columns.version == version.number, columns.split == str(split)
    )
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


def _outcome(evaluation: Evaluation) -> list[Any]:
    """Return what must repeat: all but times, memory and the words of a fault."""
    return [(result.tree, result.trajectory.rounds, result.trajectory.stop, result.figures) for result in evaluation.results]


def _append(connection: Connection, events: Sequence[Event]) -> list[Event]:
    at = _now()
    new = []
    for number, event in enumerate(events, start=_last(connection, tables.events.c.number) + 1):
        if event.run is None and event.kind in TURNS and event.to is None:
            message = f"the event {event.kind.value!r} names no version in `to`; the incumbent is read from it"
            raise ValueError(message)
        new.append(rows.event_row(event) | {"number": number, "at": at})
    if new:
        connection.execute(insert(tables.events), new)
    return [
        Event(event.kind, event.version, event.run, event.reason, event.to, event.facts, row["number"], at)
        for event, row in zip(events, new, strict=True)
    ]

"""What the rest of the system asks of the store. Each write is one transaction: all of it is recorded, or nothing.

History is append-only and its events are numbered without gaps. A writer says at which event it decided (`expected_head`);
if the history has moved on, it is refused. A write moves the head by one for each event it appends, and `propose` appends one.

What a method does to the tables stands in the module of its part (`treerows`, `runs`, `versions`, `asked`, `tries`, `judgements`,
`history`, `ledger`, `verdicts`); here stands what one transaction holds.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from harness.errors import StaleError
from harness.store import asked as asking
from harness.store import campaigns, history, judgements, ledger, runs, searches, treerows, verdicts, versions
from harness.store import tries as paying
from harness.store.database import Database
from harness.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from sqlalchemy import Connection

    from harness.gate.verdict import Look, Verdict
    from harness.models.base import Exchange, Request
    from harness.models.journal import Asked, Call, Outcome, PutAside
    from harness.models.tries import Charge, Paid, Try
    from harness.policy import Candidate, Event, EventKind, Version
    from harness.score import Evaluation
    from harness.search import Decision, Finished, Search, SearchPlan, SearchStop
    from harness.store.records import (
        Campaign,
        CampaignPlan,
        LedgerEntry,
        Question,
        RecordedVerdict,
        Run,
        RunPlan,
        Spent,
        TreeRow,
        UnusableAnswer,
    )
    from harness.tree import Tree


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
            return history.head(connection, run)

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
                added += treerows.add(connection, tree, _now())
        return added

    def tree(self, digest: str) -> Tree:
        """Return a tree."""
        with self._database.read() as connection:
            return treerows.tree(connection, digest)

    def tree_rows(self) -> list[TreeRow]:
        """Return all trees without their attempts, by name."""
        with self._database.read() as connection:
            return treerows.lines(connection)

    # Runs of evolve

    def begin_run(self, plan: RunPlan) -> Run:
        """Record that a run begins.

        Raises:
            InputError: the plan names trees or an incumbent that the store does not hold.
        """
        with self._database.write() as connection:
            treerows.refuse_unknown(connection, {*plan.development, *plan.held_out})
            if plan.incumbent is not None:
                versions.version(connection, plan.incumbent)
            return runs.begin(connection, plan, _now())

    def run(self, number: int) -> Run:
        """Return a run."""
        with self._database.read() as connection:
            return runs.run(connection, number)

    def runs(self) -> list[Run]:
        """Return all runs, the first one first."""
        with self._database.read() as connection:
            return runs.runs(connection)

    def unfinished_run(self) -> Run | None:
        """Return the latest run that has not finished."""
        with self._database.read() as connection:
            return runs.unfinished(connection)

    def finish_run(self, run: Run) -> Run:
        """Record that a run has come to its end, and return it as it is now."""
        with self._database.write() as connection:
            return runs.finish(connection, run.number, _now())

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
            if run is not None:
                runs.refuse_finished(connection, run.number)
            return versions.propose(connection, run, candidate, _now())

    def record(self, candidate: Candidate) -> Version:
        """Return the version with this source as it was proposed first; where it is new, record it as one of no run."""
        with self._database.write() as connection:
            known = versions.by_digest(connection, candidate.digest)
            return versions.propose(connection, None, candidate, _now()) if known is None else known

    def version(self, number: int) -> Version:
        """Return a version as it was proposed first."""
        with self._database.read() as connection:
            return versions.version(connection, number)

    def version_by_digest(self, digest: str) -> Version | None:
        """Return the version with this source, None where it was never recorded."""
        with self._database.read() as connection:
            return versions.by_digest(connection, digest)

    def versions(self) -> list[Version]:
        """Return all versions by number."""
        with self._database.read() as connection:
            return versions.versions(connection)

    def run_versions(self, run: Run) -> list[Version]:
        """Return what was proposed in a run, in order of position; a version stands there as often as it was proposed."""
        with self._database.read() as connection:
            return versions.of_run(connection, run.number)

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
            runs.refuse_finished(connection, run.number)
            asking.exchanged(connection, asking.Place(run.number, asked.position, number), asked, exchange)

    def ended(self, run: Run, asked: Asked, number: int, outcome: Outcome) -> None:
        """Record what came of a model's answer; what is known already stays as it is.

        Raises:
            InputError: the run has finished.
        """
        with self._database.write() as connection:
            runs.refuse_finished(connection, run.number)
            asking.ended(connection, asking.Place(run.number, asked.position, number), outcome, _now())

    def reserve(self, run: Run, request: Request, bound: Charge, known: int) -> int:
        """Record what a try to reach a model costs at most, before it leaves, and return the try's number.

        `known` is how many tries of the run the caller counts in its budget.

        Raises:
            InputError: the run has finished.
            StoreError: there are more tries by now: another process has taken the run on.
        """
        with self._database.write() as connection:
            runs.refuse_finished(connection, run.number)
            return paying.reserve(connection, run.number, request, bound, known=known, at=_now())

    def charge(self, run: Run, number: int, paid: Paid) -> None:
        """Record what a try did cost; what is known already stays as it is."""
        with self._database.write() as connection:
            paying.charge(connection, run.number, number, paid, _now())

    def tries(self, run: Run) -> list[Try]:
        """Return every try of a run to reach a model, in order; one that no process ended has not been `paid`."""
        with self._database.read() as connection:
            return paying.tries(connection, run.number)

    def put_aside(self, run: Run, aside: PutAside) -> None:
        """Record why the models of a run are asked no more; the first reason stays.

        Raises:
            InputError: the run has finished.
        """
        with self._database.write() as connection:
            runs.refuse_finished(connection, run.number)
            asking.put_aside(connection, run.number, aside, _now())

    def aside(self, run: Run) -> PutAside | None:
        """Return why the models of a run are asked no more, None while they are."""
        with self._database.read() as connection:
            return asking.aside_of(connection, run.number)

    def unusable_answers(self, run: int | None = None) -> list[UnusableAnswer]:
        """Return the answers of models that became no version, in order of time."""
        with self._database.read() as connection:
            return asking.unusable_answers(connection, run)

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
            runs.refuse_finished(connection, run.number)
            for split, evaluation in evaluations.items():
                judgements.record(connection, run.number, version, split, evaluation, at=_now())
            history.append(connection, events, _now())

    def evaluation(self, run: Run, version: Version, split: str) -> Evaluation | None:
        """Return an evaluation as it was recorded, None where there is none."""
        with self._database.read() as connection:
            return judgements.find(connection, run.number, version.number, split)

    # Events

    def append(self, events: Sequence[Event], expected_head: int) -> list[Event]:
        """Append events and return them with number and time.

        Raises:
            StaleError: the history has moved on.
        """
        with self._write(expected_head) as connection:
            return history.append(connection, events, _now())

    def events(
        self,
        version: int | None = None,
        run: int | None = None,
        kinds: Collection[EventKind] | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> list[Event]:
        """Return events in order: those of a version, of a run, of some kinds, those after a number; `limit` takes the first."""
        with self._database.read() as connection:
            return history.events(connection, version=version, run=run, kinds=kinds, after=after, limit=limit)

    def incumbent(self) -> Version | None:
        """Return the version promoted last, or the one that a later rollback returned to; None before the first promotion."""
        with self._database.read() as connection:
            number = history.incumbent(connection)
            return None if number is None else versions.version(connection, number)

    def turns(self) -> list[Event]:
        """Return the promotions and rollbacks that made a version the incumbent, in order."""
        return [event for event in self.events(kinds=history.TURNS) if event.run is None]

    def turn(self, event: Event, seen: int) -> Event:
        """Append a promotion or rollback. `seen` is the number of the last one that the writer knows of, 0 for none.

        Raises:
            StaleError: there was another one since.
        """
        with self._database.write() as connection:
            last = history.last_turn(connection)
            if last != seen:
                raise StaleError(seen, last)
            return history.append(connection, [event], _now())[0]

    # Live searches

    def begin_search(self, plan: SearchPlan, start: str, root_score: float | None, metrics: Mapping[str, float]) -> Search:
        """Record that a live search begins; `start` is the address of its workspace.

        Raises:
            InputError: the store does not hold its version.
        """
        with self._database.write() as connection:
            versions.version(connection, plan.version)
            root = {"start": start, "score": root_score, "metrics": dict(metrics)}
            return searches.begin(connection, plan, root, _now())

    def search(self, number: int) -> Search:
        """Return a live search."""
        with self._database.read() as connection:
            return searches.search(connection, number)

    def searches(self) -> list[Search]:
        """Return all live searches, the first one first."""
        with self._database.read() as connection:
            return searches.searches(connection)

    def decisions(self, search: Search) -> list[Decision]:
        """Return what policies decided in a search, in order."""
        with self._database.read() as connection:
            return searches.decisions(connection, search.number)

    def attempts(self, search: Search) -> list[Finished]:
        """Return the attempts of a search, in the order in which they ended."""
        with self._database.read() as connection:
            return searches.attempts(connection, search.number)

    def decide(self, search: Search, decision: Decision, events: Sequence[Event] = ()) -> None:
        """Record a decision, before any of its attempts begins, and the events that come with it.

        Raises:
            StoreError: another process has taken the search on.
            InputError: it has ended.
        """
        with self._database.write() as connection:
            searches.decide(connection, search.number, decision, _now())
            history.append(connection, events, _now())

    def finish_attempt(self, search: Search, finished: Finished) -> None:
        """Record an attempt that has ended.

        Raises:
            StoreError: another process has taken the search on.
            InputError: it has ended.
        """
        with self._database.write() as connection:
            searches.finish_attempt(connection, search.number, finished, _now())

    def end_search(self, search: Search, stop: SearchStop, tree: Tree) -> Search:
        """Record that a search has ended, and its tree; return it as it is now."""
        with self._database.write() as connection:
            treerows.add(connection, tree, _now())
            return searches.end(connection, search.number, stop, tree.digest, _now())

    def snapshots(self) -> set[str]:
        """Return the address of every workspace that a search needs."""
        with self._database.read() as connection:
            return searches.snapshots(connection)

    # Campaigns

    def begin_campaign(self, plan: CampaignPlan) -> Campaign:
        """Record that a campaign begins.

        Raises:
            InputError: the store does not hold its version.
        """
        with self._database.write() as connection:
            versions.version(connection, plan.version)
            return campaigns.begin(connection, plan, _now())

    def campaign(self, number: int) -> Campaign:
        """Return a campaign."""
        with self._database.read() as connection:
            return campaigns.campaign(connection, number)

    def campaigns(self) -> list[Campaign]:
        """Return all campaigns, the first one first."""
        with self._database.read() as connection:
            return campaigns.campaigns(connection)

    def finish_campaign(self, campaign: Campaign) -> Campaign:
        """Record that a campaign has come to its end, and return it as it is now."""
        with self._database.write() as connection:
            return campaigns.finish(connection, campaign.number, _now())

    # The gate

    def look(self, question: Question, trees: Iterable[str], alpha: float, by: str) -> Look:
        """Record that held-out trees are looked at, before they are; the same question is the same look, and costs nothing.

        Raises:
            InputError: the store does not hold the candidate.
            StoreError: the ledger was tampered with.
        """
        with self._database.write() as connection:
            return ledger.take(connection, question, frozenset(trees), alpha=alpha, by=by, at=_now())

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
        with self._database.write() as connection:
            return verdicts.record(connection, verdict, candidate, incumbent, by=by, manifest=dict(manifest or {}), at=_now())

    def verdict(self, number: int) -> RecordedVerdict:
        """Return a verdict."""
        with self._database.read() as connection:
            return verdicts.verdict(connection, number)

    def verdicts(self, version: int | None = None) -> list[RecordedVerdict]:
        """Return verdicts in order, all or those about one version, as candidate or as incumbent."""
        with self._database.read() as connection:
            return verdicts.verdicts(connection, version)

    def development_trees(self, version: Version) -> set[str]:
        """Return the digests of the trees that a version or what it descends from was developed on; the gate leaves them out."""
        with self._database.read() as connection:
            return verdicts.development_trees(connection, version.number)

    @contextmanager
    def _write(self, expected_head: int, run: Run | None = None) -> Iterator[Connection]:
        with self._database.write() as connection:
            head = history.head(connection, run)
            if head != expected_head:
                raise StaleError(expected_head, head)
            yield connection


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

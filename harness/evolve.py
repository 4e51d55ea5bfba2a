"""The offline phase: develop a better policy from recorded trees (design.md, section 1).

The incumbent is judged first; then M - 1 candidates are proposed, each based on the best version so far, judged on the
development trees and recorded. The best mean value wins; at equal values the incumbent stays, then the earlier version. A
version that falls below the best is rolled back, a faulted one cannot win. The held-out trees are looked at once, at the end,
with the incumbent and the best version, and never reach a proposer. Should the best version fault on them, the next best is
looked at in its place. Each such look is in the store's ledger before its replays begin: the gate counts it.

`evolve` yields progress and records everything before it says so: whoever watches may stop at any moment, and `Run` can be
taken up again to the same end.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from harness.errors import InputError
from harness.gate.verdict import Bounds
from harness.policy import Event, EventKind
from harness.propose.base import Brief, Judged
from harness.store.records import Question, RunState

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from harness.policy import Candidate
    from harness.propose.base import Proposer
    from harness.score import Evaluation
    from harness.store import Run, Store
    from sandbox.api import Fault


_ALPHA = Bounds().alpha


class Split(StrEnum):
    """Which trees develop versions and which only judge the end."""

    DEVELOPMENT = "development"
    HELD_OUT = "held_out"


class Judge(Protocol):
    """Evaluates a candidate on the trees of these digests, in its sandbox."""

    def __call__(self, candidate: Candidate, trees: Sequence[str]) -> Evaluation:
        """Return the evaluation; it ends with the first fault."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One version judged and recorded: what it is worth, and what became of it."""

    position: int
    """Place in the run, from 1 (the incumbent)."""
    of: int
    judged: Judged
    outcome: EventKind
    """SELECTED, ROLLED_BACK, FAULTED, or EVALUATED where it equals the best."""
    best: Judged
    resumed: bool = False
    """True where the store knew it already."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One version's look at the held-out trees, which end a run; `best` is the one that wins as far as has been seen."""

    judged: Judged
    best: Judged


def split_trees(lucks: Mapping[str, str], holdout: float) -> dict[Split, tuple[str, ...]]:
    """Divide trees by a stable hash of their luck, so that a tree keeps its side whatever others come along.

    `lucks` are those of the trees, by digest: two searches of one task with the same seed are near copies, and held-out trees
    that copy those of development would judge by what was seen. `holdout` is the expected share in [0, 1) that is held out.
    """
    sides: dict[Split, list[str]] = {Split.DEVELOPMENT: [], Split.HELD_OUT: []}
    for digest, luck in lucks.items():
        draw = int.from_bytes(hashlib.sha256(f"holdout/1:{luck}".encode()).digest()[:8]) / 2**64
        sides[Split.HELD_OUT if draw < holdout else Split.DEVELOPMENT].append(digest)
    return {side: tuple(members) for side, members in sides.items()}


def evolve(
    run: Run, store: Store, proposer: Proposer, judge: Judge, *, alpha: float = _ALPHA, by: str = "evolve"
) -> Generator[Progress | HeldOut, None, None]:
    """Take a run to its end from wherever it stands.

    `alpha` is what all looks at a held-out tree may spend together, `by` who makes them: both go into the ledger.

    Raises:
        SandboxError: our side failed; the run can be resumed.
        StoreError: the store is out of reach, or another writer came between.
    """
    history: list[Judged] = []
    best: Judged | None = None
    # The head is counted along from the start, and so says of each version whether its events are there: an evaluation alone
    # does not, since source that is proposed twice is judged once.
    recorded, head = store.head(run), 0
    waiting = iter(store.run_versions(run))
    for position in range(1, run.plan.versions + 1):
        version = next(waiting, None)
        if version is None:
            candidate = _next_candidate(run, store, proposer, history, best)
            if candidate is None:
                break
            version = store.propose(run, candidate, head)
        head += 1
        evaluation = store.evaluation(run, version, Split.DEVELOPMENT) or judge(version.candidate, run.plan.development)
        judged = Judged(version, evaluation)
        outcome = _outcome(judged, best)
        events = _events(run, judged, outcome, best)
        resumed = head + len(events) <= recorded
        if not resumed:
            store.judge(run, version, {Split.DEVELOPMENT: evaluation}, events, head)
        head += len(events)
        if outcome is EventKind.SELECTED or best is None:
            best = judged
        history.append(judged)
        yield Progress(position, run.plan.versions, judged, outcome, best, resumed)
    if best is not None:
        yield from _look_at_held_out(_Look(run, store, judge, alpha, by), history, head)
    if run.state is not RunState.FINISHED:
        store.finish_run(run)


def _next_candidate(
    run: Run, store: Store, proposer: Proposer, history: Sequence[Judged], best: Judged | None
) -> Candidate | None:
    if best is None:
        if run.plan.incumbent is None:
            raise InputError(f"run {run.number} names no incumbent to begin with")
        return store.version(run.plan.incumbent).candidate
    return proposer.propose(Brief(history[0], best, tuple(history)))


def _outcome(judged: Judged, best: Judged | None) -> EventKind:
    if judged.value is None:
        return EventKind.FAULTED
    if best is None or best.value is None or judged.value > best.value:
        return EventKind.SELECTED
    return EventKind.ROLLED_BACK if judged.value < best.value else EventKind.EVALUATED


def _events(run: Run, judged: Judged, outcome: EventKind, best: Judged | None) -> list[Event]:
    number, evaluation = judged.version.number, judged.evaluation
    fault = evaluation.fault
    if fault is not None:
        return [_faulted(run, number, fault)]
    facts = {"value": judged.value, "quality": evaluation.quality, "trees": len(evaluation.results)}
    events = [
        Event(EventKind.EVALUATED, number, run.number, f"mean {run.plan.settings.objective} {judged.value:.4f}", facts=facts)
    ]
    if outcome is EventKind.SELECTED:
        reason = (
            "the first version with a value" if best is None or best.value is None else f"above version {best.version.number}"
        )
        events.append(Event(EventKind.SELECTED, number, run.number, reason, to=number, facts=facts))
    elif outcome is EventKind.ROLLED_BACK and best is not None:
        reason = f"below version {best.version.number}, which stays the base"
        events.append(Event(EventKind.ROLLED_BACK, number, run.number, reason, to=best.version.number, facts=facts))
    return events


def _faulted(run: Run, version: int, fault: Fault) -> Event:
    evidence = {"kind": fault.kind.value, "message": fault.message}
    return Event(EventKind.FAULTED, version, run.number, f"{fault.kind}: {fault.message}", facts=evidence)


@dataclass(frozen=True, slots=True)
class _Look:
    """A run's look at its held-out trees: with what it is made, and by whom."""

    run: Run
    store: Store
    judge: Judge
    alpha: float
    by: str

    def record(self, best: Judged, incumbent: Judged) -> None:
        """Write into the ledger that the two are compared; the same comparison again costs nothing."""
        if best.version.number != incumbent.version.number:
            digests = (best.version.candidate.digest, incumbent.version.candidate.digest)
            self.store.look(Question(*digests, self.run.plan.settings), self.run.plan.held_out, self.alpha, self.by)


def _look_at_held_out(look: _Look, history: Sequence[Judged], head: int) -> Iterator[HeldOut]:
    run, store = look.run, look.store
    incumbent = history[0]
    # The sort is stable: at equal values the earlier version stands first.
    standing = sorted((judged for judged in history if judged.value is not None), key=lambda judged: -(judged.value or 0.0))
    looked: set[int] = set()
    following = incumbent if run.plan.held_out else None
    while following is not None:
        version = following.version
        look.record(next(iter(standing), incumbent), incumbent)
        known = store.evaluation(run, version, Split.HELD_OUT)
        evaluation = look.judge(version.candidate, run.plan.held_out) if known is None else known
        events: list[Event] = []
        if evaluation.fault is not None:
            before = next(iter(standing), incumbent)
            standing = [judged for judged in standing if judged.version.number != version.number]
            events = [_faulted(run, version.number, evaluation.fault)]
            if before.version.number == version.number and standing:
                to = standing[0].version.number
                events.append(Event(EventKind.ROLLED_BACK, version.number, run.number, "faulted on held-out trees", to=to))
        if known is None:
            store.judge(run, version, {Split.HELD_OUT: evaluation}, events, head)
        head += len(events)
        looked.add(version.number)
        best = next(iter(standing), incumbent)
        yield HeldOut(Judged(version, evaluation), best)
        following = None if best.version.number in looked else best

"""Campaigns: whole cycles of live search, development, gate and promotion, and what has become of each so far.

A campaign keeps no state of its own beside its plan: which phases are done follows from the searches, runs, verdicts and
promotions that carry its mark. So it goes on wherever it was stopped, and a phase that was done is never done again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.policy import EventKind
from harness.promotion import review_live, succession
from harness.search import SearchStop
from harness.store.records import RunState
from harness.tree import Direction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.policy import Event, Version
    from harness.promotion import LiveReview
    from harness.search import Search
    from harness.store import RecordedVerdict, Run, Store
    from harness.store.records import Campaign, CampaignPlan, TreeRow

MARK = "campaign"
"""The option of a run's plan that says to which campaign and cycle it belongs."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """How far one cycle is: its searches by place, the run that develops, the verdict, and the promotion."""

    number: int
    searches: tuple[Search, ...]
    run: Run | None
    verdict: RecordedVerdict | None
    turn: Event | None

    def has_explored(self, wanted: int) -> bool:
        """Return whether all searches of the cycle have ended."""
        return len(self.searches) == wanted and all(search.stop is not None for search in self.searches)

    @property
    def has_developed(self) -> bool:
        """Return whether its run has ended."""
        return self.run is not None and self.run.state is RunState.FINISHED


def cycle_of(store: Store, campaign: Campaign, number: int) -> Cycle:
    """Return how far a cycle is."""
    named = {search.plan.name: search for search in store.searches()}
    names = [campaign.search_name(number, place) for place in range(1, campaign.plan.searches + 1)]
    mine = [run for run in store.runs() if list(run.plan.options.get(MARK, ())) == [campaign.number, number]]
    mark = campaign.mark(number)
    verdicts = [row for row in store.verdicts() if row.by == mark]
    turns = [event for event in store.turns() if event.facts.get("by") == mark and event.kind is EventKind.PROMOTED]
    return Cycle(
        number,
        tuple(named[name] for name in names if name in named),
        mine[-1] if mine else None,
        verdicts[-1] if verdicts else None,
        turns[-1] if turns else None,
    )


def steering(store: Store, campaign: Campaign) -> Version:
    """Return the version that steers now: the incumbent, before the first promotion and in the control arm the plan's own."""
    incumbent = None if campaign.plan.fixed else store.incumbent()
    return store.version(campaign.plan.version) if incumbent is None else incumbent


def lucks_of(store: Store, plan: CampaignPlan) -> dict[str, str]:
    """Return the luck of each tree that a campaign develops on or judges by, by digest: those of its task, and its own."""
    return {row.digest: row.luck for row in store.tree_rows() if _is_of(row, plan) and row.best is not None}


def _is_of(row: TreeRow, plan: CampaignPlan) -> bool:
    return row.task == plan.task or row.digest in plan.trees


def free_seed(store: Store, task_digest: str, seed: int) -> int:
    """Return the first seed from this one on behind all that searches and campaigns of a task have, or will have."""
    used = [search.plan.seed for search in store.searches() if search.plan.task_digest == task_digest]
    for campaign in store.campaigns():
        plan = campaign.plan
        if plan.task_digest == task_digest:
            used.append(campaign.seed(plan.cycles, plan.searches))
    return max([seed, *(one + 1 for one in used)])


def live_review(store: Store, campaign: Campaign, margin: float) -> LiveReview:
    """Say whether the incumbent's live searches of this task fell below its predecessor's.

    A search is worth the share of the way from the start to the best that any of these searches found, in [0, 1].
    """
    view = succession(store)
    results = {
        version: _results(store, campaign, version) for version in (view.incumbent, view.predecessor) if version is not None
    }
    found = [best for pairs in results.values() for _, best in pairs if best is not None]
    floor = min((root for pairs in results.values() for root, _ in pairs if root is not None), default=0.0)
    span = max(found, default=floor) - floor

    def values(version: int | None) -> list[float | None]:
        pairs = results.get(version, []) if version is not None else []
        return [None if best is None else (1.0 if span <= 0 else (best - floor) / span) for _, best in pairs]

    return review_live(values(view.incumbent), values(view.predecessor), margin)


def _results(store: Store, campaign: Campaign, version: int) -> list[tuple[float | None, float | None]]:
    """Return of each ended search under a version the start and the best, larger is better; None where the policy faulted."""
    pairs = []
    for search in store.searches():
        plan = search.plan
        if plan.task_digest != campaign.plan.task_digest or plan.version != version or search.tree is None:
            continue
        tree = store.tree(search.tree)
        broke = search.stop is SearchStop.POLICY_ERROR or "fallbacks" in tree.source
        pairs.append((tree.floor, None if broke else tree.top))
    return pairs


@dataclass(frozen=True, slots=True)
class CycleReport:
    """What one cycle came to: who steered, the best raw score of its searches and the mean of their bests, and what followed."""

    number: int
    version: int
    best: float | None
    mean_best: float | None
    attempts: int
    seconds: float | None
    curve: tuple[tuple[int, float], ...]
    """Mean best so far over the searches, raw, after each number of attempts."""
    developed: int | None
    """The best version of the cycle's run."""
    outcome: str
    """What the gate and the promotion said, in a word or two."""


def reports(store: Store, campaign: Campaign) -> list[CycleReport]:
    """Return what each cycle came to that has ended a search."""
    found = []
    for number in range(1, campaign.plan.cycles + 1):
        cycle = cycle_of(store, campaign, number)
        trees = [store.tree(search.tree) for search in cycle.searches if search.tree is not None]
        if not trees:
            break
        sense = 1.0 if trees[0].direction is Direction.MAX else -1.0
        tops = [tree.top for tree in trees if tree.top is not None]
        curves = [best_so_far(tree.scores) for tree in trees]
        seconds = [attempt.cost.get("seconds") for tree in trees for attempt in tree.attempts]
        found.append(
            CycleReport(
                number,
                cycle.searches[0].plan.version,
                sense * max(tops) if tops else None,
                sense * sum(tops) / len(tops) if tops else None,
                sum(len(tree.attempts) for tree in trees),
                None if None in seconds else float(sum(filter(None, seconds))),
                tuple((place, sense * score) for place, score in mean_curve(curves)),
                None if cycle.run is None else cycle.run.best,
                _outcome(campaign, cycle, is_past=campaign.finished_at is not None or _has_begun(store, campaign, number + 1)),
            )
        )
    return found


def best_so_far(scores: Sequence[float | None]) -> list[float | None]:
    """Return the best score after each attempt, the root's first; None while there is none."""
    best: float | None = None
    curve = []
    for score in scores:
        if score is not None and (best is None or score > best):
            best = score
        curve.append(best)
    return curve


def mean_curve(curves: Sequence[Sequence[float | None]]) -> list[tuple[int, float]]:
    """Return the mean of several best-so-far curves; one that has ended stays where it ended."""
    found = []
    for place in range(max(map(len, curves), default=0)):
        now = [curve[min(place, len(curve) - 1)] for curve in curves]
        known = [score for score in now if score is not None]
        if len(known) == len(now):
            found.append((place, sum(known) / len(known)))
    return found


def _has_begun(store: Store, campaign: Campaign, number: int) -> bool:
    return number <= campaign.plan.cycles and bool(cycle_of(store, campaign, number).searches)


def _outcome(campaign: Campaign, cycle: Cycle, *, is_past: bool) -> str:
    if campaign.plan.fixed:
        return "fixed"
    if cycle.turn is not None:
        return f"v{cycle.turn.to} promoted"
    if cycle.verdict is not None:
        return f"kept: {cycle.verdict.verdict.outcome.value}"
    if cycle.has_developed:
        return "kept: nothing better was found"
    return "kept: no tree to develop on" if is_past else "under way"

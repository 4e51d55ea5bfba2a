"""The offline phase: what is selected, rolled back and recorded, and that an interrupted run ends as it would have."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from builders import broom, judged_in_process, tree

from harness.evolve import HeldOut, Progress, Split, evolve, split_trees
from harness.policy import Candidate, EventKind, Origin, digest_of
from harness.propose.search import TemplateSearch
from harness.propose.templates import defaults, load, render
from harness.score import Settings
from harness.store import RunPlan, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from harness.propose.base import Brief
    from harness.score import Evaluation
    from harness.store import Run

TREES = {on.digest: on for on in (broom(seed, chains=4, depth=4) for seed in range(6))}
DEVELOPMENT, HELD_OUT = tuple(TREES)[:4], tuple(TREES)[4:]

STOPS = "class Policy:\n    def __init__(self, context): ...\n    def decide(self, view): return []\n"
BREAKS = "class Policy:\n    def __init__(self, context): ...\n    def decide(self, view): return [99]\n"
ONE_EACH = """class Policy:
    def __init__(self, context): ...
    def decide(self, view): return [0] if view.round < 3 else []
"""
ALL_AT_ONCE = """class Policy:
    def __init__(self, context): ...
    def decide(self, view): return [0] * 4 if view.round == 1 else []
"""


class Listed:
    """Proposes these sources in order."""

    def __init__(self, *sources: str) -> None:
        self.sources = sources
        self.briefs: list[Brief] = []

    def propose(self, brief: Brief) -> Candidate | None:
        """Return the next source as a candidate, None past the last one."""
        self.briefs.append(brief)
        place = len(brief.history) - 1
        if place == len(self.sources):
            return None
        return Candidate(self.sources[place], Origin.FILE, f"number {place}", parent=brief.best.version.number)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/harness.db") as opened:
        opened.add_trees(TREES.values())
        yield opened


def begun(store: Store, source: str, versions: int, held_out: Sequence[str] = HELD_OUT) -> Run:
    incumbent = store.propose(None, Candidate(source, Origin.FILE, "where it starts"), store.head())
    return store.begin_run(RunPlan(0, versions, Settings(), "in-process", DEVELOPMENT, tuple(held_out), incumbent.number))


def judge(candidate: Candidate, trees: Sequence[str]) -> Evaluation:
    return judged_in_process(candidate, [TREES[digest] for digest in trees])


def finished(run: Run, store: Store, proposer: Listed | TemplateSearch) -> tuple[list[Progress], list[HeldOut]]:
    steps = list(evolve(run, store, proposer, judge))
    return [step for step in steps if isinstance(step, Progress)], [step for step in steps if isinstance(step, HeldOut)]


def test_the_best_version_is_selected_and_what_falls_below_it_is_rolled_back(store: Store) -> None:
    run = begun(store, STOPS, 4)

    steps, _ = finished(run, store, Listed(ALL_AT_ONCE, ONE_EACH))

    assert [step.outcome for step in steps] == [EventKind.SELECTED, EventKind.SELECTED, EventKind.ROLLED_BACK]
    assert [step.best.version.number for step in steps] == [1, 2, 2]
    rolled_back = store.events(run=run.number, kinds=[EventKind.ROLLED_BACK])
    assert [(event.version, event.to) for event in rolled_back] == [(3, 2)]


def test_a_faulted_version_is_recorded_with_its_evidence_and_cannot_win(store: Store) -> None:
    run = begun(store, STOPS, 3)

    steps, _ = finished(run, store, Listed(BREAKS, ONE_EACH))

    assert [step.outcome for step in steps] == [EventKind.SELECTED, EventKind.FAULTED, EventKind.SELECTED]
    recorded = store.evaluation(run, steps[1].judged.version, Split.DEVELOPMENT)
    assert recorded is not None
    assert recorded.value is None
    assert recorded.fault is not None
    assert (recorded.fault.kind, recorded.fault.rule, recorded.fault.round) == ("bad-answer", "unknown_node", 1)
    assert "node 99" in store.events(run=run.number, kinds=[EventKind.FAULTED])[0].reason


def test_a_faulted_incumbent_gives_way_to_any_version_with_a_value(store: Store) -> None:
    steps, _ = finished(begun(store, BREAKS, 2), store, Listed(STOPS))

    assert [step.outcome for step in steps] == [EventKind.FAULTED, EventKind.SELECTED]


def test_at_equal_values_the_earlier_version_stays(store: Store) -> None:
    steps, _ = finished(begun(store, STOPS, 2), store, Listed("# the same in other words\n" + STOPS))

    assert [step.outcome for step in steps] == [EventKind.SELECTED, EventKind.EVALUATED]
    assert steps[-1].best.version.number == 1


def test_the_brief_holds_all_versions_their_faults_and_never_a_held_out_tree(store: Store) -> None:
    proposer = Listed(BREAKS, ALL_AT_ONCE, ONE_EACH)

    finished(begun(store, STOPS, 4), store, proposer)

    last = proposer.briefs[-1]
    assert (last.incumbent.version.number, last.best.version.number) == (1, 3)
    assert [judged.version.number for judged in last.history] == [1, 2, 3]
    assert [judged.version.number for judged in last.refused] == [2]
    shown = {result.tree for brief in proposer.briefs for judged in brief.history for result in judged.evaluation.results}
    assert shown == set(DEVELOPMENT)


def test_held_out_trees_are_looked_at_once_with_the_incumbent_and_the_best(store: Store) -> None:
    _, looks = finished(begun(store, STOPS, 3), store, Listed(ALL_AT_ONCE, ONE_EACH))

    assert [look.judged.version.number for look in looks] == [1, 2]
    assert all({result.tree for result in look.judged.evaluation.results} == set(HELD_OUT) for look in looks)


def test_the_look_at_held_out_trees_is_in_the_ledger_before_they_are_replayed(store: Store) -> None:
    """The gate, asked about the same pair on the same trees, then finds the question asked."""
    seen: list[int] = []

    def watching(candidate: Candidate, trees: Sequence[str]) -> Evaluation:
        if HELD_OUT[0] in trees:
            seen.append(len(store.looks()))
        return judge(candidate, trees)

    run = begun(store, STOPS, 3)
    list(evolve(run, store, Listed(ALL_AT_ONCE, ONE_EACH), watching, alpha=0.1, by="jo"))

    (entry,) = store.looks()
    assert seen == [1, 1]
    assert (entry.question.candidate, entry.question.incumbent) == (digest_of(ALL_AT_ONCE), digest_of(STOPS))
    assert (set(entry.trees), entry.alpha, entry.look, entry.by) == (set(HELD_OUT), 0.1, 1, "jo")
    assert store.look(entry.question, HELD_OUT, 0.1, "gate").again


def test_a_run_that_its_incumbent_wins_compares_nothing_and_spends_nothing(store: Store) -> None:
    run = begun(store, ALL_AT_ONCE, 2)

    finished(run, store, Listed(STOPS))

    assert store.looks() == []


@pytest.mark.parametrize("stop_after", [0, 4, 5])
def test_a_version_that_faults_on_held_out_trees_cannot_win(stop_after: int, store: Store) -> None:
    """It did best on the trees that it was developed on and broke beyond them: the next best takes its place."""

    def breaking(candidate: Candidate, trees: Sequence[str]) -> Evaluation:
        broken = candidate.source == ALL_AT_ONCE and HELD_OUT[0] in trees
        return replace(judge(replace(candidate, source=BREAKS) if broken else candidate, trees), policy=candidate.digest)

    run = begun(store, STOPS, 3)
    list(islice(evolve(run, store, Listed(ALL_AT_ONCE, ONE_EACH), breaking), stop_after))

    steps = evolve(run, store, Listed(ALL_AT_ONCE, ONE_EACH), breaking)
    looks = [step for step in steps if isinstance(step, HeldOut)]

    assert [(look.judged.version.number, look.best.version.number) for look in looks] == [(1, 2), (2, 3), (3, 3)]
    assert store.run(run.number).best == 3
    assert [(entry.question.candidate, entry.look) for entry in store.looks()] == [
        (digest_of(ALL_AT_ONCE), 1),
        (digest_of(ONE_EACH), 2),
    ]
    events = [(event.kind, event.version, event.to) for event in store.events(run=run.number)]
    assert events[-2:] == [(EventKind.FAULTED, 2, None), (EventKind.ROLLED_BACK, 2, 3)]


def test_a_used_up_proposer_ends_the_run_early(store: Store) -> None:
    run = begun(store, STOPS, 10)

    steps, _ = finished(run, store, Listed(ONE_EACH))

    assert len(steps) == 2
    assert store.run(run.number).state == "finished"


@pytest.mark.parametrize("stop_after", [0, 1, 2, 5, 9, 12])
def test_a_run_stopped_anywhere_ends_with_the_same_versions_and_values(stop_after: int, tmp_path: Path) -> None:
    def run_in(name: str, stops: Callable[[int], bool]) -> list[tuple[str, float | None]]:
        with Store.open(f"sqlite:///{tmp_path}/{name}.db") as store:
            store.add_trees(TREES.values())
            template = next(template for template in load() if template.name == "parallel_refine")
            run = begun(store, render(template, defaults(template)), 12)
            for count, _ in enumerate(evolve(run, store, TemplateSearch(load(), 5), judge), start=1):
                if stops(count):
                    break
            list(evolve(store.run(run.number), store, TemplateSearch(load(), 5), judge)) if stops(stop_after) else None
            return [
                (version.candidate.digest, evaluation.value)
                for version in store.run_versions(run)
                if (evaluation := store.evaluation(run, version, Split.DEVELOPMENT))
            ]

    assert run_in("stopped", lambda count: count == stop_after) == run_in("whole", lambda _count: False)


def test_a_version_proposed_but_not_judged_is_judged_on_resuming(store: Store) -> None:
    run = begun(store, STOPS, 3)
    next(evolve(run, store, Listed(ALL_AT_ONCE, ONE_EACH), judge))
    store.propose(run, Candidate(ALL_AT_ONCE, Origin.FILE, "killed while it was judged", parent=1), store.head(run))

    steps, _ = finished(run, store, Listed(ALL_AT_ONCE, ONE_EACH))

    assert [step.resumed for step in steps] == [True, False, False]
    assert len(store.run_versions(run)) == 3


@pytest.mark.parametrize("killed", ["before it is judged", "never"])
def test_source_proposed_twice_is_judged_once_and_leaves_the_same_history(killed: str, store: Store) -> None:
    judged: list[str] = []

    def counting(candidate: Candidate, trees: Sequence[str]) -> Evaluation:
        judged.append(candidate.rationale)
        return judge(candidate, trees)

    run, proposer = begun(store, STOPS, 4, held_out=()), Listed(ALL_AT_ONCE, ONE_EACH, ONE_EACH)
    if killed == "before it is judged":
        for count, _ in enumerate(evolve(run, store, proposer, counting), start=1):
            if count == 3:
                break
        store.propose(run, Candidate(ONE_EACH, Origin.FILE, "number 2", parent=2), store.head(run))

    steps = [step for step in evolve(run, store, proposer, counting) if isinstance(step, Progress)]

    assert [(step.judged.version.number, step.outcome) for step in steps[1:]] == [
        (2, EventKind.SELECTED),
        (3, EventKind.ROLLED_BACK),
        (3, EventKind.ROLLED_BACK),
    ]
    assert not steps[-1].resumed
    assert judged == ["where it starts", "number 0", "number 1"]
    said = [(event.kind, event.version, event.to) for event in store.events(run=run.number)]
    assert said[-6:] == 2 * [(EventKind.PROPOSED, 3, None), (EventKind.EVALUATED, 3, None), (EventKind.ROLLED_BACK, 3, 2)]


def test_two_processes_cannot_take_the_same_run_further(store: Store) -> None:
    run = begun(store, STOPS, 4)
    one, other = (evolve(run, store, Listed(ALL_AT_ONCE, ONE_EACH, BREAKS), judge) for _ in range(2))
    next(one)

    from harness.store import StaleError  # noqa: PLC0415

    next(other)
    next(one)
    with pytest.raises(StaleError):
        next(other)


def test_trees_keep_their_side_whatever_others_come_along() -> None:
    digests = [f"{number:064x}" for number in range(400)]
    lucks = {digest: digest for digest in digests}

    sides = split_trees(lucks, 0.25)
    fewer = split_trees({digest: digest for digest in digests[::3]}, 0.25)

    assert set(fewer[Split.HELD_OUT]) == set(sides[Split.HELD_OUT]) & set(digests[::3])
    assert 70 < len(sides[Split.HELD_OUT]) < 130
    assert split_trees(lucks, 0)[Split.HELD_OUT] == ()


def test_near_copies_are_on_one_side() -> None:
    """Searches of one task with one seed, whatever their budget: what was seen in one is no judge of what it taught."""
    searches = [
        replace(tree(*("root>a", "root>b")[:budget], scores={"a": 1.0}), source={"task_digest": "f00", "seed": seed})
        for seed in range(40)
        for budget in (1, 2)
    ]
    sides = split_trees({one.digest: one.luck for one in searches}, 0.5)

    for one, other in zip(searches[::2], searches[1::2], strict=True):
        assert one.digest != other.digest
        assert (one.digest in sides[Split.HELD_OUT]) == (other.digest in sides[Split.HELD_OUT])
    assert all(sides.values())

"""Held-out trees never reach a prompt: a run is taken to its end with marks in all that such trees hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from builders import broom, judged_in_process
from runs import BREAKS, FOLLOWS, OPENS, STOPS

from harness.evolve import Split, evolve
from harness.policy import Candidate, Origin
from harness.propose.edits import EditKind
from harness.propose.memory import Archive, Scratchpad
from harness.propose.prompts import Ask, DevelopmentTrees, Prompt, Repair, build, evidence
from harness.propose.templates import load
from harness.score import Settings, Weight
from harness.store import RunPlan, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.propose.base import Brief
    from harness.score import Evaluation
    from harness.tree import Tree

SHOWN, HIDDEN = "DEVELOPMENTMARK", "HELDOUTMARK"


def marked(tree: Tree, mark: str) -> Tree:
    """Put a mark into every text of a tree: names, task, source, ids, words, metrics. The best attempt has words, too."""
    names = {attempt.id: f"{attempt.id}-{mark}" for attempt in tree.attempts}
    attempts = tuple(
        replace(
            attempt,
            id=names[attempt.id],
            parent=None if attempt.parent is None else names[attempt.parent],
            feedback=f"said {mark}",
            hypothesis=f"tried {mark}",
            metrics={mark: 1.0},
            extra={mark: mark},
        )
        for attempt in tree.attempts
    )
    root = replace(tree.root, metrics={mark: 1.0}, extra={mark: mark})
    return replace(
        tree, name=f"{tree.name}-{mark}", task=f"{tree.task}-{mark}", source={"system": mark}, attempts=attempts, root=root
    )


DEVELOPMENT = {on.digest: on for on in (marked(broom(seed, 4, 4), SHOWN) for seed in range(4))}
HELD_OUT = {on.digest: on for on in (marked(broom(seed, 4, 4), HIDDEN) for seed in range(4, 7))}


class Asking:
    """Proposes sources in order, and builds every kind of prompt from each brief on its way."""

    def __init__(self, store: Store, development: Sequence[str], sources: Sequence[str]) -> None:
        self.prompts: list[Prompt] = []
        self.archive = Archive(0)
        self._trees = DevelopmentTrees(development, store.tree)
        self._sources = sources

    def propose(self, brief: Brief) -> Candidate | None:
        """Return the next source, None past the last one."""
        self.archive.learn(brief.history)
        parents = self.archive.parents(2)
        for kind in EditKind:
            for parent in (parents, (brief.history[-1],), (brief.incumbent,)):
                ask = Ask(
                    brief,
                    kind,
                    parent,
                    self._trees,
                    self.archive.inspirations(parent),
                    load(),
                    Scratchpad.of([("stop early", "")]).shown,
                    self.archive.twins,
                    Repair("no", evidence(brief.history[-1]) or "nothing fits"),
                    1_000_000,
                )
                self.prompts.append(build(ask))
        place = len(brief.history) - 1
        return Candidate(self._sources[place], Origin.FILE, f"number {place}") if place < len(self._sources) else None


def judge(candidate: Candidate, trees: Sequence[str]) -> Evaluation:
    return judged_in_process(candidate, [(DEVELOPMENT | HELD_OUT)[digest] for digest in trees], Settings(weight=Weight.GROUP))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/harness.db") as opened:
        opened.add_trees([*DEVELOPMENT.values(), *HELD_OUT.values()])
        yield opened


def prompts_of_a_run(store: Store, incumbent: int) -> list[Prompt]:
    """Take a run to its end, held-out trees judged, and return all its prompts."""
    run = store.begin_run(
        RunPlan(0, 5, Settings(weight=Weight.GROUP), "in-process", tuple(DEVELOPMENT), tuple(HELD_OUT), incumbent)
    )
    asking = Asking(store, tuple(DEVELOPMENT), [OPENS, BREAKS, FOLLOWS, f"# again\n{OPENS}"])
    for _ in evolve(run, store, asking, judge):
        pass
    assert store.evaluation(run, store.version(incumbent), Split.HELD_OUT) is not None, "they have been looked at"
    return asking.prompts


def test_no_mark_of_a_held_out_tree_stands_in_any_prompt_of_two_runs_one_after_the_other(store: Store) -> None:
    """When the second one begins, the store knows how versions did on the held-out trees."""
    first = store.propose(None, Candidate(STOPS, Origin.FILE, "where it starts"), store.head())
    prompts = [*prompts_of_a_run(store, first.number), *prompts_of_a_run(store, first.number)]

    said = ["\n".join(message.text for message in prompt.messages) for prompt in prompts]

    assert len(prompts) == 2 * 4 * 3 * len(EditKind)
    assert not [text for text in said if HIDDEN in text or any(digest[:12] in text for digest in HELD_OUT)]
    assert all(SHOWN in text for text in said), "marks that may be shown are: they would be seen"
    told = {f"{words} {SHOWN}" for words in ("said", "tried") if any(f"{words} {SHOWN}" in text for text in said)}
    assert told == {f"said {SHOWN}", f"tried {SHOWN}"}


def test_a_held_out_tree_cannot_be_asked_for(store: Store) -> None:
    trees = DevelopmentTrees(tuple(DEVELOPMENT), store.tree)

    with pytest.raises(ValueError, match="no development tree"):
        trees(next(iter(HELD_OUT)))


def test_figures_of_a_held_out_tree_stop_a_prompt_wherever_they_stand(store: Store) -> None:
    """An evaluation that holds one tree too many would bring its name, its task and its value along."""
    first = store.propose(None, Candidate(STOPS, Origin.FILE, "where it starts"), store.head())
    run = store.begin_run(RunPlan(0, 2, Settings(), "in-process", tuple(DEVELOPMENT), tuple(HELD_OUT), first.number))
    leaking = Asking(store, tuple(DEVELOPMENT), [OPENS])

    with pytest.raises(ValueError, match="must not reach a prompt"):
        list(evolve(run, store, leaking, lambda candidate, trees: judge(candidate, [*trees, next(iter(HELD_OUT))])))

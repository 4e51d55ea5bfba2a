"""What a proposer spends on one version beside the model's own time: remembering, drawing parents, building the prompt."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.table import REPETITIONS, Row, cpu_seconds, paired_ratio
from benchmarks.world import LIMITS, POLICIES, brooms
from harness.policy import Candidate, Origin, Version
from harness.propose.base import Brief, Judged
from harness.propose.edits import EditKind
from harness.propose.memory import Archive
from harness.propose.prompts import Ask, DevelopmentTrees, build
from harness.replay import InProcess, replay
from harness.score import Evaluation, Result, Settings, figures
from sandbox.api import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.tree import Tree

TREES, VERSIONS = 300, 200
SETTINGS = Settings(LIMITS)


def rows() -> Iterator[Row]:
    """Yield the figures."""
    trees = {tree.digest: tree for tree in (replace(tree, task=f"task {n % 6}") for n, tree in enumerate(brooms(TREES, 5)))}
    history = _history(list(trees.values()), VERSIONS)
    archive = Archive(0)
    archive.learn(history)
    ask = _ask(history, trees, archive)
    small = {digest: trees[digest] for digest in list(trees)[: TREES // 10]}
    short = _history(list(small.values()), VERSIONS // 10)
    learnt = Archive(0)
    learnt.learn(short)
    less = _ask(short, small, learnt)

    def whole() -> None:
        """Do all that is done anew for each version: judge how the last one behaved, draw, build."""
        one_more = Archive(0)
        one_more.learn(history[-1:])
        build(_ask(history, trees, archive))

    spent = _milliseconds(whole)
    at = f"{TREES} trees, {VERSIONS} versions"
    yield Row(f"prompt: a proposer's own work for a version at {at}", f"{spent:.0f} ms CPU", "<= 150 ms", met=spent <= 150)  # noqa: PLR2004
    yield Row(f"prompt: built, {build(ask).characters:,} characters", f"{_milliseconds(_built(ask)):.0f} ms CPU")
    tight = replace(ask, budget_chars=15_000)
    yield Row(f"prompt: cut to {build(tight).characters:,} characters", f"{_milliseconds(_built(tight)):.0f} ms CPU")
    growth = paired_ratio(_built(ask), _built(less))
    yield Row("prompt: 10 x the trees and 10 x the versions, cost", f"{growth:.1f} x", "<= 100 x", met=growth <= 100)  # noqa: PLR2004
    longer, shorter = (_longer(less, times) for times in (2_000, 200))
    growth = paired_ratio(_built(longer), _built(shorter))
    yield Row("prompt: 10 x the text that is shown, cost", f"{growth:.1f} x", "<= 10.5 x", met=growth <= 10.5)  # noqa: PLR2004
    resumed = cpu_seconds(lambda: Archive(0).learn(history))
    yield Row(f"prompt: remembering anew when a run is resumed at {at}, once", f"{resumed:.2f} s CPU")


def _ask(history: Sequence[Judged], trees: Mapping[str, Tree], archive: Archive) -> Ask:
    parents = archive.parents(2)
    best = max(history, key=lambda judged: judged.value or 0.0)
    brief = Brief(history[0], best, tuple(history))
    development = DevelopmentTrees(trees, lambda digest: replace(trees[digest]))  # read anew, as from a store
    return Ask(brief, EditKind.CROSS, parents, development, archive.inspirations(parents), twins=archive.twins)


def _history(trees: Sequence[Tree], versions: int) -> list[Judged]:
    """Build versions that behave on each tree as one of our policies does, so that no two do the same on all."""
    rng = random.Random(0)  # noqa: S311 - benchmark data, no secret
    replays = [[_result(source, tree) for source in POLICIES.values()] for tree in trees]
    sources = list(POLICIES.values())
    history = []
    for number in range(1, versions + 1):
        candidate = Candidate(
            f"# {number}\n{rng.choice(sources)}", Origin.MODEL, f"because of {number}, " * 12, parent=max(1, number - 1)
        )
        evaluation = Evaluation(candidate.digest, "in-process", SETTINGS, tuple(rng.choice(results) for results in replays))
        history.append(Judged(Version(number, candidate, "2026-01-01T00:00:00Z"), evaluation))
    return history


def _result(source: str, tree: Tree) -> Result:
    names: dict[str, type] = {}
    exec(source, names)  # noqa: S102 - the benchmark's own policies, trusted
    decider = InProcess(names["Policy"], Context({}, 0, LIMITS, tree.frontier.value))
    trajectory = replay(tree, decider, LIMITS)
    return Result(tree.digest, tree.name, tree.system, trajectory, figures(trajectory, tree, SETTINGS), task=tree.task)


def _longer(ask: Ask, times: int) -> Ask:
    judged = ask.parents[0]
    candidate = judged.version.candidate
    version = replace(judged.version, candidate=replace(candidate, source=candidate.source * times))
    return replace(ask, budget_chars=10**9, parents=(replace(judged, version=version),))


def _built(ask: Ask) -> Callable[[], None]:
    def work() -> None:
        build(ask)

    return work


def _milliseconds(work: Callable[[], None]) -> float:
    return statistics.median(cpu_seconds(work) for _ in range(REPETITIONS)) * 1_000

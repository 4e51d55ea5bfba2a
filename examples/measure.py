"""Print what recorded trees hold for a scheduler to win: `python examples/measure.py [DIR]`, as Markdown for README.md.

Policies of a few lines are replayed by the harness's own rules, one pick a round; the figures are plain means over trees.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from harness import treefile
from harness.replay import InProcess, replay
from sandbox.api import ROOT, Context, Limits, Node, Policy, View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.tree import Tree

LIMITS = Limits(max_rounds=1000, max_batch=1)
AFTER = (1, 10, 20, 40)
SHARES = (0.9, 0.95)
DEPTHS = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Climb:
    """One policy on one tree: best score after each attempt, larger is better."""

    best: tuple[float, ...]

    def after(self, attempts: int) -> float:
        """Return the best score after so many attempts, or after all there are."""
        return self.best[min(attempts, len(self.best)) - 1]

    def attempts_to(self, score: float) -> int:
        """Return how many attempts it took to reach a score."""
        return next(n for n, best in enumerate(self.best, start=1) if best >= score)


class Scheduler:
    """Opens `lines` lines, then continues the open leaf that `worth` puts highest; opens more when none is left."""

    def __init__(self, _: Context, lines: int, worth: Callable[[View, Node], float]) -> None:
        self._lines = lines
        self._worth = worth

    def decide(self, view: View) -> list[int]:
        """Return one place to continue, or none when all is closed."""
        root = view.nodes[ROOT]
        leaves = [leaf for leaf in view.leaves if not leaf.closed]
        if not root.closed and (len(root.children) < self._lines or not leaves):
            return [ROOT]
        return [max(leaves, key=lambda leaf: self._worth(view, leaf)).id] if leaves else []


def _score(_: View, leaf: Node) -> float:
    return -np.inf if leaf.score is None else leaf.score


def _twice_then_score(view: View, leaf: Node) -> float:
    return np.inf if leaf.depth == 1 else _score(view, leaf)


def _shallow(_: View, leaf: Node) -> float:
    return -leaf.depth


def _newest(_: View, leaf: Node) -> float:
    return leaf.branch


def _any() -> Callable[[View, Node], float]:
    rng = random.Random(0)  # noqa: S311 - a policy's dice, not a secret's
    return lambda _view, _leaf: rng.random()


POLICIES: dict[str, Callable[[Context], Policy]] = {
    "round-robin": partial(Scheduler, lines=99, worth=_shallow),
    "depth-first": partial(Scheduler, lines=1, worth=_newest),
    "4 lines, then any": lambda context: Scheduler(context, 4, _any()),
    "greedy best leaf, 3 lines": partial(Scheduler, lines=3, worth=_score),
    "greedy best leaf, 6 lines": partial(Scheduler, lines=6, worth=_score),
    "greedy best leaf, all lines": partial(Scheduler, lines=99, worth=_score),
    "all lines twice, then best leaf": partial(Scheduler, lines=99, worth=_twice_then_score),
}


def climb(tree: Tree, policy: Callable[[Context], Policy]) -> Climb:
    """Return how a policy climbs through a tree; before the first scored attempt it stands at the worst score recorded."""
    context = Context({}, 0, LIMITS, tree.frontier)
    places = replay(tree, InProcess(policy, context), LIMITS).revealed
    scores = [tree.scores[place] for place in places]
    worst = min(score for score in scores if score is not None)
    return Climb(tuple(np.maximum.accumulate([worst if score is None else score for score in scores]).tolist()))


def lines_of(tree: Tree) -> list[list[float]]:
    """Return the best score so far along each line, from its first scored attempt on."""
    lines = []
    for first in tree.children[ROOT]:
        place, scores = first, [tree.scores[first]]
        while tree.children[place]:
            place = tree.children[place][0]
            scores.append(tree.scores[place])
        reached = np.maximum.accumulate([-np.inf if score is None else score for score in scores])
        lines.append([float(score) for score in reached])
    return lines


def foretold(trees: Sequence[Tree], depth: int) -> float:
    """Return the mean rank correlation, within a tree, of a line's best score at `depth` with its best score at the end."""
    found = []
    for tree in trees:
        pairs = [(line[depth - 1], line[-1]) for line in lines_of(tree) if len(line) >= depth and np.isfinite(line[depth - 1])]
        found.append(spearmanr(*zip(*pairs, strict=True)).statistic)
    return float(np.nanmean(found))


def firsts(tree: Tree) -> list[float]:
    """Return the scores of the first attempts of all lines, larger is better."""
    return [score for place in tree.children[ROOT] if (score := tree.scores[place]) is not None]


def _row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def _head(*cells: str) -> None:
    print()
    _row(*cells)
    _row(*("---" for _ in cells))


def print_records(tasks: dict[str, list[Tree]]) -> None:
    """Print what was recorded, task by task."""
    _head(
        "task",
        "trees",
        "attempts",
        "failed / invalid / timeout",
        "CPU s each",
        "start",
        "first (median)",
        "best (median tree)",
        "best",
    )
    for name, trees in tasks.items():
        sense = 1.0 if trees[0].direction == "max" else -1.0
        attempts = [attempt for tree in trees for attempt in tree.attempts]
        statuses = Counter(attempt.status for attempt in attempts)
        tops = [max(score for score in tree.scores if score is not None) for tree in trees]
        _row(
            name,
            len(trees),
            len(attempts),
            " / ".join(str(statuses[status]) for status in ("failed", "invalid", "timeout")),
            f"{np.mean([attempt.cost['seconds'] for attempt in attempts]):.3f}",
            f"{sense * _start(trees[0]):.5f}",
            f"{sense * np.median([score for tree in trees for score in firsts(tree)]):.5f}",
            f"{sense * np.median(tops):.5f}",
            f"{sense * max(tops):.6f}",
        )
    _head("rank correlation with a line's final score", *(f"depth {depth}" for depth in DEPTHS))
    for name, trees in tasks.items():
        _row(name, *(f"{foretold(trees, depth):.2f}" for depth in DEPTHS))


def print_policies(tasks: dict[str, list[Tree]], climbs: dict[str, dict[str, list[Climb]]]) -> None:
    """Print how many attempts policies need, and what quality they have reached on the way."""
    _head("task", "policy", *(f"attempts to {share:.0%}" for share in SHARES), *(f"quality after {n}" for n in AFTER))
    for name, trees in tasks.items():
        for policy, runs in climbs[name].items():
            cells = []
            for share in SHARES:
                reached = []
                for tree, run in zip(trees, runs, strict=True):
                    base = float(np.median(firsts(tree)))
                    reached.append(run.attempts_to(base + share * (run.best[-1] - base)))
                cells.append(f"{np.mean(reached):.1f}")
            pairs = list(zip(trees, runs, strict=True))
            cells += [f"{np.mean([_quality(run.after(n), _floor(tree), run) for tree, run in pairs]):.3f}" for n in AFTER]
            _row(name, policy, *cells)


def print_floors(tasks: dict[str, list[Tree]], climbs: dict[str, dict[str, list[Climb]]]) -> None:
    """Print, for each floor that the root could give, the mean quality of the worst and of the best policy."""
    _head("task", "floor", *(f"after {n}: worst to best policy" for n in AFTER))
    for name, trees in tasks.items():
        for floor, of in (("the start's score", _start), ("worst recorded", _worst)):
            cells = []
            for n in AFTER:
                means = [
                    np.mean([_quality(run.after(n), of(tree), run) for tree, run in zip(trees, runs, strict=True)])
                    for runs in climbs[name].values()
                ]
                cells.append(f"{min(means):.3f} to {max(means):.3f}")
            _row(name, floor, *cells)


def _quality(best: float, floor: float, run: Climb) -> float:
    return max(0.0, best - floor) / (run.best[-1] - floor)


def _start(tree: Tree) -> float:
    """Return the score of the answer that searches of this task start from, larger is better."""
    score = tree.root.metrics["start_score"]
    return score if tree.direction == "max" else -score


def _floor(tree: Tree) -> float:
    assert tree.floor is not None  # noqa: S101 - every example tree has scores
    return tree.floor


def _worst(tree: Tree) -> float:
    return min(score for score in tree.scores[1:] if score is not None)


def print_all(folder: Path) -> None:
    """Print all tables for the trees of a folder."""
    tasks: dict[str, list[Tree]] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        tree = treefile.read(path)
        tasks.setdefault(tree.task, []).append(tree)
    climbs = {
        name: {policy: [climb(tree, build) for tree in trees] for policy, build in POLICIES.items()}
        for name, trees in tasks.items()
    }
    print_records(tasks)
    print_policies(tasks, climbs)
    print_floors(tasks, climbs)


if __name__ == "__main__":
    print_all(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "trees")

"""What a policy can tell by its clock of what is hidden: the time from its answer to its next question, on both backends.

The policy walks the same branch in every tree. Beside that branch, or below its end, lie nodes that it never reveals; trees are
taken in turn, so that a drifting machine cancels out. Where they make no difference, the medians lie closer to each other than
one replay's median strays from them.
"""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING

from benchmarks.table import Row
from harness.replay import replay
from harness.tree import Attempt, Root, Tree
from sandbox.api import Context, Limits
from sandbox.base import GuestLimits
from sandbox.docker import DockerSandbox
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.base import Sandbox, Session

ROUNDS = 280
REPLAYS = 7
HIDDEN = (1_000, 10_000)
WATCHES_THE_CLOCK = """
import statistics, time
class Policy:
    def __init__(self, context):
        self.gaps, self.left, self.rounds = [], None, context.limits.max_rounds
    def decide(self, view):
        if self.left is not None:
            self.gaps.append(time.perf_counter_ns() - self.left)
        if view.round == self.rounds:
            print(statistics.median(self.gaps) / 1000)
        newest = [view.nodes[-1].id]
        self.left = time.perf_counter_ns()
        return newest
"""


def rows() -> Iterator[Row]:
    """Yield, for each backend, the medians over all trees, how far they lie apart, and how far single replays stray."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        for sandbox in (DockerSandbox(warm=0), LocalSandbox()):
            yield from _backend(sandbox)
            sandbox.close()
    finally:
        os.sched_setaffinity(0, cores)


def _backend(sandbox: Sandbox) -> Iterator[Row]:
    trees = {"nothing": _tree(0, deep=False)}
    trees |= {f"{count} {'below' if deep else 'beside'}": _tree(count, deep=deep) for count in HIDDEN for deep in (True, False)}
    with sandbox.open(WATCHES_THE_CLOCK, GuestLimits()) as session:
        measured: dict[str, list[float]] = {name: [] for name in trees}
        for _ in range(REPLAYS):
            for name, tree in trees.items():
                measured[name].append(_median_us(session, tree))
    medians = {name: statistics.median(figures) for name, figures in measured.items()}
    for name, median in medians.items():
        yield Row(f"{sandbox.name}: the host's reply with {name} hidden", f"{median:.1f} us")
    apart = max(medians.values()) - min(medians.values())
    stray = max(abs(figure - medians[name]) for name, figures in measured.items() for figure in figures)
    yield Row(
        f"{sandbox.name}: between these; a replay's own stray", f"{apart:.1f} us, {stray:.1f} us", "no more", met=apart <= stray
    )


def _tree(hidden: int, *, deep: bool) -> Tree:
    """Return a branch of `ROUNDS` attempts, and hidden ones at its end or in branches of their own."""
    names = [f"n{place}" for place in range(ROUNDS + hidden)]
    attempts = [
        Attempt(name, names[place - 1] if place and (deep or place < ROUNDS) else None, 0.5) for place, name in enumerate(names)
    ]
    return Tree(f"{hidden} hidden", tuple(attempts), root=Root(score=0.0))


def _median_us(session: Session, tree: Tree) -> float:
    guest = session.start(Context({}, 0, Limits(max_rounds=ROUNDS), tree.frontier))
    replay(tree, guest, Limits(max_rounds=ROUNDS))
    guest.finish()
    return float(guest.output)

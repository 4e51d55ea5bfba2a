"""How a policy behaves, measured from its trajectories alone: what it does, not what its code looks like or what it is worth.

Four figures in [0, 1], each the mean over the trees, every tree once. Two policies with the same trajectories have the same
figures; the reverse does not hold, which is what `fingerprint` is for.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, NamedTuple

from harness.replay import Stop
from sandbox.api import ROOT

if TYPE_CHECKING:
    from harness.replay import Trajectory
    from harness.score import Evaluation

HALF_SPENT = 32
"""Attempts after which stopping counts one half."""


class Behaviour(NamedTuple):
    """How a policy behaves on the trees it was judged on."""

    breadth: float
    """Picks of the root / picks: 1.0 opens branches and continues none, 0.0 opens none."""
    depth: float
    """Picks of what the last revealing round revealed / picks that are not the root: 1.0 follows every line at once, 0.0 always
    goes back to what it has left lying; 0.0 as well where nothing is continued."""
    stopping: float
    """32 / (32 + N) where the policy itself ended the search after N attempts, else 0.0: 1.0 stops before it has begun."""
    batch: float
    """Picks / (rounds x max_batch): 1.0 always fills the batch; 0.0 without a round."""

    def distance(self, other: Behaviour) -> float:
        """Return how differently two policies behave, in [0, 1]: the Euclidean distance over its greatest, which is 2."""
        return math.dist(self, other) / 2


def behaviour(evaluation: Evaluation) -> Behaviour:
    """Return how a policy behaves: the mean of each figure over the trees, all 0.0 where there is no tree.

    A replay that ended in a fault counts with the rounds that it had.
    """
    if not evaluation.results:
        return Behaviour(0.0, 0.0, 0.0, 0.0)
    widest = evaluation.settings.limits.max_batch
    each = [_behaviour(result.trajectory, widest) for result in evaluation.results]
    # Sums of many shares of one round to just above one: cut, so that a figure is what it says.
    return Behaviour(*(min(1.0, math.fsum(figure) / len(each)) for figure in zip(*each, strict=True)))


def _behaviour(trajectory: Trajectory, widest: int) -> Behaviour:
    picks = opened = followed = attempts = 0
    newest: tuple[int, ...] = ()
    for turn in trajectory.rounds:
        picks += len(turn.picks)
        roots = turn.picks.count(ROOT)
        opened += roots
        if newest and roots < len(turn.picks):
            followed += sum(map(set(newest).__contains__, turn.picks))
        newest = turn.revealed or newest
        attempts += len(turn.revealed)
    if not picks:
        return Behaviour(0.0, 0.0, float(trajectory.stop is Stop.POLICY_STOPPED), 0.0)
    continued = picks - opened
    return Behaviour(
        breadth=opened / picks,
        depth=followed / continued if continued else 0.0,
        stopping=HALF_SPENT / (HALF_SPENT + attempts) if trajectory.stop is Stop.POLICY_STOPPED else 0.0,
        batch=picks / (len(trajectory.rounds) * widest),
    )


def fingerprint(evaluation: Evaluation) -> str | None:
    """Return the identity of all that a policy did on its trees, None after a fault.

    Versions of one run with the same fingerprint took the same trajectory through every development tree, whatever their code:
    judging the second again would say nothing new. The order of the trees makes no difference.
    """
    if evaluation.fault is not None:
        return None
    told = hashlib.sha256(b"trajectories/1")
    for digest in sorted(result.trajectory.digest for result in evaluation.results):
        told.update(digest.encode())
    return told.hexdigest()

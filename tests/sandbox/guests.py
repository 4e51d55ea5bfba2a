"""Policies and a small tree to drive guests over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.replay import Trajectory, replay
from harness.tree import Attempt, Root, Tree
from sandbox.api import Context, Limits
from sandbox.base import GuestLimits

if TYPE_CHECKING:
    from sandbox.api import Observation
    from sandbox.base import GuestReplay, Session

QUICK = GuestLimits(
    load_cpu_s=1.0, decision_cpu_s=0.3, replay_cpu_s=1.0, wall_factor=4.0, memory_bytes=64 * 2**20, output_bytes=200_000
)
GOOD = """
class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        return [node for node in view.selectable if not view.nodes[node].closed]
"""


def context(seed: int = 7, frontier: str = "leaf", **limits: int) -> Context:
    """Build what a policy is constructed with."""
    return Context({"width": 3, "names": ["a", "b"]}, seed, Limits(**limits), frontier)


def small_tree() -> Tree:
    """Build a root with three branches of two attempts each."""
    edges = [("a", None), ("b", None), ("c", None), ("a1", "a"), ("b1", "b"), ("c1", "c")]
    attempts = [Attempt(name, parent, place / 10) for place, (name, parent) in enumerate(edges)]
    return Tree("small", tuple(attempts), root=Root(score=0.0))


class Driven:
    """Takes a session through one replay: the process starts with the first question."""

    def __init__(self, session: Session, start: Context) -> None:
        self._session = session
        self._context = start
        self.guest: GuestReplay | None = None

    def decide(self, observation: Observation) -> list[int]:
        """Return the guest's picks."""
        if self.guest is None:
            self.guest = self._session.start(self._context)
        return self.guest.decide(observation)


def drive(session: Session, start: Context | None = None, tree: Tree | None = None) -> Trajectory:
    """Return what the session's policy does on a tree, the small one by default."""
    start = start or context()
    driven = Driven(session, start)
    trajectory = replay(tree or small_tree(), driven, start.limits)
    if driven.guest is not None:
        driven.guest.finish()
    return trajectory

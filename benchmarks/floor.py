"""The floor: the least loop that takes a policy through a tree. No rules are checked, nothing is recorded or judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.api import ROOT, Context, Observation, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.tree import Tree
    from sandbox.api import Limits, Outcome, Policy


def least_replay(tree: Tree, policy: Callable[[Context], Policy], limits: Limits) -> None:
    """Replay until the policy stops, nothing is left on the leaf frontier, or the rounds are used up."""
    children, outcomes = tree.children, tree.outcomes
    view = View(tree.frontier)
    decide = policy(Context({}, 0, limits, tree.frontier.value)).decide
    places, opened = [ROOT], [0]
    new: list[tuple[int, Outcome]] = [(-1, outcomes[ROOT])]
    for turn in range(1, limits.max_rounds + 1):
        picks = decide(view.update(Observation(turn, new)))
        if not picks:
            return
        new = []
        for node in picks:
            recorded = children[places[node]]
            if opened[node] < len(recorded):
                place = recorded[opened[node]]
                opened[node] += 1
                places.append(place)
                opened.append(0)
                new.append((node, outcomes[place]))
        if len(places) == len(outcomes):
            return

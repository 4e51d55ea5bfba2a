"""A policy behind the sandbox replays exactly as one in this process: every conformance case, every template."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from builders import broom

from harness.propose.templates import Template, defaults, load, render
from harness.replay import InProcess, replay
from harness.score import Normalize, Settings, Weights, figures
from harness.tree import Attempt, Root, Tree
from sandbox.api import Context, Frontier, Limits
from sandbox.base import GuestLimits

if TYPE_CHECKING:
    from sandbox.base import Sandbox

CASES = json.loads(Path(__file__).with_name("conformance-replay.json").read_text())["cases"]
SCRIPTED = """class Policy:
    def __init__(self, context):
        self.script = context.params["script"]

    def decide(self, view):
        ids = {node.hypothesis or "root": node.id for node in view.nodes}
        return [ids.get(name, 9999) for name in self.script[view.round - 1]] if view.round <= len(self.script) else []
"""


def recorded(case: dict[str, Any]) -> Tree:
    """Build a case's tree; each attempt's hypothesis is its name, so that a scripted policy can find it."""
    attempts = [
        Attempt(node["id"], None if node["parent"] == "root" else node["parent"], node["score"], hypothesis=node["id"])
        for node in case["nodes"]
    ]
    return Tree(case["name"], tuple(attempts), frontier=Frontier(case["frontier"]), root=Root(case["root_score"]))


def test_every_conformance_case_has_its_outcome_behind_the_sandbox(sandbox: Sandbox) -> None:
    with sandbox.open(SCRIPTED, GuestLimits()) as session:
        for case in CASES:
            tree, expected = recorded(case), case["expected"]
            given = {name: case[name] for name in ("max_rounds", "max_batch", "max_attempts") if case[name] is not None}
            limits = Limits(**given)
            guest = session.start(Context({"script": case["script"]}, 0, limits, case["frontier"]))

            trajectory = replay(tree, guest, limits)

            guest.finish()
            weights = Weights(case["beta1"], case["beta2"], Normalize(case["normalize"]))
            result = figures(trajectory, tree, Settings(weights=weights))
            rounds = [{"picks": [*tree.ids(t.picks)], "revealed": [*tree.ids(t.revealed)]} for t in trajectory.rounds]
            fault = trajectory.fault.rule if trajectory.fault else None
            assert (trajectory.stop, rounds, fault) == (expected["stop"], expected["rounds"], expected.get("error")), case["name"]
            assert (result.value, result.n, result.k) == (expected["value"], expected["n"], expected["k"]), case["name"]


@pytest.mark.parametrize("template", load(), ids=lambda template: template.name)
def test_a_rendered_template_takes_the_same_way_inside_and_outside(sandbox: Sandbox, template: Template) -> None:
    source = render(template, defaults(template))
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 - a template of our own, trusted
    limits = Limits()
    with sandbox.open(source, GuestLimits()) as session:
        for tree in (replace(broom(seed, chains=12, depth=6), frontier=frontier) for seed in (1, 2) for frontier in Frontier):
            context = Context({}, seed=3, limits=limits, frontier=tree.frontier.value)
            guest = session.start(context)

            inside = replay(tree, guest, limits)

            guest.finish()
            # `random` is seeded inside; the template's own generator is, too.
            assert inside == replay(tree, InProcess(names["Policy"], context), limits)
            assert inside.fault is None

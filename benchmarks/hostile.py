"""The hostile policies of tests/attacks, as tests and benchmarks run them: on the sandbox alone, unchecked."""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.replay import Stop, Trajectory, replay
from harness.tree import Attempt, Root, Tree
from sandbox.api import Context, Limits, PolicyFault
from sandbox.base import GuestLimits

if TYPE_CHECKING:
    from sandbox.api import Observation
    from sandbox.base import GuestReplay, Sandbox, Session

FOLDER = Path(__file__).parents[1] / "tests" / "attacks"
QUICK = GuestLimits(
    load_cpu_s=1.0, decision_cpu_s=0.3, replay_cpu_s=1.0, wall_factor=4.0, memory_bytes=64 * 2**20, output_bytes=200_000
)
_HEAD = "import os, struct, sys, time\nclass Policy:\n    def __init__(self, context): pass\n    def decide(self, view):\n"


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile policy, what it tries, and in which outcomes it may end."""

    name: str
    group: str
    idea: str
    source: str
    outcomes: frozenset[str]
    probes_that_must_fail: tuple[str, ...] = ()
    second_replay_must_not_report: str | None = None
    replays_same_tree_twice: bool = False


@dataclass(slots=True)
class Verdict:
    """What came of an attack on one backend; contained when `broken` is empty."""

    outcomes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def indexed() -> list[Attack]:
    """Return the 72 of index.json; bytes that are no UTF-8 stay visible as lone surrogates."""
    return [
        Attack(
            name=entry["file"].removesuffix(".py"),
            group=entry["category"],
            idea=entry["what_must_hold"],
            source=(FOLDER / entry["file"]).read_bytes().decode("utf-8", "surrogateescape"),
            outcomes=frozenset(entry["outcomes"]),
            probes_that_must_fail=tuple(entry.get("probes_that_must_fail", ())),
            second_replay_must_not_report=entry.get("second_replay_must_not_report"),
            replays_same_tree_twice=entry.get("replays_same_tree_twice", False),
        )
        for entry in json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))["policies"]
    ]


def bodies() -> list[Attack]:
    """Return those of more.toml, each the body of `decide`."""
    found = tomllib.loads((FOLDER / "more.toml").read_text(encoding="utf-8"))["attack"]
    return [
        Attack(entry["name"], entry["group"], entry["idea"], body_of(entry["decide"]), frozenset(entry["outcomes"]))
        for entry in found
    ]


def body_of(decide: str) -> str:
    """Return the policy whose `decide` this is."""
    return f"{_HEAD}{textwrap.indent(decide.strip(chr(10)), ' ' * 8)}\n"


def outcome(trajectory: Trajectory) -> str:
    """Return the outcome in the words of the index."""
    return "answered" if trajectory.fault is None else trajectory.fault.kind.value


def reported(trajectory: Trajectory) -> str:
    """Return what the policy told through its exception."""
    return "" if trajectory.fault is None else trajectory.fault.message


def attempted(attack: Attack, sandbox: Sandbox) -> Verdict:
    """Return what came of it: twice in one session, and where order or addresses may matter once more in another."""
    with sandbox.open(attack.source, QUICK) as session:
        before = session.health()  # type: ignore[attr-defined]
        first, second = drive(session), drive(session)
        after = session.health()  # type: ignore[attr-defined]
    outcomes = {outcome(first), outcome(second)}
    if attack.replays_same_tree_twice:
        with sandbox.open(attack.source, QUICK) as elsewhere:
            third = drive(elsewhere)
        if (third.rounds, outcome(third)) != (first.rounds, outcome(first)):
            outcomes = {"nondeterministic"}
    verdict = Verdict(sorted(outcomes))
    if not outcomes <= attack.outcomes:
        verdict.broken.append(f"ended in {verdict.outcomes}: {reported(first)!r}, then {reported(second)!r}")
    verdict.broken += [f"the probe {name} got through: {reported(first)!r}" for name in _got_through(attack, first)]
    carried = attack.second_replay_must_not_report
    if carried is not None and re.search(carried, reported(second)):
        verdict.broken.append(f"carried over: {reported(second)!r}")
    if after[1:] != before[1:]:
        verdict.broken.append(f"the runner was changed: from {before} to {after}")
    if not all(steers_nothing(told.fault.message + told.fault.traceback) for told in (first, second) if told.fault):
        verdict.broken.append("what it told steers a terminal")
    return verdict


def _got_through(attack: Attack, trajectory: Trajectory) -> list[str]:
    """Return the probes that report something else than an exception or an error number."""
    failed = r"'{}': ['\"](\w+(Error|Exception|Timeout|timeout|herror)\b|errno \d)"
    got = reported(trajectory)
    return [name for name in attack.probes_that_must_fail if f"'{name}': " in got and not re.search(failed.format(name), got)]


def steers_nothing(text: str) -> bool:
    """Return whether a text is free of what a terminal obeys."""
    return all(c.isprintable() or c in "\n\t" for c in text)


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
        try:
            driven.guest.finish()
        except PolicyFault as late:
            return replace(trajectory, stop=Stop.POLICY_ERROR, fault=late.fault)
    return trajectory

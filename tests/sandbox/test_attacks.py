"""Every hostile policy of tests/attacks ends in an outcome that its index allows, on every backend, and harms nobody else.

The static check is off: the sandbox alone must hold.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from guests import GOOD, QUICK, drive

from harness.replay import Stop
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.replay import Trajectory
    from sandbox.base import Sandbox, Session

FOLDER = Path(__file__).parents[1] / "attacks"


@dataclass(frozen=True)
class Attack:
    """One line of the index."""

    file: str
    category: str
    outcomes: list[str]
    what_must_hold: str
    probes_that_must_fail: list[str] = field(default_factory=list)
    replays: int = 1
    second_replay_must_not_report: str | None = None
    replays_same_tree_twice: bool = False

    def source(self) -> str:
        """Return its code; bytes that are no UTF-8 stay visible as lone surrogates."""
        return (FOLDER / self.file).read_bytes().decode("utf-8", "surrogateescape")


ATTACKS = [Attack(**entry) for entry in json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))["policies"]]


def outcome(trajectory: Trajectory) -> str:
    """Return the outcome in the words of the index."""
    return "answered" if trajectory.fault is None else trajectory.fault.kind.value


def reported(trajectory: Trajectory) -> str:
    """Return what the policy told through its exception."""
    return "" if trajectory.fault is None else trajectory.fault.message


def probes_got_through(attack: Attack, trajectory: Trajectory) -> list[str]:
    """Return the probes that report something else than an exception or an error number."""
    failed = r"'{}': ['\"](\w+(Error|Exception|Timeout|timeout|herror)\b|errno \d)"
    got = reported(trajectory)
    return [name for name in attack.probes_that_must_fail if f"'{name}': " in got and not re.search(failed.format(name), got)]


@pytest.fixture(scope="session")
def neighbours() -> Iterator[dict[str, Session]]:
    """Keep a session of a good policy for each backend, beside all attacks."""
    sessions: dict[str, Session] = {}
    yield sessions
    for session in sessions.values():
        session.close()


@pytest.fixture
def neighbour(sandbox: Sandbox, neighbours: dict[str, Session]) -> Session:
    """Return a session of a good policy on the same backend."""
    if sandbox.name not in neighbours:
        neighbours[sandbox.name] = sandbox.open(GOOD, QUICK)
    return neighbours[sandbox.name]


def test_the_index_names_every_file_once() -> None:
    """No attack is forgotten: files and index are the same set."""
    assert sorted(attack.file for attack in ATTACKS) == sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py"))
    assert len(ATTACKS) == 72


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.file.removesuffix(".py"))
def test_attack_is_contained(attack: Attack, sandbox: Sandbox, neighbour: Session) -> None:
    """It ends as allowed, twice; its probes fail; nothing is carried over; runner and neighbours stay as they were."""
    with sandbox.open(attack.source(), QUICK) as session:
        before = session.health()
        first, second = drive(session), drive(session)
        after = session.health()

    outcomes = {outcome(first), outcome(second)}
    if attack.replays_same_tree_twice:
        with sandbox.open(attack.source(), QUICK) as elsewhere:
            third = drive(elsewhere)
        if (third.rounds, outcome(third)) != (first.rounds, outcome(first)):
            outcomes = {"nondeterministic"}
    assert outcomes <= set(attack.outcomes), (reported(first), reported(second))
    assert probes_got_through(attack, first) == []
    if attack.second_replay_must_not_report is not None:
        assert not re.search(attack.second_replay_must_not_report, reported(second))
    assert after[1:] == before[1:]
    assert drive(neighbour).stop is Stop.EXHAUSTED


@pytest.mark.parametrize(
    ("file", "layers", "gets_through"),
    [
        ("disk/memfd.py", {"seccomp"}, r"GOT \d"),
        ("network/inet.py", {"seccomp"}, "'dgram': 'CREATED'"),
        ("privilege/exotic.py", {"seccomp"}, r"'landlock': \d"),
        ("memory/mem_str.py", {"rlimits"}, "^(?!MemoryError)"),
    ],
)
def test_an_attack_gets_through_when_its_layer_is_off(file: str, layers: set[str], gets_through: str) -> None:
    """The layers do the work, and this suite would notice if one did not."""
    (attack,) = [attack for attack in ATTACKS if attack.file == file]
    with LocalSandbox(without=layers).open(attack.source(), QUICK) as session:
        trajectory = drive(session)

    assert re.search(gets_through, reported(trajectory))


READS_A_FILE = """
class Policy:
    def __init__(self, context):
        self.text = open("/etc/passwd").read()

    def decide(self, view):
        return []
"""
RENICES_THE_RUNNER = """
import os

class Policy:
    def __init__(self, context):
        os.setpriority(os.PRIO_PROCESS, os.getppid(), 7)

    def decide(self, view):
        return []
"""


def test_a_file_can_be_read_when_seccomp_and_landlock_are_off() -> None:
    """Each of the two alone keeps files away."""
    stops = {}
    for layers in ({"seccomp"}, {"landlock"}, {"seccomp", "landlock"}):
        with LocalSandbox(without=layers).open(READS_A_FILE, QUICK) as session:
            stops[frozenset(layers)] = drive(session).stop

    assert [stop for layers, stop in stops.items() if len(layers) == 1] == [Stop.POLICY_ERROR, Stop.POLICY_ERROR]
    assert stops[frozenset({"seccomp", "landlock"})] is Stop.POLICY_STOPPED


def test_a_change_of_the_runner_is_carried_over_when_seccomp_is_off() -> None:
    """What `health` compares after every attack is what an attack can change."""
    nice = {}
    for layers in ((), ("seccomp",)):
        with LocalSandbox(without=layers).open(RENICES_THE_RUNNER, QUICK) as session:
            drive(session)
            nice[layers] = session.health()[2]

    assert nice == {(): 0, ("seccomp",): 7}

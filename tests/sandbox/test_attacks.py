"""Every hostile policy of tests/attacks ends in an outcome that its table allows, on every backend, and harms nobody else.

The static check is off: the sandbox alone must hold. That these tests can fail is what test_layers.py shows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from guests import GOOD, QUICK, drive

from benchmarks.attacks import rows as attack_rows
from benchmarks.hostile import FOLDER, Attack, attempted, body_of, indexed
from harness.replay import Stop
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.base import Sandbox, Session

ATTACKS = indexed()


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
    entries = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))["policies"]

    assert sorted(entry["file"] for entry in entries) == sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py"))
    assert len(ATTACKS) == 72


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_is_contained(attack: Attack, sandbox: Sandbox, neighbour: Session) -> None:
    """It ends as allowed, twice; its probes fail; nothing is carried over; runner and neighbours stay as they were."""
    assert attempted(attack, sandbox).broken == []
    assert drive(neighbour).stop is Stop.EXHAUSTED


def test_an_attack_that_is_not_contained_is_told() -> None:
    """An outcome outside of the table, a changed runner: each is a line of evidence."""
    renices = "os.setpriority(os.PRIO_PROCESS, os.getppid(), 7)\nreturn [0]"
    attack = Attack("renices", "", "", body_of(renices), frozenset({"exception"}))

    assert attempted(attack, LocalSandbox()).broken == []
    broken = attempted(attack, LocalSandbox(without={"seccomp"})).broken
    assert broken[0].startswith("ended in ['answered']")
    assert broken[1].startswith("the runner was changed")


def test_the_table_of_attacks_names_each_with_its_outcome() -> None:
    """`python -m benchmarks attacks` prints one row for each policy and one that counts."""
    few = [attack for attack in ATTACKS if attack.name in {"crash/exit0", "answer/ans_none"}]
    rows = list(attack_rows("local", attacks=few))

    assert [row.met for row in rows if row.met is not None] == [True] * 3
    assert "local: exited" in {row.figure for row in rows}
    assert rows[-1].figure == "2 of 2"

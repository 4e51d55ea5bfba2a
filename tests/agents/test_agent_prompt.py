"""What an agent is told: nothing of siblings where there are none, a strategy once, words of others as data."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from harness.agents.base import Assignment, Hypothesis, Sibling, SiblingState, Step
from harness.agents.prompt import prompt
from harness.task.base import Scoring, Task
from harness.tree import Direction
from sandbox.job import JobLimits

TASK = Task(
    "t", "Pack circles.", Direction.MAX, Path(), Path(), ("*.json",), Scoring(("true",), Path(), JobLimits()), digest="0" * 64
)
PLAIN = Assignment(TASK, Path(), "n1", 0, 1.0, threading.Event())


def test_without_siblings_their_section_is_absent_byte_for_byte() -> None:
    """A26."""
    assert "other branches" not in prompt(PLAIN)
    assert prompt(replace(PLAIN, siblings=())) == prompt(PLAIN)


def test_siblings_are_shown_with_their_state() -> None:
    """A25: a failed one is marked failed."""
    failed = Sibling("n2", SiblingState.FAILED, Hypothesis("grid", "hexagons"))

    assert "n2: failed" in prompt(replace(PLAIN, siblings=(failed,)))


def test_what_is_not_known_yet_is_told_in_words() -> None:
    silent = prompt(replace(PLAIN, siblings=(Sibling("n2", SiblingState.IN_FLIGHT, Hypothesis()),)))
    known = Sibling("n3", SiblingState.SUCCEEDED, Hypothesis("grid", "hexagons"), "by rows", 0.5)
    failed = prompt(replace(PLAIN, lineage=(Step("n1", None, "failed", "", ""),), siblings=(known,)))

    assert "n2: under way, no score yet, what it tries is not known" in silent
    assert 'n3: succeeded, score 0.5, its approach: "by rows", it sets out to try: "[grid] hexagons"' in failed
    assert "n1: failed, no score: what it tried is not known: no feedback" in failed
    assert "None" not in silent + failed


def test_a_strategy_stands_once_before_the_intact_text() -> None:
    """B10."""
    assert prompt(replace(PLAIN, strategy="Be bold.")) == f"Be bold.\n\n{prompt(PLAIN)}"


def test_the_score_of_the_start_is_told_where_there_is_one() -> None:
    told = prompt(replace(PLAIN, root_score=0.5))

    assert " The start scores 0.5." in told
    assert prompt(replace(PLAIN, root_score=0.0)) == told.replace("0.5", "0.0")
    assert prompt(PLAIN) == told.replace(" The start scores 0.5.", "")

"""What an agent is told of its attempt. Words of others come as data, in fences that they cannot close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.propose.prompts.base import Foreign
from harness.propose.prompts.fence import quoted
from harness.propose.prompts.rendering import fenced

if TYPE_CHECKING:
    from harness.agents.base import Assignment, Sibling, Step


def prompt(assignment: Assignment) -> str:
    """Return the text; a rollout's strategy stands once, before it, and leaves it as it is."""
    task = assignment.task
    lineage = [_step(step) for step in assignment.lineage]
    siblings = [_sibling(sibling) for sibling in assignment.siblings]
    text = fenced(
        "attempt",
        [task.statement, *lineage, *siblings],
        statement=Foreign(task.statement),
        direction=task.direction.value,
        files=task.files,
        root_score=assignment.root_score,
        lineage=[Foreign(line) for line in lineage],
        siblings=[Foreign(line) for line in siblings],
    )
    return f"{assignment.strategy}\n\n{text}" if assignment.strategy else text


def _step(step: Step) -> str:
    return f"{step.attempt}: {step.status}, score {step.score}: {quoted(step.hypothesis, 500)}: {quoted(step.feedback, 1_000)}"


def _sibling(sibling: Sibling) -> str:
    said = quoted(sibling.hypothesis.sentence(), 500)
    return f"{sibling.attempt}: {sibling.state.value}, score {sibling.score}, {quoted(sibling.strategy, 100)}: {said}"

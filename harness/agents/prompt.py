"""What an agent is told of its attempt. Words of others come as data, in fences that they cannot close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.agents.base import SiblingState
from harness.propose.prompts.base import Foreign
from harness.propose.prompts.fence import quoted
from harness.propose.prompts.rendering import fenced

if TYPE_CHECKING:
    from harness.agents.base import Assignment, Sibling, Step


_STATES = {
    SiblingState.IN_FLIGHT: "under way, no score yet",
    SiblingState.SUCCEEDED: "succeeded",
    SiblingState.FAILED: "failed, no score",
}


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
    score = "no score" if step.score is None else f"score {step.score}"
    tried = quoted(step.hypothesis, 500) if step.hypothesis else "what it tried is not known"
    feedback = quoted(step.feedback, 1_000) if step.feedback else "no feedback"
    return f"{step.attempt}: {step.status}, {score}: {tried}: {feedback}"


def _sibling(sibling: Sibling) -> str:
    said = sibling.hypothesis.sentence()
    parts = [
        _STATES[sibling.state],
        "" if sibling.score is None else f"score {sibling.score}",
        "" if not sibling.strategy else f"its approach: {quoted(sibling.strategy, 100)}",
        "what it tries is not known" if not said else f"it sets out to try: {quoted(said, 500)}",
    ]
    return f"{sibling.attempt}: {', '.join(filter(None, parts))}"

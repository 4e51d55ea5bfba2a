"""A model that says what it is told to, and what tests of proposers share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness import check
from harness.models.base import Answer, Finish, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.models.base import Request
    from sandbox.api import Fault

POLICY = '''"""Continue what is open, a few at a time."""

WIDTH = 2
ROUNDS = 3


class Policy:
    """Opens what is open."""

    def __init__(self, context):
        self.limits = context.limits

    def decide(self, view):
        """Return the next batch."""
        if view.round > ROUNDS:
            return []
        open_ = [node_id for node_id in view.selectable if not view.nodes[node_id].closed]
        return open_[:WIDTH]
'''


def policy(width: int, rounds: int) -> str:
    """Return the policy with other constants."""
    return POLICY.replace("WIDTH = 2", f"WIDTH = {width}").replace("ROUNDS = 3", f"ROUNDS = {rounds}")


def whole(source: str, rationale: str = "because it opens more", lesson: str = "") -> str:
    """Write an answer with a whole file."""
    noted = f"<lesson>{lesson}</lesson>\n" if lesson else ""
    return f"<rationale>{rationale}</rationale>\n{noted}```python\n{source}```\n"


def block(search: str, put: str) -> str:
    """Write an answer with one block."""
    return f"<rationale>a small step</rationale>\n<<<<<<< SEARCH\n{search}\n=======\n{put}\n>>>>>>> REPLACE\n"


@dataclass
class Told:
    """Answers as told, one text for each request; an exception among them is raised. `requests` are those it got."""

    answers: Sequence[str | BaseException]
    name: str = "scripted:told"
    cost_usd: float | None = None
    finishes: dict[int, Finish] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def complete(self, request: Request) -> Answer:
        """Return the next answer."""
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self.answers):
            raise AssertionError(f"call {number + 1} was not expected")
        said = self.answers[number]
        if isinstance(said, BaseException):
            raise said
        usage = Usage(sum(len(message.text) for message in request.messages) // 4, len(said) // 4)
        return Answer(said, usage, self.cost_usd, self.finishes.get(number, Finish.STOP), 0.25, self.name)


def refuse(source: str) -> Fault | None:
    """Return why the static check does not let a source run."""
    return check.refusal(check.check(source))

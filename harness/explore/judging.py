"""A language model as the selector of rollouts: it reads what each try did, in an order drawn anew, and names one.

Scores are not shown to it and what an agent says of itself is data. An answer that names no try is worth nothing: the first
successful one is kept then, and the report says so. What it costs counts.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.explore.selectors import Choice, first_successful
from harness.models.base import Message, ModelError, Request, Role
from harness.propose.prompts.base import Foreign
from harness.propose.prompts.fence import shortened
from harness.propose.prompts.rendering import fenced
from sandbox.api import Cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.explore.selectors import Try
    from harness.models.base import Answer, Model

_OUTPUT_CHARACTERS = 6_000
_ANSWER_TOKENS = 2_048
_BEST = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class JudgeSelector:
    """Asks a model which try is best. `seed` draws the order in which it sees them."""

    model: Model
    statement: str
    seed: int
    timeout_s: float = 180.0

    def __call__(self, tries: Sequence[Try]) -> Choice:
        """Return the try that the model names, and what asking it cost."""
        good = [place for place, one in enumerate(tries) if one.succeeded]
        if len(good) < 2:  # noqa: PLR2004 - between fewer than two there is nothing to choose
            return Choice(good[0] if good else first_successful(tries))
        random.Random(self.seed).shuffle(good)  # noqa: S311 - an order, no secret
        request = Request(
            (Message(Role.USER, self._prompt([tries[place] for place in good])),),
            self.model.name,
            temperature=0.0,
            seed=self.seed,
            max_output_tokens=_ANSWER_TOKENS,
            timeout_s=self.timeout_s,
        )
        try:
            answer = self.model.complete(request)
        except ModelError as error:
            unknown = Cost(None, None, None) if error.billed else Cost(0.0, 0.0, 0.0)
            return Choice(first_successful(tries), f"the judge gave no answer ({error}); the first successful is kept", unknown)
        named = _named(answer.text, len(good))
        if named is None:
            words = f"the judge named no try ({shortened(answer.text, 80)!r}); the first successful is kept"
            return Choice(first_successful(tries), words, _cost(answer))
        return Choice(good[named], cost=_cost(answer))

    def _prompt(self, shown: Sequence[Try]) -> str:
        texts = [
            f"{shortened(one.output, _OUTPUT_CHARACTERS)}\n\nThe evaluator said: {one.feedback or '(nothing)'}" for one in shown
        ]
        return fenced(
            "judge-rollouts",
            [self.statement, *texts],
            statement=Foreign(self.statement),
            tries=[Foreign(text) for text in texts],
        )


def _named(text: str, count: int) -> int | None:
    """Return the place that an answer names, None where it names none; the last one that it says counts."""
    for said in reversed(_BEST.findall(text[-2_000:])):
        try:
            best = json.loads(said).get("best")
        except ValueError:
            continue
        if type(best) is int and 1 <= best <= count:
            return best - 1
    return None


def _cost(answer: Answer) -> Cost:
    tokens = (answer.usage.input_tokens, answer.usage.output_tokens)
    used = None if tokens[0] is None or tokens[1] is None else float(tokens[0] + tokens[1])
    return Cost(answer.latency_s, used, answer.cost_usd)

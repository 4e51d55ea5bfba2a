"""What an evaluator printed, believed word for word or not at all: one JSON object, every field checked, nothing guessed."""

from __future__ import annotations

import io
import math
from typing import Any

from harness import jsonlines
from harness.errors import TreeError
from harness.task.base import Assessment
from harness.tree import VIEWED_STATUSES
from sandbox.api import FEEDBACK_CHARACTERS, METRIC_CHARACTERS, METRICS

_FIELDS = ("score", "metrics", "feedback", "status", "terminal")


class BadAnswer(Exception):  # noqa: N818 - ends in a failed attempt, as a fault does
    """What is wrong with an evaluator's answer."""


def parse(text: str, seconds: float) -> Assessment:
    """Return the assessment that an evaluator printed.

    Raises:
        BadAnswer: it is not exactly one JSON object, or a field holds what it may not.
    """
    answer = _object_of(text)
    for name in answer:
        if name not in _FIELDS:
            raise BadAnswer(f"it holds {name[:40]!r}; expected {', '.join(_FIELDS)}")
    if "score" not in answer:
        raise BadAnswer("it holds no 'score'; expected a number, or null for an attempt without one")
    score = None if answer["score"] is None else _number("score", answer["score"])
    status = answer.get("status", "failed" if score is None else "ok")
    if not isinstance(status, str) or status not in VIEWED_STATUSES:
        raise BadAnswer(f"'status' is {jsonlines.shown(status)}; expected one of {', '.join(sorted(VIEWED_STATUSES))}")
    if (status == "ok") != (score is not None):
        raise BadAnswer(f"'status' is {status!r} and 'score' {score}; expected a score with 'ok' and none without it")
    feedback, terminal = answer.get("feedback", ""), answer.get("terminal", False)
    if not isinstance(feedback, str):
        raise BadAnswer(f"'feedback' is {jsonlines.shown(feedback)}; expected a string")
    if not isinstance(terminal, bool):
        raise BadAnswer(f"'terminal' is {jsonlines.shown(terminal)}; expected true or false")
    return Assessment(score, status, feedback[:FEEDBACK_CHARACTERS], _metrics(answer.get("metrics", {})), terminal, seconds)


def _object_of(text: str) -> dict[str, Any]:
    line = " ".join(text.split("\n")).strip()
    if not line:
        raise BadAnswer("it printed nothing")
    try:
        return next(jsonlines.objects("", io.BytesIO(line.encode()))).fields
    except TreeError as error:
        raise BadAnswer(str(error).removeprefix(":1: ")) from None


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadAnswer(f"{name!r} is {jsonlines.shown(value)}; expected a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadAnswer(f"{name!r} is {jsonlines.shown(value)}; expected a number in the range of a float")
    return number


def _metrics(value: Any) -> dict[str, float]:
    if not isinstance(value, dict) or len(value) > METRICS:
        raise BadAnswer(f"'metrics' is {jsonlines.shown(value)}; expected an object of at most {METRICS} numbers")
    for name in value:
        if not 0 < len(name) <= METRIC_CHARACTERS:
            raise BadAnswer(f"the name {jsonlines.shown(name)} of a metric has 0 or more than {METRIC_CHARACTERS} characters")
    return {name: _number(f"metrics.{name}", figure) for name, figure in value.items()}

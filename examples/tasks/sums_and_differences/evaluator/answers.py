"""Read an answer that a stranger wrote, and say what it is worth: strict JSON in, one line of JSON out.

Every example task has this file, the same to the byte. It is loaded from beside the evaluator and nowhere else: `python3 -I`
looks neither at the environment nor at the working directory.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

INPUTS = Path(os.environ["JOB_INPUTS"])
MOST_BYTES = 2**20
MOST_DIGITS = 400
SHOWN = 60


class RefusedError(Exception):
    """The answer breaks the rules of the task, or is none; the message says which rule and by how much."""

    def __init__(self, message: str, status: str = "invalid") -> None:
        super().__init__(message)
        self.status = status


def read_answer(name: str = "answer.json", most_bytes: int = MOST_BYTES) -> Any:
    """Return what a JSON file of the workspace holds.

    Raises:
        RefusedError: it is missing, too long, or no JSON as the standard has it.
    """
    try:
        with (INPUTS / "workspace" / name).open("rb") as file:
            raw = file.read(most_bytes + 1)
    except OSError:
        raise RefusedError(f"there is no file {name} in the workspace") from None
    if len(raw) > most_bytes:
        raise RefusedError(f"{name} has more than {most_bytes} bytes")
    try:
        return json.loads(
            raw.decode(), object_pairs_hook=_once, parse_constant=_constant, parse_float=_finite, parse_int=_integer
        )
    except RecursionError:
        raise RefusedError(f"{name} nests too deep") from None
    except UnicodeDecodeError:
        raise RefusedError(f"{name} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise RefusedError(f"{name} is no JSON: {error}") from None


def field(answer: Any, name: str) -> Any:
    """Return the one field that an answer is to hold."""
    if not isinstance(answer, dict) or list(answer) != [name]:
        raise RefusedError(f"the answer is {shown(answer)}; it must be an object with the field {name!r} and no other")
    return answer[name]


def numbers(value: Any, what: str) -> list[float | int]:
    """Return a list of finite numbers, each an int or a float and no bool."""
    if not isinstance(value, list):
        raise RefusedError(f"{what} is {shown(value)}; it must be a list of numbers")
    for place, number in enumerate(value):
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise RefusedError(f"{what} holds {shown(number)} at place {place}; it must hold numbers")
    return value


def shown(value: Any) -> str:
    """Return a value for a message, cut."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "something deep"
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def conclude(judge: Callable[[], tuple[float, dict[str, float], str]]) -> None:
    """Print what `judge` returns: score, metrics and feedback; or, where it refuses the answer, why."""
    try:
        score, metrics, feedback = judge()
        said = {"score": score, "metrics": metrics, "feedback": feedback}
    except RefusedError as refused:
        begin = "Refused" if refused.status == "invalid" else "No answer"
        said = {"score": None, "status": refused.status, "feedback": f"{begin}: {refused}."}
    print(json.dumps(said, allow_nan=False))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RefusedError("an object holds the same field twice")
    return found


def _constant(word: str) -> NoReturn:
    raise RefusedError(f"the answer holds {word}, which is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise RefusedError(f"the answer holds {digits[:SHOWN]}, which is out of the range of a float")
    return number


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise RefusedError(f"the answer holds a number of {len(digits)} digits; {MOST_DIGITS} are the most")
    return int(digits)

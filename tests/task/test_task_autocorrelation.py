"""Autocorrelation is scored in integers: known functions score what analysis says, tricks with floats gain nothing."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from exampletasks import FOLDER, assessed, start_of

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.job import Jobs

FIRST, THIRD = "autocorrelation_first", "autocorrelation_third"


def test_constant_function_scores_two_in_both(jobs: Jobs, tmp_path: Path) -> None:
    """With f = 1 on an interval of length 1/2: f*f has its maximum, 1/2, in the middle, and the integral's square is 1/4."""
    for task in (FIRST, THIRD):
        assert assessed(task, {"heights": [1, 1, 1, 1, 1]}, jobs, tmp_path).score == 2.0


def test_two_steps_score_what_a_hand_computes(local_jobs: Jobs, tmp_path: Path) -> None:
    """Heights 1 and 3: f*f is 1, 6, 9 at the knots, in units of the step width of 1/4; 2 * 2 * 9 / 16."""
    assert assessed(FIRST, {"heights": [1, 3]}, local_jobs, tmp_path).score == 2.25
    assert assessed(THIRD, {"heights": [-1, 3]}, local_jobs, tmp_path).score == 9.0
    assert assessed(THIRD, {"heights": [1, -3]}, local_jobs, tmp_path).score == 9.0


@pytest.mark.parametrize("task", [FIRST, THIRD])
def test_start_is_the_classical_function(task: str, jobs: Jobs, tmp_path: Path) -> None:
    """Its f*f is level on the left half; the score comes down to pi/2 as steps are added."""
    found = assessed(task, start_of(task), jobs, tmp_path)
    heights = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, 50))])

    assert found.score == pytest.approx(100 / heights.sum() ** 2, abs=1e-9)
    assert found.metrics["peaks"] == 50

    finer = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, 600))])
    score = assessed(task, {"heights": finer.tolist()}, jobs, tmp_path).score
    assert score == pytest.approx(math.pi / 2, abs=1e-3)


@pytest.mark.parametrize("task", [FIRST, THIRD])
def test_exact_score_is_that_of_a_convolution_and_no_scale_changes_it(task: str, local_jobs: Jobs, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    heights = rng.random(200) - (0.2 if task == THIRD else 0.0)
    expected = 400 * np.abs(np.convolve(heights, heights)).max() / heights.sum() ** 2
    score = assessed(task, {"heights": heights.tolist()}, local_jobs, tmp_path).score

    assert score == pytest.approx(expected, rel=1e-12)
    for power in (-900, 900):
        assert assessed(task, {"heights": (heights * 2.0**power).tolist()}, local_jobs, tmp_path).score == score


def test_heights_that_floats_would_lose_are_counted(local_jobs: Jobs, tmp_path: Path) -> None:
    """Squares of 1e-200 vanish as floats, and f*f would look flatter than it is."""
    found = assessed(FIRST, {"heights": [1e-200, 1e-200, 1e-200, 5e-324]}, local_jobs, tmp_path)

    assert found.score == pytest.approx(8 / 3, rel=1e-12)


def test_signed_function_whose_integral_nearly_vanishes_has_a_large_score(local_jobs: Jobs, tmp_path: Path) -> None:
    found = assessed(THIRD, {"heights": [1.0, -1.0 + 2**-53]}, local_jobs, tmp_path)

    assert found.score is not None
    assert found.score > 1e32


CHEATS: dict[str, tuple[str, Any, str]] = {
    "negative, first": (FIRST, {"heights": [1, 1, -5e-324]}, "f is negative at step 2"),
    "negative beyond floats": (FIRST, '{"heights": [1, -1' + "0" * 390 + "]}", "f is negative at step 1: -1000"),
    "minus zero is zero": (FIRST, {"heights": [-0.0, 0.0]}, "integral of f is exactly zero"),
    "no integral, third": (THIRD, {"heights": [1, -1, 0.5, -0.5]}, "integral of f is exactly zero"),
    "integral next to nothing": (THIRD, {"heights": [1e200, -1e200, 5e-324]}, "out of the range of a float"),
    "not a number": (THIRD, '{"heights": [1, NaN]}', "holds NaN"),
    "infinite": (FIRST, '{"heights": [1, -Infinity]}', "holds -Infinity"),
    "beyond floats": (FIRST, '{"heights": [1, 1e400]}', "1e400, which is out of the range of a float"),
    "true for 1": (FIRST, {"heights": [1, True]}, "holds true at place 1"),
    "a list in the list": (FIRST, {"heights": [[1, 1]]}, "holds [1, 1] at place 0"),
    "one step": (FIRST, {"heights": [1]}, "lists 1 steps"),
    "601 steps": (THIRD, {"heights": [1] * 601}, "lists 601 steps"),
    "an object": (THIRD, {"heights": {"0": 1}}, "must be a list of numbers"),
    "field twice": (FIRST, '{"heights": [1, 1], "heights": [1, 2]}', "the same field twice"),
    "score of its own": (FIRST, {"heights": [1, 1], "score": 1.0}, "and no other"),
    "deep": (THIRD, '{"heights": ' + "[" * 100_000 + "]" * 100_000 + "}", "nests too deep"),
    "huge": (FIRST, json.dumps({"heights": [0.123456789] * 200_000}), "more than 1048576 bytes"),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheating_answer_has_no_score_and_is_told_why(cheat: str, jobs: Jobs, tmp_path: Path) -> None:
    task, answer, words = CHEATS[cheat]
    found = assessed(task, answer, jobs, tmp_path)

    assert (found.score, found.status, found.metrics) == (None, "invalid", {})
    assert words in found.feedback


def test_both_inequalities_are_one_program() -> None:
    first, third = ((FOLDER / task / "evaluator" / "evaluate.py").read_bytes() for task in (FIRST, THIRD))

    assert first == third

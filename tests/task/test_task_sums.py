"""Sums and differences are counted one by one: constructions with a known count score by their formula."""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from exampletasks import assessed, start_of

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.job import Jobs

TASK = "sums_and_differences"


def theta(sums: int, differences: int, largest: int) -> float:
    return 1 + math.log(differences / sums) / math.log(2 * largest + 1)


def lattice(dimension: int, total: int, most: int) -> list[int]:
    """Return { x : sum of x <= total, each x <= most } as integers in a base that keeps sums and differences apart."""
    points = (x for x in itertools.product(range(most + 1), repeat=dimension) if sum(x) <= total)
    return sorted(sum(value * (2 * most + 1) ** place for place, value in enumerate(x)) for x in points)


def test_interval_gains_nothing(jobs: Jobs, tmp_path: Path) -> None:
    found = assessed(TASK, {"set": list(range(50))}, jobs, tmp_path)

    assert (found.score, found.metrics["sums"], found.metrics["differences"]) == (1.0, 99, 99)


def test_start_is_the_smallest_set_whose_differences_are_all_different(jobs: Jobs, tmp_path: Path) -> None:
    assert assessed(TASK, start_of(TASK), jobs, tmp_path).score == pytest.approx(theta(6, 7, 3), abs=1e-12)


@pytest.mark.parametrize(
    "ruler",
    [
        [0, 1, 4, 9, 11],
        [0, 1, 6, 10, 23, 26, 34, 41, 53, 55],
        # Singer's perfect difference set of order 16: every residue modulo 273 but 0 is a difference exactly once.
        [1, 2, 4, 8, 16, 32, 64, 91, 117, 128, 137, 182, 195, 205, 234, 239, 256],
    ],
)
def test_set_with_all_differences_different_scores_by_its_size(ruler: list[int], local_jobs: Jobs, tmp_path: Path) -> None:
    """There are n (n - 1) + 1 differences and n (n + 1) / 2 sums; where the set begins does not matter."""
    n, span = len(ruler), max(ruler) - min(ruler)
    expected = theta(n * (n + 1) // 2, n * (n - 1) + 1, span)

    for shift in (0, -1000, 10**300):
        found = assessed(TASK, {"set": [element + shift for element in ruler]}, local_jobs, tmp_path)
        assert found.score == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("dimension", "total"), [(2, 3), (4, 3), (6, 2)])
def test_simplex_has_the_counts_of_its_formula(dimension: int, total: int, local_jobs: Jobs, tmp_path: Path) -> None:
    """V + V holds the points up to twice the total; V - V chooses which coordinates are above 0 and fills both signs."""
    found = assessed(TASK, {"set": lattice(dimension, total, total)}, local_jobs, tmp_path)
    differences = sum(
        math.comb(dimension, above) * math.comb(total, above) * math.comb(total + dimension - above, dimension - above)
        for above in range(dimension + 1)
    )

    assert found.metrics["sums"] == math.comb(2 * total + dimension, dimension)
    assert found.metrics["differences"] == differences


def test_large_construction_comes_near_the_best_known(jobs: Jobs, tmp_path: Path) -> None:
    """785 integers in seven dimensions, more than halfway from the start to the best that is known for sets of this size."""
    found = assessed(TASK, {"set": lattice(7, 5, 4)}, jobs, tmp_path)

    assert found.score == pytest.approx(1.117990843, abs=1e-9)


def test_elements_may_have_hundreds_of_digits(local_jobs: Jobs, tmp_path: Path) -> None:
    """Powers of 3 keep all sums and differences apart."""
    powers = [3**place for place in range(1, 800, 100)]
    found = assessed(TASK, {"set": powers}, local_jobs, tmp_path)

    assert (found.metrics["sums"], found.metrics["differences"]) == (36, 57)
    assert found.score == pytest.approx(1 + math.log(57 / 36) / math.log(2 * (powers[-1] - powers[0]) + 1), abs=1e-12)


CHEATS: dict[str, tuple[Any, str]] = {
    "an element twice": ({"set": [0, 5, 5]}, "holds 5 twice"),
    "floats": ({"set": [0, 1.0, 3]}, "holds 1.0 at place 1"),
    "floats beyond integers": ('{"set": [0, 1e400]}', "out of the range of a float"),
    "true for 1": ({"set": [0, True]}, "holds true at place 1"),
    "strings": ({"set": ["0", "1"]}, 'holds "0" at place 0'),
    "not a number": ('{"set": [0, NaN]}', "holds NaN"),
    "one element": ({"set": [0]}, "this is 1 elements"),
    "too many": ({"set": list(range(2049))}, "this is 2049 elements"),
    "no list": ({"set": 7}, "this is 7"),
    "thousands of digits": ('{"set": [0, 1' + "0" * 5000 + "]}", "a number of 5001 digits"),
    "its own counts": ({"set": [0, 1], "differences": 9}, "and no other"),
    "field twice": ('{"set": [0, 1], "set": [0, 1, 3]}', "the same field twice"),
    "deep": ("[" * 100_000, "nests too deep"),
    "huge": (json.dumps({"set": [10**300 + number for number in range(4000)]}), "more than 1048576 bytes"),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheating_answer_has_no_score_and_is_told_why(cheat: str, jobs: Jobs, tmp_path: Path) -> None:
    answer, words = CHEATS[cheat]
    found = assessed(TASK, answer, jobs, tmp_path)

    assert (found.score, found.status, found.metrics) == (None, "invalid", {})
    assert words in found.feedback

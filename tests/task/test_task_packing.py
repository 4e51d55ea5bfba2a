"""Circle packing is scored exactly: the best packing known scores its published sum, and the last bit of an overlap counts."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from exampletasks import assessed, start_of
from scipy.optimize import linprog, minimize

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.job import Jobs

TASK = "circle_packing"
BEST_KNOWN = 2.635983
CENTRES = """
0.111156179 0.111156179  0.317919957 0.096151334  0.517404418 0.103467233  0.403957298 0.273094286  0.915073738 0.084926262
0.093927337 0.500571631  0.237041136 0.240647598  0.257950557 0.404780267  0.726047160 0.105182560  0.866741427 0.297690475
0.092592095 0.314056978  0.257582950 0.596641216  0.402365204 0.728370149  0.470036580 0.501331924  0.618334156 0.297390396
0.921139627 0.502715554  0.092391552 0.686884190  0.236326431 0.760289472  0.613076447 0.705253941  0.724657383 0.504468239
0.915360499 0.915360499  0.110779013 0.889220987  0.316741465 0.904267671  0.515399197 0.896939480  0.869778899 0.705390511
0.725216717 0.893209855
"""


def settled() -> np.ndarray:
    """Return the best packing known, settled to the precision of a float from the nine digits above."""
    centres = np.array(CENTRES.split(), dtype=float).reshape(-1, 2)
    first, second = np.triu_indices(26, 1)
    spread = np.zeros((len(first), 26))
    spread[np.arange(len(first)), first] = spread[np.arange(len(first)), second] = 1.0
    walls = np.minimum(centres, 1 - centres).min(axis=1)
    lengths = np.hypot(*(centres[first] - centres[second]).T)
    radii = linprog(-np.ones(26), A_ub=spread, b_ub=lengths, bounds=np.column_stack([np.zeros(26), walls])).x

    def slack(x: np.ndarray) -> np.ndarray:
        c = x.reshape(-1, 3)
        gaps = np.hypot(*(c[first, :2] - c[second, :2]).T) - c[first, 2] - c[second, 2]
        return np.concatenate([gaps, (c[:, :2] - c[:, 2:]).ravel(), (1 - c[:, :2] - c[:, 2:]).ravel()])

    begin = np.column_stack([centres, radii]).ravel()
    cost = np.tile([0.0, 0.0, -1.0], 26)
    constraints = {"type": "ineq", "fun": slack}
    solved = minimize(
        lambda x: cost @ x, begin, jac=lambda _: cost, constraints=constraints, method="SLSQP", options={"ftol": 1e-15}
    )
    circles = solved.x.reshape(-1, 3).copy()
    circles[:, 2] -= 1e-12 + max(0.0, -float(slack(solved.x).min()))
    return circles


def spaced() -> list[list[float]]:
    """Return 26 small circles that touch nothing, in binary fractions."""
    return [[(1 + 2 * (place % 6)) / 16, (1 + 2 * (place // 6)) / 16, 1 / 32] for place in range(26)]


def test_best_packing_known_scores_its_published_sum(jobs: Jobs, tmp_path: Path) -> None:
    found = assessed(TASK, {"circles": settled().tolist()}, jobs, tmp_path)

    assert found.status == "ok", found.feedback
    assert found.score == pytest.approx(BEST_KNOWN, abs=1e-6)
    assert found.metrics["contacts"] >= 2 * 26


def test_start_scores_what_geometry_says(jobs: Jobs, tmp_path: Path) -> None:
    found = assessed(TASK, start_of(TASK), jobs, tmp_path)

    assert found.score == pytest.approx(2.5 + 0.1 * (math.sqrt(2) - 1), abs=1e-6)


def test_circles_may_touch_in_exact_numbers(local_jobs: Jobs, tmp_path: Path) -> None:
    circles = spaced()
    for row in circles:
        row[2] = 1 / 16
    found = assessed(TASK, {"circles": circles}, local_jobs, tmp_path)

    assert (found.score, found.status) == (26 / 16, "ok")


def changed(place: int, column: int, value: Any) -> dict[str, Any]:
    circles: list[list[Any]] = [list(row) for row in spaced()]
    circles[place][column] = value
    return {"circles": circles}


def one_ulp_of_overlap() -> dict[str, Any]:
    circles = spaced()
    circles[7][2] = circles[8][2] = 1 / 16
    circles[8][2] = math.nextafter(1 / 16, 1)
    return {"circles": circles}


CHEATS: dict[str, tuple[Any, str]] = {
    "pokes out by one ulp": (
        changed(0, 2, math.nextafter(1 / 16, 1)),
        "circle 0 pokes out of the square at the left by 1.39e-17",
    ),
    "overlaps by one ulp": (one_ulp_of_overlap(), "circles 7 and 8 overlap by 1.39e-17"),
    "not a number": (json.dumps(changed(3, 2, math.nan)), "holds NaN"),
    "infinite": (json.dumps(changed(3, 2, math.inf)), "holds Infinity"),
    "beyond floats": (json.dumps(changed(3, 2, 77)).replace("77", "1e400"), "1e400, which is out of the range"),
    "beyond floats, whole": (
        json.dumps(changed(3, 2, 77)).replace("77", "9" * 350),
        "pokes out of the square at the left by more than",
    ),
    "thousands of digits": (json.dumps(changed(3, 2, 77)).replace("77", "9" * 9000), "a number of 9000 digits"),
    "negative radius": (changed(3, 2, -0.5), "circle 3 has the radius -0.5"),
    "the wall's other side": (changed(3, 0, -0.5), "circle 3 pokes out of the square at the left by 0.531"),
    "true for 1": (changed(3, 2, True), "circle 3 holds true at place 2"),
    "a number as a string": (changed(3, 2, "0.5"), 'circle 3 holds "0.5" at place 2'),
    "four numbers": ({"circles": [[0.5, 0.5, 0.1, 0.1], *spaced()[1:]]}, "circle 0 holds 4 numbers"),
    "27 circles": ({"circles": [*spaced(), [0.9, 0.9, 0.01]]}, "a list of 26 circles; this is 27"),
    "all in one place": ({"circles": [[0.5, 0.5, 0.4]] * 26}, "circles 0 and 1 overlap by 0.8"),
    "another field": (spaced(), "must be an object with the field 'circles'"),
    "a score of its own": ({"circles": spaced(), "score": 9.0}, "must be an object with the field 'circles' and no other"),
    "the field twice": (
        '{"circles": [], "circles": ' + json.dumps(spaced()) + "}",
        "an object holds the same field twice",
    ),
    "deep": ("[" * 200_000 + "]" * 200_000, "nests too deep"),
    "as deep as can be read": ('{"circles": ' + "[" * 900 + "]" * 900 + "}", "'circles' must be a list of 26 circles; this is 1"),
    "huge": ('{"circles": [' + "0.1," * 400_000 + "0.1]}", "more than 1048576 bytes"),
    "no JSON": ('{"score": 2.7}\n{"score": 2.8}', "is no JSON"),
    "empty": ("", "is no JSON"),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheating_answer_has_no_score_and_is_told_why(cheat: str, jobs: Jobs, tmp_path: Path) -> None:
    answer, words = CHEATS[cheat]
    found = assessed(TASK, answer, jobs, tmp_path)

    assert (found.score, found.status, found.metrics) == (None, "invalid", {})
    assert words in found.feedback

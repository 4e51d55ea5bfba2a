"""The example trees: evaluators that cannot be talked into a score, a search that repeats to the bit, and the records of it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import measure
import numpy as np
import pytest

from harness import treefile
from search import autocorrelation, packing
from search.agent import attempt
from search.autocorrelation_task import AutocorrelationTask
from search.base import AnswerFault, Task
from search.recording import TASK_NAMES, TASKS, Order, record, shape_of
from search.schedule import Shape

EXAMPLES = Path(__file__).parents[1] / "examples"
COMMITTED = sorted((EXAMPLES / "trees").rglob("*.jsonl"))
FIELDS = ["id", "parent", "score", "status", "metrics", "feedback", "hypothesis", "cost", "created_at"]

BEST_KNOWN = 2.635983
BEST_PACKING = """
0.111156179 0.111156179  0.317919957 0.096151334  0.517404418 0.103467233  0.403957298 0.273094286  0.915073738 0.084926262
0.093927337 0.500571631  0.237041136 0.240647598  0.257950557 0.404780267  0.726047160 0.105182560  0.866741427 0.297690475
0.092592095 0.314056978  0.257582950 0.596641216  0.402365204 0.728370149  0.470036580 0.501331924  0.618334156 0.297390396
0.921139627 0.502715554  0.092391552 0.686884190  0.236326431 0.760289472  0.613076447 0.705253941  0.724657383 0.504468239
0.915360499 0.915360499  0.110779013 0.889220987  0.316741465 0.904267671  0.515399197 0.896939480  0.869778899 0.705390511
0.725216717 0.893209855
"""


def grid(radius: float = 0.0) -> np.ndarray:
    """Return five rows of five circles and one in a hole between them."""
    points = [((i + 0.5) / 5, (j + 0.5) / 5, radius) for i in range(5) for j in range(5)]
    return np.array([*points, (0.4, 0.4, 0.0)])


def steps(*heights: float) -> np.ndarray:
    return np.array(heights, dtype=float)


# Circle packing


def test_packing_of_one_and_two_circles_scores_its_proved_optimum() -> None:
    corner = (2 - math.sqrt(2)) / 2

    assert packing.evaluate(np.array([[0.5, 0.5, 0.0]]), circles=1).score == pytest.approx(0.5, abs=1e-12)
    two = np.array([[corner, corner, 0.0], [1 - corner, 1 - corner, 0.0]])
    assert packing.evaluate(two, circles=2).score == pytest.approx(2 - math.sqrt(2), abs=1e-9)


def test_grid_with_a_circle_in_a_hole_scores_what_geometry_says() -> None:
    assert packing.evaluate(grid()).score == pytest.approx(2.5 + 0.1 * (math.sqrt(2) - 1), abs=1e-9)


def test_best_packing_known_scores_its_published_sum() -> None:
    """Centres alone, found by this search in a longer run; the radii are the evaluator's."""
    centres = np.array(BEST_PACKING.split(), dtype=float).reshape(26, 2)

    assert packing.evaluate(np.column_stack([centres, np.zeros(26)])).score == pytest.approx(BEST_KNOWN, abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_scored_radii_never_overlap(seed: int) -> None:
    """Whatever the centres, two of them nearly in one place included, the radii that count fit in plain float arithmetic."""
    centres = np.random.default_rng(seed).random((26, 2))
    centres[1] = centres[0] + 1e-12
    radii = packing.best_radii(centres)

    gaps = [
        math.dist(centres[i], centres[j]) - radii[i] - radii[j] for i in range(26) for j in range(i) if radii[i] + radii[j] > 0
    ]
    assert min(gaps) >= -1e-15
    assert min((min(x, y, 1 - x, 1 - y) - r) for (x, y), r in zip(centres, radii, strict=True)) >= -1e-15
    assert radii.sum() > 0.5


def test_overlap_within_rounding_is_forgiven_and_earns_nothing() -> None:
    """Radii that are too large by what the claim check lets pass score the same as no radii at all."""
    swollen = grid(radius=0.1 + 4e-7)

    assert packing.evaluate(swollen).score == packing.evaluate(grid()).score


def _with(row: int, column: int, value: float) -> np.ndarray:
    answer = grid(radius=0.1)
    answer[row, column] = value
    return answer


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (grid(radius=0.1 + 1e-6), "overlap or leave the square by 2e-06"),
        (_with(25, 2, 0.05), "overlap or leave the square by 0.0086"),
        (_with(3, 0, math.nan), "finite"),
        (_with(3, 2, math.inf), "finite"),
        (_with(7, 1, -1e-12), "the centre of circle 7 lies outside"),
        (_with(7, 0, 1.0000001), "the centre of circle 7 lies outside"),
        (_with(4, 2, -0.1), "circle 4 has a negative radius"),
        (grid()[:25], "26 rows"),
        (np.vstack([grid(), grid()[:1]]), "26 rows"),
        (grid()[:, :2], "26 rows"),
        (grid().ravel(), "26 rows"),
    ],
)
def test_packing_that_breaks_the_rules_is_refused(answer: np.ndarray, reason: str) -> None:
    with pytest.raises(AnswerFault, match=reason):
        packing.evaluate(answer)


# Autocorrelation inequalities


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("count", [2, 7, 50, 2000])
def test_constant_function_scores_two(count: int, signed: bool) -> None:
    assert autocorrelation.evaluate(np.full(count, 0.3), signed=signed).score == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize(
    "task", [AutocorrelationTask(signed=False), AutocorrelationTask(signed=True)], ids=lambda task: task.name
)
def test_root_is_the_classical_function(task: AutocorrelationTask) -> None:
    """Heights C(2i, i) / 4^i square to 1, 1, 1, ...: the score follows in closed form and tends to pi / 2."""
    integral = 2 * 50 * math.comb(100, 50) / 4**50

    assert task.root().score == pytest.approx(2 * 50 / integral**2, rel=1e-12)
    assert task.root().score == pytest.approx(math.pi / 2, abs=0.01)


@pytest.mark.parametrize("signed", [False, True])
def test_score_equals_exact_rational_arithmetic(signed: bool) -> None:
    heights = np.random.default_rng(5).random(40) - (0.3 if signed else 0.0)
    exact = [Fraction(float(height)) for height in heights]
    squares = [sum(exact[i] * exact[k - i] for i in range(max(0, k - 39), min(k, 39) + 1)) for k in range(79)]
    peak = max(abs(square) for square in squares) if signed else max(squares)

    assert autocorrelation.evaluate(heights, signed=signed).score == pytest.approx(float(80 * peak / sum(exact) ** 2), rel=1e-12)


def test_signed_inequality_counts_the_deepest_valley_too() -> None:
    """The squares of 10, -9, 0.5 are 100, -180, 91, -9, 0.25."""
    assert autocorrelation.evaluate(steps(10, -9, 0.5), signed=True).score == pytest.approx(2 * 3 * 180 / 1.5**2)


@pytest.mark.parametrize("seed", range(20))
def test_no_nonnegative_function_beats_the_proved_lower_bound(seed: int) -> None:
    """Cloninger and Steinerberger: no f >= 0 scores below 1.28."""
    rng = np.random.default_rng(seed)
    assert autocorrelation.evaluate(rng.random(int(rng.integers(2, 200))) ** rng.integers(1, 9), signed=False).score >= 1.28


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e-10, 1e150, 1e300])
def test_size_of_the_function_changes_nothing(size: float) -> None:
    """Squares that leave the range of floats would make f * f vanish, or make everything infinite."""
    assert autocorrelation.evaluate(steps(3, 1, 3) * size, signed=False).score == pytest.approx(6 * 19 / 7**2)


@pytest.mark.parametrize(
    ("answer", "signed", "reason"),
    [
        (steps(1, -1e-300, 1), False, "negative at step 1"),
        (steps(1, math.nan, 1), True, "finite"),
        (steps(1, math.inf), False, "finite"),
        (steps(0, 0, 0), False, "zero everywhere"),
        (steps(1, -2), True, "clearly positive"),
        (steps(1, -1), True, "clearly positive"),
        (steps(1, -1 + 1e-9), True, "clearly positive"),
        (steps(1), False, "2 to 2000 heights"),
        (steps(), True, "2 to 2000 heights"),
        (np.ones(2001), False, "2 to 2000 heights"),
        (np.ones((5, 5)), False, "2 to 2000 heights"),
    ],
)
def test_function_that_breaks_the_rules_is_refused(answer: np.ndarray, signed: bool, reason: str) -> None:
    with pytest.raises(AnswerFault, match=reason):
        autocorrelation.evaluate(answer, signed=signed)


# The search


def test_attempt_that_wants_more_work_than_it_may_do_is_a_timeout_without_a_score() -> None:
    class Hurried(AutocorrelationTask):
        effort = 0.5

    made = attempt(Hurried(signed=False), None, [1])

    assert (made.status, made.score, made.state.answer) == ("timeout", None, None)
    assert "more than 0.5 units of solver work" in made.feedback


def test_child_of_a_failed_attempt_starts_from_the_last_answer_that_passed() -> None:
    class Hurried(AutocorrelationTask):
        effort = 0.5

    first = attempt(AutocorrelationTask(signed=False), None, [1])
    failed = attempt(Hurried(signed=False), first.state, [2])
    child = attempt(AutocorrelationTask(signed=False), failed.state, [3])

    assert failed.score is None
    assert f"from {first.score:.6f}" in child.hypothesis


@pytest.mark.parametrize("task", TASK_NAMES[1:])
def test_order_of_attempts_changes_none_of_them(task: str) -> None:
    """Two schedulers take one search through its places in different orders and find the same: a replay of it is exact."""

    def found(scheduler: str) -> tuple[list[str | None], dict[tuple[int, int], tuple[float | None, str]]]:
        rows = record(Order(task, 7, 0), Shape(lines=3, depth=2, attempts=6, scheduler=scheduler))[1:]
        places: dict[str, tuple[int, int]] = {}
        for row in rows:
            line, depth = places.get(row["parent"], (sum(place[1] == 0 for place in places.values()), -1))
            places[row["id"]] = (line, depth + 1)
        return [row["parent"] for row in rows], {places[row["id"]]: (row["score"], row["feedback"]) for row in rows}

    order, outcomes = found("breadth")
    other_order, other_outcomes = found("patient")
    assert order != other_order
    assert outcomes == other_outcomes
    assert len(outcomes) == 6


def recorded(folder: Path, *more: str, threads: str = "1") -> subprocess.CompletedProcess[str]:
    """Run the command that records trees, with the environment asking for `threads` of each library."""
    command = [sys.executable, str(EXAMPLES / "record.py"), "--out", str(folder), "--trees", "1", "--workers", "1", *more]
    wishes = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), threads)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | wishes)


def rows_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_same_seed_gives_the_same_scores_to_the_bit_in_another_process(tmp_path: Path) -> None:
    """All fields but seconds and times, also when the environment asks for more threads."""
    done = recorded(tmp_path, "--attempts", "5", threads="4")
    assert (done.returncode, done.stderr) == (0, "")

    for task in TASK_NAMES:
        order = Order(task, 1, 0, attempts=5)
        one, other = record(order, shape_of(order)), rows_of(tmp_path / task / f"{order.name}.jsonl")
        for row in one + other:
            for changing in ("created_at", "cost"):
                row.pop(changing, None)
        assert len(one) == 6
        assert one == other
        committed = rows_of(EXAMPLES / "trees" / task / f"{order.name}.jsonl")
        assert one[1]["hypothesis"] == committed[1]["hypothesis"], "the generator has changed: record the trees again"


def test_command_refuses_to_overwrite_and_names_the_file(tmp_path: Path) -> None:
    there = tmp_path / TASK_NAMES[1] / f"{TASK_NAMES[1]}-s1-00.jsonl"
    there.parent.mkdir()
    there.write_text("precious")

    refused = recorded(tmp_path, "--task", TASK_NAMES[1], "--attempts", "2")
    assert refused.returncode == 2
    assert str(there) in refused.stderr
    assert "--force" in refused.stderr
    assert there.read_text() == "precious"

    forced = recorded(tmp_path, "--task", TASK_NAMES[1], "--attempts", "2", "--force")
    assert forced.returncode == 0
    assert [path.name for path in there.parent.iterdir()] == [there.name]
    assert len(rows_of(there)) == 3


def test_command_refuses_a_file_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")

    refused = recorded(tmp_path / "out")
    assert refused.returncode == 2
    assert "must name a folder" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("wrong", [("--workers", "0"), ("--seed", "x")])
def test_command_refuses_a_wrong_option(tmp_path: Path, wrong: tuple[str, str]) -> None:
    refused = recorded(tmp_path / "out", *wrong)

    assert refused.returncode == 2
    assert wrong[0] in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "out").exists()


# What is committed


def test_committed_trees_are_many_and_small() -> None:
    assert Counter(path.parent.name for path in COMMITTED) == dict.fromkeys(TASK_NAMES, len(COMMITTED) // 3)
    assert len(COMMITTED) >= 36
    assert sum(path.stat().st_size for path in COMMITTED) < 3_000_000


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_tree_holds_what_its_header_and_format_promise(path: Path) -> None:
    header, *nodes = rows_of(path)
    task = next(task for task in TASKS if task.name == header["task"])

    assert (header["format"], header["name"], header["frontier"]) == ("discovery-tree/1", path.stem, "leaf")
    assert (header["task"], header["direction"]) == (path.parent.name, task.direction)
    assert header["source"]["system"] == "dream-harness-example"
    assert header["root"]["metrics"]["start_score"] == pytest.approx(task.root().score, rel=1e-9)
    assert len(nodes) >= 60
    assert len({node["parent"] for node in nodes if node["parent"]}) == sum(bool(node["parent"]) for node in nodes)
    assert 8 <= sum(node["parent"] is None for node in nodes) <= 12
    for node in nodes:
        assert list(node) == FIELDS
        assert (node["score"] is None) == (node["status"] != "ok")
        assert node["status"] in {"ok", "failed", "invalid", "timeout"}
        assert all(math.isfinite(figure) for figure in node["metrics"].values())
        assert node["cost"]["seconds"] >= 0
        assert 0 < len(node["hypothesis"]) <= 500
        assert 0 < len(node["feedback"]) <= 2000


def test_committed_trees_hold_failures_of_every_kind_but_few() -> None:
    statuses = Counter(str(node["status"]) for path in COMMITTED for node in rows_of(path)[1:])

    assert set(statuses) == {"ok", "failed", "invalid", "timeout"}
    assert statuses["ok"] / statuses.total() > 0.9


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_family_and_operator_is_at_work_in_the_committed_trees(task: Task) -> None:
    """None is a dead end that only ever times out or breaks the rules."""
    said = [
        str(node["hypothesis"])
        for path in COMMITTED
        if path.parent.name == task.name
        for node in rows_of(path)[1:]
        if node["status"] == "ok"
    ]

    for family in task.families:
        assert any(line.startswith(f"Open a line from the family '{family}'") for line in said)
    for operator in task.operators:
        assert any(operator in line for line in said)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_harness_loads_committed_tree(path: Path) -> None:
    tree = treefile.read(path)

    assert tree.name == path.stem
    assert len(tree.attempts) == len(rows_of(path)) - 1
    assert (tree.root.score is None) == (tree.task == "circle-packing-26")


def test_readme_shows_what_measuring_the_committed_trees_prints(capsys: pytest.CaptureFixture[str]) -> None:
    measure.print_all(EXAMPLES / "trees")

    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert len(tables) == 4
    for table in tables:
        assert table in readme


@pytest.mark.parametrize("task", TASK_NAMES)
def test_first_attempt_leaves_most_trees_something_to_win(task: str) -> None:
    """The floor is near enough to the first attempts that quality does not begin at its end."""
    reached = []
    for tree in (treefile.read(path) for path in COMMITTED if path.parent.name == task):
        first = tree.floor if tree.scores[1] is None else max(tree.floor, tree.scores[1])
        reached.append((first - tree.floor) / (tree.top - tree.floor))

    assert 0.2 < float(np.mean(reached)) < 0.75

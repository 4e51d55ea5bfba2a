"""Score a Lasso solver by its work: how many coordinate updates it needs for whole regularisation paths at a fixed accuracy.

The solver has run in a job of its own and left `answer.json`: for every instance and every penalty, the coordinates that it
minimised in turn. These exact minimisations are made again here, each path beginning at 0 and each penalty where the one before
ended. After the last update of a penalty the duality gap is computed in fractions; too large a gap, and there is no score.
"""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from math import fsum
from operator import mul
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

from answers import INPUTS, RefusedError, conclude, field, read_answer, shown

MOST_UPDATES = 500_000
MOST_BYTES = 2**22
TAIL = 600
NEARLY = 1.01

Path_ = list[list[int]]


class Problem:
    """One instance: min 1/2 |y - X b|^2 + penalty |b|_1, with the residual kept up to date."""

    def __init__(self, instance: dict[str, Any]) -> None:
        self.whole_columns: list[list[int]] = [list(column) for column in zip(*instance["x"], strict=True)]
        self.whole_y: list[int] = instance["y"]
        self.lambdas: list[int] = instance["lambdas"]
        self.columns = [list(map(float, column)) for column in self.whole_columns]
        self.squares = [fsum(map(mul, column, column)) for column in self.columns]
        self.residual = list(map(float, self.whole_y))
        self.b = [0.0] * len(self.columns)

    def minimise(self, place: int, penalty: float) -> None:
        """Set one coordinate to where the objective is smallest along it."""
        column, square, before = self.columns[place], self.squares[place], self.b[place]
        slope = fsum(map(mul, column, self.residual)) + square * before
        after = (max(slope - penalty, 0.0) + min(slope + penalty, 0.0)) / square
        if after != before:
            step = after - before
            self.residual = [value - step * entry for value, entry in zip(self.residual, column, strict=True)]
            self.b[place] = after

    def rough_gap(self, penalty: float) -> float:
        """Return the duality gap as `gap` does, rounded, in a third of the time."""
        residual, y = self.residual, self.whole_y
        steepest = max(abs(fsum(map(mul, column, residual))) for column in self.columns)
        shrink = min(1.0, penalty / steepest) if steepest else 1.0
        square = 0.5 * fsum(map(mul, residual, residual))
        primal = square + penalty * fsum(map(abs, self.b))
        return (primal - shrink * fsum(map(mul, residual, y)) + shrink * shrink * square) / (0.5 * fsum(map(mul, y, y)))

    def gap(self, penalty: int) -> Fraction:
        """Return the duality gap as a share of half the square of y, without rounding: from the coefficients alone."""
        used = [(Fraction(value), column) for value, column in zip(self.b, self.whole_columns, strict=True) if value]
        scale = math.lcm(*(value.denominator for value, _ in used))
        residual = [scale * value for value in self.whole_y]
        for value, column in used:
            multiple = value.numerator * (scale // value.denominator)
            residual = [left - multiple * entry for left, entry in zip(residual, column, strict=True)]
        steepest = max(abs(sum(map(mul, column, residual))) for column in self.whole_columns)
        shrink = min(Fraction(1), Fraction(penalty * scale, steepest)) if steepest else Fraction(1)
        square = Fraction(sum(map(mul, residual, residual)), 2 * scale**2)
        primal = square + penalty * sum((abs(value) for value, _ in used), Fraction(0))
        dual = shrink * Fraction(sum(map(mul, residual, self.whole_y)), scale) - shrink**2 * square
        return (primal - dual) / Fraction(sum(map(mul, self.whole_y, self.whole_y)), 2)


def refuse_failed_run(run: dict[str, Any]) -> None:
    """Refuse what a solver left that did not come to its end."""
    tail = run["stderr"].strip()[-TAIL:]
    if run["timed_out"]:
        raise RefusedError(f"the solver ran out of {run['timed_out']} time after {run['cpu_s']:.1f} s of CPU time", "timeout")
    if run["exit_code"] != 0:
        raise RefusedError(f"the solver ended with exit code {run['exit_code']}: {tail}", "failed")


def paths_of(value: object, problems: list[Problem]) -> list[Path_]:
    """Return the updates that an answer lists, by instance and penalty."""
    if not isinstance(value, list) or len(value) != len(problems):
        raise RefusedError(f"'paths' must be a list of {len(problems)} paths, one for each instance")
    updates = 0
    for number, (path, problem) in enumerate(zip(value, problems, strict=True)):
        if not isinstance(path, list) or len(path) != len(problem.lambdas):
            raise RefusedError(f"path {number} must be a list of {len(problem.lambdas)} lists, one for each penalty")
        for step, places in enumerate(path):
            if not isinstance(places, list):
                raise RefusedError(f"path {number} holds {shown(places)} at penalty {step}; it must hold a list of coordinates")
            for place in places:
                if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(problem.b):
                    wanted = f"a whole number from 0 to {len(problem.b) - 1}"
                    raise RefusedError(f"path {number} holds {shown(place)} at penalty {step}; a coordinate is {wanted}")
            updates += len(places)
    if updates > MOST_UPDATES:
        raise RefusedError(f"the answer lists {updates} updates; {MOST_UPDATES} are the most that are followed")
    return value


def follow(number: int, path: Path_, problem: Problem, accuracy: Fraction) -> None:
    """Make the updates of one path, and refuse it where a gap is left that is too large."""
    for step, (places, penalty) in enumerate(zip(path, problem.lambdas, strict=True)):
        for place in places:
            problem.minimise(place, float(penalty))
        gap = problem.gap(penalty)
        if gap > accuracy:
            message = f"after {len(places)} updates the gap is {float(gap):.3g} of half the square of y"
            raise RefusedError(f"path {number}, penalty {step}: {message}; it must be at most {float(accuracy):g}")


def cyclic(problem: Problem, accuracy: Fraction) -> int:
    """Return how many updates whole sweeps over all coordinates need, with warm starts."""
    updates = 0
    for penalty in problem.lambdas:
        # Only where the rounded gap does not tell is the exact one asked for.
        while problem.rough_gap(penalty) > NEARLY * float(accuracy) or problem.gap(penalty) > accuracy:
            for place in range(len(problem.b)):
                problem.minimise(place, float(penalty))
            updates += len(problem.b)
    return updates


def judge() -> tuple[float, dict[str, float], str]:
    """Return score, metrics and feedback of what the solver left."""
    run = json.loads((INPUTS / "run.json").read_text(encoding="utf-8"))
    refuse_failed_run(run)
    given = json.loads((INPUTS / "given" / "instances.json").read_text(encoding="utf-8"))
    accuracy = Fraction(given["accuracy"])
    problems = [Problem(instance) for instance in given["instances"]]
    paths = paths_of(field(read_answer(most_bytes=MOST_BYTES), "paths"), problems)
    for number, (path, problem) in enumerate(zip(paths, problems, strict=True)):
        follow(number, path, problem, accuracy)
    made = [sum(map(len, path)) for path in paths]
    swept = [cyclic(Problem(instance), accuracy) for instance in given["instances"]]
    metrics: dict[str, float] = {"cyclic_updates": sum(swept), "share_of_cyclic": sum(made) / sum(swept)}
    metrics |= {f"updates_{number}": count for number, count in enumerate(made)}
    metrics |= {"nonzero": sum(value != 0.0 for problem in problems for value in problem.b)}
    metrics |= {"run_cpu_s": run["cpu_s"], "run_wall_s": run["wall_s"]}
    each = ", ".join(f"{count} (cyclic sweeps: {sweeps})" for count, sweeps in zip(made, swept, strict=True))
    most = ", ".join(f"{lengths.index(max(lengths))} ({max(lengths)})" for lengths in ([*map(len, path)] for path in paths))
    feedback = f"{sum(made)} updates; by instance {each}. The penalty that took most of each: {most}."
    return float(sum(made)), metrics, feedback


if __name__ == "__main__":
    conclude(judge)

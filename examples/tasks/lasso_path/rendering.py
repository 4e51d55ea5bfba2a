"""The text of a solver, put together from a description: a whole program, as short as what it does allows."""

from __future__ import annotations

from typing import TypedDict


class Description(TypedDict):
    """What distinguishes one solver from another. `POOLS`, `ORDERS` and `MEASURES` list the words."""

    pool: str
    order: str
    measure: str
    share: float
    """Of the pool, a sweep takes what has at least this share of the largest measure."""
    entering: float
    """What the measure of a coordinate that is 0 is multiplied with."""
    recheck: bool
    """Whether a coordinate is passed over that has ceased to be worthwhile by the time it comes to its turn."""
    look: int
    """After so many updates the gap is looked at; 0 after whole sweeps alone."""
    early: float
    """The share of the accuracy to which all penalties but the last are solved."""


_HEAD = '''"""Solve Lasso paths by exact coordinate descent.

{summary}.
Slopes are kept for all coordinates, since looking at them is free; what counts are the updates.
"""

import json
{imports}import sys
from math import fsum
from operator import mul
{constants}

def dot(one, other):
    return fsum(map(mul, one, other))


def soft(value, threshold):
    return max(value - threshold, 0.0) + min(value + threshold, 0.0)


class Problem:
    """min 1/2 |y - X b|^2 + lambda |b|_1, with r = y - X b and the slopes X'r kept up to date."""

    def __init__(self, x, y):
        self.columns = [list(map(float, column)) for column in zip(*x)]
        self.gram = [[dot(one, other) for other in self.columns] for one in self.columns]
        self.squares = [self.gram[j][j] for j in range(len(self.columns))]
        self.y = list(map(float, y))
        self.half = 0.5 * dot(self.y, self.y)
        self.r = list(self.y)
        self.b = [0.0] * len(self.columns)
        self.slopes = [dot(column, self.r) for column in self.columns]

    def minimise(self, j, penalty):
        """One coordinate update, exactly as the evaluator makes it: this is what counts."""
        before = self.b[j]
        after = soft(dot(self.columns[j], self.r) + self.squares[j] * before, penalty) / self.squares[j]
        if after != before:
            step = after - before
            self.r = [value - step * entry for value, entry in zip(self.r, self.columns[j])]
            self.slopes = [value - step * entry for value, entry in zip(self.slopes, self.gram[j])]
            self.b[j] = after

    def step(self, j, penalty):
        """How far an update would move a coordinate."""
        return soft(self.slopes[j] + self.squares[j] * self.b[j], penalty) / self.squares[j] - self.b[j]

    def gap(self, penalty):
        """The duality gap, as a share of 1/2 |y|^2."""
        steepest = max(map(abs, self.slopes))
        scale = min(1.0, penalty / steepest) if steepest > 0.0 else 1.0
        rr, ry = dot(self.r, self.r), dot(self.r, self.y)
        primal = 0.5 * rr + penalty * fsum(map(abs, self.b))
        return (primal - (scale * ry - 0.5 * scale * scale * rr)) / self.half

'''

_MOVING = '''
def moving(problem, penalty):
    """The coordinates that an update would change."""
    return [j for j in range(len(problem.b)) if problem.step(j, penalty) != 0.0]

'''

POOLS = {
    "all": (
        "all coordinates",
        '''
def pool(problem, penalty, before):
    """All coordinates, whether they would move or not."""
    return list(range(len(problem.b)))

''',
    ),
    "moving": (
        "the coordinates that would move",
        _MOVING
        + '''
def pool(problem, penalty, before):
    """What would move."""
    return moving(problem, penalty)

''',
    ),
    "working": (
        "a working set",
        _MOVING
        + '''
def pool(problem, penalty, before):
    """The coordinates in use that would move, and the steepest of the others."""
    found = moving(problem, penalty)
    fresh = sorted((j for j in found if problem.b[j] == 0.0), key=lambda j: -abs(problem.slopes[j]))
    return sorted([j for j in found if problem.b[j] != 0.0] + fresh[:FRESH])

''',
    ),
    "strong": (
        "what the sequential strong rule keeps",
        _MOVING
        + '''
def pool(problem, penalty, before):
    """What the strong rule keeps, judged by the slopes as they are; where nothing of that moves, all that would."""
    kept = [j for j in range(len(problem.b)) if problem.b[j] != 0.0 or abs(problem.slopes[j]) >= 2.0 * penalty - before]
    return kept if any(problem.step(j, penalty) != 0.0 for j in kept) else moving(problem, penalty)

''',
    ),
    "safe": (
        "what the gap cannot rule out",
        '''
def pool(problem, penalty, before):
    """What a sphere around the dual point, as wide as the gap, does not prove to be 0 in the end."""
    scale = min(1.0, penalty / max(map(abs, problem.slopes)))
    radius = (2.0 * problem.half * max(problem.gap(penalty), 0.0)) ** 0.5
    return [
        j
        for j, slope in enumerate(problem.slopes)
        if problem.b[j] != 0.0 or abs(slope) * scale + radius * problem.squares[j] ** 0.5 >= penalty
    ]

''',
    ),
}

MEASURES = {
    "violation": (
        "how far it breaks the conditions of the optimum",
        """    slope, value = problem.slopes[j], problem.b[j]
    if value == 0.0:
        return max(abs(slope) - penalty, 0.0)
    return abs(slope - penalty) if value > 0.0 else abs(slope + penalty)
""",
    ),
    "step": ("how far it would move", "    return abs(problem.step(j, penalty))\n"),
    "gain": (
        "how much it would gain",
        """    step, value = problem.step(j, penalty), problem.b[j]
    smooth = step * problem.slopes[j] - 0.5 * problem.squares[j] * step * step
    return smooth - penalty * (abs(value + step) - abs(value))
""",
    ),
}

ORDERS = {
    "cyclic": ("in turn", "    return places\n"),
    "alternating": ("there and back in turn", "    return places if turn % 2 == 0 else places[::-1]\n"),
    "shuffled": ("in random order", "    random.Random(turn).shuffle(places)\n    return places\n"),
    "steepest": (
        "largest first",
        "    return sorted(places, key=lambda j: -measure(problem, j, penalty))\n",
    ),
}

_MEASURE = '''
def measure(problem, j, penalty):
    """What an update of a coordinate is worth: {words}."""
{body}
'''

_WEIGHED = '''
def weighed(problem, j, penalty):
    """The same, times ENTERING for a coordinate that is 0."""
    return measure(problem, j, penalty) * (ENTERING if problem.b[j] == 0.0 else 1.0)

'''

_SHARE = '''
def worthwhile(problem, places, penalty):
    """Of some coordinates, those that are worth at least SHARE of the best; and how much that is."""
    values = [{measure}(problem, j, penalty) for j in places]
    least = SHARE * max(values, default=0.0)
    return [j for j, value in zip(places, values) if value >= least], least

'''

_ORDER = '''
def ordered(problem, places, penalty, turn):
    """Coordinates {words}."""
{body}
'''

_PATH = '''
def path(instance, accuracy):
    """The coordinates minimised for each penalty in turn; each begins where the one before ended."""
    problem = Problem(instance["x"], instance["y"])
    before, updates, turn = max(map(abs, problem.slopes)), [], 0
    for penalty in instance["lambdas"]:
        made = []
        enough = accuracy{early}
        while problem.gap(penalty) > enough:
            {places}
            for j in ordered(problem, places, penalty, turn):
{recheck}                problem.minimise(j, penalty)
                made.append(j)
{look}            turn += 1
        updates.append(made)
        before = penalty
    return updates


def main():
    with open(sys.argv[1]) as file:
        given = json.load(file)
    # A little more accurate than asked, because the evaluator's check is exact and this one rounds.
    paths = [path(instance, 0.999 * given["accuracy"]) for instance in given["instances"]]
    with open("answer.json", "w") as file:
        json.dump({{"paths": paths}}, file)


if __name__ == "__main__":
    main()
'''

_RECHECK = """                if {ceased}:
                    continue
"""

_LOOK = """                if len(made) % LOOK == 0 and problem.gap(penalty) <= enough:
                    break
"""


def summary(description: Description) -> str:
    """Return in words what a solver does."""
    words = f"A sweep takes {POOLS[description['pool']][0]}, {ORDERS[description['order']][0]}"
    if description["share"] > 0.0:
        words += f", and of these what is worth at least {description['share']:g} of the best"
    return words + (", looked at again when its turn comes" if description["recheck"] else "")


def render(description: Description) -> str:
    """Return the program of a solver."""
    choosy = description["share"] > 0.0
    weighs = choosy and description["entering"] != 1.0
    constants = {
        "FRESH = 3  # coordinates that may enter the working set in one sweep": description["pool"] == "working",
        f"SHARE = {description['share']!r}  # of the largest measure: what is below waits for another sweep": choosy,
        f"ENTERING = {description['entering']!r}  # the weight of coordinates that are 0": weighs,
        f"LOOK = {description['look']}  # updates from one look at the gap to the next": description["look"] > 0,
        f"EARLY = {description['early']!r}  # of the accuracy, for all penalties but the last": description["early"] != 1.0,
    }
    kept = [line for line, needed in constants.items() if needed]
    order, (words, body) = description["order"], MEASURES[description["measure"]]
    places = "places = pool(problem, penalty, before)"
    recheck = "problem.step(j, penalty) == 0.0"
    measure = "weighed" if weighs else "measure"
    if choosy:
        places = "places, least = worthwhile(problem, pool(problem, penalty, before), penalty)"
        recheck = f"{measure}(problem, j, penalty) < least"
    return "".join(
        [
            _HEAD.format(
                summary=summary(description),
                imports="import random\n" if order == "shuffled" else "",
                constants="\n".join(["", *kept, ""]) if kept else "",
            ),
            POOLS[description["pool"]][1],
            _MEASURE.format(words=words, body=body) if choosy or order == "steepest" else "",
            _WEIGHED if weighs else "",
            _SHARE.format(measure=measure) if choosy else "",
            _ORDER.format(words=ORDERS[order][0], body=ORDERS[order][1]),
            _PATH.format(
                early="" if description["early"] == 1.0 else ' * (1.0 if penalty == instance["lambdas"][-1] else EARLY)',
                places=places,
                recheck=_RECHECK.format(ceased=recheck) if description["recheck"] else "",
                look=_LOOK if description["look"] else "",
            ),
        ]
    )

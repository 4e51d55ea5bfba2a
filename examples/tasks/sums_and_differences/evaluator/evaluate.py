"""Score a finite set U of integers by how many differences it has for its sums.

The score is 1 + log(|U-U| / |U+U|) / log(2 max(U) + 1) for U moved to begin at 0: a lower bound of the exponent in the problem of
Gyarmati, Hennecart and Ruzsa (README.md). Sums and differences are counted one by one as integers of any size; only the two
logarithms of the exact counts are rounded.
"""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from answers import RefusedError, conclude, field, read_answer, shown

FEWEST, MOST = 2, 2048


def set_of(value: object) -> list[int]:
    """Return the set that an answer lists, in order and beginning at 0."""
    if not isinstance(value, list) or not FEWEST <= len(value) <= MOST:
        count = f"{len(value)} elements" if isinstance(value, list) else shown(value)
        raise RefusedError(f"'set' must be a list of {FEWEST} to {MOST} integers; this is {count}")
    for place, element in enumerate(value):
        if isinstance(element, bool) or not isinstance(element, int):
            raise RefusedError(f"'set' holds {shown(element)} at place {place}; it must hold integers")
    elements = sorted(value)
    for one, other in pairwise(elements):
        if one == other:
            raise RefusedError(f"'set' holds {shown(one)} twice")
    return [element - elements[0] for element in elements]


def counts(elements: list[int]) -> tuple[int, int]:
    """Return how many sums and how many differences a set has."""
    sums = {one + other for place, one in enumerate(elements) for other in elements[place:]}
    sums_count = len(sums)
    del sums  # two million integers need not lie beside two million others
    above = {other - one for place, one in enumerate(elements) for other in elements[place + 1 :]}
    return sums_count, 2 * len(above) + 1


def judge() -> tuple[float, dict[str, float], str]:
    """Return score, metrics and feedback of the answer in the workspace."""
    elements = set_of(field(read_answer(), "set"))
    size, span = len(elements), elements[-1]
    sums, differences = counts(elements)
    score = 1 + math.log(differences / sums) / math.log(2 * span + 1)
    metrics = {
        "size": size,
        "sums": sums,
        "differences": differences,
        "log2_max": math.log2(span) if span else 0.0,
        "sums_share": sums / (size * (size + 1) // 2),
        "differences_share": differences / (size * (size - 1) + 1),
    }
    feedback = (
        f"{score:.9f} with {size} elements below 2^{span.bit_length()}: {differences} differences, {sums} sums. Of what a set of "
        f"this size can have, these are {metrics['differences_share']:.1%} and {metrics['sums_share']:.1%}."
    )
    return score, metrics, feedback


if __name__ == "__main__":
    conclude(judge)

"""Rules for promoting a version: the gate's, decided by the gate's own tests, and those that peers use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from harness.gate.bootstrap import lower_bound
from harness.gate.claims import contributions, fewest_agree, group_contributions
from harness.gate.draws import resamples_for
from harness.gate.signflip import sign_flip
from harness.gate.spending import level
from harness.gate.verdict import Bounds

if TYPE_CHECKING:
    from benchmarks.recorded import Numbers, Places

BOUNDS = Bounds()
FIRST_LOOK = level(BOUNDS.alpha, 1)
_PREFIXES = (1_000, 10_000, 100_000)


def gate(differences: Numbers, groups: Places, at: float = FIRST_LOOK, *, by_group: bool = False) -> bool:
    """Say whether the part `gain` passes at this level: the same answer as the gate's, with less work where it is no.

    The other parts can only refuse more. A sum within one standard deviation of zero is reached by 7 in 64 of all ways of
    flipping at least (Hollom & Portier 2023), and what the first of the draws have reached, all of them have.
    """
    grouped = [differences[groups == group].tolist() for group in np.unique(groups)]
    parts = np.array(contributions(grouped, by_group=by_group))
    if parts.sum() <= math.sqrt(np.square(parts).sum()):
        return False
    resamples = resamples_for(at, BOUNDS.resamples)
    whole = sign_flip(group_contributions(grouped, by_group=by_group), resamples, BOUNDS.seed)
    if whole.p > fewest_agree(whole, at):
        return False
    for prefix in (*_PREFIXES, resamples):
        flips = sign_flip(parts.tolist(), min(prefix, resamples), BOUNDS.seed)
        if not flips.drawn:
            if flips.p > at:
                return False
            break
        reached = round(flips.p * (flips.ways + 1))
        if reached > at * (resamples + 1):
            return False
    bound = lower_bound(grouped, at, resamples, BOUNDS.seed, by_group=by_group)
    return bound is not None and bound > 0


def best_mean(differences: Numbers) -> bool:
    """Say whether the mean is above the incumbent's, on trees that may be those of the development."""
    return bool(differences.mean() > 0)


def none_worse(quality: Numbers, attempts: Numbers) -> bool:
    """Say whether no tree's quality is below the incumbent's, and fewer attempts were made over all."""
    return bool(quality.min() >= 0 and attempts.sum() < 0)

"""How often rules of promotion are fooled, and how often they find a true gain, on real differences of real versions.

Where there is no gain by construction (labels swapped at random), every promotion is a false one. The table has a column for
the gate and one for each rule that peers use; only the gate's figures have a bound to keep.
"""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from benchmarks.recorded import RECORDED, worlds
from benchmarks.rules import BOUNDS, FIRST_LOOK, best_mean, gate, none_worse
from benchmarks.table import Row
from harness.gate.spending import level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.recorded import Numbers, World

GATES = 2_000
VERSIONS = 20
LOOKS = 30
HELD_OUT = 0.25
PAIRS = ((1, 0), (6, 0), (5, 3), (7, 4))
"""Which versions are compared, as rows of a world; 0 is the incumbent, all are templates at their defaults."""
GAINS = (0.1, 0.2, 0.3, 0.5, 0.8)
"""In units of the standard deviation that a pair's differences have once their labels are swapped."""
GAINED_GATES = 200
PROCESSES = 2


class Promoted(NamedTuple):
    """Whether each rule promoted."""

    gate: bool
    best_mean: bool
    none_worse: bool


class Apart(NamedTuple):
    """Candidate minus incumbent, tree by tree."""

    value: Numbers
    quality: Numbers
    attempts: Numbers

    def times(self, signs: Numbers) -> Apart:
        """Return the differences with the labels swapped where the sign is negative."""
        return Apart(*(signs * part for part in self))


Trial: TypeAlias = "Callable[[World, np.random.Generator], Promoted]"


def rows(gates: int = GATES) -> Iterator[Row]:
    """Yield the table; `gates` is the number behind each false-promotion rate."""
    yield Row("share of versions promoted by", "gate    mean  none w.")
    with ProcessPoolExecutor(PROCESSES) as pool:
        for world in worlds(VERSIONS):
            for words, trial, count, kept in _trials(gates, groups=int(world.groups.max()) + 1):
                shares = [range(first, count, PROCESSES * 4) for first in range(PROCESSES * 4)]
                done = [one for share in pool.map(partial(_tried, world, trial), shares) for one in share]
                yield _row(f"{len(world.groups)} {world.name}: {words}", done, kept=kept)
    if not RECORDED.is_dir():
        yield Row("recorded searches", "not measured: not here")


def _trials(gates: int, groups: int) -> Iterator[tuple[str, Trial, int, bool]]:
    """Yield what is tried, how often, and whether the gate has a bound to keep: with few groups it can keep none for them."""
    enough = 2.0**-groups <= FIRST_LOOK
    yield "no gain, labels swapped per tree", swapped, gates, True
    yield f"no gain, best of {VERSIONS} versions", best_of_many, gates, True
    yield f"no gain, one or more in {LOOKS} looks", many_looks, gates, True
    yield "no gain, labels swapped per group", swapped_by_group, gates, enough
    yield "the same, groups weighed alike", partial(swapped_by_group, by_group=True), gates, enough
    for gain in GAINS:
        yield f"gain {gain:g} sd on every tree", partial(gained, gain=gain, proportional=False), GAINED_GATES, False
    for gain in GAINS:
        yield f"gain {gain:g} sd, as trees differ", partial(gained, gain=gain, proportional=True), GAINED_GATES, False


def _tried(world: World, trial: Trial, seeds: Sequence[int]) -> list[Promoted]:
    return [trial(world, np.random.default_rng(seed)) for seed in seeds]


def _row(name: str, done: Sequence[Promoted], *, kept: bool) -> Row:
    rates = [sum(column) / len(done) for column in zip(*done, strict=True)]
    figure = " ".join(f"{rate:7.1%}" for rate in rates)
    if not kept:
        return Row(name, figure)
    most = BOUNDS.alpha + 2 * math.sqrt(BOUNDS.alpha * (1 - BOUNDS.alpha) / len(done))
    return Row(name, figure, f"<= {most:.1%}", met=rates[0] <= most)


def swapped(world: World, rng: np.random.Generator) -> Promoted:
    """Compare a pair whose labels are swapped on each tree by a coin."""
    return _promoted(world, _pair(world, rng).times(_coins(rng, len(world.groups))), FIRST_LOOK)


def many_looks(world: World, rng: np.random.Generator) -> Promoted:
    """Compare one such pair after the other on the same trees, and say whether any of them was promoted."""
    looks = [
        _promoted(world, _pair(world, rng).times(_coins(rng, len(world.groups))), level(BOUNDS.alpha, look))
        for look in range(1, LOOKS + 1)
    ]
    return Promoted(*map(any, zip(*looks, strict=True)))


def swapped_by_group(world: World, rng: np.random.Generator, *, by_group: bool = False) -> Promoted:
    """Compare a pair whose labels are swapped for whole groups: trees of one group are then as alike as can be."""
    coins = _coins(rng, int(world.groups.max()) + 1)[world.groups]
    return _promoted(world, _pair(world, rng).times(coins), FIRST_LOOK, by_group=by_group)


def best_of_many(world: World, rng: np.random.Generator) -> Promoted:
    """Exchange all versions' labels on each tree, take the best on the development trees, and gate it on the others.

    The peers' rules know no held-out trees: they choose and promote on all.
    """
    drawn = rng.permuted(np.tile(np.arange(len(world.value))[:, None], len(world.groups)), axis=0)
    value, quality, attempts = (np.take_along_axis(of, drawn, axis=0) for of in (world.value, world.quality, world.attempts))
    held_out = rng.random(len(world.groups)) < HELD_OUT
    best = int(value[:, ~held_out].mean(axis=1).argmax())
    passed = best != 0 and gate((value[best] - value[0])[held_out], world.groups[held_out])
    highest = value[value.mean(axis=1).argmax()]
    spared = [none_worse(q - quality[0], a - attempts[0]) for q, a in zip(quality[1:], attempts[1:], strict=True)]
    return Promoted(passed, best_mean(highest - value[0]), any(spared))


def gained(world: World, rng: np.random.Generator, *, gain: float, proportional: bool) -> Promoted:
    """Add a known gain to a pair without one: the same on every tree, or more where the two differ more."""
    pair = _pair(world, rng)
    size = np.abs(pair.value) / np.abs(pair.value).mean() if proportional else np.ones(len(world.groups))
    added = gain * math.sqrt(np.square(pair.value).mean()) * size
    null = pair.times(_coins(rng, len(world.groups)))
    return _promoted(world, Apart(null.value + added, null.quality + added, null.attempts), FIRST_LOOK)


def _pair(world: World, rng: np.random.Generator) -> Apart:
    one, other = PAIRS[rng.integers(len(PAIRS))]
    return Apart(*(of[one] - of[other] for of in (world.value, world.quality, world.attempts)))


def _coins(rng: np.random.Generator, count: int) -> Numbers:
    return rng.choice((-1.0, 1.0), count)


def _promoted(world: World, apart: Apart, at: float, *, by_group: bool = False) -> Promoted:
    return Promoted(
        gate(apart.value, world.groups, at, by_group=by_group),
        best_mean(apart.value),
        none_worse(apart.quality, apart.attempts),
    )

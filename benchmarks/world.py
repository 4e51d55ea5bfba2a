"""The trees and policies that the benchmarks share: seeded brooms whose chains climb by ever smaller steps."""

from __future__ import annotations

import random
from pathlib import Path

from harness.tree import Attempt, Root, Tree
from sandbox.api import Limits

LIMITS = Limits(max_rounds=40)
CHAINS = 12
POLICIES = {path.stem: path.read_text() for path in sorted(Path(__file__).with_name("policies").glob("*.py"))}


def brooms(count: int, depth: int) -> list[Tree]:
    """Return `count` trees of 12 chains, each `depth` attempts deep; one attempt in ten failed."""
    return [_broom(seed, depth) for seed in range(count)]


def _broom(seed: int, depth: int) -> Tree:
    rng = random.Random(seed)  # noqa: S311 - benchmark data, no secret
    attempts = []
    tips: list[tuple[str | None, float]] = [(None, rng.random()) for _ in range(CHAINS)]
    for step in range(depth):
        for chain, (tip, score) in enumerate(tips):
            climbed = score + rng.random() / (step + 2)
            failed = rng.random() < 0.1  # noqa: PLR2004 - one in ten
            name = f"c{chain}-{step}"
            feedback = "no feasible solution" if failed else f"moved by {climbed - score:.4f}"
            attempts.append(
                Attempt(
                    name,
                    tip,
                    None if failed else climbed,
                    "failed" if failed else "ok",
                    {"moves": 3.0, "accepted": float(rng.randrange(4))},
                    feedback,
                    {"seconds": rng.random()},
                )
            )
            tips[chain] = (name, score if failed else climbed)
    return Tree(f"broom-{seed}", tuple(attempts), root=Root(score=0.0))

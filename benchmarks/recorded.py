"""What real versions are worth on real trees: the example trees, and the recorded searches where they are at hand.

Versions are rendered from the harness's own templates, at their defaults first and then with drawn parameters, and replayed in
this process: they are trusted, and a container would say the same.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.propose.templates import Kind, defaults, load, render
from harness.replay import InProcess, replay
from harness.score import Settings, figures
from harness.treefile import find, read
from sandbox.api import Context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from harness.propose.templates import Parameter, Template, Value
    from harness.tree import Tree
    from sandbox.api import Policy

    Numbers = NDArray[np.float64]
    Places = NDArray[np.int64]

PROJECT = Path(__file__).parents[1]
RECORDED = Path(os.environ.get("HARNESS_SHARED", PROJECT.parent / "shared")) / "trees"
"""Searches that other systems recorded, where they are at hand."""
INCUMBENT = "parallel_refine"
"""The template that versions have to beat: its version, at the defaults, stands first."""


@dataclass(frozen=True, slots=True)
class World:
    """A set of trees with what each version is worth on each: arrays of versions by trees, the incumbent in the first row.

    `groups` numbers the group of each tree; trees stand group by group and then by digest, as the gate puts them.
    """

    name: str
    groups: Places
    value: Numbers
    quality: Numbers
    attempts: Numbers


def worlds(versions: int) -> Iterator[World]:
    """Yield the worlds that are there, each with this many versions beside the incumbent."""
    yield _world("example trees", PROJECT / "examples" / "trees", versions)
    if RECORDED.is_dir():
        yield _world("recorded searches", RECORDED, versions)


def _world(name: str, folder: Path, versions: int) -> World:
    trees = {tree.digest: tree for tree in map(read, find([folder])) if tree.top is not None}
    by_system = len({tree.system for tree in trees.values()}) > 1
    grouped = sorted((tree.system if by_system else tree.task, digest) for digest, tree in trees.items())
    order = [trees[digest] for _, digest in grouped]
    names = sorted({group for group, _ in grouped})
    found = np.array([_figures(source, order) for source in _sources(versions)])
    return World(name, np.array([names.index(group) for group, _ in grouped]), *np.moveaxis(found, 2, 0))


def _figures(source: str, trees: Sequence[Tree]) -> list[tuple[float, float, float]]:
    names: dict[str, type[Policy]] = {}
    exec(source, names)  # noqa: S102 - rendered from templates of our own, trusted
    settings = Settings()
    found = []
    for tree in trees:
        decider = InProcess(names["Policy"], Context({}, settings.seed, settings.limits, tree.frontier.value))
        worth = figures(replay(tree, decider, settings.limits), tree, settings)
        if worth.value is None or worth.quality is None:
            raise ValueError(f"{tree.name}: a version rendered from our own templates has no value")
        found.append((worth.value, worth.quality, float(worth.n)))
    return found


def _sources(versions: int) -> list[str]:
    """Return the incumbent's source and that of so many different versions."""
    rng = random.Random(0)  # noqa: S311 - a sample, no secret
    templates = sorted(load(), key=lambda template: template.name != INCUMBENT)
    sources = dict.fromkeys(render(template, defaults(template)) for template in templates)
    while len(sources) < versions + 1:
        template = rng.choice(templates)
        sources[render(template, _drawn(template, rng))] = None
    return list(sources)[: versions + 1]


def _drawn(template: Template, rng: random.Random) -> dict[str, Value]:
    return {parameter.name: _value(parameter, rng) for parameter in template.parameters}


def _value(parameter: Parameter, rng: random.Random) -> Value:
    if parameter.choices:
        return rng.choice(parameter.choices)
    low, high = parameter.low or 0.0, parameter.high or 0.0
    drawn = low * (high / low) ** rng.random() if parameter.log else rng.uniform(low, high)
    return round(drawn) if parameter.kind is Kind.INT else drawn

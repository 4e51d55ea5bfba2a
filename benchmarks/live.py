"""Real searches on this machine: an evolved policy against fixed exploration, siblings on and off, several tries at each pick.

`python -m benchmarks live [PAIRS] [TASK]`. For each task a policy is developed by `evolve` (templates alone, judged by the area
under best-so-far) on trees of searches with seeds from 2000 on. It then steers fresh searches with the seeds 1 to PAIRS, each
beside a search under the fixed policy: eight branches of sixteen attempts. An attempt's luck follows from the seed and its place
in the tree, so that a pair differs by its policies alone.

Attempts to the fixed arm's final quality are those at which a search first is as good as the fixed arm of its pair was in the
end. The fixed arm's own are counted in the same way; a search that never gets there counts with all that it was allowed.
"""

from __future__ import annotations

import math
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.table import Row
from harness import config, exploring, wiring
from harness.campaign import best_so_far
from harness.evolve import evolve
from harness.explore.base import SearchOver
from harness.explore.explorer import explore
from harness.policy import Candidate, Origin
from harness.propose import templates
from harness.search import SiblingContext
from harness.store import RunPlan, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.config import Settings
    from harness.exploring import Stage
    from harness.policy import Version
    from harness.tree import Tree

TASKS = ("circle_packing", "autocorrelation_first", "autocorrelation_third")
EXAMPLES = Path(__file__).parents[1] / "examples" / "tasks"
BRANCHES, DEPTH = 8, 16
ATTEMPTS = BRANCHES * DEPTH
"""What the fixed policy spends. The evolved one may spend twice as much, and is developed over as many."""
SHORT = 64
"""What searches spend that differ in their siblings or tries alone, under the policy that everything starts from."""
ROUNDS = 400  # more than either policy needs
DEVELOPMENT = 10
VERSIONS = 120
FIRST_SEED = 2000
RESAMPLES = 4000
WISH = 1.7
BROAD = """
class Policy:
    '''Open 16 branches and give each twenty attempts, whatever comes out: a record that has an answer for many a policy.

    One that left bad branches early would have chosen in every policy's place, and one no deeper than the fixed policy's
    searches would have nothing for a policy that goes on where it pays.
    '''
    def __init__(self, context):
        self.batch = context.limits.max_batch
    def decide(self, view):
        missing = 16 - len(view.nodes[0].children)
        if missing > 0:
            return [0] * min(missing, self.batch)
        return [n.id for n in sorted(view.leaves, key=lambda n: (n.depth, n.id)) if n.depth < 20][:self.batch]
"""
BROAD_ATTEMPTS = 16 * 20


@dataclass(frozen=True)
class Desk:
    """A task with a store of its own."""

    stage: Stage
    store: Store

    def search(self, version: Version, seed: int, attempts: int, **changed: object) -> Tree:
        """Carry out one search and return its tree."""
        settings = self.stage.settings.model_copy(update={"attempts": attempts, **changed})
        stage = replace(self.stage, settings=settings)
        search = stage.begin(version, seed)
        over = [one for one in explore(search, stage.live(search)) if isinstance(one, SearchOver)]
        return self.store.tree(over[-1].search.tree or "")


def rows(pairs: int = 10, task: str = "") -> Iterator[Row]:
    """Yield what each comparison came to."""
    for name in [task] if task else TASKS:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url = f"sqlite:///{folder / 'h.db'}"
            settings = config.load(
                {
                    "store": url,
                    "sandbox": "local",
                    "slots": 2,
                    "objective": "attainment",
                    "max_attempts": 2 * ATTEMPTS,
                    "max_rounds": ROUNDS,
                }
            ).settings
            store = stack.enter_context(Store.open(url))
            stage = stack.enter_context(exploring.stage(EXAMPLES / name, settings, store, Origin.TEMPLATE, lambda _: None))
            desk, seeds = Desk(stage, store), range(1, pairs + 1)
            yield from _evolved_against_fixed(desk, name, seeds)
            yield from _context_and_tries(desk, name, seeds)


def _evolved_against_fixed(desk: Desk, name: str, seeds: Sequence[int]) -> Iterator[Row]:
    (template,) = (one for one in templates.load() if one.name == "parallel_refine")
    params = {"width": BRANCHES, "depth": DEPTH}
    start = desk.store.record(
        Candidate(templates.render(template, params), Origin.TEMPLATE, template=template.name, params=params)
    )
    evolved, gain = _evolved(desk, start)
    shown = f"v{evolved.number} {evolved.candidate.template} {dict(evolved.candidate.params)} {gain:+.3f}"
    yield Row(f"{name}: developed on {DEVELOPMENT} searches", shown, "", None)
    fixed = [desk.search(start, seed, ATTEMPTS) for seed in seeds]
    theirs = [desk.search(evolved, seed, 2 * ATTEMPTS) for seed in seeds]
    yield from _attempts_saved(name, fixed, theirs)


def _context_and_tries(desk: Desk, name: str, seeds: Sequence[int]) -> Iterator[Row]:
    start = desk.store.record(wiring.start_candidate())
    told = [desk.search(start, seed, SHORT) for seed in seeds]
    alone = [desk.search(start, seed, SHORT, sibling_context=SiblingContext.OFF) for seed in seeds]
    yield _difference(f"{name}: sibling context on against off, {SHORT} attempts", told, alone)
    thrice = [desk.search(start, seed, SHORT // 3, rollouts=3) for seed in seeds]
    cut = [desk.search(start, seed, 3 * (SHORT // 3)) for seed in seeds]
    yield _difference(f"{name}: 3 tries at {SHORT // 3} picks against {3 * (SHORT // 3)} attempts", thrice, cut)


def _evolved(desk: Desk, start: Version) -> tuple[Version, float]:
    """Return the best version that development finds on searches of other seeds, and its gain there."""
    broad = desk.store.record(Candidate(BROAD, Origin.TEMPLATE))
    trees = [desk.search(broad, FIRST_SEED + place, BROAD_ATTEMPTS).digest for place in range(DEVELOPMENT)]
    settings: Settings = desk.stage.settings
    plan = RunPlan(7, VERSIONS, wiring.judged_by(settings), "local", tuple(trees), (), start.number)
    run = desk.store.begin_run(plan)
    judge = wiring.SandboxJudge(
        desk.store, desk.stage.sandbox, settings, judged_by=plan.settings, begin=lambda _: None, step=lambda: None
    )
    values = {}
    for told in evolve(run, desk.store, wiring.proposer(plan.seed), judge):
        values[told.judged.version.number] = told.judged.value
    best = desk.store.run(run.number).best or start.number
    return desk.store.version(best), (values[best] or 0.0) - (values[start.number] or 0.0)


def reached(tree: Tree, quality: float) -> int | None:
    """Return after how many attempts a search was as good as this (larger is better), None where it never was."""
    for place, best in enumerate(best_so_far(tree.scores)):
        if best is not None and best >= quality:
            return place
    return None


def _attempts_saved(name: str, fixed: Sequence[Tree], theirs: Sequence[Tree]) -> Iterator[Row]:
    """Yield what is saved in pairs, and by the mean curves of both arms."""
    ratios, missed = [], 0
    for mine, their in zip(fixed, theirs, strict=True):
        quality = mine.top or 0.0
        needed = reached(their, quality)
        missed += needed is None
        ratios.append((reached(mine, quality) or 1) / max(1, 2 * ATTEMPTS if needed is None else needed))
    ratio, low, high = _interval(np.log(ratios))
    shown = f"{math.exp(ratio):.2f} ({math.exp(low):.2f} to {math.exp(high):.2f})"
    yield Row(f"{name}: attempts to the fixed arm's final quality, saved", f"{shown} x", f">= {WISH} x", math.exp(ratio) >= WISH)
    yield Row(f"{name}: evolved searches that got there", f"{len(fixed) - missed} of {len(fixed)}", "", None)
    ends = [[best_so_far(tree.scores)[-1] or 0.0 for tree in arm] for arm in (fixed, theirs)]
    curve = np.mean([_curve(tree, 2 * ATTEMPTS) for tree in theirs], axis=0)
    goal = float(np.mean(ends[0]))
    first = next((place for place, value in enumerate(curve) if value >= goal), None)
    own = np.mean([_curve(tree, 2 * ATTEMPTS) for tree in fixed], axis=0)
    first_fixed = next(place for place, value in enumerate(own) if value >= goal - 1e-12)
    words = "never" if first is None else f"{first_fixed} / {first} = {first_fixed / max(first, 1):.2f} x"
    yield Row(
        f"{name}: the same for the mean curves", words, f">= {WISH} x", first is not None and first_fixed / max(first, 1) >= WISH
    )
    spent = np.mean([len(tree.attempts) for tree in theirs])
    yield Row(
        f"{name}: attempts of an evolved search, best score minus fixed", f"{spent:.0f}, {np.mean(ends[1]) - goal:+.2g}", "", None
    )


def _curve(tree: Tree, length: int) -> list[float]:
    curve = [-math.inf if best is None else best for best in best_so_far(tree.scores)]
    floor = next((best for best in curve if best > -math.inf), 0.0)
    curve = [floor if best == -math.inf else best for best in curve]
    return [curve[min(place, len(curve) - 1)] for place in range(length + 1)]


def _difference(name: str, ours: Sequence[Tree], theirs: Sequence[Tree]) -> Row:
    apart = [(mine.top or 0.0) - (their.top or 0.0) for mine, their in zip(ours, theirs, strict=True)]
    middle, low, high = _interval(np.array(apart))
    return Row(f"{name}: best score", f"{middle:+.2g} ({low:+.2g} to {high:+.2g})", "", None)


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the mean with its 95 % interval by the bootstrap over pairs, seeded."""
    rng = np.random.default_rng(0)
    values = np.asarray(values, dtype=float)
    means = rng.choice(values, (RESAMPLES, len(values))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(values.mean()), float(low), float(high)

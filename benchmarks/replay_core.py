"""The replay core in this process, against the floor, and how it grows with trees and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.floor import least_replay
from benchmarks.table import Row, cpu_seconds, paired_ratio
from benchmarks.world import LIMITS, POLICIES, brooms
from harness.replay import InProcess, replay
from harness.score import Settings, figures
from sandbox.api import Context, Limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.tree import Tree
    from sandbox.api import Policy

NO_LIMIT = Limits(max_rounds=1_000_000)


def rows() -> Iterator[Row]:
    """Yield the figures of the core."""
    trees = brooms(100, 5)
    policies = list(map(_defined, POLICIES.values()))
    replays = len(trees) * len(policies)

    def ours() -> None:
        _replay_all(trees, policies, LIMITS)

    def floor() -> None:
        for policy in policies:
            for tree in trees:
                least_replay(tree, policy, LIMITS)

    share = paired_ratio(floor, ours)
    yield Row("replay core: replays per CPU second", f"{replays / cpu_seconds(ours):,.0f}")
    yield Row("replay core: share of the floor's rate", f"{share:.2f}", ">= 0.5", met=share >= 0.5)  # noqa: PLR2004

    # Every attempt is revealed on both sizes, so that the policies do ten times the work and the core should as well.
    deep, many = brooms(100, 50), brooms(1000, 5)
    exhaustive = [_defined(POLICIES["breadth_first"])]
    growth = paired_ratio(lambda: _replay_all(deep, exhaustive, NO_LIMIT), lambda: _replay_all(trees, exhaustive, NO_LIMIT))
    yield Row("growth: 10 x the nodes per tree, cost per replay", f"{growth:.2f} x", "<= 12 x", met=growth <= 12)  # noqa: PLR2004
    growth = paired_ratio(lambda: _replay_all(many, policies, LIMITS), ours)
    yield Row("growth: 10 x the trees, total cost", f"{growth:.2f} x", "<= 10.5 x", met=growth <= 10.5)  # noqa: PLR2004


def _replay_all(trees: Sequence[Tree], policies: Sequence[type[Policy]], limits: Limits) -> None:
    settings = Settings(limits)
    for policy in policies:
        for tree in trees:
            decider = InProcess(policy, Context({}, 0, limits, tree.frontier.value))
            figures(replay(tree, decider, limits), tree, settings)


def _defined(source: str) -> type[Policy]:
    names: dict[str, type[Policy]] = {}
    exec(source, names)  # noqa: S102 - the benchmark's own policies, trusted
    return names["Policy"]

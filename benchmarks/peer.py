"""Run the peer `dreamrsi` on the benchmark's trees: a script for the peer's own virtual environment, not for ours.

Reads trees as JSON from standard input and prints one JSON object: CPU seconds, replays, revealed nodes, rounds. Building the
peer's worlds is not counted. The work says how: `inline`, its own policies without any isolation; `interpreter`, one of them
written in its policy language and interpreted in its process; `process`, the same in its sandbox, a process for each decision.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

GREEDY = """
def rank(node):
    if node["score"] is None:
        return -1
    return node["score"]

def decide(view):
    ranked = sorted(view["frontier"], key=rank, reverse=True)
    expand = [node["id"] for node in ranked[:4]]
    return {"expand": expand, "stop": len(expand) == 0}
"""


def main() -> None:
    """Replay every tree under every policy."""
    from dreamrsi.discovery import DiscoveryTree  # noqa: PLC0415 - exists in the peer's environment only
    from dreamrsi.replay import ReplayWorld, StrictReplay  # noqa: PLC0415

    work = json.load(sys.stdin)
    worlds = []
    for recorded in work["trees"]:
        tree = DiscoveryTree(recorded["name"])
        tree.create_root(node_id="root")
        for attempt in recorded["attempts"]:
            tree.add_node(
                attempt["parent"] or "root",
                node_id=attempt["id"],
                score=attempt["score"],
                observation=attempt["feedback"],
                metadata=attempt["metrics"],
            )
        tree.commit()
        worlds.append(ReplayWorld(tree))
    policies = _policies(work["how"])
    replay = StrictReplay(max_rounds=work["max_rounds"], max_parallelism=work["max_batch"])

    async def replay_all() -> tuple[int, int]:
        revealed = rounds = 0
        for policy in policies:
            for world in worlds:
                trajectory = await replay.replay(world, policy)
                revealed += trajectory.total_probes
                rounds += trajectory.total_rounds
        return revealed, rounds

    began = sum(os.times()[:4])
    revealed, rounds = asyncio.run(replay_all())
    spent = sum(os.times()[:4]) - began
    print(json.dumps({"cpu_s": spent, "replays": len(worlds) * len(policies), "revealed": revealed, "rounds": rounds}))


def _policies(how: str) -> list[Any]:
    from dreamrsi.artifacts import PolicyArtifact, SourcePolicy  # noqa: PLC0415
    from dreamrsi.policies import (  # noqa: PLC0415
        BreadthFirstPolicy,
        DepthFirstPolicy,
        EpsilonGreedyPolicy,
        FixedParallelPolicy,
        GreedyPolicy,
    )
    from dreamrsi.process_sandbox import ProcessPolicySandbox  # noqa: PLC0415
    from dreamrsi.sandbox import PolicySandbox  # noqa: PLC0415

    if how == "inline":
        return [
            BreadthFirstPolicy(4),
            DepthFirstPolicy(4),
            EpsilonGreedyPolicy(0.1, 4, seed=0),
            FixedParallelPolicy(4, 5),
            GreedyPolicy(4),
        ]
    sandbox = ProcessPolicySandbox() if how == "process" else PolicySandbox()
    return [SourcePolicy(PolicyArtifact(GREEDY), sandbox, timeout_s=30)]


if __name__ == "__main__":
    main()

"""Run the peer `dreamrsi` on the benchmark's trees: a script for the peer's own virtual environment, not for ours.

Reads trees as JSON from standard input and prints one JSON object: CPU seconds, replays, revealed nodes, rounds. Building the
peer's worlds is not counted; its replays run without any isolation, as it offers them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time


def main() -> None:
    """Replay every tree under every policy."""
    from dreamrsi.discovery import DiscoveryTree  # noqa: PLC0415 - exists in the peer's environment only
    from dreamrsi.policies import (  # noqa: PLC0415
        BreadthFirstPolicy,
        DepthFirstPolicy,
        EpsilonGreedyPolicy,
        FixedParallelPolicy,
        GreedyPolicy,
    )
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
    policies = [
        BreadthFirstPolicy(4),
        DepthFirstPolicy(4),
        EpsilonGreedyPolicy(0.1, 4, seed=0),
        FixedParallelPolicy(4, 5),
        GreedyPolicy(4),
    ]
    replay = StrictReplay(max_rounds=work["max_rounds"], max_parallelism=work["max_batch"])

    async def replay_all() -> tuple[int, int]:
        revealed = rounds = 0
        for policy in policies:
            for world in worlds:
                trajectory = await replay.replay(world, policy)
                revealed += trajectory.total_probes
                rounds += trajectory.total_rounds
        return revealed, rounds

    began = time.process_time()
    revealed, rounds = asyncio.run(replay_all())
    spent = time.process_time() - began
    print(json.dumps({"cpu_s": spent, "replays": len(worlds) * len(policies), "revealed": revealed, "rounds": rounds}))


if __name__ == "__main__":
    main()

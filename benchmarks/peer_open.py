"""Run the peer `open-dream-rsi` on the benchmark's trees: a script for a Python that finds the peer, not for ours.

Reads trees as JSON from standard input and prints one JSON object: CPU seconds and replays. Its sandbox starts one process for
each rollout, and gives it the whole tree; the policy expands one node a step, up to as many steps as there are attempts.
"""

from __future__ import annotations

import json
import os
import sys

POLICY = """
def choose_action(frontier, step):
    if not frontier:
        return None
    opened = [n for n in frontier if n["children"] == 0 or n["parent_id"] is None]
    return max(opened, key=lambda n: n["score"])["node_id"]
"""


def main() -> None:
    """Replay every tree under the greedy policy."""
    from open_dream_rsi.core.policygen import PolicySandbox, rollout_score  # noqa: PLC0415 - where the peer is
    from open_dream_rsi.core.tree import DiscoveryTree  # noqa: PLC0415

    trees = []
    for recorded in json.load(sys.stdin)["trees"]:
        tree = DiscoveryTree()
        tree.add_node("root", "root", {}, 0.0)
        for attempt in recorded["attempts"]:
            score = attempt["score"] or 0.0  # it knows no attempt without one
            tree.add_node(attempt["id"], "try", {"errors": [attempt["feedback"]]}, score, attempt["parent"] or "root")
        trees.append(tree)
    sandbox = PolicySandbox()
    began = sum(os.times()[:4])
    for tree in trees:
        _, error = rollout_score(sandbox, POLICY, tree)
        if error:
            raise RuntimeError(error)
    print(json.dumps({"cpu_s": sum(os.times()[:4]) - began, "replays": len(trees)}))


if __name__ == "__main__":
    main()

"""Run samples of hostile policies in a peer's sandbox: `python peer_hostile.py PEER`, as nobody, for a Python that finds it.

Reads {kind: policy} as JSON from standard input and prints {kind: what came of it} as JSON: the words of an error, or "answered".
"""

from __future__ import annotations

import asyncio
import json
import sys

PATIENCE_S = 3.0
REPLAYS = 2


def _in_dreamrsi(source: str) -> str:
    from dreamrsi.models.policy import PolicyView  # noqa: PLC0415 - where the peer is
    from dreamrsi.process_sandbox import ProcessPolicySandbox  # noqa: PLC0415

    view = PolicyView([], None, 1, 0, 0.0, 0)
    return str(asyncio.run(ProcessPolicySandbox().execute(source, view, PATIENCE_S)))


def _in_open_dream_rsi(source: str) -> str:
    from open_dream_rsi.core.policygen import PolicySandbox, rollout_score  # noqa: PLC0415
    from open_dream_rsi.core.tree import DiscoveryTree  # noqa: PLC0415

    tree = DiscoveryTree()
    tree.add_node("root", "root", {}, 0.0)
    tree.add_node("n1", "try", {"errors": ["seen-by-nobody"]}, 1.0, "root")
    error = rollout_score(PolicySandbox(PATIENCE_S), source, tree)[1]
    if error:
        raise RuntimeError(error)
    return "answered"


def main(peer: str) -> None:
    """Try every kind, and again where the first replay left something for the second."""
    run = {"dreamrsi": _in_dreamrsi, "open-dream-rsi": _in_open_dream_rsi}[peer]
    came = {}
    for kind, source in json.load(sys.stdin).items():
        words = []
        for _ in range(REPLAYS):
            try:
                words.append(run(source))
            except Exception as error:  # noqa: BLE001 - whatever the peer reports
                words.append(str(error))
        came[kind] = " / ".join(words)
    print(json.dumps(came))


if __name__ == "__main__":
    main(sys.argv[1])

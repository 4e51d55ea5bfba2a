"""Open many branches, give each a little, keep the better part, and repeat."""

import math
from typing import Any

WIDTH = 8  # branches to open
RUNG = 3  # attempts that each surviving branch gets between two cuts
KEEP = 0.5  # share of the branches that survives a cut


def standing(node: Any) -> float:
    """Rank a node by its score, below all others where it has none."""
    return -math.inf if node.score is None else node.score


class Policy:
    """Let branches compete: what looks worst after every rung gets nothing more.

    Branches are compared by their best score, so that only the order of scores matters.
    A branch that cannot go on waits for the cut with the score it has. The search ends
    when the last survivor has had its rung.
    """

    def __init__(self, context: Any) -> None:
        self.max_batch = context.limits.max_batch
        self.alive: list[int] = []
        self.due = 0

    def decide(self, view: Any) -> list[int]:
        """Open what is missing, then continue the survivors and cut after each rung."""
        root = view.nodes[0]
        missing = WIDTH - len(root.children)
        if missing > 0 and not root.closed:
            return [root.id] * min(missing, self.max_batch)
        if not self.due:
            self.alive, self.due = list(root.children), 1 + RUNG

        spent = dict.fromkeys(root.children, 0)
        best = dict.fromkeys(root.children, -math.inf)
        for node in view.nodes[1:]:
            spent[node.branch] += 1
            best[node.branch] = max(best[node.branch], standing(node))
        tips = {}
        for node in sorted((view.nodes[i] for i in view.selectable), key=standing):
            if node is not root and not node.closed:
                tips[node.branch] = node.id

        while True:
            waiting = [b for b in self.alive if b in tips and spent[b] < self.due]
            if waiting or len(self.alive) <= 1:
                waiting.sort(key=spent.__getitem__)
                return [tips[branch] for branch in waiting[: self.max_batch]]
            survivors = min(len(self.alive) - 1, math.ceil(len(self.alive) * KEEP))
            self.alive.sort(key=best.__getitem__, reverse=True)
            del self.alive[survivors:]
            self.due += RUNG

"""The template parallel_refine, sabotaged: every round spends one more attempt on a new branch that nothing goes on from."""

import math
from collections import Counter
from typing import Any

WIDTH = 8  # branches to open
DEPTH = 8  # attempts that each branch gets, its first one included


def standing(node: Any) -> float:
    """Rank a node by its score, below all others where it has none."""
    return -math.inf if node.score is None else node.score


class Policy:
    """Spend the same on every branch, whatever the scores say.

    A branch is continued from its best node that is not closed, which on the leaf
    frontier is its only leaf. The branch with the fewest attempts comes first, so that
    more branches than fit in one batch still grow evenly.
    """

    def __init__(self, context: Any) -> None:
        self.max_batch = context.limits.max_batch

    def decide(self, view: Any) -> list[int]:
        """Open what is missing, then continue every branch that is not deep enough."""
        root = view.nodes[0]
        missing = WIDTH - len(root.children)
        if missing > 0 and not root.closed:
            return [root.id] * min(missing, self.max_batch)
        spent = Counter(node.branch for node in view.nodes)
        tips = {}
        for node in sorted((view.nodes[i] for i in view.selectable), key=standing):
            if node is not root and not node.closed and spent[node.branch] < DEPTH:
                tips[node.branch] = node.id
        refined = [branch for branch in tips if branch in root.children[:WIDTH]]
        due = sorted(refined, key=lambda branch: (spent[branch], branch))
        picks = [tips[branch] for branch in due[: self.max_batch - 1]]
        return [*picks, root.id] if picks else []

"""Continue the best of what is left, or now and then a random one, four at a time."""

import random


class Policy:
    def __init__(self, context):
        self.width = 4
        self.rng = random.Random(context.seed)

    def decide(self, view):
        candidates = [view.nodes[0], *view.leaves]
        picks = []
        for _ in range(min(self.width, len(candidates))):
            scored = [node for node in candidates if node.score is not None]
            if self.rng.random() < 0.1 or not scored:
                chosen = self.rng.choice(candidates)
            else:
                chosen = max(scored, key=lambda node: node.score)
            picks.append(chosen.id)
            candidates.remove(chosen)
        return picks

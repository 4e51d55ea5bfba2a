"""Continue the nodes with the highest scores, four at a time; nodes without a score come last."""


class Policy:
    def __init__(self, context):
        self.width = 4

    def decide(self, view):
        frontier = [view.nodes[0], *view.leaves]
        scored = [node for node in frontier if node.score is not None]
        scored.sort(key=lambda node: node.score, reverse=True)
        unscored = [node for node in frontier if node.score is None]
        return [node.id for node in (scored + unscored)[: self.width]]

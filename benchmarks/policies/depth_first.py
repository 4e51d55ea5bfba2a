"""Continue the deepest nodes first, four at a time."""


class Policy:
    def __init__(self, context):
        self.width = 4

    def decide(self, view):
        frontier = [view.nodes[0], *view.leaves]
        frontier.sort(key=lambda node: node.depth, reverse=True)
        return [node.id for node in frontier[: self.width]]

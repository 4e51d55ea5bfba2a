"""Open four branches and refine each to depth five."""


class Policy:
    def __init__(self, context):
        self.branches = 4
        self.depth = 5

    def decide(self, view):
        refine = [node for node in view.leaves if node.depth < self.depth]
        refine.sort(key=lambda node: node.depth, reverse=True)
        picks = [node.id for node in refine[: self.branches]]
        if len(picks) < self.branches and len(view.nodes[0].children) < self.branches:
            picks.append(0)
        return picks

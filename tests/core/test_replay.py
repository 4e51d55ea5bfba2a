"""The rules of replay, sentence by sentence (design.md, section 3), and what a policy sees and may answer (section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from builders import Scripted, tree

from harness.errors import TreeError
from harness.replay import InProcess, Replay, Stop, replay
from harness.tree import Attempt, Direction, Root, Tree
from sandbox.api import Context, FaultKind, Frontier, Limits, Node, Observation, PolicyFault, ReadOnlyList, Rule, View, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.replay import Trajectory


def run(on: Tree, *batches: Sequence[str], frontier: Frontier | None = None, **limits: Any) -> Trajectory:
    """Take a script of recorded names through a tree; past its end it answers []."""
    return replay(on, Scripted(on, batches), Limits(**limits), frontier)


def revealed(on: Tree, trajectory: Trajectory) -> list[tuple[str, ...]]:
    return [on.ids(taken.revealed) for taken in trajectory.rounds]


def view_after(on: Tree, *batches: Sequence[int]) -> View:
    """Return the view of the round after these batches of ids."""
    taken, view = Replay(on, Limits()), View(on.frontier.value)
    for batch in batches:
        view.update(taken.observe())
        taken.answer(batch)
    return view.update(taken.observe())


# Rule 1


def test_replay_starts_with_the_root_alone() -> None:
    on = tree("root>a", "a>b", root=0.5)
    assert Replay(on, Limits()).observe() == Observation(1, [(-1, on.outcomes[0])], [])


def test_no_state_survives_from_another_replay() -> None:
    on = tree("root>a", "root>b")
    assert run(on, ["root"], ["root"]) == run(on, ["root"], ["root"])


# Rule 2


def test_replay_ends_when_nothing_pickable_has_an_unrevealed_child() -> None:
    on = tree("root>a", "a>b")
    trajectory = run(on, ["root"], ["a"], ["b"])
    assert (trajectory.stop, len(trajectory.rounds)) == (Stop.EXHAUSTED, 2)


def test_on_the_leaf_frontier_a_second_child_of_an_inner_node_is_out_of_reach() -> None:
    """Node "a" has two recorded children; once one is revealed "a" is no leaf, and nothing else is left to pick."""
    on = tree("root>a", "a>b", "a>c")
    assert run(on, ["root"], ["a"]).stop is Stop.EXHAUSTED
    assert revealed(on, run(on, ["root"], ["a"], ["a"], frontier=Frontier.ANY)) == [("a",), ("b",), ("c",)]


def test_tree_without_attempts_is_exhausted_before_the_first_question() -> None:
    assert run(tree(), ["root"], max_rounds=0) == replay(tree(), Scripted(tree(), []), Limits())


@pytest.mark.parametrize(("limits", "stop"), [({"max_rounds": 0}, Stop.MAX_ROUNDS), ({"max_attempts": 0}, Stop.MAX_ATTEMPTS)])
def test_limit_of_zero_asks_nothing(limits: dict[str, int], stop: Stop) -> None:
    trajectory = run(tree("root>a"), ["root"], **limits)
    assert (trajectory.stop, trajectory.rounds) == (stop, ())


def test_reasons_to_stop_are_tried_in_order() -> None:
    """The last round leaves nothing to reveal and meets both limits: exhausted comes first, then rounds, then attempts."""
    on = tree("root>a", "root>b")
    assert run(on, ["root"], ["root"], max_rounds=2, max_attempts=2).stop is Stop.EXHAUSTED
    assert run(on, ["root"], ["root"], max_rounds=1, max_attempts=1).stop is Stop.MAX_ROUNDS
    assert run(on, ["root"], ["root"], max_rounds=2, max_attempts=1).stop is Stop.MAX_ATTEMPTS


# Rule 3


def test_empty_batch_stops_and_is_no_round() -> None:
    trajectory = run(tree("root>a", "root>b"), ["root"], [])
    assert (trajectory.stop, len(trajectory.rounds), trajectory.fault) == (Stop.POLICY_STOPPED, 1, None)


def test_batch_limit_of_zero_leaves_only_the_empty_batch() -> None:
    assert run(tree("root>a"), [], max_batch=0).stop is Stop.POLICY_STOPPED
    assert run(tree("root>a"), ["root"], max_batch=0).stop is Stop.POLICY_ERROR


# Rule 4


@pytest.mark.parametrize(
    ("batch", "rule", "told"),
    [
        (["b", "b", "a", "?", "root"], Rule.BATCH_TOO_LARGE, "a batch may hold 4 picks and this one holds more"),
        (["b", "b", "a", "?"], Rule.UNKNOWN_NODE, "node 4294967295 has not been revealed; ids run from 0 to 2"),
        (["b", "b", "a"], Rule.NOT_SELECTABLE, "node 1 has been continued; on the leaf frontier only the root and leaves may be"),
        (["root", "b", "root", "b"], Rule.DUPLICATE_PICK, "leaf 2 stands twice in one batch; on the leaf frontier only the root"),
    ],
)
def test_first_broken_rule_names_the_fault(batch: list[str], rule: Rule, told: str) -> None:
    """Each batch breaks the rules after its own as well; nothing of it is served and the round does not count."""
    on = tree("root>a", "a>b", "b>c", "root>d")
    trajectory = run(on, ["root"], ["a"], batch, max_batch=4)

    assert trajectory.stop is Stop.POLICY_ERROR
    assert revealed(on, trajectory) == [("a",), ("b",)]
    assert trajectory.fault is not None
    assert (trajectory.fault.kind, trajectory.fault.rule, trajectory.fault.round) == (FaultKind.BAD_ANSWER, rule, 3)
    assert trajectory.fault.message.startswith(told)


def test_batch_is_checked_against_what_was_revealed_when_the_round_began() -> None:
    """The pick of "root" reveals "a" within this round, so its id is not known yet."""
    on = tree("root>a", "a>b")
    taken = Replay(on, Limits())
    with pytest.raises(PolicyFault) as caught:
        taken.answer([0, 1])
    assert caught.value.fault.rule is Rule.UNKNOWN_NODE


@pytest.mark.parametrize("node", [-1, 1, 2**32, 2**200, 10**5000, -(10**5000)], ids=lambda node: f"{node.bit_length()} bits")
def test_any_number_that_is_no_revealed_id_is_an_unknown_node(node: int) -> None:
    with pytest.raises(PolicyFault) as caught:
        Replay(tree("root>a"), Limits()).answer([node])
    assert caught.value.fault.rule is Rule.UNKNOWN_NODE
    assert len(caught.value.fault.message) < 120


def test_on_the_any_frontier_every_revealed_node_may_be_picked_and_often() -> None:
    on = tree("root>a", "a>b", "a>c", "a>d", frontier="any")
    assert revealed(on, run(on, ["root"], ["a"], ["a", "a", "b"])) == [("a",), ("b",), ("c", "d")]


# Rule 5


def test_picks_are_served_in_order_and_reveal_children_in_creation_order() -> None:
    on = tree("root>a", "root>b", "a>c", "root>d", "b>e")
    assert revealed(on, run(on, ["root", "root"], ["b", "root", "a"])) == [("a", "b"), ("e", "d", "c")]


def test_pick_without_a_recorded_continuation_reveals_nothing_is_wasted_and_closes_the_node() -> None:
    on = tree("root>a", "root>b")
    trajectory = run(on, ["root"], ["a", "root"])
    assert [(on.ids(taken.revealed), taken.wasted) for taken in trajectory.rounds] == [(("a",), 0), (("b",), 1)]

    view = view_after(tree("root>a", "root>b", "root>c"), [0], [1, 0])
    assert [node.closed for node in view.nodes] == [False, True, False]


def test_node_is_not_closed_before_a_pick_of_it_came_back_empty() -> None:
    """Node "a" is the end of its record, which nobody has seen yet."""
    view = view_after(tree("root>a", "root>b"), [0])
    assert [node.closed for node in view.nodes] == [False, False]


def test_picks_past_max_attempts_are_dropped_and_not_wasted() -> None:
    on = tree("root>a", "root>b", "root>c", "root>d")
    trajectory = run(on, ["root", "root", "root"], max_attempts=2)
    assert revealed(on, trajectory) == [("a", "b")]
    assert (trajectory.stop, trajectory.rounds[0].picks, trajectory.rounds[0].wasted) == (Stop.MAX_ATTEMPTS, (0, 0, 0), 0)


# Rule 6


def test_round_counts_also_when_it_revealed_nothing() -> None:
    on = tree("root>a", "root>b")
    trajectory = run(on, ["root"], ["a"], ["a"], max_rounds=3)
    assert (trajectory.stop, revealed(on, trajectory)) == (Stop.MAX_ROUNDS, [("a",), (), ()])


# Trees


def test_smaller_is_better_where_the_tree_says_so_and_a_zero_has_no_sign() -> None:
    on = Tree("t", (Attempt("a", None, 2.0), Attempt("b", None, None)), direction=Direction.MIN, root=Root(0.0))
    assert on.scores == (0.0, -2.0, None)
    assert str(on.scores[0]) == "0.0"


@pytest.mark.parametrize("direction", Direction)
def test_scores_are_floats_however_they_are_written(direction: Direction) -> None:
    on = Tree("t", (Attempt("a", None, 3),), direction=direction, root=Root(1))
    assert [type(score) for score in on.scores] == [float, float]


def test_tree_refuses_a_parent_that_is_not_recorded_before_and_a_taken_id() -> None:
    with pytest.raises(TreeError, match="t: node 'a' names parent 'b', which is not recorded before it"):
        Tree("t", (Attempt("a", "b", 1.0), Attempt("b", None, 1.0)))
    with pytest.raises(TreeError, match="t: node id 'a' is taken; ids must be unique"):
        Tree("t", (Attempt("a", None, 1.0), Attempt("a", None, 1.0)))


def test_identity_is_of_what_is_recorded_not_of_how_a_number_is_written() -> None:
    whole, broken = Tree("t", (Attempt("a", None, 1),)), Tree("t", (Attempt("a", None, 1.0),))
    other = Tree("t", (Attempt("a", None, 1.5),))
    assert whole.digest == broken.digest != other.digest


# What a policy sees


def test_view_shows_nodes_in_order_of_revelation() -> None:
    on = tree("root>a", "root>b", "a>c", "c>d", root=1.0, scores={"a": 0.5, "b": 3.0, "c": 3.0})
    view = view_after(on, [0, 0], [1])

    assert [(node.id, node.parent, node.depth, node.branch, node.round, node.children) for node in view.nodes] == [
        (0, None, 0, 0, 0, [1, 2]),
        (1, 0, 1, 1, 1, [3]),
        (2, 0, 1, 2, 1, []),
        (3, 1, 2, 1, 2, []),
    ]
    assert (view.round, view.attempts) == (3, 3)
    assert [node.id for node in view.new] == [3]
    assert [node.id for node in view.leaves] == [2, 3]
    assert view.selectable == [0, 2, 3]
    assert view.pending == []
    assert view.best is view.nodes[2], "of equals the first"


def test_first_view_is_the_root_alone() -> None:
    view = view_after(tree("root>a", root=None))
    assert ([node.id for node in view.new], view.leaves, view.selectable, view.best) == ([0], [], [0], None)
    assert (view.round, view.attempts) == (1, 0)


def test_on_the_any_frontier_every_revealed_node_is_selectable() -> None:
    assert view_after(tree("root>a", "a>b", "b>c", frontier="any"), [0], [1]).selectable == [0, 1, 2]


def test_node_shows_outcome_cost_and_text_cut_to_size() -> None:
    attempt = Attempt(
        "x",
        None,
        None,
        "rejected",
        {"loss": 2.0},
        "f" * 3000,
        {"seconds": 1.5, "usd": None, "gpu_hours": 2},
        "h" * 600,
    )
    view = view_after(Tree("t", (attempt, Attempt("y", None, 1.0))), [0])
    node = view.nodes[1]
    assert (node.score, node.status, node.metrics) == (None, "invalid", {"loss": 2.0})
    assert (node.cost.seconds, node.cost.tokens, node.cost.usd) == (1.5, None, None)
    assert (len(node.feedback), len(node.hypothesis)) == (2000, 500)


def test_policy_cannot_change_the_tree_through_what_it_sees() -> None:
    on = Tree("t", (Attempt("a", None, 1.0, metrics={"m": 1.0}), Attempt("b", "a", 1.0)))
    view_after(on, [0]).nodes[1].metrics.clear()
    assert view_after(on, [0]).nodes[1].metrics == {"m": 1.0}


def test_pending_ids_are_shown() -> None:
    root = Observation(1, [(-1, tree().outcomes[0])], pending=(0,))
    assert View("leaf").update(root).pending == [0]


def test_lists_that_are_the_policys_own_may_be_changed() -> None:
    view = view_after(tree("root>a", "root>b"), [0])
    view.selectable.clear()
    view.leaves.clear()
    assert (view.selectable, [node.id for node in view.leaves]) == ([0, 1], [1])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "append": lambda nodes: nodes.append(1),
    "extend": lambda nodes: nodes.extend([1]),
    "insert": lambda nodes: nodes.insert(0, 1),
    "pop": lambda nodes: nodes.pop(),
    "remove": lambda nodes: nodes.remove(nodes[0]),
    "clear": lambda nodes: nodes.clear(),
    "sort": lambda nodes: nodes.sort(key=id, reverse=True),
    "reverse": lambda nodes: nodes.reverse(),
    "set": lambda nodes: nodes.__setitem__(0, 1),
    "delete": lambda nodes: nodes.__delitem__(slice(None)),
    "add": lambda nodes: nodes.__iadd__([1]),
    "multiply": lambda nodes: nodes.__imul__(2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_list_of_nodes_refuses_to_be_changed_and_says_what_to_do(change: str) -> None:
    view = view_after(tree("root>a"))
    with pytest.raises(TypeError, match=r"belongs to the view and cannot be changed; make your own with list\(\.\.\.\)"):
        CHANGES[change](view.nodes)
    assert [node.id for node in view.nodes] == [0]


def test_list_of_nodes_reads_like_any_list() -> None:
    nodes = ReadOnlyList([3, 1, 2])
    assert (nodes[0], nodes[-1], nodes[1:], sorted(nodes), len(nodes), 1 in nodes) == (3, 2, [1, 2], [1, 2, 3], 3, True)
    assert [*nodes, 4] == [3, 1, 2, 4]


def test_node_reads_well_in_a_policys_own_traceback() -> None:
    assert repr(Node(0, None, tree(root=0.5).outcomes[0], 0)) == "Node(id=0, parent=None, score=0.5, status='ok')"


# What a policy may answer


class Sly(list[int]):
    """A list that shows another one than it holds."""

    def __iter__(self) -> Any:
        return iter([0])


class Big(int):
    """An int with tricks."""


@pytest.mark.parametrize("answer", [[], [0], (0, 5), [0, 0], [-1], [10**30]])
def test_list_or_tuple_of_ints_is_a_batch(answer: Any) -> None:
    assert batch_of(answer) == list(answer)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "decide returned a NoneType; expected a list of int"),
        (0, "decide returned a int; expected a list of int"),
        ("0", "decide returned a str; "),
        (b"\0", "decide returned a bytes; "),
        ({0}, "decide returned a set; "),
        ({0: 1}, "decide returned a dict; "),
        (range(1), "decide returned a range; "),
        (iter([0]), "decide returned a list_iterator; "),
        (Sly([0]), "decide returned a Sly; "),
        ([True], "decide returned a list with an element of type bool; "),
        ([0, 1.0], "decide returned a list with an element of type float; "),
        (("0",), "decide returned a tuple with an element of type str; "),
        ([Big(0)], "decide returned a list with an element of type Big; "),
        ([[0]], "decide returned a list with an element of type list; "),
        ([None], "decide returned a list with an element of type NoneType; "),
    ],
)
def test_anything_else_is_no_list(answer: Any, told: str) -> None:
    with pytest.raises(PolicyFault) as caught:
        batch_of(answer)
    assert (caught.value.fault.kind, caught.value.fault.rule) == (FaultKind.BAD_ANSWER, Rule.NOT_A_LIST)
    assert caught.value.fault.message.startswith(told)


class Follows:
    """Opens a branch and follows the newest node."""

    def __init__(self, context: Context) -> None:
        self.width = context.params["width"]

    def decide(self, view: View) -> list[int]:
        """Return the newest node, or the root where there is none."""
        return [view.nodes[-1].id] if view.attempts % self.width else [0]


def test_trusted_policy_meets_the_same_interface_in_this_process() -> None:
    on = tree("root>a", "a>b", "root>c", "c>d")
    trajectory = replay(on, InProcess(Follows, Context({"width": 2}, 0, Limits(), "leaf")), Limits())
    assert (revealed(on, trajectory), trajectory.stop) == ([("a",), ("b",), ("c",), ("d",)], Stop.EXHAUSTED)

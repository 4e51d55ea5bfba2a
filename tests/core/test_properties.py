"""What holds for every tree and every way of picking: replay shows what was revealed, all of it, and nothing else."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.replay import InProcess, Replay, Stop, replay
from harness.score import Normalize, Settings, Weights, figures
from harness.tree import Attempt, Direction, Root, Tree
from sandbox.api import FEEDBACK_CHARACTERS, HYPOTHESIS_CHARACTERS, Context, Frontier, Limits, PolicyFault, View

if TYPE_CHECKING:
    from collections.abc import Sequence

# A busy machine draws slowly, which says nothing about the code.
ORDINARY = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])

scores = st.none() | st.floats(-1e6, 1e6) | st.integers(-5, 5).map(float)
limits = st.builds(
    Limits,
    max_rounds=st.integers(0, 12),
    max_batch=st.integers(1, 5),
    max_attempts=st.none() | st.integers(0, 15),
)


@st.composite
def attempts(draw: st.DrawFn, most: int = 15) -> tuple[Attempt, ...]:
    made: list[Attempt] = []
    for place in range(draw(st.integers(0, most))):
        # One above the last place stands for the root, so that small draws make chains and large ones branches.
        above = draw(st.integers(0, place))
        parent = None if above == place else made[place - 1 - above].id
        status = draw(st.sampled_from(["ok", "failed", "timeout", "invalid", "rejected"]))
        score = draw(scores) if status == "ok" else None
        feedback = draw(st.sampled_from(["", "a word"]))
        made.append(Attempt(f"n{place * 7 % 31}-{place}", parent, score, status, {"m": float(place % 3)}, feedback))
    return tuple(made)


@st.composite
def trees(draw: st.DrawFn, most: int = 15) -> Tree:
    return Tree(
        "drawn",
        draw(attempts(most)),
        direction=draw(st.sampled_from(Direction)),
        frontier=draw(st.sampled_from(Frontier)),
        root=Root(draw(scores)),
    )


# A way of picking: for each round, numbers that choose among what may be picked.
scripts = st.lists(st.lists(st.integers(0, 50), max_size=6), max_size=15)


class Picker:
    """A policy that picks by a script of numbers among the selectable ids and remembers all that it was shown."""

    def __init__(self, context: Context) -> None:
        self._rounds: list[list[int]] = list(context.params["script"])
        self._most = context.limits.max_batch
        self._leaf = context.frontier == "leaf"
        self.seen: list[Any] = context.params["seen"]

    def decide(self, view: View) -> list[int]:
        """Return a batch that keeps every rule."""
        self.seen.append(shown(view))
        if not self._rounds:
            return []
        able = view.selectable
        picks: list[int] = []
        for number in self._rounds.pop(0)[: self._most]:
            node = able[number % len(able)]
            if node == 0 or not self._leaf or node not in picks:
                picks.append(node)
        return picks


def shown(view: View) -> Any:
    """Return all that a policy can read from a view."""
    nodes = [
        (
            *(node.id, node.parent, tuple(node.children), node.depth, node.branch, node.round, node.score, node.status),
            *(tuple(node.metrics.items()), node.feedback, node.cost, node.hypothesis, node.closed),
        )
        for node in view.nodes
    ]
    best = None if view.best is None else view.best.id
    ids = ([node.id for node in view.new], [node.id for node in view.leaves], list(view.selectable), list(view.pending))
    return nodes, ids, best, view.round, view.attempts


@dataclass
class Played:
    """A finished replay with everything the policy was shown."""

    trajectory: Any
    seen: list[Any]


def play(tree: Tree, script: Sequence[Sequence[int]], given_limits: Limits) -> Played:
    seen: list[Any] = []
    context = Context({"script": script, "seen": seen}, 0, given_limits, tree.frontier.value)
    return Played(replay(tree, InProcess(Picker, context), given_limits), seen)


class Model:
    """The rules of design.md, section 3, as slow as they read."""

    def __init__(self, tree: Tree, given_limits: Limits) -> None:
        self.tree, self.limits = tree, given_limits
        self.revealed = [0]
        self.rounds = self.wasted = 0

    def children(self, place: int) -> list[int]:
        """Return recorded children in creation order."""
        name = None if place == 0 else self.tree.attempts[place - 1].id
        return [child for child, attempt in enumerate(self.tree.attempts, start=1) if attempt.parent == name]

    def hidden(self, place: int) -> list[int]:
        """Return the children that are not revealed."""
        return [child for child in self.children(place) if child not in self.revealed]

    def pickable(self) -> list[int]:
        """Return the ids on the frontier."""
        return [
            node
            for node, place in enumerate(self.revealed)
            if node == 0 or self.tree.frontier is Frontier.ANY or not set(self.children(place)) & set(self.revealed)
        ]

    def stop(self) -> Stop | None:
        """Return why the policy is not asked again."""
        if not any(self.hidden(self.revealed[node]) for node in self.pickable()):
            return Stop.EXHAUSTED
        if self.rounds == self.limits.max_rounds:
            return Stop.MAX_ROUNDS
        if len(self.revealed) - 1 == self.limits.max_attempts:
            return Stop.MAX_ATTEMPTS
        return None

    def serve(self, places: Sequence[int]) -> list[int]:
        """Serve a valid batch and return what it revealed."""
        self.rounds += 1
        new = []
        for place in places:
            if len(self.revealed) - 1 == self.limits.max_attempts:
                break
            hidden = self.hidden(place)
            if hidden:
                self.revealed.append(hidden[0])
                new.append(hidden[0])
            else:
                self.wasted += 1
        return new


@ORDINARY
@given(trees(), scripts, limits)
def test_replay_is_what_the_rules_say(tree: Tree, script: list[list[int]], given_limits: Limits) -> None:
    """Round by round, the trajectory equals a model that reads the rules literally, and ends for the same reason."""
    trajectory = play(tree, script, given_limits).trajectory
    model = Model(tree, given_limits)

    for taken in trajectory.rounds:
        assert model.stop() is None
        assert tuple(model.serve(taken.picks)) == taken.revealed
    assert trajectory.stop == (model.stop() or Stop.POLICY_STOPPED)
    assert sum(taken.wasted for taken in trajectory.rounds) == model.wasted


@ORDINARY
@given(trees(), scripts, limits, st.booleans())
def test_figures_equal_those_recomputed_from_the_trajectory(
    tree: Tree, script: list[list[int]], given_limits: Limits, as_it_is: bool
) -> None:
    weights = Weights(0.001, 0.005, Normalize.NONE if as_it_is else Normalize.TREE)
    trajectory = play(tree, script, given_limits).trajectory
    found = figures(trajectory, tree, Settings(weights=weights))
    model = Model(tree, given_limits)
    for taken in trajectory.rounds:
        model.serve(taken.picks)
    sign = -1 if tree.direction is Direction.MIN else 1
    raw = [tree.root.score, *(attempt.score for attempt in tree.attempts)]
    known = [sign * score for score in raw if score is not None]

    assert (found.n, found.k, found.wasted) == (len(model.revealed) - 1, model.rounds, model.wasted)
    if not known:
        assert (found.value, found.quality, found.best) == (None, None, None)
        return
    floor = min(known) if tree.root.score is None else sign * tree.root.score
    reached = [sign * score for score in (raw[place] for place in model.revealed) if score is not None]
    best = max(reached, default=floor)
    quality = best if as_it_is else 1.0 if max(known) == floor else (best - floor) / (max(known) - floor)
    assert (found.best, found.quality) == (best, quality)
    assert found.value == quality - 0.001 * found.n + 0.005 * found.n / max(1, found.k)


@ORDINARY
@given(trees(), scripts, limits)
def test_revealed_is_part_of_the_tree_and_closed_under_parents(tree: Tree, script: list[list[int]], given_limits: Limits) -> None:
    revealed = play(tree, script, given_limits).trajectory.revealed
    names = tree.ids(revealed)
    assert len(set(revealed)) == len(revealed)
    assert set(revealed) <= set(range(1, len(tree.attempts) + 1))
    for turn, place in enumerate(revealed):
        parent = tree.attempts[place - 1].parent
        assert parent is None or parent in names[:turn]


@ORDINARY
@given(trees(), scripts, limits)
def test_same_inputs_give_the_same_trajectory_and_the_same_views(
    tree: Tree, script: list[list[int]], given_limits: Limits
) -> None:
    first, second = play(tree, script, given_limits), play(tree, script, given_limits)
    assert first.trajectory == second.trajectory
    assert first.seen == second.seen


@ORDINARY
@given(trees(), scripts, limits)
def test_ids_are_dense_in_order_of_revelation_and_show_the_recorded_outcome(
    tree: Tree, script: list[list[int]], given_limits: Limits
) -> None:
    played = play(tree, script, given_limits)
    order = (0, *played.trajectory.revealed)
    sizes = [1]
    for taken in played.trajectory.rounds:
        sizes.append(sizes[-1] + len(taken.revealed))

    for turn, (nodes, ids, best, number, count) in enumerate(played.seen, start=1):
        size = sizes[turn - 1]
        new = size - sizes[turn - 2] if turn > 1 else 1
        scored = [node[6] for node in nodes if node[6] is not None]
        assert (number, count) == (turn, size - 1)
        assert [node[0] for node in nodes] == list(range(size))
        assert [node[6] for node in nodes] == [tree.scores[place] for place in order[:size]]
        assert ids[0] == list(range(size - new, size))
        assert best == next((node[0] for node in nodes if scored and node[6] == max(scored)), None)


# What is hidden


@st.composite
def twins(draw: st.DrawFn) -> tuple[Tree, Tree, list[list[int]], Limits]:
    """Draw a tree, a way of picking, and a second tree that agrees on all that gets revealed and differs in all else."""
    tree, script, given_limits = draw(trees()), draw(scripts), draw(limits)
    trajectory = play(tree, script, given_limits).trajectory
    revealed = {None, *tree.ids(trajectory.revealed)}
    # A node that answered a pick with nothing has shown that it has no further child; so must its twin.
    ended = set()
    model = Model(tree, given_limits)
    for taken in trajectory.rounds:
        before = {place: len(model.hidden(place)) for place in taken.picks}
        ended |= {place for place in taken.picks if taken.picks.count(place) > before[place] and taken.wasted}
        model.serve(taken.picks)
    closed = {None if place == 0 else tree.attempts[place - 1].id for place in ended}

    kept = [attempt for attempt in tree.attempts if attempt.id in revealed]
    names = {attempt.id: f"twin-{draw(st.integers(0, 999))}-{place}" for place, attempt in enumerate(kept)}
    names_of: dict[str | None, str | None] = {None: None, **names}
    made = [
        replace(
            attempt,
            id=names[attempt.id],
            parent=names_of[attempt.parent],
            parents=("elsewhere",),
            snapshot=draw(st.none() | st.just("sha256:1")),
            terminal=draw(st.none() | st.booleans()),
            created_at=draw(st.none() | st.floats(0, 1e9)),
            extra={"island": draw(st.integers(0, 9))},
        )
        for attempt in kept
    ]
    more = draw(st.lists(st.tuples(st.integers(0, 50), scores), max_size=10))
    open_to = [names_of[name] for name in names_of if name not in closed]
    for place, (number, score) in enumerate(more if open_to else []):
        made.append(Attempt(f"hidden-{place}", open_to[number % len(open_to)], score))
        open_to.append(f"hidden-{place}")
    twin = replace(tree, name="twin", task="another", source={"system": "another"}, attempts=tuple(made))
    return tree, twin, script, given_limits


@ORDINARY
@given(twins())
def test_view_shows_nothing_of_what_is_hidden(pair: tuple[Tree, Tree, list[list[int]], Limits]) -> None:
    """Two trees that agree on what was revealed are shown alike, whatever ids, nodes, counts, order or scores they hide."""
    tree, twin, script, given_limits = pair
    ours, theirs = play(tree, script, given_limits), play(twin, script, given_limits)

    # A tree that hides nothing more ends; the policy, not being asked again, does not learn it.
    asked = min(len(ours.seen), len(theirs.seen))
    assert ours.seen[:asked] == theirs.seen[:asked]
    if len(ours.seen) != len(theirs.seen):
        assert (ours if len(ours.seen) == asked else theirs).trajectory.stop is Stop.EXHAUSTED


@given(st.text(max_size=5), st.text(max_size=5))
def test_text_past_the_limit_is_hidden_too(one: str, other: str) -> None:
    def shown_with(end: str) -> Any:
        attempt = Attempt("a", None, 1.0, feedback="f" * FEEDBACK_CHARACTERS + end, hypothesis="h" * HYPOTHESIS_CHARACTERS + end)
        return Tree("t", (attempt,)).outcomes[1]

    assert shown_with(one) == shown_with(other)
    assert shown_with(one)[3:6:2] == ("f" * FEEDBACK_CHARACTERS, "h" * HYPOTHESIS_CHARACTERS)


# What may be picked


@settings(ORDINARY, max_examples=60)
@given(trees(8), scripts)
def test_selectable_is_exactly_what_is_accepted_and_a_bad_batch_reveals_nothing(tree: Tree, script: list[list[int]]) -> None:
    given_limits = Limits(max_batch=5)
    run, view = Replay(tree, given_limits), View(tree.frontier.value)
    picker = Picker(Context({"script": script, "seen": []}, 0, given_limits, tree.frontier.value))
    while run.stop is None:
        observation = run.observe()
        view.update(observation)
        before = list(run.rounds)
        accepted = []
        for node in range(-2, len(view.nodes) + 3):
            trial = copy.deepcopy(run)
            try:
                trial.answer([node])
            except PolicyFault:
                with pytest.raises(PolicyFault):
                    run.answer([*view.selectable[:2], node])
                assert (run.rounds, run.stop, run.observe()) == (before, None, observation)
            else:
                accepted.append(node)
        assert sorted(view.selectable) == accepted
        run.answer(picker.decide(view))

"""Parallel branches that know of each other: the statements A1 to A62 of the specification, by their numbers.

What the explorer does with them is in `test_explorer.py`; what does not apply here is listed in docs/siblings.md.
"""

from __future__ import annotations

import math
import random
import re
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness import config
from harness.agents.base import Hypothesis, SiblingState
from harness.cli.run import Request, run_command
from harness.errors import InputError
from harness.explore.live import LiveTree
from harness.explore.registry import Flight, Registry
from harness.explore.siblings import SiblingRule, hypothesis_of, siblings
from harness.propose import templates
from harness.replay import InProcess
from harness.search import Finished, SiblingContext
from harness.tree import Attempt, Direction
from sandbox.api import HYPOTHESIS_CHARACTERS, Context, Frontier, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.api import Outcome

PROJECT = Path(__file__).parents[2]


def made(*attempts: tuple[int, int | None, float | None]) -> dict[int, Finished]:
    """Return attempts that have ended, as (number, parent, score)."""
    return {number: ended(number, order, parent, score) for order, (number, parent, score) in enumerate(attempts, start=1)}


def ended(number: int, order: int, parent: int | None, score: float | None) -> Finished:
    parts = {"component": f"c{number}", "statement": f"try {number}", "reason": ""}
    status = "ok" if score is not None else "failed"
    above = None if parent is None else f"a{parent}"
    extra = {"hypothesis_parts": parts}
    return Finished(
        number, order, 1, parent, Attempt(f"a{number}", above, score, status, hypothesis=f"try {number}", extra=extra)
    )


def flight(number: int, parent: int | None = None) -> Flight:
    return Flight(f"a{number}", number, parent, Hypothesis(f"c{number}", f"try {number}"))


def told(
    tree: dict[int, Finished], flights: Sequence[Flight] = (), parent: int | None = None, direction: Direction = Direction.MAX,
    **rule: Any,
) -> list[str]:  # fmt: skip
    return [one.attempt for one in siblings(SiblingRule(**rule), tree, flights, parent, direction)]


# Configuration


def test_a2_the_default_is_shown_and_documented(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = config.load({})

    assert loaded.settings.sibling_context is SiblingContext.NEW_BRANCH is SiblingRule().context
    assert "`new_branch` (the default)" in PROJECT.joinpath("docs", "siblings.md").read_text()


def test_a3_an_unknown_strategy_is_refused_and_the_known_ones_are_listed() -> None:
    with pytest.raises(InputError, match="sibling_context is 'luck'; expected off or new_branch or until_success or always"):
        config.load({"sibling_context": "luck"})


def test_a4_flags_that_exclude_each_other_are_both_named(tmp_path: Path) -> None:
    request = Request(tmp_path, None, 1, 1, (), fixed=True, control=True, resume=None, report=None, as_json=False)
    with pytest.raises(InputError, match="--fixed and --control"):
        run_command(request, config.load({"store": f"sqlite:///{tmp_path / 'h.db'}"}))


@pytest.mark.parametrize("rule", [{"count": 0}, {"chars": 0}, {"count": True}])
def test_a5_what_makes_no_sense_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"sibling_.* is .*; expected a whole number of at least 1"):
        SiblingRule(**rule)


@pytest.mark.parametrize("template", [*templates.load(), *templates.schedulers()], ids=lambda template: template.name)
def test_a5_every_scheduler_checks_its_parameters(template: templates.Template) -> None:
    """Branches at least 1, temperature above 0, exploration at least 0, patience and batches at least 1."""
    for name, value in (("width", 0), ("batch", 0), ("temperature", 0.0), ("exploration", -0.1), ("patience", -1)):
        if name in templates.defaults(template):
            with pytest.raises(InputError, match=name):
                templates.render(template, templates.defaults(template) | {name: value})


# Schedulers


class World:
    """A policy in a live tree in which attempts end when they are told to."""

    def __init__(self, name: str, limits: Limits | None = None, frontier: Frontier = Frontier.LEAF, **params: Any) -> None:
        template = next(one for one in templates.schedulers() if one.name == name)
        space: dict[str, Any] = {}
        exec(compile(templates.render(template, templates.defaults(template) | params), name, "exec"), space)  # noqa: S102 - our own
        self._policy = space["Policy"]
        self.limits = limits or Limits(1000, 64, None)
        self.tree = LiveTree((0.0, "ok", {}, "", (None, None, None), ""), self.limits, frontier)
        self.flying: list[int] = []
        self.parents: list[int] = [-1]
        self._decider = InProcess(self._policy, Context({}, 7, self.limits, frontier.value))
        self._round = 0

    def ask(self) -> list[int]:
        """Return the picks, which are in flight from then on."""
        self._round += 1
        picks = self._decider.decide(self.tree.observe(self._round, tuple(self.flying)))
        self.tree.admit(picks)
        self.flying += picks
        return picks

    def end(self, node: int, score: float | None = 1.0, seconds: float | None = None) -> int:
        """End an attempt from a node, and return its id."""
        self.flying.remove(node)
        outcome: Outcome = (score, "ok" if score is not None else "failed", {}, "", (seconds, None, None), "")
        self.parents.append(node)
        return self.tree.reveal(node, outcome)


NAMES = ("turns", "share", "chance", "puct")


@pytest.mark.parametrize("name", NAMES)
def test_a6_a7_a_scheduler_opens_exactly_its_branches_also_when_nothing_has_ended(name: str) -> None:
    world = World(name, width=5, batch=2)

    opened = [*world.ask(), *world.ask(), *world.ask()]

    assert opened == [0] * 5
    assert world.ask() == []
    for _ in range(5):
        world.end(0)
    assert 0 not in world.ask()


@pytest.mark.parametrize("name", NAMES)
def test_a8_what_is_in_flight_is_not_picked_again(name: str) -> None:
    world = World(name, width=6, batch=2)
    while len(world.flying) < 6:
        world.ask()
    for _ in range(6):
        world.end(0, score=random.Random(name).random())  # noqa: S311 - a draw, no secret

    picks = [pick for _ in range(3) for pick in world.ask()]

    assert sorted(picks) == sorted(set(picks))
    assert len(picks) == 6
    assert world.ask() == []


@pytest.mark.parametrize("exploration", [0.0, 0.5])
def test_a16_on_the_frontier_of_any_node_inner_ones_are_picked_as_well_and_none_in_flight(exploration: float) -> None:
    """Which nodes may be picked is the search's `frontier`: leaves only, or any node."""
    picked: dict[Frontier, list[int]] = {}
    for frontier in Frontier:
        world = World("puct", frontier=frontier, width=2, batch=1, exploration=exploration)
        world.ask()
        world.ask()
        world.end(0, 1.0)
        world.end(0, 5.0)
        picked[frontier] = [*world.ask()]
        world.end(2, 0.5)  # a step back: on any frontier, node 2 is still the better place to go on from
        for _ in range(3):
            picks = world.ask()
            assert not [pick for pick in picks if world.flying.count(pick) > 1]
            picked[frontier] += picks

    assert picked[Frontier.ANY].count(2) > picked[Frontier.LEAF].count(2) == 1


def test_a58_time_is_shared_among_branches_also_with_those_nobody_has_gone_on_from() -> None:
    world = World("share", width=3, batch=1)
    for _ in range(3):
        world.ask()
    pace = {1: 10.0, 2: 1.0, 3: 5.0}
    branch = {world.end(0, seconds=pace[number]): number for number in (1, 2, 3)}
    spent = dict(pace)
    for _ in range(60):
        (pick,) = world.ask()
        number = branch[pick]
        branch[world.end(pick, seconds=pace[number])] = number
        spent[number] += pace[number]

    assert max(spent.values()) - min(spent.values()) <= 10.0
    assert world.parents.count(0) == 3


def test_a58_an_attempt_without_recorded_time_counts_and_opens_no_branch() -> None:
    world = World("share", width=2, batch=2)
    world.ask()
    first, second = world.end(0, None), world.end(0, seconds=4.0)

    assert world.ask() == [first, second]
    assert world.ask() == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("score", [1.0, None])
def test_a9_a10_an_attempt_that_ends_frees_its_place_however_it_ends(name: str, score: float | None) -> None:
    world = World(name, width=1, batch=1)
    world.ask()
    leaf = world.end(0, score)

    assert world.ask() == [leaf]
    assert world.ask() == []
    tip = world.end(leaf, score)
    assert world.ask() == [tip]


def test_a13_by_turns_every_branch_has_had_the_same_after_each_turn() -> None:
    world = World("turns", width=4, batch=3)
    for _ in range(2):
        world.ask()
    for _ in range(4):
        world.end(0)
    branch = {node: node for node in range(1, 5)}
    turns: Counter[int] = Counter()
    for _ in range(8):
        for pick in world.ask():
            tip = world.end(pick)
            branch[tip] = branch[pick]
            turns[branch[pick]] += 1

    assert set(turns.values()) == {6}


def drawn(scores: Sequence[float | None], draws: int = 400, **params: Any) -> Counter[int]:
    """Return how often each of some branches with these scores is drawn."""
    world = World("chance", width=len(scores), batch=1, **params)
    for _ in scores:
        world.ask()
    for score in scores:
        world.end(0, score)
    counted: Counter[int] = Counter()
    for seed in range(draws):
        decider = InProcess(world._policy, Context({}, seed, world.limits, "leaf"))
        counted.update(decider.decide(world.tree.observe_all(9)))
    return counted


def test_a14_equal_promise_is_drawn_evenly_and_a_low_temperature_sharpens() -> None:
    even = drawn([1.0, 1.0, 1.0, 1.0])
    warm, cold = drawn([1.0, 2.0, 3.0], temperature=1.0), drawn([1.0, 2.0, 3.0], temperature=0.05)

    assert max(even.values()) - min(even.values()) < 4 * math.sqrt(400 / 4)
    assert warm[3] < cold[3]
    assert cold[3] > 390
    assert drawn([1.0, 2.0], draws=50) == drawn([1.0, 2.0], draws=50), "its draws are its own, and repeat"


@pytest.mark.parametrize("promise", ["length", "short", "successes", "failures"])
def test_a15_length_and_successes_and_their_inverse_are_finite_from_the_start(promise: str) -> None:
    counted = drawn([None, 1.0, 1.0], promise=promise, temperature=0.1)

    assert sum(counted.values()) == 400
    if promise == "successes":
        assert counted[1] < counted[2]
    if promise == "failures":
        assert counted[1] > counted[2] + counted[3]


def test_a16_an_unseen_node_is_worth_its_own_and_every_ancestor_counts_once() -> None:
    world = World("puct", width=2, batch=1, exploration=0.0)
    for _ in range(2):
        world.ask()
    low, high = world.end(0, 1.0), world.end(0, 2.0)
    policy = world._policy(Context({}, 7, world.limits, "leaf"))

    assert world.ask() == [high]
    tip = world.end(high, None)
    decider = InProcess(world._policy, Context({}, 7, world.limits, "leaf"))
    decider.decide(world.tree.observe_all(9))
    visits, value = policy.statistics(decider._view)
    assert (visits[0], visits[high], visits[tip], visits[low]) == (3, 2, 1, 1)
    assert (value[high], value[tip], value[low]) == (1.0, 0.0, 0.5)


@pytest.mark.parametrize("name", NAMES)
def test_a17_a18_a_failure_is_never_better_than_a_success_and_nothing_raises(name: str) -> None:
    params = {"exploration": 0.0} if name == "puct" else {"temperature": 0.01} if name == "chance" else {}
    world = World(name, width=3, batch=1, **params)
    for _ in range(3):
        world.ask()
    for score in (None, -1.7e308, 1.7e308):
        world.end(0, score)

    (pick,) = world.ask()

    assert pick == (1 if name in ("turns", "share") else 3)


@pytest.mark.parametrize("name", NAMES)
def test_a19_a20_a_policy_that_starts_afresh_goes_on_as_the_one_before_it(name: str) -> None:
    """Everything that it knows stands in the tree: there is no state to save, and none to lose."""
    world = World(name, width=4, batch=2)
    draw = random.Random(3)  # noqa: S311 - a draw, no secret
    for _ in range(12):
        expected = world.ask()
        world.flying = world.flying[: len(world.flying) - len(expected)]
        fresh = InProcess(world._policy, Context({}, 7, world.limits, "leaf")).decide(
            world.tree.observe_all(world._round, tuple(world.flying))
        )
        assert fresh == expected
        world.flying += expected
        for node in list(world.flying):
            world.end(node, draw.random())


# Sibling context


def test_a21_siblings_are_those_in_flight_and_the_tip_of_each_other_branch() -> None:
    tree = made((1, None, 1.0), (2, None, 3.0), (3, 1, 2.0), (4, None, None))

    assert told(tree, [flight(5), flight(6)]) == ["a6", "a5", "a2", "a3", "a4"]
    assert told(tree, [flight(5), flight(6, 3)], parent=3, context=SiblingContext.ALWAYS) == ["a5", "a2", "a4"]


def test_a22_a_tip_that_is_being_continued_is_represented_by_its_continuation() -> None:
    tree = made((1, None, 1.0), (2, None, 3.0))

    assert told(tree, [flight(3, 2)]) == ["a3", "a1"]


def test_a23_a_node_with_several_children_shows_each_tip_once() -> None:
    tree = made((1, None, 1.0), (2, 1, 2.0), (3, 1, 3.0), (4, 1, 4.0))

    assert told(tree) == ["a4", "a3", "a2"]


@pytest.mark.parametrize("parent", [1, 99])
def test_a24_a_flight_from_an_inner_or_unknown_node_is_no_error(parent: int) -> None:
    tree = made((1, None, 1.0), (2, 1, 2.0))

    assert told(tree, [flight(5, parent)])[0] == "a5"
    assert told(tree, [flight(5, parent)], parent=2, context=SiblingContext.ALWAYS) == (["a5"] if parent == 99 else [])


def test_a25_a_failed_attempt_is_marked_as_such() -> None:
    tree = made((1, None, None), (2, None, 1.0))

    states = {one.attempt: one.state for one in siblings(SiblingRule(), tree, [flight(3)], None, Direction.MAX)}

    assert states == {"a1": SiblingState.FAILED, "a2": SiblingState.SUCCEEDED, "a3": SiblingState.IN_FLIGHT}


def test_a27_context_is_capped_newest_and_best_first_in_both_senses() -> None:
    tree = made((1, None, 1.0), (2, None, 3.0), (3, None, 2.0))

    assert told(tree, [flight(4), flight(5)], count=3) == ["a5", "a4", "a2"]
    assert told(tree, direction=Direction.MIN, count=2) == ["a1", "a3"]
    assert told(tree, chars=25) == ["a2", "a3"]


def test_a27_one_that_says_too_much_is_cut_and_silences_nobody() -> None:
    tree = made((1, None, 1.0), (2, None, 2.0), (3, None, 3.0))
    wordy = Hypothesis("c", "x" * 50_000, "y" * 50_000)

    assert len(wordy.sentence()) == HYPOTHESIS_CHARACTERS
    assert told(tree, [Flight("a4", 4, None, wordy)]) == ["a4", "a3", "a2", "a1"]
    assert told(tree, [Flight("a4", 4, None, wordy)], chars=30) == ["a3", "a2", "a1"]


def test_a28_the_same_tree_and_flights_give_the_same_context() -> None:
    tree = made((1, None, 1.0), (2, None, 1.0), (3, None, 1.0))
    flights = [flight(4), flight(5)]

    assert told(tree, flights) == told(dict(reversed(tree.items())), flights[::-1]) == ["a5", "a4", "a3", "a2", "a1"]


def test_a29_strategies_look_at_the_ancestors_of_this_pick_alone() -> None:
    tree = made((1, None, None), (2, 1, None), (3, None, 5.0), (4, 3, None))

    for context, seen in (
        (SiblingContext.OFF, [False, False, False]),
        (SiblingContext.NEW_BRANCH, [True, False, False]),
        (SiblingContext.UNTIL_SUCCESS, [True, True, False]),
        (SiblingContext.ALWAYS, [True, True, True]),
    ):
        assert [bool(told(tree, parent=parent, context=context)) for parent in (None, 2, 4)] == seen


def test_a34_the_context_is_a_snapshot_and_a_value() -> None:
    tree, flights = made((1, None, 1.0)), [flight(2)]
    context = siblings(SiblingRule(), tree, flights, None, Direction.MAX)

    tree.update(made((3, None, 9.0)))
    flights.clear()

    assert [one.attempt for one in context] == ["a2", "a1"]
    with pytest.raises(AttributeError):
        context[0].score = 3.0  # type: ignore[misc]


def test_a_hypothesis_comes_back_in_its_parts_and_from_elsewhere_as_a_statement() -> None:
    (attempt,) = [one.attempt for one in made((1, None, 1.0)).values()]

    assert hypothesis_of(attempt) == Hypothesis("c1", "try 1")
    assert hypothesis_of(Attempt("x", None, None, hypothesis="go left")) == Hypothesis(statement="go left")


# Attempts in flight


def test_a36_a_flight_is_registered_by_attempt_replaced_and_removed_without_ado() -> None:
    registry = Registry()
    registry.add(flight(2))
    registry.add(flight(1))
    registry.add(Flight("a2", 2, None, Hypothesis("other")))
    registry.remove("a9")

    assert [(one.attempt, one.hypothesis.component) for one in registry.snapshot()] == [("a1", "c1"), ("a2", "other")]
    registry.reset()
    assert len(registry) == 0


def test_a45_threads_that_register_and_remove_leave_an_empty_registry() -> None:
    registry = Registry()
    together = threading.Barrier(8)

    def work(first: int) -> None:
        together.wait()
        for number in range(first, first + 200):
            registry.add(flight(number))
            registry.snapshot()
            registry.remove(f"a{number}")

    threads = [threading.Thread(target=work, args=(1 + 1000 * place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert registry.snapshot() == ()


def test_every_statement_a_is_tested_or_explained() -> None:
    names = "\n".join(
        name
        for path in (PROJECT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    )
    tested = {int(number) for number in re.findall(r"(?<=_)a(\d+)(?=_)", names)}
    rows = re.findall(r"^\| A(\d+) \|", (PROJECT / "docs" / "siblings.md").read_text(), re.MULTILINE)
    explained = {int(number) for number in rows}

    assert sorted(set(range(1, 63)) - tested - explained) == []

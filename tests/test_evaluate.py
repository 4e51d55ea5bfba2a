"""Judging one policy over many trees, in both sandboxes: order, faults, second looks, and what is measured beside."""

from __future__ import annotations

import re
import select
import threading
from typing import TYPE_CHECKING, Any

import pytest
from builders import broom, tree

from harness.errors import InputError
from harness.evaluate import Job, evaluate, evaluate_all, gather
from harness.replay import Stop
from harness.score import Effort, Settings
from harness.tree import Attempt, Root, Tree
from sandbox.api import Fault, FaultKind, Limits
from sandbox.base import GuestLimits, SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sandbox.api import Context, Observation
    from sandbox.base import Sandbox

TREES = [broom(seed, chains=3, depth=3) for seed in range(6)]
FRAME = "class Policy:\n    def __init__(self, context):\n        {init}\n    def decide(self, view):\n        {decide}\n"
OPENS_ALL = FRAME.format(init="pass", decide="return [n.id for n in view.leaves if not n.closed] + [0] * (view.round < 4)")


def job(decide: str, init: str = "pass", **effort: object) -> Job:
    return Job(FRAME.format(init=init, decide=decide), Settings(), Effort(**({"repeats": 0} | effort)))


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_trees_and_repeat_to_the_digit(sandbox: Sandbox, workers: int) -> None:
    whole = Job(OPENS_ALL, Settings(), Effort(repeats=2, workers=workers))

    results = list(evaluate(whole, TREES, sandbox))
    again = list(evaluate(whole, TREES, sandbox))

    assert [result.tree for result in results] == [on.digest for on in TREES]
    assert [(r.trajectory, r.figures) for r in results] == [(r.trajectory, r.figures) for r in again]
    assert all(result.trajectory.fault is None and result.figures.n > 3 for result in results)


def test_an_evaluation_is_the_mean_over_its_trees(sandbox: Sandbox) -> None:
    whole = Job(OPENS_ALL, Settings(), Effort())

    evaluation = gather(whole, sandbox, evaluate(whole, TREES, sandbox))

    values = [result.figures.value or 0.0 for result in evaluation.results]
    assert evaluation.value == pytest.approx(sum(values) / len(values), abs=1e-15)
    assert evaluation.sandbox == sandbox.name


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_fault_ends_an_evaluation_that_is_told_so_and_no_other(sandbox: Sandbox, workers: int) -> None:
    broken_on_third = "return [7] if view.nodes[0].metrics else []"
    trees = [*TREES[:2], tree("root>a", metrics={"odd": 1.0}), *TREES[3:]]

    early = list(evaluate(job(broken_on_third, workers=workers, stop_at_fault=True), trees, sandbox))
    whole = list(evaluate(job(broken_on_third, workers=workers), trees, sandbox))

    assert [result.trajectory.fault is not None for result in early] == [False, False, True]
    assert [result.trajectory.fault is not None for result in whole] == [False, False, True, False, False, False]


def test_a_fault_says_in_which_round_and_a_policy_that_cannot_load_has_decided_nothing(sandbox: Sandbox) -> None:
    (late,) = evaluate(job("return [0] if view.round < 3 else 1 / 0"), TREES[:1], sandbox)
    (unloadable,) = evaluate(job("return []", init="1 / 0"), TREES[:1], sandbox)

    assert late.trajectory.fault is not None
    assert unloadable.trajectory.fault is not None
    assert (late.trajectory.fault.kind, late.trajectory.fault.round) == (FaultKind.EXCEPTION, 3)
    assert len(late.trajectory.rounds) == 2
    assert "1 / 0" in late.trajectory.fault.traceback
    assert (unloadable.trajectory.fault.kind, unloadable.trajectory.fault.round) == (FaultKind.LOAD_FAULT, None)


def test_a_replay_that_asks_nothing_starts_no_process(sandbox: Sandbox) -> None:
    """With no rounds allowed the policy is never asked, so not even its broken constructor is run."""
    quiet = Job(job("return []", init="1 / 0").source, Settings(limits=Limits(max_rounds=0)), Effort(repeats=0))

    (result,) = evaluate(quiet, TREES[:1], sandbox)

    assert (result.trajectory.stop, result.trajectory.fault, result.cpu_s) == (Stop.MAX_ROUNDS, None, 0.0)


def test_a_policy_that_does_not_repeat_is_found_by_the_second_look(sandbox: Sandbox) -> None:
    by_the_clock = "import time; return [0] * (1 + time.perf_counter_ns() // 1000 % 5) if view.round < 9 else []"

    (result,) = evaluate(job(by_the_clock, repeats=1), [tree(*[f"root>n{i}" for i in range(60)])], sandbox)

    assert result.trajectory.fault is not None
    assert result.trajectory.fault.kind is FaultKind.NONDETERMINISTIC
    assert result.trajectory.fault.round is not None
    assert re.fullmatch(
        r"round \d+ differs between two replays of this tree: it picked (\[.*\]|nothing), "
        r"and in another container, with the same seed, (\[.*\]|nothing)",
        result.trajectory.fault.message,
    )
    assert result.trajectory.fault.figures["cpu_s"] == result.cpu_s > 0
    assert result.figures.value is None


class Noting:
    """A sandbox that notes the trees of each session in the order in which they were replayed, by the score of their root."""

    def __init__(self, real: Sandbox) -> None:
        self._real = real
        self.name = real.name
        self.sessions: list[list[float | None]] = []

    def open(self, source: str, limits: GuestLimits) -> Any:
        """Open a session of the real one."""
        session = self._real.open(source, limits)
        replayed: list[float | None] = []
        self.sessions.append(replayed)
        start = session.start

        def noting(context: Context) -> Any:
            guest = start(context)
            decide = guest.decide

            def first(observation: Observation) -> list[int]:
                if observation.round == 1:
                    replayed.append(observation.revealed[0][1][0])
                return decide(observation)

            guest.decide = first  # type: ignore[method-assign]
            return guest

        session.start = noting  # type: ignore[method-assign]
        return session


@pytest.mark.parametrize("workers", [1, 2])
def test_second_looks_take_another_order_in_containers_of_their_own(sandbox: Sandbox, workers: int) -> None:
    """Those of one worker go through trees as they come, and in an order drawn by the seed; results are in order all the same."""
    noting = Noting(sandbox)
    trees = [tree("root>a", "root>b", "a>c", root=float(score)) for score in range(9)]

    results = list(evaluate(Job(OPENS_ALL, Settings(seed=3), Effort(repeats=5, workers=workers)), trees, noting))  # type: ignore[arg-type]

    assert [(result.tree, result.trajectory.fault) for result in results] == [(on.digest, None) for on in trees]
    assert sum(map(len, noting.sessions)) == 9 + 5
    if workers == 1:
        first, second = noting.sessions
        assert first == [float(score) for score in range(9)]
        assert len(second) == len(set(second)) == 5
        assert second != sorted(second)  # type: ignore[type-var]


def test_which_trees_are_looked_at_twice_cannot_be_told_from_seed_and_number(sandbox: Sandbox) -> None:
    """A policy knows both, and would behave there; what else decides, it never sees: here the ids of a record."""
    looked_at = set()
    for name in "abcdefgh":
        noting = Noting(sandbox)
        trees = [tree(f"root>{name}", root=float(score)) for score in range(9)]
        list(evaluate(Job(OPENS_ALL, Settings(seed=3), Effort(repeats=1)), trees, noting))  # type: ignore[arg-type]
        looked_at.add(*noting.sessions[1])

    assert len(looked_at) > 1


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_policies_side_by_side_come_to_what_each_comes_to_alone(sandbox: Sandbox, workers: int) -> None:
    """A faulty one, a refused one and one over other trees among them; every replay is told of once."""
    refusal = Fault(FaultKind.REFUSED_AT_CHECK, "no class Policy")
    one = Effort(repeats=2, workers=workers)
    asked: list[tuple[Job, Sequence[Tree]]] = [
        (Job(OPENS_ALL, Settings(), one), TREES),
        (Job("raise SystemExit", Settings(), one, refused=refusal), TREES),
        (job("return [7] if view.round > 1 else [0]", workers=workers, stop_at_fault=True), TREES),
        (Job(OPENS_ALL, Settings(seed=2), one), TREES[:3]),
        (job("return [0, 0] if view.round < 3 else []", workers=workers), TREES),
    ]
    ended: list[int] = []

    judged = evaluate_all(asked, sandbox, workers, lambda: ended.append(threading.active_count()))

    alone = [list(evaluate(work, trees, sandbox)) for work, trees in asked]
    assert [[(r.tree, r.trajectory.rounds, r.figures) for r in results] for results in judged] == [
        [(r.tree, r.trajectory.rounds, r.figures) for r in results] for results in alone
    ]
    assert [len(results) for results in judged] == [6, 6, 1, 3, 6]
    assert len(ended) == 22


def test_as_many_policies_as_workers_take_a_container_each_and_one_that_is_left_over_is_shared(sandbox: Sandbox) -> None:
    noting = Noting(sandbox)
    work = [(Job(OPENS_ALL, Settings(seed=seed), Effort(repeats=0, workers=2)), TREES) for seed in range(3)]

    evaluate_all(work, noting, 2)  # type: ignore[arg-type]

    assert sorted(map(len, noting.sessions))[2:] == [6, 6]
    assert sum(map(len, noting.sessions)) == 18


def test_a_failure_of_ours_in_one_ends_all(sandbox: Sandbox) -> None:
    class Gone(Noting):
        def open(self, source: str, limits: GuestLimits) -> Any:
            if "gone" in source:
                raise SandboxError("the engine is gone")
            return super().open(source, limits)

    endless = job("return [0] if view.round < 10**6 else []", limits=GuestLimits())
    with pytest.raises(SandboxError, match="the engine is gone"):
        evaluate_all([(endless, TREES * 50), (job("return []  # gone"), TREES)], Gone(sandbox), 2)  # type: ignore[arg-type]


def test_a_refused_policy_is_never_run(sandbox: Sandbox) -> None:
    refusal = Fault(FaultKind.REFUSED_AT_CHECK, "no class Policy")
    refused = Job("raise SystemExit", Settings(), Effort(), refused=refusal)

    results = list(evaluate(refused, TREES, sandbox))

    assert [result.trajectory.fault for result in results] == [refusal] * len(TREES)


class UntilItEnds:
    """A sandbox that gives each policy the time to end by itself when it has stopped its search."""

    name = "patient"

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def open(self, source: str, limits: GuestLimits) -> Any:
        """Return a session whose replays wait with their last answer."""
        session: Any = self._sandbox.open(source, limits)
        start = session.start

        def started(context: Context) -> Any:
            guest = start(context)
            decide = guest.decide

            def decided(observation: Observation) -> list[int]:
                picks: list[int] = decide(observation)
                if not picks:
                    select.select([session._running().control], [], [], 60.0)
                return picks

            guest.decide = decided
            return guest

        session.start = started
        return session


def test_a_policy_that_ends_its_process_has_no_value_even_when_it_has_stopped_its_search(sandbox: Sandbox) -> None:
    leaves = "import os; os.write(3, b'A' + bytes(4)); os._exit(0)"

    (result,) = evaluate(job(leaves), TREES[:1], UntilItEnds(sandbox))  # type: ignore[arg-type]

    assert result.trajectory.stop is Stop.POLICY_ERROR
    assert result.trajectory.fault is not None
    assert (result.trajectory.fault.kind, result.trajectory.fault.round) == (FaultKind.EXITED, 1)
    assert result.figures.value is None


def test_what_a_policy_prints_and_uses_comes_with_its_result(sandbox: Sandbox) -> None:
    (result,) = evaluate(job("print('round', view.round); sum(range(10**6)); return []"), TREES[:1], sandbox)

    assert result.output == "round 1\n"
    assert result.cpu_s > 0
    assert result.decide_s > 0
    assert result.memory_bytes > 2**20


def test_what_a_policy_printed_before_it_could_not_be_loaded_comes_with_its_fault(sandbox: Sandbox) -> None:
    (result,) = evaluate(job("return []", init="print('width', context.params.get('width')); 1 / 0"), TREES[:1], sandbox)

    assert result.trajectory.fault is not None
    assert result.trajectory.fault.kind is FaultKind.LOAD_FAULT
    assert result.output == "width None\n"


def test_trees_are_asked_for_one_by_one_as_they_are_needed(sandbox: Sandbox) -> None:
    class Lazy:
        asked = 0

        def __len__(self) -> int:
            return len(TREES)

        def __getitem__(self, place: int) -> Tree:
            if place >= len(TREES):
                raise IndexError(place)
            self.asked += 1
            return TREES[place]

    trees: Sequence[Tree] = Lazy()  # type: ignore[assignment]
    results: Iterator[object] = evaluate(Job(OPENS_ALL, Settings(), Effort(repeats=0)), trees, sandbox)

    next(results)

    assert trees.asked == 1  # type: ignore[attr-defined]


def test_a_tree_that_no_policy_could_hold_is_named_and_no_fault_of_the_policys(sandbox: Sandbox) -> None:
    many = {f"metric {place}": 1.0 for place in range(1000)}
    attempts = tuple(Attempt(f"n{place}", None, 1.0, metrics=many) for place in range(100))
    wide = Tree("wide", attempts, root=Root(0.0))
    small = GuestLimits(memory_bytes=16 * 2**20)

    with pytest.raises(InputError, match=r"tree 'wide' may show \d+ MiB .* of 16 MiB .* raise memory_mib, .*node 'n0' has 1000"):
        list(evaluate(job("return [0] * 8", limits=small), [wide], sandbox))

    few = Job(job("return []").source, Settings(limits=Limits(max_attempts=8)), Effort(repeats=0, limits=small))
    assert [result.trajectory.fault for result in evaluate(few, [wide], sandbox)] == [None]

"""What ends at the same time, late or never leaves a live search whole: nothing lost, nothing twice, nothing in a wrong place."""

from __future__ import annotations

import random
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from live_parts import ONE_AT_A_TIME, WIDE_THEN_DEEP, Bench, Counts, naps

from harness.errors import StoreError
from harness.explore.base import AttemptEnded, FellBack, SearchOver
from harness.explore.explorer import explore
from harness.policy import Candidate, Origin
from harness.search import Allowance, Decision, Finished, Mode, SearchStop
from harness.tree import Attempt
from sandbox.api import FaultKind, Limits

if TYPE_CHECKING:
    from harness.agents.base import Assignment, Hypothesis
    from harness.explore.base import Progress
    from harness.search import Search
    from sandbox.local import LocalSandbox

FILLS = """
class Policy:
    def __init__(self, context):
        self.batch = context.limits.max_batch
    def decide(self, view):
        free = [node.id for node in view.leaves if node.id not in view.pending and node.depth < 4]
        return (free + [0] * self.batch)[:self.batch]
"""

ANSWERS_BY_THE_CLOCK = """
import time
class Policy:
    def __init__(self, context):
        pass
    def decide(self, view):
        return [0] * (time.perf_counter_ns() // 100 % 8 + 1)
"""


def run(bench: Bench, search: Search, sandbox: LocalSandbox, **parts: object) -> list[Progress]:
    return list(explore(search, bench.live(sandbox, **parts)))


def stopped_after(bench: Bench, search: Search, sandbox: LocalSandbox, attempts: int) -> None:
    """Take a search on until so many attempts have ended, as if interrupted then."""
    going = explore(search, bench.live(sandbox))
    ended = (progress for progress in going if isinstance(progress, AttemptEnded))
    list(islice(ended, attempts))
    going.close()


def one_attempt_ended(bench: Bench, search: Search, elapsed_s: float) -> None:
    """Record the first attempt of a search, as if it had ended after so many seconds."""
    bench.store.decide(search, Decision(1, 1, search.plan.version, 0, picks=(0,), served=1))
    bench.store.finish_attempt(search, Finished(1, 1, 1, None, Attempt("a1", None, 1.0, snapshot=search.start), elapsed_s))


def nodes(bench: Bench, progress: list[Progress]) -> list[tuple[str, str | None, float | None]]:
    last = progress[-1]
    assert isinstance(last, SearchOver)
    assert last.search.tree is not None
    return [(one.id, one.parent, one.score) for one in bench.store.tree(last.search.tree).attempts]


def at_any_time(assignment: Assignment) -> None:
    """End in an order that has nothing to do with the one in which attempts were asked for."""
    time.sleep(random.Random(assignment.seed).random() * 0.02)  # noqa: S311 - a draw, no secret


@pytest.mark.parametrize("mode", list(Mode))
def test_a45_attempts_that_end_at_once_are_all_there_and_no_parent_comes_after_its_child(
    bench: Bench, sandbox: LocalSandbox, mode: Mode
) -> None:
    bench.agent = Counts(at_any_time)
    search = bench.begin(FILLS, mode=mode, slots=8, limits=Limits(99, 8, 60))

    made = nodes(bench, run(bench, search, sandbox))

    assert sorted(name for name, _, _ in made) == sorted(f"a{number}" for number in range(1, 61))
    places = {name: place for place, (name, _, _) in enumerate(made)}
    assert all(parent is None or places[parent] < places[name] for name, parent, _ in made)
    assert sorted(bench.agent.seen) == sorted(places)
    assert bench.store.check() == []


def test_a43_the_order_of_asking_and_that_of_ending_are_both_on_record(bench: Bench, sandbox: LocalSandbox) -> None:
    bench.agent = Counts(naps)
    search = bench.begin(FILLS, mode=Mode.ASYNC, slots=4, limits=Limits(99, 4, 16))
    made = nodes(bench, run(bench, search, sandbox))

    recorded = bench.store.attempts(search)

    assert [one.order for one in recorded] == list(range(1, 17))
    assert [one.number for one in recorded] != [one.order for one in recorded]
    assert [f"a{one.number}" for one in recorded] == [name for name, _, _ in made]


@pytest.mark.parametrize("mode", list(Mode))
def test_a50_what_ends_after_its_search_was_stopped_is_recorded_nowhere_and_made_again(
    bench: Bench, sandbox: LocalSandbox, mode: Mode
) -> None:
    """Attempt 2 works on until it is told to stop, ends as if all were well, and is too late."""
    late = threading.Event()

    def works_on(assignment: Assignment) -> None:
        if assignment.attempt == "a2":
            assert assignment.cancel.wait(10)
            late.set()

    bench.agent = Counts(works_on)
    search = bench.begin(WIDE_THEN_DEEP, mode=mode)
    stopped_after(bench, search, sandbox, 1)

    assert late.is_set()
    assert "a2" not in [one.attempt.id for one in bench.store.attempts(search)]

    bench.agent = Counts()
    made = nodes(bench, run(bench, search, sandbox))
    assert len([name for name, _, _ in made if name == "a2"]) == 1
    assert "a2" in bench.agent.seen
    assert bench.store.check() == []


def test_a50_of_two_that_take_a_search_on_the_late_one_is_refused_and_the_other_goes_on(
    bench: Bench, sandbox: LocalSandbox
) -> None:
    search = bench.begin(WIDE_THEN_DEEP)
    stopped_after(bench, search, sandbox, 3)
    first, late = (explore(search, bench.live(sandbox)) for _ in range(2))
    next(late)
    new = (one for one in first if isinstance(one, AttemptEnded) and not one.resumed)
    list(islice(new, 1))

    with pytest.raises(StoreError, match="another process may be taking it on"):
        list(late)

    made = nodes(bench, list(first))
    assert len(made) == len({name for name, _, _ in made})
    assert bench.store.check() == []


def test_a57_a_search_taken_up_again_has_the_time_that_was_left(bench: Bench, sandbox: LocalSandbox) -> None:
    """Of a thousand seconds 985 are used: less is left than the twenty that the task gives each attempt."""
    search = bench.begin(ONE_AT_A_TIME, slots=1, allowance=Allowance(wall_s=1000.0), limits=Limits(9, 8, 3))
    one_attempt_ended(bench, search, elapsed_s=985.0)

    run(bench, search, sandbox)

    assert sorted(bench.agent.seen) == ["a2", "a3"]
    assert all(assignment.timeout_s <= 15.0 for assignment in bench.agent.seen.values())


def test_a57_where_no_time_was_left_nothing_more_is_asked(bench: Bench, sandbox: LocalSandbox) -> None:
    search = bench.begin(ONE_AT_A_TIME, slots=1, allowance=Allowance(wall_s=1000.0))
    one_attempt_ended(bench, search, elapsed_s=1000.0)

    last = run(bench, search, sandbox)[-1]

    assert isinstance(last, SearchOver)
    assert (last.search.stop, last.attempts) == (SearchStop.WALL, 1)
    assert bench.agent.seen == {}


def test_a62_with_the_same_seed_a_search_is_the_same_and_with_another_it_is_not(bench: Bench, sandbox: LocalSandbox) -> None:
    """Attempts end in any order: a batch is revealed in the order of its picks."""
    made = []
    for seed, slots, behave in ((5, 3, naps), (5, 8, lambda _: None), (6, 3, naps)):
        bench.agent = Counts(behave)
        made.append(nodes(bench, run(bench, bench.begin(WIDE_THEN_DEEP, seed=seed, slots=slots), sandbox)))
    first, again, other = made

    assert first == again
    assert [score for _, _, score in first] != [score for _, _, score in other]


def test_a28_taken_up_again_an_attempt_knows_of_all_before_it_also_of_one_that_is_slow_to_plan(
    bench: Bench, sandbox: LocalSandbox
) -> None:
    """The second attempt is on record already when the first one has to be made again, beside the third."""

    class PlansSlowly(Counts):
        def plan(self, assignment: Assignment) -> Hypothesis:
            time.sleep(0.3 if assignment.attempt == "a1" else 0.0)
            return super().plan(assignment)

    def stays_unless_second(assignment: Assignment) -> None:
        if assignment.attempt in {"a1", "a3"}:
            assignment.cancel.wait(10)

    whole = bench.begin(WIDE_THEN_DEEP)
    run(bench, whole, sandbox)
    told = bench.agent.seen["a3"].siblings
    assert [one.hypothesis.component for one in told] == ["answer", "answer"]

    bench.agent = Counts(stays_unless_second)
    search = bench.begin(WIDE_THEN_DEEP)
    stopped_after(bench, search, sandbox, 1)
    assert [one.number for one in bench.store.attempts(search)] == [2]

    bench.agent = PlansSlowly()
    run(bench, search, sandbox)
    assert bench.agent.seen["a3"].siblings == told


@pytest.mark.parametrize("after", [1, 3, 6, 10, 14])
def test_side_by_side_as_well_what_has_ended_stays_and_only_the_rest_is_made(
    bench: Bench, sandbox: LocalSandbox, after: int
) -> None:
    """What is in flight when the search stops is made again, at its place and with its seed."""
    bench.agent = Counts(naps)
    search = bench.begin(FILLS, mode=Mode.ASYNC, slots=3, limits=Limits(99, 3, 16))
    stopped_after(bench, search, sandbox, after)
    kept, seen = bench.store.attempts(search), dict(bench.agent.seen)
    asked = bench.store.decisions(search)

    bench.agent = Counts(naps)
    made = nodes(bench, run(bench, search, sandbox))

    assert bench.store.attempts(search)[: len(kept)] == kept
    assert bench.store.decisions(search)[: len(asked)] == asked
    assert len(made) == 16
    ended = {one.attempt.id for one in kept}
    assert sorted(bench.agent.seen) == sorted(name for name, _, _ in made if name not in ended)
    twice = set(seen) & set(bench.agent.seen)
    assert all(seen[name].seed == bench.agent.seen[name].seed for name in twice)
    assert bench.store.check() == []


def test_a_policy_that_answers_otherwise_when_shown_the_same_steers_no_further(bench: Bench, sandbox: LocalSandbox) -> None:
    good = bench.store.record(Candidate(WIDE_THEN_DEEP, Origin.TEMPLATE))
    search = bench.begin(ANSWERS_BY_THE_CLOCK, slots=8, limits=Limits(9, 8, None))
    going = explore(search, bench.live(sandbox))
    while len(bench.store.decisions(search)) < 8:
        next(going)
    going.close()
    kept = len(bench.store.attempts(search))

    progress = run(bench, search, sandbox, fallback=lambda version: good if version != good else None)

    (fell,) = [one for one in progress if isinstance(one, FellBack)]
    assert fell.fault.kind is FaultKind.NONDETERMINISTIC
    assert "shown the same again, it answers" in fell.fault.message
    assert fell.to == good.number
    assert len(nodes(bench, progress)) >= kept

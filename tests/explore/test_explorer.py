"""A live search: the same policy, view and rules as in replay, on record as it goes."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from live_parts import ONE_AT_A_TIME, WIDE_THEN_DEEP, Bench, Counts, breaks, fails, naps

from harness.agents.base import AgentError, AgentFault, SiblingState, Work
from harness.agents.prompt import prompt
from harness.errors import HarnessError, InputError
from harness.explore.base import AttemptEnded, Decided, FellBack, SearchOver
from harness.explore.explorer import explore
from harness.explore.rollouts import Roller, Rollouts
from harness.explore.siblings import SiblingRule
from harness.policy import Candidate, EventKind, Origin
from harness.replay import replay
from harness.search import Allowance, Mode, SearchStop, SiblingContext
from sandbox.api import Context, Cost, Frontier, Limits
from sandbox.base import GuestLimits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.agents.base import Assignment
    from harness.explore.base import Progress
    from harness.replay import Trajectory
    from harness.search import Search
    from sandbox.local import LocalSandbox


def late_and_failing(assignment: Assignment) -> None:
    naps(assignment)
    fails(assignment)


def run(bench: Bench, search: Search, sandbox: LocalSandbox, **parts: object) -> list[Progress]:
    return list(explore(search, bench.live(sandbox, **parts)))


def over(progress: list[Progress]) -> SearchOver:
    last = progress[-1]
    assert isinstance(last, SearchOver)
    return last


def replayed(bench: Bench, search: Search, sandbox: LocalSandbox) -> Trajectory:
    assert search.tree is not None
    plan = search.plan
    source = bench.store.version(plan.version).candidate.source
    with sandbox.open(source, GuestLimits()) as session:
        decider = session.start(Context({}, plan.seed, plan.limits, plan.frontier))
        return replay(bench.store.tree(search.tree), decider, plan.limits, plan.frontier)


@pytest.mark.parametrize("source", [WIDE_THEN_DEEP, ONE_AT_A_TIME])
@pytest.mark.parametrize("frontier", list(Frontier))
@pytest.mark.parametrize("seed", [1, 2])
def test_d12_a_recorded_search_replayed_under_its_policy_gives_the_same_batches(
    bench: Bench, sandbox: LocalSandbox, source: str, frontier: Frontier, seed: int
) -> None:
    """Attempts that end late or fail change nothing: a batch is revealed in the order of its picks."""
    bench.agent = Counts(late_and_failing)
    search = bench.begin(source, seed=seed, frontier=frontier)

    done = over(run(bench, search, sandbox))
    trajectory = replayed(bench, done.search, sandbox)

    live = [list(one.picks) for one in bench.store.decisions(search) if one.picks]
    places = [list(turn.picks) for turn in trajectory.rounds]
    assert places == live[: len(places)]
    assert len(places) >= len(live) - 1
    assert trajectory.revealed == tuple(range(1, done.attempts + 1))[: len(trajectory.revealed)]


def test_what_an_attempt_finds_depends_on_its_place_and_not_on_the_policy(bench: Bench, sandbox: LocalSandbox) -> None:
    first = over(run(bench, bench.begin(WIDE_THEN_DEEP), sandbox))
    second = over(run(bench, bench.begin(ONE_AT_A_TIME, slots=1), sandbox))

    branches = []
    for done in (first, second):
        assert done.search.tree is not None
        tree = bench.store.tree(done.search.tree)
        branches.append([attempt.score for attempt in tree.attempts if attempt.parent is None][:3])
    assert branches[0] == branches[1]


def test_nodes_are_on_record_with_all_that_is_known_of_them(bench: Bench, sandbox: LocalSandbox) -> None:
    done = over(run(bench, bench.begin(WIDE_THEN_DEEP), sandbox))

    assert done.search.tree is not None
    tree = bench.store.tree(done.search.tree)
    node = tree.attempts[0]
    assert (node.id, node.parent, node.status) == ("a1", None, "ok")
    assert node.hypothesis.startswith("[answer] add ")
    assert node.extra["hypothesis_parts"]["reason"] == "it is larger"
    assert node.cost == {"seconds": 0.5, "tokens": 10.0, "usd": 0.01, "evaluator_seconds": 0.0}
    assert (bench.folder / "snapshots" / (node.snapshot or "") / "answer.txt").read_text() == str(int(node.score or 0))
    assert tree.source["policy"] == bench.store.version(1).candidate.digest
    assert done.spent == Cost(0.5 * done.attempts, 10.0 * done.attempts, pytest.approx(0.01 * done.attempts))
    assert bench.store.check() == []


def test_files_that_may_not_be_changed_are_put_back_and_named(bench: Bench, sandbox: LocalSandbox) -> None:
    def meddles(assignment: object) -> None:
        workspace = assignment.workspace  # type: ignore[attr-defined]
        (workspace / "readme.txt").write_text("changed")
        (workspace / "extra.txt").write_text("new")

    bench.agent = Counts(meddles)
    done = over(run(bench, bench.begin(ONE_AT_A_TIME, limits=Limits(1, 8, 1)), sandbox))

    assert done.search.tree is not None
    node = bench.store.tree(done.search.tree).attempts[0]
    kept = bench.folder / "snapshots" / (node.snapshot or "")
    assert (kept / "readme.txt").read_text() == "fixed\n"
    assert not (kept / "extra.txt").exists()
    assert (kept / ".agent" / "notes").read_text() == "a1"
    assert node.feedback.endswith("and left out: extra.txt, readme.txt.")


def test_a44_a_failed_attempt_is_a_node_and_can_be_extended(bench: Bench, sandbox: LocalSandbox) -> None:
    def first_fails(assignment: object) -> None:
        if assignment.attempt == "a1":  # type: ignore[attr-defined]
            fails(type("A", (), {"attempt": "a3"})())  # type: ignore[arg-type]

    bench.agent = Counts(first_fails)
    source = "class Policy:\n    def __init__(self, c): pass\n    def decide(self, v): return [len(v.nodes) - 1]\n"
    done = over(run(bench, bench.begin(source, limits=Limits(2, 8, None)), sandbox))

    assert done.search.tree is not None
    failed, child = bench.store.tree(done.search.tree).attempts
    assert (failed.status, failed.score, failed.feedback) == ("failed", None, "could not think of anything")
    assert (child.parent, child.status) == ("a1", "ok")


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("after", [1, 2, 4, 7, 9])
def test_a_search_that_stopped_anywhere_ends_as_it_would_have(
    tmp_path: Path, sandbox: LocalSandbox, mode: Mode, after: int
) -> None:
    """Whatever was told is on record; whoever watches may stop at any moment."""
    whole, cut = Bench(_made(tmp_path / "whole")), Bench(_made(tmp_path / "cut"))
    expected = over(run(whole, whole.begin(WIDE_THEN_DEEP, mode=mode, slots=1 if mode is Mode.ASYNC else 3), sandbox))
    search = cut.begin(WIDE_THEN_DEEP, mode=mode, slots=1 if mode is Mode.ASYNC else 3)

    going = explore(search, cut.live(sandbox))
    before = list(islice(going, after))
    going.close()
    again = run(cut, search, sandbox)

    resumed = [one for one in again if isinstance(one, Decided | AttemptEnded) and one.resumed]
    assert len(resumed) >= len([one for one in before if isinstance(one, Decided | AttemptEnded)])
    assert _scores(cut, over(again)) == _scores(whole, expected)
    assert cut.store.check() == []


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _scores(bench: Bench, done: SearchOver) -> list[tuple[str, str | None, float | None]]:
    assert done.search.tree is not None
    return [(one.id, one.parent, one.score) for one in bench.store.tree(done.search.tree).attempts]


@pytest.mark.parametrize("mode", list(Mode))
def test_a61_no_more_attempts_than_slots_run_at_once(bench: Bench, sandbox: LocalSandbox, mode: Mode) -> None:
    bench.agent = Counts(naps)
    source = "class Policy:\n    def __init__(self, c): pass\n    def decide(self, v): return [0] * 6\n"

    done = over(run(bench, bench.begin(source, mode=mode, slots=2, limits=Limits(20, 8, 12)), sandbox))

    assert done.attempts == 12
    assert bench.agent.most == 2


def test_async_shows_what_is_in_flight_and_a_freed_slot_asks_at_once(bench: Bench, sandbox: LocalSandbox) -> None:
    bench.agent = Counts(naps)
    done = over(run(bench, bench.begin(ONE_AT_A_TIME, mode=Mode.ASYNC, limits=Limits(99, 8, 12)), sandbox))

    decisions = bench.store.decisions(done.search)
    assert done.attempts == 12
    assert max(len(one.pending) for one in decisions) == 2
    assert done.search.stop is SearchStop.MAX_ATTEMPTS


def test_a_leaf_in_flight_is_not_taken_up_twice_and_its_policy_waits(bench: Bench, sandbox: LocalSandbox) -> None:
    """A policy that does not look at what is pending asks for the same leaf again, and is served once."""
    source = (
        "class Policy:\n    def __init__(self, c): pass\n"
        "    def decide(self, v): return [0] if v.attempts == 0 and not v.pending else [v.leaves[-1].id] if v.leaves else []\n"
    )
    done = over(run(bench, bench.begin(source, mode=Mode.ASYNC, limits=Limits(5, 8, None)), sandbox))

    assert done.search.tree is not None
    parents = [one.parent for one in bench.store.tree(done.search.tree).attempts]
    assert parents == [None, "a1", "a2", "a3", "a4"]


@pytest.mark.parametrize(
    ("allowance", "limits", "stop"),
    [
        (Allowance(), Limits(2, 8, None), SearchStop.MAX_ROUNDS),
        (Allowance(), Limits(9, 8, 4), SearchStop.MAX_ATTEMPTS),
        (Allowance(tokens=45), Limits(9, 8, None), SearchStop.TOKENS),
        (Allowance(usd=0.045), Limits(9, 8, None), SearchStop.USD),
        (Allowance(wall_s=0.001), Limits(9, 8, None), SearchStop.WALL),
        (Allowance(), Limits(9, 8, None), SearchStop.POLICY_STOPPED),
    ],
)
@pytest.mark.parametrize("mode", list(Mode))
def test_every_cap_ends_a_search_and_none_is_passed(  # noqa: PLR0917 - pytest passes by name
    bench: Bench, sandbox: LocalSandbox, allowance: Allowance, limits: Limits, stop: SearchStop, mode: Mode
) -> None:
    search = bench.begin(WIDE_THEN_DEEP, allowance=allowance, limits=limits, mode=mode)

    done = over(run(bench, search, sandbox))

    assert done.search.stop is stop
    assert limits.max_attempts is None or done.attempts <= limits.max_attempts
    assert (done.spent.tokens or 0) <= (allowance.tokens or 10**9)
    assert (done.spent.usd or 0) <= (allowance.usd or 10**9)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("allowance", [Allowance(usd=0.015), Allowance(tokens=15)])
def test_a_cap_that_the_first_batch_would_pass_is_kept_as_well(
    bench: Bench, sandbox: LocalSandbox, allowance: Allowance, mode: Mode
) -> None:
    """Three picks at once, each of which costs 10 tokens and 0.01 USD: nobody knows that before the first has ended."""
    done = over(run(bench, bench.begin(WIDE_THEN_DEEP, allowance=allowance, mode=mode), sandbox))

    assert done.attempts == 1
    assert done.search.stop in {SearchStop.USD, SearchStop.TOKENS}


def test_a_cap_on_what_the_agent_does_not_tell_is_refused(bench: Bench, sandbox: LocalSandbox) -> None:
    bench.agent = Counts(cost=Cost(0.1, None, None))
    search = bench.begin(WIDE_THEN_DEEP, allowance=Allowance(tokens=1000))

    with pytest.raises(InputError, match="the cap on tokens, 1000, cannot be kept: agent counts does not say"):
        run(bench, search, sandbox)


def test_an_attempt_that_does_not_say_what_it_cost_counts_as_the_dearest_and_ends_no_search(
    bench: Bench, sandbox: LocalSandbox
) -> None:
    """An agent that ran out of time says nothing: of five times 10 tokens, one is unknown and all the same spent."""

    def silent_once(assignment: Assignment) -> None:
        if assignment.attempt == "a2":
            raise AgentFault("ran out of time", status="timeout")

    bench.agent = Counts(silent_once)
    done = over(run(bench, bench.begin(WIDE_THEN_DEEP, allowance=Allowance(tokens=50)), sandbox))

    assert (done.attempts, done.search.stop) == (5, SearchStop.TOKENS)
    assert done.spent.tokens is None


def test_what_fails_on_our_side_scores_nobody_and_the_search_can_be_taken_up(bench: Bench, sandbox: LocalSandbox) -> None:
    search = bench.begin(WIDE_THEN_DEEP)
    bench.agent = Counts(breaks)
    with pytest.raises(HarnessError, match="no agent for a"):
        run(bench, search, sandbox)
    assert bench.store.attempts(search) == []

    bench.agent = Counts()
    assert over(run(bench, search, sandbox)).attempts > 5


FAULTY = (
    "class Policy:\n    def __init__(self, c): pass\n    def decide(self, v):\n        return [0, 0] if v.round < 3 else [99]\n"
)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_policy_that_breaks_its_contract_loses_no_tree_and_another_steers(
    bench: Bench, sandbox: LocalSandbox, mode: Mode
) -> None:
    good = bench.store.record(Candidate(WIDE_THEN_DEEP, Origin.TEMPLATE))
    search = bench.begin(FAULTY, mode=mode, limits=Limits(5, 8, 12))

    progress = run(bench, search, sandbox, fallback=lambda version: good if version.number != good.number else None)

    (fell,) = [one for one in progress if isinstance(one, FellBack)]
    assert (fell.version, fell.to, fell.fault.rule) == (search.plan.version, good.number, None)
    assert "node 99 has not been revealed" in fell.fault.message
    done = over(progress)
    assert done.search.tree is not None
    tree = bench.store.tree(done.search.tree)
    assert len(tree.attempts) > 4
    assert tree.source["fallbacks"][0]["to"] == good.number
    (event,) = bench.store.events(kinds=[EventKind.FAULTED])
    assert event.version == search.plan.version
    assert event.facts["search"] == search.number


def test_where_no_other_version_is_left_the_search_ends_with_its_tree(bench: Bench, sandbox: LocalSandbox) -> None:
    done = over(run(bench, bench.begin(FAULTY), sandbox))

    assert done.search.stop is SearchStop.POLICY_ERROR
    assert done.attempts == 4


def test_a_fallback_is_resumed_as_it_went(bench: Bench, sandbox: LocalSandbox) -> None:
    good = bench.store.record(Candidate(WIDE_THEN_DEEP, Origin.TEMPLATE))
    search = bench.begin(FAULTY, limits=Limits(5, 8, 12))
    parts = {"fallback": lambda version: good if version.number != good.number else None}
    going = explore(search, bench.live(sandbox, **parts))
    list(islice(going, 9))
    going.close()

    progress = run(bench, search, sandbox, **parts)

    assert [one.to for one in progress if isinstance(one, FellBack)] == [good.number]
    assert len(bench.store.events(kinds=[EventKind.FAULTED])) == 1


def test_a_terminal_attempt_closes_its_leaf_live_as_in_replay(bench: Bench, sandbox: LocalSandbox) -> None:
    """The evaluator says "terminal" where the number ends in 7: no attempt is spent on such a leaf, and D12 holds."""
    source = (
        "class Policy:\n    def __init__(self, c): pass\n"
        "    def decide(self, v): return [0] if v.round < 40 else [n.id for n in v.leaves][:8]\n"
    )
    search = bench.begin(source, limits=Limits(41, 8, None), close_terminal=True, slots=1)

    done = over(run(bench, search, sandbox))

    assert done.search.tree is not None
    tree = bench.store.tree(done.search.tree)
    ended = [one.id for one in tree.attempts if one.terminal]
    assert ended
    assert not [one for one in tree.attempts if one.parent in ended]
    trajectory = replayed(bench, done.search, sandbox)
    live = [list(one.picks) for one in bench.store.decisions(search) if one.picks]
    assert [list(turn.picks) for turn in trajectory.rounds] == live[: len(trajectory.rounds)]


def test_a35_a_new_branch_is_told_what_its_batch_plans_and_what_was_tried(bench: Bench, sandbox: LocalSandbox) -> None:
    bench.agent = Counts(naps)
    run(bench, bench.begin(WIDE_THEN_DEEP), sandbox)

    seen = {name: assignment.siblings for name, assignment in bench.agent.seen.items()}
    assert seen["a1"] == ()
    assert [one.attempt for one in seen["a3"]] == ["a2", "a1"]
    assert {one.state for one in seen["a3"]} == {SiblingState.IN_FLIGHT}
    assert all(one.hypothesis.statement.startswith("add ") for one in seen["a3"])
    opened_later = [one for one in bench.agent.seen.values() if not one.lineage and one.attempt not in ("a1", "a2", "a3")]
    assert {one.state for late in opened_later for one in late.siblings} >= {SiblingState.SUCCEEDED}
    assert all(not one.siblings for one in bench.agent.seen.values() if one.lineage)


def test_a11_a_policy_that_wants_nothing_is_asked_again_when_an_attempt_has_ended_and_not_before(
    bench: Bench, sandbox: LocalSandbox
) -> None:
    source = (
        "class Policy:\n    def __init__(self, c): pass\n"
        "    def decide(self, v): return [] if v.pending or v.attempts > 4 else [0]\n"
    )
    bench.agent = Counts(naps)
    done = over(run(bench, bench.begin(source, mode=Mode.ASYNC, limits=Limits(99, 8, 40)), sandbox))

    decisions = bench.store.decisions(done.search)
    assert done.search.stop is SearchStop.POLICY_STOPPED
    assert [(one.seen, bool(one.picks)) for one in decisions] == [
        (seen, wants) for seen in range(5) for wants in (True, False)
    ] + [(5, False)]


@pytest.mark.parametrize("mode", list(Mode))
def test_a32_two_attempts_at_once_each_see_their_own_parent_and_siblings(bench: Bench, sandbox: LocalSandbox, mode: Mode) -> None:
    """Both have been told before either works, and are told nothing else while they do."""
    source = (
        "class Policy:\n    def __init__(self, c): pass\n    def decide(self, v):\n"
        "        if v.pending: return []\n        return [0, 0] if not v.attempts else [1, 2] if v.attempts == 2 else []\n"
    )
    together, working = threading.Barrier(2, timeout=60), {}

    def meet(assignment: Assignment) -> None:
        together.wait()
        working[assignment.attempt] = assignment
        together.wait()

    bench.agent = Counts(meet)
    rule = SiblingRule(SiblingContext.ALWAYS)
    done = over(run(bench, bench.begin(source, mode=mode, slots=2), sandbox, siblings=rule))

    first, second, *_ = [node for node, _, _ in _scores(bench, done)]  # as they ended, which is another order in async mode
    lineages = {name: [step.attempt for step in one.lineage] for name, one in working.items()}
    assert lineages == {"a1": [], "a2": [], "a3": [first], "a4": [second]}
    assert [one.attempt for one in working["a2"].siblings] == ["a1"]
    assert [one.attempt for one in working["a3"].siblings] == [second]
    assert [(one.attempt, one.state) for one in working["a4"].siblings] == [("a3", SiblingState.IN_FLIGHT)]
    assert all(working[name] is bench.agent.seen[name] for name in working)


def empty(assignment: Assignment) -> None:
    raise AgentFault("", status="failed", work=Work())


def unforeseen(assignment: Assignment) -> None:
    raise AgentFault("broke off", status="failed")


def too_late(assignment: Assignment) -> None:
    raise AgentFault("was ended by its limit", status="timeout")


@pytest.mark.parametrize("outcome", [lambda _: None, unforeseen, too_late, empty], ids=["ok", "failed", "cancelled", "empty"])
def test_a33_context_is_gone_after_every_outcome(
    bench: Bench, sandbox: LocalSandbox, outcome: Callable[[Assignment], None]
) -> None:
    """New branches are told of each other at the same time; what continues them, in the same threads, is told nothing."""
    source = (
        "class Policy:\n    def __init__(self, c): pass\n    def decide(self, v):\n"
        "        return [0, 0, 0] if not v.attempts else [1, 2, 3] if v.attempts == 3 else []\n"
    )
    together = threading.Barrier(3, timeout=60)

    def meet(assignment: Assignment) -> None:
        together.wait()
        if not assignment.lineage:
            outcome(assignment)

    bench.agent = Counts(meet)
    done = over(run(bench, bench.begin(source), sandbox))

    told = {name: [one.attempt for one in given.siblings] for name, given in bench.agent.seen.items()}
    assert told == {"a1": [], "a2": ["a1"], "a3": ["a2", "a1"], "a4": [], "a5": [], "a6": []}
    assert done.attempts == 6
    absent = prompt(replace(bench.agent.seen["a3"], siblings=()))
    assert prompt(bench.agent.seen["a3"]) != absent
    assert all(
        prompt(bench.agent.seen[name]) == prompt(replace(bench.agent.seen[name], siblings=())) for name in ("a4", "a5", "a6")
    )


def test_a1_without_sibling_context_nothing_is_told_and_the_attempts_are_the_same(bench: Bench, sandbox: LocalSandbox) -> None:
    told = over(run(bench, bench.begin(WIDE_THEN_DEEP), sandbox))
    bench.agent = Counts()
    silent = over(run(bench, bench.begin(WIDE_THEN_DEEP), sandbox, siblings=SiblingRule(SiblingContext.OFF)))

    assert all(assignment.siblings == () for assignment in bench.agent.seen.values())
    assert _scores(bench, told) == _scores(bench, silent)


def test_rollouts_make_several_tries_at_each_pick_and_keep_one(bench: Bench, sandbox: LocalSandbox) -> None:
    roller = Roller(Rollouts(n=3))
    done = over(run(bench, bench.begin(WIDE_THEN_DEEP, limits=Limits(2, 8, None)), sandbox, roller=roller))

    assert done.search.tree is not None
    for node in bench.store.tree(done.search.tree).attempts:
        tries = node.extra["rollouts"]
        assert len({one["strategy"] for one in tries}) == 3
        assert node.score == max(one["score"] for one in tries)
        assert node.cost["tokens"] == 30.0


@pytest.mark.parametrize("n", [1, 3])
def test_b5_what_surrounds_an_attempt_happens_once_whatever_the_number_of_tries(
    bench: Bench, sandbox: LocalSandbox, n: int
) -> None:
    progress = run(bench, bench.begin(WIDE_THEN_DEEP, limits=Limits(2, 8, None)), sandbox, roller=Roller(Rollouts(n=n)))

    search = over(progress).search
    served = sum(decision.served for decision in bench.store.decisions(search))
    assert sum(isinstance(one, AttemptEnded) for one in progress) == len(bench.store.attempts(search)) == served == 5


def test_b5_a_cap_that_is_in_the_way_prevents_every_try(bench: Bench, sandbox: LocalSandbox) -> None:
    done = over(run(bench, bench.begin(WIDE_THEN_DEEP, allowance=Allowance(tokens=0)), sandbox, roller=Roller(Rollouts(n=3))))

    assert (done.attempts, bench.agent.seen) == (0, {})


def test_b36_tries_stop_once_the_cap_of_the_search_is_spent(bench: Bench, sandbox: LocalSandbox) -> None:
    """Ten tokens a try, fifteen for the search: the third try at the first pick is not made."""
    plan = bench.begin(ONE_AT_A_TIME, allowance=Allowance(tokens=15))
    done = over(run(bench, plan, sandbox, roller=Roller(Rollouts(n=3, max_parallel=1))))

    assert (done.search.stop, done.spent.tokens) == (SearchStop.TOKENS, 20.0)
    (finished,) = bench.store.attempts(done.search)
    assert len(finished.attempt.extra["rollouts"]) == 2
    assert finished.attempt.extra["rollouts_note"] == "tokens: 20 of 15 are spent"


def test_a_pick_at_which_every_try_ran_out_of_time_is_a_node_that_says_so(bench: Bench, sandbox: LocalSandbox) -> None:
    bench.agent = Counts(lambda assignment: assignment.cancel.wait(20) and None)
    plan = bench.begin(ONE_AT_A_TIME, limits=Limits(20, 8, 1))
    done = over(run(bench, plan, sandbox, roller=Roller(Rollouts(n=2, timeout_s=0.2))))

    (finished,) = bench.store.attempts(done.search)
    node = finished.attempt
    assert (node.status, node.score) == ("timeout", None)
    assert node.feedback == "none of 2 tries succeeded (try 0: its time ran out; try 1: its time ran out)"
    assert [one["by"] for one in node.extra["rollouts"]] == ["rollouts", "rollouts"]


def test_a_search_that_has_ended_cannot_be_taken_up(bench: Bench, sandbox: LocalSandbox) -> None:
    done = over(run(bench, bench.begin(WIDE_THEN_DEEP), sandbox))

    with pytest.raises(InputError, match="search 1 has ended"):
        run(bench, done.search, sandbox)


def says_no(_: Assignment) -> None:
    raise AgentFault("the agent ended with exit code 1")


def says_no_but_once(assignment: Assignment) -> None:
    if assignment.attempt != "a9":
        says_no(assignment)


def says_each_time_another_no(assignment: Assignment) -> None:
    raise AgentFault(f"the agent ended with exit code 1 at {assignment.attempt}")


@pytest.mark.parametrize("mode", list(Mode))
def test_an_agent_that_fails_in_the_same_way_from_the_start_stops_the_search_and_goes_on_once_mended(
    tmp_path: Path, sandbox: LocalSandbox, mode: Mode
) -> None:
    """Two batches of it are enough; all that was made is on record, and as many are tried again."""
    bench = Bench(tmp_path, Counts(says_no))
    search = bench.begin(ONE_AT_A_TIME, mode=mode, limits=Limits(40, 3, 30))
    for made in (6, 12):
        with pytest.raises(AgentError, match="attempts so far are failed, and in the same way: the agent ended with exit code 1"):
            run(bench, search, sandbox)
        assert made <= len(bench.store.attempts(search)) < 30
    bench.agent = Counts()

    last = over(run(bench, search, sandbox))

    assert (last.attempts, last.search.stop) == (30, SearchStop.MAX_ATTEMPTS)
    bench.store.close()


@pytest.mark.parametrize("behave", [says_no_but_once, says_each_time_another_no])
def test_a_search_whose_attempts_do_not_all_fail_alike_goes_on(
    tmp_path: Path, sandbox: LocalSandbox, behave: Callable[[Assignment], None]
) -> None:
    bench = Bench(tmp_path, Counts(behave))
    search = bench.begin(ONE_AT_A_TIME, limits=Limits(40, 8, 24))

    assert over(run(bench, search, sandbox)).attempts == 24
    bench.store.close()


class Babbles(Counts):
    """Leaves what the evaluator calls invalid."""

    def work(self, assignment: Assignment) -> Work:
        """Write words where a number is wanted."""
        (assignment.workspace / "answer.txt").write_text("no number")
        return Work()


def test_answers_that_are_invalid_stop_nothing(tmp_path: Path, sandbox: LocalSandbox) -> None:
    bench = Bench(tmp_path, Babbles())

    assert over(run(bench, bench.begin(ONE_AT_A_TIME, limits=Limits(40, 1, 5)), sandbox)).attempts == 5
    bench.store.close()

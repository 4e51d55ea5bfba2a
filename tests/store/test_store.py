"""What every store keeps, whichever database it lies in."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from builders import tree, verdict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from store_records import TREE, candidate, engine_of, evaluated, evaluation, plan, promoted, result

from harness.errors import InputError, StoreError
from harness.policy import Candidate, Event, EventKind, Origin, digest_of
from harness.replay import Stop
from harness.score import GroupBy, Normalize, Objective, Settings, Weight, Weights, settings_from
from harness.store import Question, RunPlan, RunState, StaleError, Store, rows
from harness.tree import Attempt, Direction, Root, Tree
from harness.treefile import read
from sandbox.api import Fault, FaultKind, Frontier, Limits, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NASTY = "a\x00b\ud83d\ude00\udc80é𝄞\r\n'\"\\%s$1"
"""NUL, three lone surrogates of which two would make a pair, and what drivers and escapes stumble over."""


def test_what_was_recorded_is_there_after_the_store_is_opened_again(url: str) -> None:
    with Store.open(url) as store:
        version = store.propose(None, candidate("x"), 0)
        store.append([promoted(version)], 1)

    with Store.open(url) as store:
        assert (store.version(1), store.incumbent(), store.head()) == (version, version, 2)


# Trees


def test_a_tree_comes_back_as_it_was(store: Store) -> None:
    """Unknown fields, extra parents, costs and provenance included."""
    merge = Attempt("b", "a", -0.0, parents=("a", "z"), snapshot="sha", terminal=True, extra={"mine": [1, {"x": None}]})
    whole = Tree(
        "name",
        (Attempt("a", None, 1e-300, "rejected", {"m": 0.1}, "said\x00", {"seconds": 1, "gpu": "x"}, "try", created_at=5), merge),
        "task",
        Direction.MIN,
        Frontier.ANY,
        Root(2.5, {"r": 1}, "r0", {"k": 1}),
        {"system": "s"},
        "now",
        {"e": 1},
    )

    store.add_trees([whole])

    assert store.tree(whole.digest) == whole
    assert str(store.tree(whole.digest).scores) == str(whole.scores)


def test_adding_a_tree_again_adds_nothing(store: Store) -> None:
    other = tree("root>x")

    assert store.add_trees([TREE, other, TREE]) == 2
    assert store.add_trees([other]) == 0


def test_trees_are_added_all_or_none(store: Store) -> None:
    def torn() -> Iterator[Tree]:
        yield TREE
        raise InputError("the second file is cut off")

    with pytest.raises(InputError):
        store.add_trees(torn())

    assert store.tree_rows() == []


def test_a_tree_row_tells_what_a_list_shows(store: Store) -> None:
    store.add_trees([TREE])

    (row,) = store.tree_rows()

    assert (row.digest, row.name, row.system) == (TREE.digest, "built", "unknown")
    assert (row.direction, row.frontier, row.attempts, row.best) == (Direction.MAX, Frontier.LEAF, 3, 1.0)


@pytest.mark.slow
def test_every_recorded_search_keeps_its_digest(store: Store, shared: Path) -> None:
    files = sorted((shared / "trees").rglob("*.jsonl"))[::10]

    store.add_trees(map(read, files))

    for row in store.tree_rows():
        assert store.tree(row.digest).digest == row.digest
    assert store.check() == []


# Runs


def test_a_run_comes_back_with_its_plan(store: Store) -> None:
    other = tree("root>x")
    store.add_trees([TREE, other])
    store.propose(None, candidate("x"), 0)
    weights = Weights(0.1 + 0.2, 1e-320, Normalize.NONE)
    how = Settings(Limits(3, 4, 0), Frontier.ANY, weights, 2**70)
    planned = RunPlan(-1, 0, how, "local", (other.digest, TREE.digest), (TREE.digest,), 1, {"p": {"q": [1, None, NASTY]}})

    run = store.begin_run(planned)

    assert run.plan == planned
    assert (run.number, run.state, run.best, run.finished_at) == (1, RunState.RUNNING, None, None)
    assert store.run(1) == run


def test_the_unfinished_run_is_the_latest_that_has_no_end(store: Store) -> None:
    first, second, third = (store.begin_run(plan()) for _ in range(3))

    ended = store.finish_run(third)

    assert ended.state is RunState.FINISHED
    assert ended.finished_at is not None
    assert store.unfinished_run() == second
    assert store.runs() == [first, second, ended]


def test_nothing_is_added_to_a_finished_run(store: Store) -> None:
    run = store.begin_run(plan())
    version = store.propose(run, candidate("x"), 0)
    store.finish_run(run)

    for add in (
        lambda: store.propose(run, candidate("y"), 1),
        lambda: store.judge(run, version, {"development": evaluation(version)}, [], 1),
        lambda: store.finish_run(run),
    ):
        with pytest.raises(InputError, match="run 1 has finished"):
            add()

    assert (len(store.versions()), store.head()) == (1, 1)


def test_a_plan_over_unknown_trees_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match=TREE.digest):
        store.begin_run(plan(TREE))

    assert store.runs() == []


def test_the_best_of_a_run_is_what_it_selected_last(store: Store) -> None:
    run, other = store.begin_run(plan()), store.begin_run(plan())
    head = 0
    for source in "abc":
        store.propose(run, candidate(source), head)
        head += 1
    selected = [Event(EventKind.SELECTED, n, run.number, "above", to=n) for n in (1, 3)]

    store.append([*selected, Event(EventKind.ROLLED_BACK, 2, run.number, "below", to=3)], head)

    assert (store.run(run.number).best, store.run(other.number).best) == (3, None)


# Versions


def test_versions_are_numbered_from_one_and_proposed_in_the_history(store: Store) -> None:
    run = store.begin_run(plan())
    whole = Candidate(NASTY, Origin.TEMPLATE, NASTY, NASTY, {NASTY: [NASTY, 0.1, True, None]}, None)

    first = store.propose(run, whole, 0)
    second = store.propose(run, Candidate("y", Origin.FILE, parent=1), 1)

    assert (first.number, first.candidate, second.number) == (1, whole, 2)
    assert store.versions() == store.run_versions(run) == [first, second]
    assert store.version_by_digest(whole.digest) == store.version(1) == first
    assert [(e.number, e.kind, e.version, e.run, e.reason) for e in store.events()] == [
        (1, EventKind.PROPOSED, 1, 1, NASTY),
        (2, EventKind.PROPOSED, 2, 1, ""),
    ]


def test_source_that_is_known_keeps_its_number_and_takes_the_runs_next_position(store: Store) -> None:
    """Each run sees the rationale and parameters of its own proposal, so that a resumed run tells its proposer the same."""
    first, second = store.begin_run(plan()), store.begin_run(plan())
    store.propose(first, Candidate("x", Origin.MODEL, "theirs"), 0)
    store.propose(second, candidate("y"), 0)

    again = store.propose(second, Candidate("x", Origin.TEMPLATE, "mine", "t", {"w": 3}, 2), 1)

    assert (again.number, again.candidate.rationale) == (1, "mine")
    assert store.run_versions(second)[1] == again
    assert [version.number for version in store.run_versions(second)] == [2, 1]
    assert store.version(1).candidate.rationale == "theirs"
    assert store.events()[-1].facts["position"] == 2


def test_a_candidate_is_recorded_once_whatever_others_write_meanwhile(store: Store) -> None:
    """It needs no view of the history: the same source is the same version."""
    first = store.record(Candidate("x", Origin.FILE, "from x.py"))
    store.propose(None, candidate("y"), store.head())

    assert store.record(Candidate("x", Origin.MODEL, "again")) == first
    assert [event.kind for event in store.events()] == [EventKind.PROPOSED] * 2
    assert store.check() == []


def test_asking_for_what_is_not_there_is_the_operators_mistake(store: Store) -> None:
    for ask in (lambda: store.version(9), lambda: store.run(9), lambda: store.tree("9")):
        with pytest.raises(InputError, match="9"):
            ask()

    assert store.version_by_digest(digest_of("x")) is None


# Evaluations

FAULT = Fault(FaultKind.BAD_ANSWER, NASTY, Rule.DUPLICATE_PICK, 3, NASTY, {"cpu_s": 0.1, "memory_bytes": 2**60})


def test_an_evaluation_comes_back_equal(store: Store) -> None:
    """Limits, weights, rounds, figures, the fault and its evidence, output: all of it."""
    store.add_trees([TREE])
    run = store.begin_run(plan(TREE))
    version = store.propose(run, candidate("x"), 0)
    how = Settings(Limits(1, 2, None), Frontier.ANY, Weights(normalize=Normalize.NONE), 3)
    whole = evaluation(version, result(TREE), result(TREE, None, FAULT, NASTY), result(TREE, -0.0), settings=how)

    store.judge(run, version, {"development": whole, "held_out": evaluation(version)}, [evaluated(version, run)], 1)

    back = store.evaluation(run, version, "development")
    assert back == whole
    assert repr(back) == repr(whole)
    assert store.evaluation(run, version, "held_out") == evaluation(version)
    assert store.evaluation(run, version, "other") is None
    assert store.events(after=1)[0].reason == "mean value 0.3"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.floats(allow_nan=False),
    st.text(st.characters(codec=None)),
    st.dictionaries(st.text(), st.floats(allow_nan=False) | st.text(st.characters(codec=None)) | st.integers() | st.none()),
)
def test_any_figure_and_any_text_come_back_to_the_bit(store: Store, figure: float, words: str, facts: dict) -> None:
    store.add_trees([TREE])
    run = store.begin_run(plan(TREE))
    version = store.propose(run, candidate(words), store.head(run))
    whole = evaluation(version, result(TREE, figure, output=words))

    store.judge(run, version, {"development": whole}, [], store.head(run))
    (event,) = store.append([Event(EventKind.EVALUATED, version.number, None, words, facts=facts)], store.head())

    assert repr(store.evaluation(run, version, "development")) == repr(whole)
    assert store.run_versions(run)[-1].candidate.source == words
    assert repr(store.events(after=event.number - 1)) == repr([event])


def test_a_second_judgement_of_a_split_must_repeat_and_is_not_stored_again(store: Store) -> None:
    store.add_trees([TREE])
    run = store.begin_run(plan(TREE))
    version = store.propose(run, candidate("x"), 0)
    store.judge(run, version, {"development": evaluation(version, result(TREE, 0.5))}, [], 1)

    store.judge(run, version, {"development": evaluation(version, result(TREE, 0.5, output="y"))}, [evaluated(version, run)], 1)
    with pytest.raises(StoreError, match="does not repeat"):
        store.judge(run, version, {"development": evaluation(version, result(TREE, 0.6))}, [evaluated(version, run)], 2)

    assert store.evaluation(run, version, "development").results[0].output == ""
    assert store.head() == 2


def test_a_judgement_is_recorded_whole_or_not_at_all(store: Store) -> None:
    """The second split names a tree that the store does not hold."""
    store.add_trees([TREE])
    run = store.begin_run(plan(TREE))
    version = store.propose(run, candidate("x"), 0)
    splits = {"development": evaluation(version, result(TREE)), "held_out": evaluation(version, result(tree("root>q")))}

    with pytest.raises(StoreError, match="does not hold"):
        store.judge(run, version, splits, [evaluated(version, run)], 1)

    assert store.evaluation(run, version, "development") is None
    assert store.head() == 1


def test_an_evaluation_of_another_policy_is_refused(store: Store) -> None:
    run = store.begin_run(plan())
    version, other = store.propose(run, candidate("x"), 0), store.propose(run, candidate("y"), 1)

    with pytest.raises(ValueError, match="version 1"):
        store.judge(run, version, {"development": evaluation(other)}, [], 2)


# Events


def test_events_are_asked_for_by_version_run_kind_and_place(store: Store) -> None:
    run = store.begin_run(plan())
    one, two = store.propose(run, candidate("x"), 0), store.propose(None, candidate("y"), 1)
    store.append([evaluated(one, run), promoted(two)], 2)

    def numbers(**asked: object) -> list[int | None]:
        return [event.number for event in store.events(**asked)]

    assert numbers() == [1, 2, 3, 4]
    assert numbers(version=1) == [1, 3]
    assert numbers(run=1) == [1, 3]
    assert numbers(kinds={EventKind.PROPOSED, EventKind.PROMOTED}) == [1, 2, 4]
    assert numbers(kinds=[]) == []
    assert numbers(after=1, limit=2) == [2, 3]
    assert numbers(limit=0) == []


def test_two_runs_side_by_side_do_not_make_each_other_outdated(store: Store) -> None:
    one, other = store.begin_run(plan()), store.begin_run(plan())

    first = store.propose(one, candidate("x"), store.head(one))
    second = store.propose(other, candidate("y"), store.head(other))
    store.judge(one, first, {"development": evaluation(first)}, [evaluated(first, one)], 1)
    store.judge(other, second, {"development": evaluation(second)}, [evaluated(second, other)], 1)

    assert (store.head(one), store.head(other), store.head()) == (2, 2, 4)


def test_a_writer_with_an_outdated_view_is_refused_and_writes_nothing(store: Store) -> None:
    run = store.begin_run(plan())
    version = store.propose(run, candidate("x"), 0)

    for write in (
        lambda: store.propose(run, candidate("y"), 0),
        lambda: store.judge(run, version, {"development": evaluation(version)}, [], 0),
        lambda: store.append([promoted(version)], 0),
        lambda: store.append([promoted(version)], 2),
    ):
        with pytest.raises(StaleError, match=r"decided at event [02] and the last one is 1"):
            write()

    assert store.versions() == [version]
    assert (store.head(), store.head(run)) == (1, 1)
    assert store.evaluation(run, version, "development") is None


def test_the_incumbent_is_what_the_last_promotion_or_rollback_names(store: Store) -> None:
    one, two = store.propose(None, candidate("x"), 0), store.propose(None, candidate("y"), 1)
    assert store.incumbent() is None

    store.append([promoted(one), promoted(two)], 2)
    assert store.incumbent() == two

    store.append([Event(EventKind.ROLLED_BACK, 2, None, "worse live", to=1)], 4)
    assert store.incumbent() == one


def test_a_rollback_within_a_run_leaves_the_incumbent_alone(store: Store) -> None:
    run = store.begin_run(plan())
    one, _two = store.propose(run, candidate("x"), 0), store.propose(run, candidate("y"), 1)

    store.append([promoted(one), Event(EventKind.ROLLED_BACK, 1, run.number, "below", to=2)], 2)

    assert store.incumbent() == one


def test_a_turn_without_the_version_it_turns_to_is_refused(store: Store) -> None:
    store.propose(None, candidate("x"), 0)

    with pytest.raises(ValueError, match="names no version"):
        store.append([Event(EventKind.ROLLED_BACK, 1, None, "where to?")], 1)


def test_an_event_of_an_unknown_version_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="does not hold"):
        store.append([Event(EventKind.EVALUATED, 5, None, "")], 0)

    assert store.head() == 0


def test_threads_may_share_a_store(store: Store) -> None:
    """Pages read while a run writes."""
    with ThreadPoolExecutor(4) as pool:
        for number in range(1, 21):
            store.propose(None, candidate(str(number)), number - 1)
            seen = list(pool.map(lambda _: (len(store.versions()), store.head()), range(4)))
            assert seen == [(number, number)] * 4


# The database's own guards


@pytest.mark.parametrize("table", ["versions", "proposals", "evaluations", "replays", "events", "looks", "verdicts"])
def test_the_database_refuses_to_change_or_delete_history(store: Store, url: str, table: str) -> None:
    """Also past this library: the guard is the database's."""
    filled(store)
    engine = engine_of(url)
    column = {"proposals": "position", "replays": "place"}.get(table, "number")
    before = store.events(), store.versions()

    for change in (f"UPDATE {table} SET {column} = {column} + 100", f"DELETE FROM {table}"):  # noqa: S608 - our own words
        with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
            connection.execute(text(change))
    engine.dispose()

    assert (store.events(), store.versions()) == before


def test_a_whole_store_has_no_problems(store: Store) -> None:
    filled(store)

    assert store.check() == []


def test_check_names_what_was_tampered_with(store: Store, url: str) -> None:
    filled(store)
    engine = engine_of(url)
    of = "" if url.startswith("sqlite") else " ON {}"
    with engine.begin() as connection:
        for trigger, table in (("versions_update", "versions"), ("events_delete", "events"), ("replays_delete", "replays")):
            connection.execute(text(f"DROP TRIGGER append_only_{trigger}{of.format(table)}"))
        connection.execute(text("UPDATE versions SET source = rationale WHERE number = 1"))
        connection.execute(text("DELETE FROM events WHERE number = 2"))
        connection.execute(text("DELETE FROM replays WHERE place = 1"))
        connection.execute(text("UPDATE trees SET nodes = CAST('[]' AS BLOB)".replace("BLOB", "BYTEA" if of else "BLOB")))
        connection.execute(text("CREATE INDEX strange ON runs (state)"))
    engine.dispose()

    said = "\n".join(store.check())

    for words in (
        "nothing keeps the rows of versions from update",
        "the source of version 1 is not the one",
        "events are 4, numbered 1 to 5",
        "recorded with 2 replays and holds 1",
        f"tree {TREE.digest} is not the one",
        "strange",
    ):
        assert words in said


def filled(store: Store) -> None:
    """Record one of everything."""
    store.add_trees([TREE])
    run = store.begin_run(plan(TREE))
    version = store.propose(run, candidate("x"), 0)
    fault = Fault(FaultKind.EXCEPTION, "boom")
    results = result(TREE), result(TREE, None, fault)
    assert results[1].trajectory.stop is Stop.POLICY_ERROR
    store.judge(run, version, {"development": evaluation(version, *results)}, [evaluated(version, run), promoted(version)], 1)
    look = store.look(Question(version.candidate.digest, digest_of("before"), Settings()), [TREE.digest], 0.05, "ci")
    store.record_verdict(verdict(version.candidate.digest, digest_of("before"), look=look), version, None)


def test_settings_of_before_there_was_a_choice_of_objective_are_the_defaults() -> None:
    """Rows of the first version name no objective; what they were judged by is the default of today."""
    chosen = Settings(objective=Objective.ATTAINMENT, weight=Weight.GROUP, group_by=GroupBy.TASK)
    row = rows.settings_row(chosen)
    assert settings_from(json.loads(json.dumps(row))) == chosen

    for name in ("objective", "weight", "group_by"):
        del row[name]
    assert settings_from(row) == Settings()


def test_a_replay_knows_the_task_of_its_tree(store: Store) -> None:
    on = replace(TREE, task="packing")
    store.add_trees([on])
    run = store.begin_run(plan(on))
    version = store.propose(run, candidate("a"), 0)
    judged = evaluation(version, replace(result(on), task="packing"))
    store.judge(run, version, {"development": judged}, [evaluated(version, run)], store.head(run))

    assert store.evaluation(run, version, "development") == judged

"""Verdicts and turns: what a promotion rests on comes back as it was, and whoever changes it is seen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from builders import tree, verdict
from sqlalchemy import text
from store_records import TREE, candidate, engine_of, plan, promoted

from harness.errors import InputError
from harness.gate.verdict import Look, Outcome
from harness.policy import Candidate, Event, EventKind, Origin, digest_of
from harness.score import Settings
from harness.store import Question, RunPlan, StaleError, Store

if TYPE_CHECKING:
    from harness.policy import Version

ON = [tree("root>a", scores={"a": float(score)}) for score in range(1, 5)]


@pytest.fixture
def pair(store: Store) -> tuple[Version, Version]:
    """Return an incumbent and a candidate."""
    return store.propose(None, candidate("old"), 0), store.propose(None, candidate("new"), 1)


def judged(store: Store, pair: tuple[Version, Version], outcome: Outcome = Outcome.PASS) -> int:
    old, new = pair
    look = store.look(Question(new.candidate.digest, old.candidate.digest, Settings()), [TREE.digest], 0.05, "ci")
    about = verdict(new.candidate.digest, old.candidate.digest, outcome=outcome, look=look)
    return store.record_verdict(about, new, old, by="jo@desk", manifest={"format": "m", "n": [1, None, 0.1]})


# Verdicts


def test_a_verdict_comes_back_equal_with_who_asked_and_its_manifest(store: Store, pair: tuple[Version, Version]) -> None:
    number = judged(store, pair)

    back = store.verdict(number)

    assert back.verdict == verdict(digest_of("new"), digest_of("old"), look=back.verdict.look)
    assert repr(back.verdict.trees) == repr(verdict("", "").trees)
    assert (back.number, back.candidate, back.incumbent, back.by) == (1, 2, 1, "jo@desk")
    assert back.manifest == {"format": "m", "n": [1, None, 0.1]}
    assert store.check() == []


def test_verdicts_are_asked_for_by_either_side(store: Store, pair: tuple[Version, Version]) -> None:
    other = store.propose(None, candidate("third"), store.head())
    numbers = [judged(store, pair), judged(store, (pair[1], other)), judged(store, pair, Outcome.REFUSE)]

    assert numbers == [1, 2, 3]
    assert [[row.number for row in store.verdicts(version)] for version in (None, 1, 2, 3)] == [[1, 2, 3], [1, 3], [1, 2, 3], [2]]


def test_a_verdict_against_a_policy_that_the_store_does_not_hold_has_no_incumbents_number(
    store: Store, pair: tuple[Version, Version]
) -> None:
    number = store.record_verdict(verdict(digest_of("new"), digest_of("elsewhere")), pair[1], None)

    assert store.verdict(number).incumbent is None
    assert store.check() == []


def test_every_verdict_stands_in_the_history(store: Store, pair: tuple[Version, Version]) -> None:
    judged(store, pair, Outcome.REFUSE)

    (event,) = store.events(kinds=[EventKind.GATED])

    assert (event.version, event.run, event.reason) == (2, None, "worse")
    assert (event.facts["verdict"], event.facts["outcome"], event.facts["incumbent"], event.facts["by"]) == (
        1,
        "refuse",
        1,
        "jo@desk",
    )


def test_a_verdict_on_a_look_that_was_never_recorded_is_refused(store: Store, pair: tuple[Version, Version]) -> None:
    made_up = verdict(digest_of("new"), digest_of("old"), look=Look(1, 0.05, 0.0, 0.0, ledger="made up"))

    with pytest.raises(InputError, match="no look 'made up'"):
        store.record_verdict(made_up, pair[1], pair[0])

    assert store.verdicts() == []


def test_a_verdict_about_other_policies_is_a_mistake_of_ours(store: Store, pair: tuple[Version, Version]) -> None:
    with pytest.raises(ValueError, match="not version 1"):
        store.record_verdict(verdict(digest_of("new"), digest_of("old")), pair[0], None)
    with pytest.raises(ValueError, match="not version 2"):
        store.record_verdict(verdict(digest_of("new"), digest_of("old")), pair[1], pair[1])


def test_a_verdict_that_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(InputError, match="no verdict 4"):
        store.verdict(4)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE verdicts SET outcome = 'pass'", "verdict 1 was edited: it is recorded as pass, its content says refuse"),
        ("UPDATE verdicts SET manifest = document", "verdict 1 was edited: its content does not give its digest"),
        ("UPDATE verdicts SET digest = 'x'", "verdict 1 is not one that the history tells of"),
        ("DELETE FROM verdicts", "verdict 1 was deleted"),
        ("DELETE FROM looks", "verdict 1 rests on a look that the ledger does not hold"),
    ],
)
def test_a_verdict_that_was_tampered_with_is_named(
    store: Store, url: str, pair: tuple[Version, Version], statement: str, words: str
) -> None:
    judged(store, pair, Outcome.REFUSE)
    engine = engine_of(url)
    with engine.begin() as connection:
        for table in ("verdicts", "looks"):
            for change in ("update", "delete"):
                of = "" if url.startswith("sqlite") else f" ON {table}"
                connection.execute(text(f"DROP TRIGGER append_only_{table}_{change}{of}"))
        connection.execute(text(statement))
    engine.dispose()

    assert words in "\n".join(store.check())


# What makes a version the incumbent


def test_turns_are_the_promotions_and_rollbacks_outside_of_runs(store: Store, pair: tuple[Version, Version]) -> None:
    run = store.begin_run(plan())
    old, new = pair
    store.append([Event(EventKind.ROLLED_BACK, 2, run.number, "below", to=1)], store.head())

    first = store.turn(promoted(old), 0)
    second = store.turn(promoted(new), first.number)

    assert store.turns() == [first, second]
    assert store.incumbent() == new


def test_a_turn_decided_on_an_outdated_view_is_refused_whatever_else_was_recorded(
    store: Store, pair: tuple[Version, Version]
) -> None:
    """Runs that go on meanwhile make nobody's view of the incumbent outdated."""
    old, new = pair
    first = store.turn(promoted(old), 0)
    store.propose(None, candidate("more"), store.head())

    second = store.turn(promoted(new), first.number)
    for seen in (0, first.number):
        with pytest.raises(StaleError):
            store.turn(promoted(old), seen)

    assert store.turns() == [first, second]


def test_of_many_who_turn_at_once_one_comes_through(store: Store, pair: tuple[Version, Version]) -> None:
    def turn(_: int) -> bool:
        try:
            store.turn(promoted(pair[1]), 0)
        except StaleError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(turn, range(8))) == [False] * 7 + [True]


# Development trees


def run_over(store: Store, *trees: int, incumbent: int | None = None) -> RunPlan:
    store.add_trees(ON)
    return plan(*[ON[place] for place in trees], incumbent=incumbent)


def digests(*places: int) -> set[str]:
    return {ON[place].digest for place in places}


def test_a_version_was_developed_on_the_trees_of_its_runs_and_of_those_of_its_ancestors(store: Store) -> None:
    first = store.begin_run(run_over(store, 0))
    base = store.propose(first, candidate("base"), 0)
    second = store.begin_run(run_over(store, 1, incumbent=base.number))
    child = store.propose(second, Candidate("child", Origin.MODEL, parent=base.number), 0)
    third = store.begin_run(run_over(store, 2, incumbent=child.number))
    grandchild = store.propose(third, Candidate("grandchild", Origin.MODEL, parent=child.number), 0)

    assert store.development_trees(base) == digests(0)
    assert store.development_trees(child) == digests(0, 1)
    assert store.development_trees(grandchild) == digests(0, 1, 2)


def test_source_that_is_proposed_again_was_developed_on_both(store: Store) -> None:
    """With all that the second proposal descends from."""
    elsewhere, here = store.begin_run(run_over(store, 0)), store.begin_run(run_over(store, 1))
    stranger = store.propose(elsewhere, candidate("stranger"), 0)
    twice = store.propose(here, candidate("x"), 0)
    store.propose(store.begin_run(run_over(store, 2)), Candidate("x", Origin.MODEL, parent=stranger.number), 0)

    assert store.development_trees(twice) == digests(0, 1, 2)


@pytest.mark.parametrize(("best", "counts"), [(2, False), (1, True)])
def test_a_run_counts_for_what_it_started_from_only_when_that_won(store: Store, best: int, counts: bool) -> None:
    """A run that went on to something better has chosen nothing; one that ends where it began has."""
    base = store.propose(None, candidate("base"), 0)
    run = store.begin_run(run_over(store, 0, incumbent=base.number))
    store.propose(run, candidate("base"), 0)
    child = store.propose(run, Candidate("child", Origin.MODEL, parent=base.number), 1)
    store.append([Event(EventKind.SELECTED, best, run.number, "above", to=best)], store.head())

    assert store.development_trees(base) == (digests(0) if counts else set())
    assert store.development_trees(child) == digests(0)


def test_a_version_that_no_run_proposed_was_developed_on_nothing(store: Store) -> None:
    assert store.development_trees(store.propose(None, candidate("x"), 0)) == set()

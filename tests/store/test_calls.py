"""What a run asked of models: kept once, in order, whole, and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from store_records import TREE, engine_of, plan

from harness.developing import StoredTries
from harness.errors import InputError, StoreError
from harness.models.base import Answer, ErrorKind, Exchange, Finish, Message, Request, Role, Usage
from harness.models.journal import Asked, Because, Call, Outcome, PutAside
from harness.models.tries import Charge, Paid, Try

if TYPE_CHECKING:
    from harness.store import Run, Store

ASKED = Asked(2, "blocks", (1,))


def exchange(prompt: str, *, cost: float | None = None) -> Exchange:
    """Build an exchange that was answered."""
    request = Request((Message(Role.USER, prompt),), "scripted:one", 0.7, 3, 100, 60.0)
    return Exchange(
        request, Answer("odd \x00 \ud800 text", Usage(10, None), cost, Finish.LENGTH, 0.1 + 0.2, "one"), None, "2026-01-01"
    )


def begun(store: Store) -> Run:
    """Begin a run over one tree."""
    store.add_trees([TREE])
    return store.begin_run(plan(TREE))


def test_calls_come_back_in_order_and_equal_to_what_was_recorded(store: Store) -> None:
    run, other = begun(store), store.begin_run(plan(TREE))
    failed = Exchange(exchange("b").request, None, "too long", "2026-01-01", ErrorKind.OVERFLOW)
    refused = Outcome("no-match", "block 1 is found nowhere", "look twice", "because")
    later = Asked(3, "cross", (1, 2))
    store.exchanged(run, later, 1, exchange("c", cost=0.25))
    store.exchanged(run, ASKED, 1, exchange("a"))
    store.ended(run, ASKED, 1, refused)
    store.exchanged(run, ASKED, 2, failed)
    store.exchanged(other, ASKED, 1, exchange("of another run"))

    assert store.calls(run) == [
        Call(ASKED, 1, exchange("a"), refused), Call(ASKED, 2, failed), Call(later, 1, exchange("c", cost=0.25)),
    ]  # fmt: skip
    assert store.check() == []


def test_the_same_call_again_is_recorded_once_and_another_in_its_place_is_refused(store: Store) -> None:
    run = begun(store)
    for _ in range(2):
        store.exchanged(run, ASKED, 1, exchange("a"))
        store.ended(run, ASKED, 1, Outcome(None))

    with pytest.raises(StoreError, match="another question as call 1 for position 2"):
        store.exchanged(run, ASKED, 1, exchange("b"))
    assert store.calls(run) == [Call(ASKED, 1, exchange("a"), Outcome(None))]


def test_nothing_is_added_to_a_run_that_has_finished(store: Store) -> None:
    run = begun(store)
    store.finish_run(run)

    with pytest.raises(InputError, match="has finished"):
        store.exchanged(run, ASKED, 1, exchange("a"))


def test_an_exchange_that_was_edited_past_the_database_is_named(store: Store, url: str) -> None:
    run = begun(store)
    store.exchanged(run, ASKED, 1, exchange("a"))
    if not url.startswith("sqlite"):
        pytest.skip("how triggers are taken off differs; the digest is the same")
    with engine_of(url).begin() as connection:
        connection.execute(text("DROP TRIGGER append_only_exchanges_update"))
        connection.execute(text("UPDATE exchanges SET request = 'x'"))

    said = store.check()
    assert any("call 1 for position 2 of run 1 is not the one that was recorded" in line for line in said)
    assert any("nothing keeps the rows of exchanges from update" in line for line in said)


def test_a_try_is_kept_before_it_ends_and_counts_as_what_it_may_cost_until_then(store: Store) -> None:
    run, other = begun(store), store.begin_run(plan(TREE))
    request, bound = exchange("a").request, Charge(0.1 + 0.2, 700, 1)

    numbers = [store.reserve(of, request, bound, known) for of, known in ((run, 0), (run, 1), (other, 0))]
    for _ in range(2):
        store.charge(run, 2, Paid(None, 12))
    store.charge(run, 2, Paid(9.0, 9))

    assert numbers == [1, 2, 1]
    name = "scripted:one"
    expected = [Try(1, request.digest, name, bound), Try(2, request.digest, name, bound, Paid(None, 12))]
    assert store.tries(run) == expected
    assert [one.charge for one in expected] == [bound, Charge(0.1 + 0.2, 12, 1)]
    assert store.check() == []


def test_nothing_is_reserved_for_a_run_that_has_finished(store: Store) -> None:
    run = begun(store)
    store.finish_run(run)

    with pytest.raises(InputError, match="has finished"):
        store.reserve(run, exchange("a").request, Charge(), 0)
    with pytest.raises(InputError, match="has finished"):
        store.put_aside(run, PutAside(2, Because.BUDGET, "spent"))


def test_why_models_are_asked_no_more_is_kept_once(store: Store) -> None:
    run, other = begun(store), store.begin_run(plan(TREE))
    assert store.aside(run) is None

    store.put_aside(run, PutAside(3, Because.PROVIDER, "odd \x00 \ud800 words"))
    store.put_aside(run, PutAside(4, Because.BUDGET, "another reason"))

    assert store.aside(run) == PutAside(3, Because.PROVIDER, "odd \x00 \ud800 words")
    assert store.aside(other) is None


def test_answers_that_became_no_version_are_listed_with_their_reason(store: Store) -> None:
    run, other = begun(store), store.begin_run(plan(TREE))
    for of, number, outcome in (
        (run, 1, Outcome("no-match", "not found")),
        (run, 2, Outcome(None)),
        (other, 1, Outcome("empty")),
    ):
        store.exchanged(of, ASKED, number, exchange(str(number)))
        store.ended(of, ASKED, number, outcome)

    told = store.unusable_answers()
    assert [(one.run, one.position, one.number, one.kind, one.reason, one.message) for one in told] == [
        (1, 2, 1, "blocks", "no-match", "not found"), (2, 2, 1, "blocks", "empty", ""),
    ]  # fmt: skip
    assert [one.run for one in store.unusable_answers(2)] == [2]


@pytest.mark.parametrize(
    ("deleted", "said"),
    [
        ("exchanges WHERE number = 1", "exchanges of run 1 of position 2 are 2, numbered 2 to 3: some are missing"),
        ("exchanges WHERE number = 2", "exchanges of run 1 of position 2 are 2, numbered 1 to 3: some are missing"),
        ("exchanges WHERE number = 3", "call 3 for position 2 of run 1 is missing, though what came of it is there"),
        ("tries WHERE number = 1", "tries of run 1 are 1, numbered 2 to 2: some are missing"),
        ("tries WHERE number = 2", "try 2 of run 1 is missing, though what it did cost is there"),
    ],
)
def test_an_exchange_or_try_that_was_deleted_past_the_database_is_missed(store: Store, url: str, deleted: str, said: str) -> None:
    if not url.startswith("sqlite"):
        pytest.skip("how triggers are taken off differs; the queries are the same")
    run = begun(store)
    for number in (1, 2, 3):
        store.exchanged(run, ASKED, number, exchange(str(number)))
        store.ended(run, ASKED, number, Outcome("empty"))
    for known in range(2):
        store.charge(run, store.reserve(run, exchange("1").request, Charge(), known), Paid(None, None))
    with engine_of(url).begin() as connection:
        for table in ("exchanges", "tries"):
            connection.execute(text(f"DROP TRIGGER append_only_{table}_delete"))
        connection.execute(text(f"DELETE FROM {deleted}"))  # noqa: S608 - the test's own words

    assert said in store.check()


def test_of_two_processes_that_take_a_run_on_the_one_that_missed_a_try_is_refused(store: Store) -> None:
    """Its budget would not count what the other one spends."""
    run, request = begun(store), exchange("a").request
    one, other = StoredTries(store, run, 0), StoredTries(store, run, 0)
    one.reserved(request, Charge(0.5, 10, 1))

    with pytest.raises(StoreError, match="run 1 has gone on meanwhile; another process may be taking it on"):
        other.reserved(request, Charge(0.5, 10, 1))

    assert one.reserved(request, Charge(0.5, 10, 1)) == 2
    assert len(store.tries(run)) == 2

"""What a run asked of models: kept once, in order, whole, and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from store_records import TREE, engine_of, plan

from harness.errors import InputError, StoreError
from harness.models.base import Answer, ErrorKind, Exchange, Finish, Message, Request, Role, Usage
from harness.models.journal import Asked, Call, Outcome

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

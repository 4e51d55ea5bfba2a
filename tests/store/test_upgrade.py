"""A store of an earlier version is brought up to date where it lies, with all that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from alembic import command
from store_records import TREE, candidate, evaluated, evaluation, plan, promoted, result

from harness.errors import StoreError
from harness.models.base import Answer, ErrorKind, Exchange, Finish, Message, Request, Role, Usage
from harness.models.journal import Asked
from harness.models.tries import Charge, Paid
from harness.score import Settings
from harness.store import Question, Store
from harness.store.database import Database
from harness.store.tables import REVISION
from harness.store.upgrade import configuration

if TYPE_CHECKING:
    from collections.abc import Callable


def at(url: str, revision: str) -> Store:
    """Make a store as the version with these tables made it."""
    database = Database(url)
    with database.opening():
        database.use_wal()
        config = configuration()
        with database.write() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    return Store(database)


def test_a_store_of_the_first_tables_keeps_everything_and_gains_the_ledger(url: str) -> None:
    with at(url, "0001") as store:
        store.add_trees([TREE])
        run = store.begin_run(plan(TREE))
        version = store.propose(run, candidate("x"), 0)
        whole = evaluation(version, result(TREE))
        store.judge(run, version, {"development": whole}, [evaluated(version, run), promoted(version)], 1)
        before: list[Callable[[Store], object]] = [
            Store.events, Store.versions, Store.tree_rows, Store.runs, Store.incumbent, lambda s: s.tree(TREE.digest),
            lambda s: s.evaluation(run, version, "development"),
        ]  # fmt: skip
        held = [ask(store) for ask in before]

    with Store.open(url) as store:
        assert [ask(store) for ask in before] == held
        assert store.check() == []
        assert store.look(Question(version.candidate.digest, "other", Settings()), ["t"], 0.05, "ci").number == 1
        assert store.check() == []


def test_what_was_asked_of_models_before_tries_were_kept_counts_once_each(url: str) -> None:
    """Money that is not known is asked for again by whoever resumes: the price is known then."""
    request = Request((Message(Role.USER, "0123456789 \ud800"),), "scripted:one", 0.7, 3, 100, 60.0)
    most = Charge(None, len("0123456789 ") + 3 + 32 + 100, 1)

    def answer(usage: Usage, cost: float | None) -> Exchange:
        return Exchange(request, Answer("odd \x00 \ud800", usage, cost, Finish.STOP, 0.1, "one"), None, "2026-01-01")

    def error(kind: ErrorKind) -> Exchange:
        return Exchange(request, None, "why", "2026-01-01", kind)

    exchanges = [
        answer(Usage(10, 5), 0.25), answer(Usage(10, None), None), error(ErrorKind.TIMEOUT), error(ErrorKind.OVERFLOW),
        error(ErrorKind.UNREACHABLE),
    ]  # fmt: skip
    with at(url, "0003") as store:
        store.add_trees([TREE])
        runs = [store.begin_run(plan(TREE)) for _ in range(3)]
        for run, some in zip(runs, ([], exchanges, exchanges[:1]), strict=True):
            for number, exchange in enumerate(some, start=1):
                store.exchanged(run, Asked(2, "blocks", (1,)), number, exchange)
        held = [store.calls(run) for run in runs]

    with Store.open(url) as store:
        assert [store.calls(run) for run in runs] == held
        assert store.check() == []
        tries = [store.tries(run) for run in runs]
        assert store.reserve(runs[1], request, most, 5) == 6
    assert [len(of) for of in tries] == [0, 5, 1]
    assert {(one.request, one.model, one.bound) for one in tries[1]} == {(request.digest, "scripted:one", most)}
    nothing, unknown = Paid(0.0, 0), Paid(None, None)
    assert [one.paid for one in tries[1]] == [Paid(0.25, 15), unknown, unknown, nothing, nothing]


def test_an_outdated_store_is_named_before_it_is_upgraded(url: str) -> None:
    """`check` tells what an upgrade that did not happen leaves."""
    with at(url, "0001") as store:
        assert any(f"this version's tables are at {REVISION}" in said and "at 0001" in said for said in store.check())
        with pytest.raises(StoreError, match="looks"):
            store.looks()

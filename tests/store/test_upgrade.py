"""A store of an earlier version is brought up to date where it lies, with all that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from alembic import command
from store_records import TREE, candidate, evaluated, evaluation, plan, promoted, result

from harness.errors import StoreError
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


def test_an_outdated_store_is_named_before_it_is_upgraded(url: str) -> None:
    """`check` tells what an upgrade that did not happen leaves."""
    with at(url, "0001") as store:
        assert any(f"this version's tables are at {REVISION}" in said and "at 0001" in said for said in store.check())
        with pytest.raises(StoreError, match="looks"):
            store.looks()

"""The ledger of looks at held-out trees: what a look costs, and that nobody touches it unseen."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from store_records import candidate, engine_of, look_at_once

from harness.errors import InputError, StoreError
from harness.gate.spending import level
from harness.policy import EventKind, digest_of
from harness.score import Settings, Weights
from harness.store import Question, Spent, Store
from harness.store.ledger import digest_of as chained

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import ForkServerContext

ALPHA = 0.05


def asked(source: str, incumbent: str = "old", settings: Settings | None = None) -> Question:
    return Question(digest_of(source), digest_of(incumbent), settings or Settings())


@pytest.fixture
def known(store: Store) -> Store:
    """Return a store with the versions that the tests ask about."""
    for head, source in enumerate(("old", "a", "b", "c")):
        store.propose(None, candidate(source), head)
    return store


def test_each_different_look_at_a_tree_has_less_to_spend(known: Store) -> None:
    looks = [known.look(asked(source), ["t1", "t2"], ALPHA, "ci") for source in "abc"]

    assert [look.number for look in looks] == [1, 2, 3]
    assert [look.level for look in looks] == [level(ALPHA, k) for k in (1, 2, 3)]
    assert looks[2].spent == pytest.approx(looks[0].level + looks[1].level, abs=1e-15)
    assert looks[2].left == pytest.approx(ALPHA - sum(look.level for look in looks), abs=1e-15)
    assert [look.ledger for look in looks] == [entry.digest for entry in known.looks()]


def test_a_look_counts_every_earlier_one_that_used_one_of_its_trees(known: Store) -> None:
    known.look(asked("a"), ["t1"], ALPHA, "ci")
    known.look(asked("b"), ["t2"], ALPHA, "ci")

    both = known.look(asked("c"), ["t1", "t2", "t3"], ALPHA, "ci")

    assert both.number == 3
    assert both.spent == level(ALPHA, 1)


def test_fresh_trees_begin_anew(known: Store) -> None:
    for source in "ab":
        known.look(asked(source), ["t1"], ALPHA, "ci")

    look = known.look(asked("c"), ["t9"], ALPHA, "ci")

    assert (look.number, look.level, look.spent) == (1, level(ALPHA, 1), 0.0)
    assert known.spent(["t1"], ALPHA) == Spent(2, look.level + level(ALPHA, 2), known.spent(["t1"], ALPHA).left, level(ALPHA, 3))
    assert known.spent(["t7"], ALPHA) == Spent(0, 0.0, ALPHA, level(ALPHA, 1))


def test_the_same_question_is_the_same_look_and_costs_nothing(known: Store) -> None:
    """The order of the trees is no part of it; whoever asks and when is none either."""
    first = known.look(asked("a"), ["t1", "t2"], ALPHA, "ci")
    known.look(asked("b"), ["t2"], ALPHA, "ci")
    head = known.head()

    again = known.look(asked("a"), ["t2", "t1", "t1"], ALPHA, "somebody else")

    assert again == replace(first, again=True, left=known.spent(["t1", "t2"], ALPHA).left)
    assert known.head() == head
    assert len(known.looks()) == 2


def test_another_incumbent_other_settings_or_other_trees_are_another_question(known: Store) -> None:
    known.look(asked("a"), ["t1"], ALPHA, "ci")
    others = [
        known.look(asked("a", "b"), ["t1"], ALPHA, "ci"),
        known.look(asked("a", settings=Settings(weights=Weights(beta1=0.002))), ["t1"], ALPHA, "ci"),
        known.look(asked("a"), ["t1", "t2"], ALPHA, "ci"),
    ]

    assert [look.number for look in others] == [2, 3, 4]


def test_asking_again_with_a_larger_alpha_buys_no_larger_level(known: Store) -> None:
    """A smaller one is heeded."""
    first = known.look(asked("a"), ["t1"], ALPHA, "ci")

    assert known.look(asked("a"), ["t1"], 0.5, "ci").level == first.level
    assert known.look(asked("a"), ["t1"], 0.01, "ci").level == level(0.01, 1)


def test_what_all_looks_at_a_tree_spend_stays_below_alpha(known: Store) -> None:
    """Whatever other trees a look takes along."""
    for turn in range(60):
        settings = Settings(seed=turn)
        look = known.look(asked("a", settings=settings), [f"t{turn % 4}", f"t{turn % 3}", f"u{turn}"], ALPHA, "ci")
        assert look.left > 0

    for tree in ("t0", "t1", "t2", "t3"):
        assert sum(entry.level for entry in known.looks() if tree in entry.trees) < ALPHA


def test_a_look_stands_in_the_history_and_survives_the_store(known: Store, url: str) -> None:
    look = known.look(asked("a"), ["t1", "t2"], ALPHA, "jo@desk \udc80")
    known.close()

    with Store.open(url) as store:
        (entry,) = store.looks()
        (event,) = store.events(kinds=[EventKind.LOOKED])

    assert (entry.question, entry.trees, entry.alpha, entry.by) == (asked("a"), ("t1", "t2"), ALPHA, "jo@desk \udc80")
    assert (event.version, event.run, event.facts["ledger"], event.facts["look"]) == (2, None, look.ledger, 1)


def test_a_look_of_an_unknown_candidate_is_refused_and_not_recorded(known: Store) -> None:
    with pytest.raises(InputError, match=digest_of("unheard")):
        known.look(asked("unheard"), ["t1"], ALPHA, "ci")

    assert known.looks() == []


def test_a_look_without_trees_is_a_mistake_of_ours(known: Store) -> None:
    with pytest.raises(ValueError, match="without trees"):
        known.look(asked("a"), [], ALPHA, "ci")


def test_processes_that_look_at_once_share_one_chain(known: Store, url: str, processes: ForkServerContext) -> None:
    """Different questions are numbered one after the other; the same one is recorded once, whoever is first."""
    with ProcessPoolExecutor(2, processes) as pool:
        list(pool.map(look_at_once, [url, url], [20, 20]))

    assert known.check() == []
    assert [entry.look for entry in known.looks()] == list(range(1, 21))


# Tampering: whatever is done to the ledger past this library is named by `check`, and a look is refused.

GUARD = "nothing keeps the rows of looks from"


@pytest.fixture
def looked(known: Store) -> Store:
    """Return a store with three looks."""
    for source in "abc":
        known.look(asked(source), ["t1", "t2"], ALPHA, "ci")
    assert known.check() == []
    return known


@pytest.fixture
def tamper(url: str) -> Callable[..., None]:
    """Return a function that runs SQL past the store, the guards of the ledger dropped and then put back as they were."""

    def run(*statements: str, of: tuple[str, ...] = ("looks",), guards: bool = True) -> None:
        engine = engine_of(url)
        is_sqlite = engine.dialect.name == "sqlite"
        with engine.begin() as connection:
            kept = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{}'"
            saved = [row for table in of for row in connection.execute(text(kept.format(table)))] if is_sqlite else []
            off = [f"DROP TRIGGER {row[0]}" for row in saved] or [f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in of]
            for statement in (*off, *statements):
                connection.execute(text(statement))
            on = [row[1] for row in saved] or [f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in of]
            for statement in on if guards else ():
                connection.exec_driver_sql(statement)
        engine.dispose()

    return run


def said(store: Store) -> str:
    return "\n".join(store.check())


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        pytest.param(
            ["DELETE FROM looks WHERE number = 2"],
            "entry 3 of the ledger of looks does not follow on",
            id="deleted in the middle",
        ),
        pytest.param(
            ["DELETE FROM looks WHERE number = 3"], "entry 3 of the ledger of looks was deleted", id="deleted at the end"
        ),
        pytest.param(["DELETE FROM looks"], "entry 1 of the ledger of looks was deleted", id="deleted altogether"),
        pytest.param(
            ["DELETE FROM looks WHERE number = 1", "UPDATE looks SET number = number - 1"],
            "entry 1 of the ledger of looks was recorded as entry 2",
            id="deleted at the start and numbered anew",
        ),
        pytest.param(
            [
                "UPDATE looks SET number = 9 WHERE number = 1",
                "UPDATE looks SET number = 1 WHERE number = 2",
                "UPDATE looks SET number = 2 WHERE number = 9",
            ],
            "entry 1 of the ledger of looks was recorded as entry 2",
            id="reordered",
        ),
        pytest.param(
            ["UPDATE looks SET digest = 'x' WHERE number = 3"], "entry 3 of the ledger of looks was edited", id="another digest"
        ),
    ],
)
def test_a_ledger_that_was_tampered_with_is_named_and_answers_nothing(
    looked: Store, tamper: Callable[..., None], statements: list[str], words: str
) -> None:
    """The guards are put back afterwards, so that they alone would tell nothing."""
    tamper(*statements)

    assert words in said(looked)
    assert GUARD not in said(looked)
    for look in (lambda: looked.look(asked("a", "c"), ["t1"], ALPHA, "ci"), looked.looks, lambda: looked.spent(["t1"], ALPHA)):
        with pytest.raises(StoreError, match=r"ledger of looks .*restore the store from a copy \(`harness doctor`"):
            look()


def test_an_edited_entry_is_named(looked: Store, url: str, tamper: Callable[..., None]) -> None:
    """Look 2 is made a first one, which has more to spend."""
    _, cheaper = second_entry(url)

    tamper(cheaper)

    assert "entry 2 of the ledger of looks was edited: its content does not give its digest" in said(looked)


def test_what_somebody_wrote_as_text_by_hand_is_named_and_no_mistake_of_ours(
    looked: Store, url: str, tamper: Callable[..., None]
) -> None:
    """SQLite keeps text in a column of bytes; a shell or an editor for databases writes it so."""
    if not url.startswith("sqlite"):
        pytest.skip("PostgreSQL's columns hold nothing but bytes")
    tamper(
        "UPDATE looks SET entry = replace(CAST(entry AS TEXT), 'ci', 'jo') WHERE number = 2",
        "UPDATE versions SET source = 'x = 1' WHERE number = 1",
        of=("looks", "versions"),
    )

    assert "entry 2 of the ledger of looks was edited: its content does not give its digest" in said(looked)
    assert "the source of version 1 is not the one that was recorded" in said(looked)


def test_looks_taken_from_the_ledger_and_from_the_history_are_missed(looked: Store, tamper: Callable[..., None]) -> None:
    looked.propose(None, candidate("later"), 7)
    tamper("DELETE FROM looks", "DELETE FROM events WHERE kind = 'looked'", of=("looks", "events"))

    with pytest.raises(StoreError, match=r"events .* some are missing; no look can be taken"):
        looked.look(asked("a", "c"), ["t1"], ALPHA, "ci")


def test_an_entry_edited_with_a_digest_to_match_is_not_the_one_that_the_history_tells_of(
    looked: Store, url: str, tamper: Callable[..., None]
) -> None:
    entry, cheaper = second_entry(url)
    digest = chained(looked.looks()[0].digest, json.loads(entry.replace('"look":2', '"look":1')))

    tamper("DELETE FROM looks WHERE number = 3", cheaper, f"UPDATE looks SET digest = '{digest}' WHERE number = 2")  # noqa: S608 - ours

    assert "was edited" not in said(looked)
    assert "entry 2 of the ledger of looks is not one that the history tells of" in said(looked)
    assert "entry 2 of the ledger of looks was deleted or edited: it is not as the history tells" in said(looked)


def second_entry(url: str) -> tuple[str, str]:
    """Return the second entry as it is stored, and SQL that makes it a first look."""
    engine = engine_of(url)
    with engine.begin() as connection:
        entry = bytes(connection.execute(text("SELECT entry FROM looks WHERE number = 2")).scalar_one()).decode()
    engine.dispose()
    cheaper = entry.replace('"look":2', '"look":1')
    assert cheaper != entry
    literal = f"X'{cheaper.encode().hex()}'" if url.startswith("sqlite") else f"'\\x{cheaper.encode().hex()}'"
    return entry, f"UPDATE looks SET entry = {literal} WHERE number = 2"  # noqa: S608 - our own words


def test_dropped_guards_are_named(looked: Store, tamper: Callable[..., None]) -> None:
    tamper(guards=False)

    assert f"{GUARD} update" in said(looked)
    assert f"{GUARD} delete" in said(looked)


def test_a_guard_that_keeps_nothing_is_named(looked: Store, tamper: Callable[..., None], url: str) -> None:
    """A trigger of the right name that does nothing."""
    if not url.startswith("sqlite"):
        pytest.skip("PostgreSQL's guards are one function, which the tables' owner may replace")
    tamper("CREATE TRIGGER append_only_looks_update BEFORE UPDATE ON looks BEGIN SELECT 1; END", guards=False)

    assert f"{GUARD} update" in said(looked)

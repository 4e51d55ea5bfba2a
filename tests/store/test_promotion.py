"""Promotion and rollback: what a version needs to become the incumbent, and that nobody decides on an outdated view."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import pytest
from builders import verdict
from store_records import candidate, turn_at_once

from harness import promotion
from harness.errors import InputError, RefusedError
from harness.gate.verdict import Outcome
from harness.policy import EventKind
from harness.promotion import Succession, review_live
from harness.store import Store

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

    from harness.policy import Event, Version
    from harness.store import RecordedVerdict

BY = "jo@desk"


@pytest.fixture
def versions(store: Store) -> list[Version]:
    """Return four recorded versions, none of them promoted."""
    return [store.propose(None, candidate(f"# policy {number}\r\n"), number) for number in range(4)]


def view(store: Store) -> Succession:
    return promotion.succession(store)


def gated(store: Store, mine: Version, against: Version, outcome: Outcome = Outcome.PASS) -> RecordedVerdict:
    about = verdict(mine.candidate.digest, against.candidate.digest, outcome=outcome)
    return store.verdict(store.record_verdict(about, mine, against, manifest={"figures": [0.1]}))


def forced(store: Store, version: Version) -> Event:
    return promotion.force(store, view(store), version, by=BY, reason="by hand")


# Promotion


def test_a_passed_verdict_makes_a_version_the_incumbent_and_stands_in_the_history(store: Store, versions: list[Version]) -> None:
    forced(store, versions[0])
    row = gated(store, versions[1], versions[0])

    event = promotion.promote(store, view(store), versions[1], row, by=BY)

    assert store.incumbent() == versions[1]
    assert (event.kind, event.version, event.to, event.reason) == (EventKind.PROMOTED, 2, 2, "verdict 1: better")
    told = {name: event.facts[name] for name in ("by", "verdict", "forced", "over", "manifest", "policy")}
    digest = versions[1].candidate.digest
    assert told == {"by": BY, "verdict": 1, "forced": False, "over": 1, "manifest": row.manifest_digest, "policy": digest}
    assert store.turns()[-1] == event


def test_a_reason_of_ones_own_takes_the_place_of_the_verdicts(store: Store, versions: list[Version]) -> None:
    row = gated(store, versions[1], versions[0])

    event = promotion.promote(store, view(store), versions[1], row, by=BY, reason="release 3")

    assert event.reason == "release 3"


@pytest.mark.parametrize("outcome", [Outcome.REFUSE, Outcome.CANNOT_TELL])
def test_a_verdict_that_did_not_pass_promotes_nothing(store: Store, versions: list[Version], outcome: Outcome) -> None:
    row = gated(store, versions[1], versions[0], outcome)

    with pytest.raises(RefusedError, match=r"verdict 1 (refused|cannot tell of) v2: (worse|too few trees)"):
        promotion.promote(store, view(store), versions[1], row, by=BY)

    assert store.incumbent() is None


def test_a_verdict_against_a_version_that_is_no_longer_the_incumbent_is_outdated(store: Store, versions: list[Version]) -> None:
    row = gated(store, versions[2], versions[0])
    forced(store, versions[0])
    forced(store, versions[1])

    with pytest.raises(RefusedError, match=r"verdict 1 is against v1, and the incumbent is v2 by now; `harness gate v3` asks"):
        promotion.promote(store, view(store), versions[2], row, by=BY)

    assert store.incumbent() == versions[1]


def test_a_verdict_about_another_version_is_a_mistake(store: Store, versions: list[Version]) -> None:
    row = gated(store, versions[1], versions[0])

    with pytest.raises(InputError, match="verdict 1 is about v2, not v3"):
        promotion.promote(store, view(store), versions[2], row, by=BY)


def test_the_incumbent_is_not_promoted_again(store: Store, versions: list[Version]) -> None:
    forced(store, versions[0])

    with pytest.raises(InputError, match="v1 is the incumbent already"):
        forced(store, versions[0])
    with pytest.raises(InputError, match="v1 is the incumbent already"):
        promotion.promote(store, view(store), versions[0], gated(store, versions[0], versions[1]), by=BY)


def test_a_promotion_without_a_verdict_needs_a_reason_and_is_recorded_as_such(store: Store, versions: list[Version]) -> None:
    with pytest.raises(InputError, match="--reason"):
        promotion.force(store, view(store), versions[0], by=BY, reason=" \n")

    event = forced(store, versions[0])

    assert (event.reason, event.facts["forced"], event.facts["verdict"]) == ("by hand", True, None)


# Which verdict


def test_the_latest_verdict_against_the_incumbent_is_taken(store: Store, versions: list[Version]) -> None:
    forced(store, versions[0])
    for against in (versions[0], versions[0], versions[3]):
        gated(store, versions[1], against)
    gated(store, versions[2], versions[0])

    assert promotion.passed_verdict(store, view(store), versions[1]).number == 2


def test_before_the_first_promotion_a_verdict_against_any_policy_counts(store: Store, versions: list[Version]) -> None:
    """Such as one against a template, or a file that is recorded nowhere."""
    passed = verdict(versions[1].candidate.digest, "some file's digest")
    store.record_verdict(passed, versions[1], None)

    row = promotion.passed_verdict(store, view(store), versions[1])
    promotion.promote(store, view(store), versions[1], row, by=BY)

    assert store.incumbent() == versions[1]


def test_a_refusal_after_a_pass_has_the_last_word(store: Store, versions: list[Version]) -> None:
    """The earlier verdict is still there for whoever names it."""
    passed = gated(store, versions[1], versions[0])
    gated(store, versions[1], versions[0], Outcome.REFUSE)

    with pytest.raises(RefusedError, match=r"verdict 2 refused v2: worse; verdict 1 passed before it and may be named"):
        promotion.passed_verdict(store, view(store), versions[1])

    promotion.promote(store, view(store), versions[1], passed, by=BY)


def test_one_that_could_not_tell_takes_nothing_back(store: Store, versions: list[Version]) -> None:
    gated(store, versions[1], versions[0])
    gated(store, versions[1], versions[0], Outcome.CANNOT_TELL)

    assert promotion.passed_verdict(store, view(store), versions[1]).number == 1


def test_what_there_is_instead_of_a_passed_verdict_is_said(store: Store, versions: list[Version]) -> None:
    forced(store, versions[0])
    gated(store, versions[1], versions[0])  # as the candidate, and so no verdict on v1
    gated(store, versions[2], versions[0], Outcome.CANNOT_TELL)
    gated(store, versions[3], versions[2])

    for version, words in (
        (versions[2], r"verdict 2 cannot tell of v3: too few trees"),
        (versions[3], r"v4 has no verdict against the incumbent v1: verdict 3 is against v3; `harness gate v4`"),
    ):
        with pytest.raises(RefusedError, match=words):
            promotion.passed_verdict(store, view(store), version)
    forced(store, versions[1])
    with pytest.raises(RefusedError, match=r"v1 has no verdict; `harness gate v1` asks for one, --force --reason TEXT goes"):
        promotion.passed_verdict(store, view(store), versions[0])


# Rollback


def test_a_rollback_returns_the_former_bytes(store: Store, versions: list[Version], url: str) -> None:
    forced(store, versions[0])
    before = store.incumbent().candidate.source.encode()
    forced(store, versions[1])

    event = promotion.rollback(store, view(store), by=BY, reason="worse on the new machines")

    with Store.open(url) as other:
        assert other.incumbent().candidate.source.encode() == before == b"# policy 0\r\n"
    assert (event.kind, event.version, event.to, event.run) == (EventKind.ROLLED_BACK, 2, 1, None)
    assert (event.reason, event.facts["by"], event.facts["automatic"]) == ("worse on the new machines", BY, False)


def test_rollbacks_lead_back_step_by_step_and_promotions_on_from_there(store: Store, versions: list[Version]) -> None:
    """A second rollback goes on back, not forth again."""
    for version in versions[:3]:
        forced(store, version)

    back = [promotion.rollback(store, view(store), by=BY, reason="again").to for _ in range(2)]
    forced(store, versions[3])
    last = promotion.rollback(store, view(store), by=BY, reason="again").to

    assert (back, last) == ([2, 1], 1)
    with pytest.raises(InputError, match="v1 is the first incumbent, there is none before it"):
        promotion.rollback(store, view(store), by=BY, reason="again")


def test_a_rollback_may_go_to_any_former_incumbent(store: Store, versions: list[Version]) -> None:
    """Also to one that was returned from."""
    for version in versions[:3]:
        forced(store, version)

    for to in (1, 3, 2):
        promotion.rollback(store, view(store), by=BY, reason="there", to=to)
        assert store.incumbent() == versions[to - 1]

    assert view(store).line == (1, 3, 2)


@pytest.mark.parametrize(
    ("to", "words"), [(4, "v4 never was the incumbent; .*here v1"), (2, "v2 is the incumbent already"), (9, "no version 9")]
)
def test_a_rollback_to_what_never_counted_is_refused(store: Store, versions: list[Version], to: int, words: str) -> None:
    forced(store, versions[0])
    forced(store, versions[1])

    with pytest.raises(InputError, match=words):
        promotion.rollback(store, view(store), by=BY, reason="there", to=to)

    assert store.incumbent() == versions[1]


def test_without_an_incumbent_there_is_nothing_to_roll_back(store: Store) -> None:
    with pytest.raises(InputError, match="no incumbent to roll back; `harness promote`"):
        promotion.rollback(store, view(store), by=BY, reason="x")


# Outdated views


def test_whoever_decided_before_another_turn_is_refused(store: Store, versions: list[Version]) -> None:
    """Two who roll back at once go back one step, not two."""
    for version in versions[:3]:
        forced(store, version)
    seen = view(store)
    promotion.rollback(store, seen, by=BY, reason="first")

    for late in (
        lambda: promotion.rollback(store, seen, by=BY, reason="second"),
        lambda: promotion.force(store, seen, versions[3], by=BY, reason="second"),
        lambda: promotion.promote(store, seen, versions[3], gated(store, versions[3], versions[2]), by=BY),
    ):
        with pytest.raises(RefusedError, match=r"promoted or rolled back meanwhile \(event \d+\); look at `harness history"):
            late()

    assert store.incumbent() == versions[1]


def test_of_two_processes_that_promote_at_once_the_later_is_refused(
    store: Store, versions: list[Version], url: str, processes: ForkServerContext
) -> None:
    """Both have read how things stand before either writes."""
    forced(store, versions[0])
    for mine in versions[1:3]:
        gated(store, mine, versions[0])
    with processes.Manager() as manager:
        together = manager.Barrier(2)
        with ProcessPoolExecutor(2, processes) as pool:
            said = list(pool.map(turn_at_once, [url, url], [2, 3], [together, together]))

    assert sorted(said) == ["promoted", "refused"]
    assert store.incumbent().number == said.index("promoted") + 2
    assert len(store.turns()) == 2


# The rule for live use


@pytest.mark.parametrize(
    ("incumbent", "predecessor", "fell"),
    [
        ([0.5, 0.5], [0.6, 0.6], True),
        ([0.56, 0.56], [0.6, 0.6], False),
        ([0.55], [0.6, None], False),  # at the margin is not below it
        ([0.7], [0.6], False),
        ([None, None], [0.6], True),
        ([None, 0.6], [0.6], False),
        ([], [0.6], False),
        ([0.1], [], False),
        ([None], [None], False),
    ],
)
def test_the_incumbent_has_fallen_when_its_live_results_are_below_by_more_than_the_margin(
    incumbent: list[float | None], predecessor: list[float | None], fell: bool
) -> None:
    review = review_live(incumbent, predecessor, 0.05 + 1e-12)

    assert review.fell is fell
    assert f"{len(incumbent)} of the incumbent, {len(predecessor)} of its predecessor" in review.words


def test_an_incumbent_that_fell_gives_way_to_its_predecessor_and_the_event_says_why(
    store: Store, versions: list[Version]
) -> None:
    forced(store, versions[0])
    forced(store, versions[1])
    seen = view(store)

    assert promotion.record_review(store, seen, review_live([0.6], [0.6], 0.05), by="campaign") is None
    event = promotion.record_review(store, seen, review_live([0.4], [0.6], 0.05), by="campaign")

    assert store.incumbent() == versions[0]
    assert event is not None
    assert (event.kind, event.version, event.to) == (EventKind.ROLLED_BACK, 2, 1)
    assert (event.facts["automatic"], event.facts["by"], event.facts["live"]["margin"]) == (True, "campaign", 0.05)
    assert "-0.2000 against its predecessor's" in event.reason


def test_live_results_of_one_that_is_no_longer_the_incumbent_roll_nobody_back(store: Store, versions: list[Version]) -> None:
    forced(store, versions[0])
    forced(store, versions[1])
    seen = view(store)
    forced(store, versions[2])

    with pytest.raises(RefusedError, match="meanwhile"):
        promotion.record_review(store, seen, review_live([0.1], [0.6], 0.05), by="campaign")

    assert store.incumbent() == versions[2]

"""Which version is the incumbent, and how that changes: promotion, rollback, and the rule that rolls back by itself.

Whoever changes it says which view of the history was decided on (`Succession`), and is refused where others have changed it
since. Nothing here judges a policy: that is the gate's part, and a promotion takes its verdict.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import InputError, RefusedError, StaleError
from harness.gate.verdict import Outcome
from harness.policy import Event, EventKind
from harness.score import difference, mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.policy import Version
    from harness.store import RecordedVerdict, Store


@dataclass(frozen=True, slots=True)
class Succession:
    """The incumbents as the history tells: `line` leads from the first to the present one, without those returned from.

    `former` are all that ever were the incumbent. `seen` is the event that decided it last, 0 before the first.
    """

    line: tuple[int, ...] = ()
    former: frozenset[int] = frozenset()
    seen: int = 0

    @property
    def incumbent(self) -> int | None:
        """Return the version that counts, None before the first promotion."""
        return self.line[-1] if self.line else None

    @property
    def predecessor(self) -> int | None:
        """Return the version that a rollback returns to, None where there is none."""
        return self.line[-2] if len(self.line) > 1 else None


@dataclass(frozen=True, slots=True)
class LiveReview:
    """What live results say of the incumbent against its predecessor: mean values, and whether it `fell` below the margin."""

    incumbent: float | None
    predecessor: float | None
    difference: float | None
    margin: float
    fell: bool
    words: str


def succession(store: Store) -> Succession:
    """Return who followed whom by now. After a rollback the way back leads on from where it went."""
    return succession_of(store.turns())


def succession_of(turns: Iterable[Event]) -> Succession:
    """Return who followed whom after these promotions and rollbacks."""
    line: list[int] = []
    former: set[int] = set()
    seen = 0
    for turn in turns:
        if turn.to is None or turn.number is None:  # the store records neither
            continue
        if turn.kind is EventKind.ROLLED_BACK and turn.to in line:
            del line[len(line) - line[::-1].index(turn.to) :]
        else:
            line.append(turn.to)
        former.add(turn.to)
        seen = turn.number
    return Succession(tuple(line), frozenset(former), seen)


def promote(store: Store, view: Succession, version: Version, verdict: RecordedVerdict, *, by: str, reason: str = "") -> Event:
    """Make a version the incumbent on the strength of a verdict that it passed.

    Raises:
        RefusedError: the verdict did not pass, is against another incumbent, or the view is outdated; nothing was changed.
        InputError: the verdict is about another version, or this one is the incumbent.
    """
    _refuse_incumbent(view, version)
    trouble = _trouble(store, view, version, verdict)
    if trouble is not None:
        raise trouble
    facts = {"verdict": verdict.number, "verdict_digest": verdict.digest, "manifest": verdict.manifest_digest, "forced": False}
    said = reason or f"verdict {verdict.number}: {verdict.verdict.reason}"
    return _turn(store, view, Event(EventKind.PROMOTED, version.number, None, said, version.number, facts), version, by)


def force(store: Store, view: Succession, version: Version, *, by: str, reason: str) -> Event:
    """Make a version the incumbent without a verdict, which the history tells as such.

    Raises:
        RefusedError: the view is outdated; nothing was changed.
        InputError: there is no reason, or this version is the incumbent.
    """
    _refuse_incumbent(view, version)
    facts = {"verdict": None, "manifest": None, "forced": True}
    event = Event(EventKind.PROMOTED, version.number, None, _reason(reason), version.number, facts)
    return _turn(store, view, event, version, by)


def rollback(store: Store, view: Succession, *, by: str, reason: str, to: int | None = None) -> Event:
    """Return to the incumbent's predecessor, or to another version that was the incumbent before.

    Raises:
        RefusedError: the view is outdated; nothing was changed.
        InputError: there is no reason, or nothing to return to.
    """
    return _return(store, view, to, reason=_reason(reason), by=by, facts={"automatic": False})


def passed_verdict(store: Store, view: Succession, version: Version) -> RecordedVerdict:
    """Return the latest verdict that a version passed against the present incumbent; before the first, against any policy.

    A refusal that came after it has the last word: the earlier verdict has to be named then.

    Raises:
        RefusedError: there is none; the message says what there is instead.
    """
    judged = [row for row in store.verdicts(version.number) if row.candidate == version.number]
    wish = f"`harness gate v{version.number}` asks for one"
    if not judged:
        raise RefusedError(f"v{version.number} has no verdict; {wish}, --force --reason TEXT goes without")
    digest = _incumbent_digest(store, view)
    fitting = [row for row in judged if digest is None or row.verdict.incumbent == digest]
    if not fitting:
        against = _against(judged[-1])
        raise RefusedError(
            f"v{version.number} has no verdict against the incumbent v{view.incumbent}: verdict {judged[-1].number} is against "
            f"{against}; {wish}"
        )
    passed = [row for row in fitting if row.verdict.passed]
    last = next((row for row in reversed(fitting) if row.verdict.outcome is not Outcome.CANNOT_TELL), fitting[-1])
    if not last.verdict.passed:
        before = f"; verdict {passed[-1].number} passed before it and may be named with --verdict" if passed else ""
        raise RefusedError(f"{_outcome(last)}{before}")
    return last


def review_live(incumbent: Sequence[float | None], predecessor: Sequence[float | None], margin: float) -> LiveReview:
    """Say whether the incumbent's live results fell below its predecessor's by more than a margin.

    Results are values of whole searches; None is one without a value, because the policy faulted or nothing was scored. An
    incumbent whose searches all end so has fallen. Without results on both sides nothing has.
    """
    mine, theirs = mean(incumbent), mean(predecessor)
    apart = difference(theirs, mine)
    counts = f"{len(incumbent)} of the incumbent, {len(predecessor)} of its predecessor"
    if not incumbent or theirs is None:
        return LiveReview(mine, theirs, apart, margin, False, f"too few live results to compare ({counts})")
    if mine is None or apart is None:
        return LiveReview(mine, theirs, apart, margin, True, f"no live result of the incumbent has a value ({counts})")
    words = f"live results of the incumbent are {apart:+.4f} against its predecessor's, margin {margin:g} ({counts})"
    return LiveReview(mine, theirs, apart, margin, apart < -margin, words)


def record_review(store: Store, view: Succession, review: LiveReview, *, by: str) -> Event | None:
    """Return to the predecessor where the incumbent fell; None where it did not. `view` is that under which it was live.

    Raises:
        RefusedError: another version has become the incumbent since; nothing was changed.
    """
    if not review.fell:
        return None
    return _return(store, view, None, reason=review.words, by=by, facts={"automatic": True, "live": asdict(review)})


def _return(store: Store, view: Succession, to: int | None, *, reason: str, by: str, facts: Mapping[str, Any]) -> Event:
    if view.incumbent is None:
        raise InputError("there is no incumbent to roll back; `harness promote` makes one")
    target = view.predecessor if to is None else to
    if target is None:
        raise InputError(f"v{view.incumbent} is the first incumbent, there is none before it; `harness promote` makes another")
    version = store.version(target)
    _refuse_incumbent(view, version)
    if target not in view.former:
        known = ", ".join(f"v{number}" for number in sorted(view.former - {view.incumbent})) or "none"
        raise InputError(f"v{target} never was the incumbent; a rollback returns to one that was (here {known})")
    return _turn(store, view, Event(EventKind.ROLLED_BACK, view.incumbent, None, reason, target, facts), version, by)


def _turn(store: Store, view: Succession, event: Event, to: Version, by: str) -> Event:
    facts = {"by": by, "over": view.incumbent, "policy": to.candidate.digest} | dict(event.facts)
    try:
        return store.turn(Event(event.kind, event.version, None, event.reason, event.to, facts), view.seen)
    except StaleError as error:
        raise RefusedError(
            f"another version was promoted or rolled back meanwhile (event {error.head}); look at `harness history --promotions` "
            "and decide again"
        ) from error


def _trouble(store: Store, view: Succession, version: Version, row: RecordedVerdict) -> RefusedError | InputError | None:
    if row.candidate != version.number:
        return InputError(f"verdict {row.number} is about v{row.candidate}, not v{version.number}; name one of its own verdicts")
    if not row.verdict.passed:
        return RefusedError(_outcome(row))
    digest = _incumbent_digest(store, view)
    if digest is not None and row.verdict.incumbent != digest:
        return RefusedError(
            f"verdict {row.number} is against {_against(row)}, and the incumbent is v{view.incumbent} by now; "
            f"`harness gate v{version.number}` asks again"
        )
    return None


def _incumbent_digest(store: Store, view: Succession) -> str | None:
    return None if view.incumbent is None else store.version(view.incumbent).candidate.digest


def _outcome(row: RecordedVerdict) -> str:
    said = {Outcome.PASS: "passed", Outcome.REFUSE: "refused", Outcome.CANNOT_TELL: "cannot tell of"}[row.verdict.outcome]
    return f"verdict {row.number} {said} v{row.candidate}: {row.verdict.reason}"


def _against(row: RecordedVerdict) -> str:
    return f"policy {row.verdict.incumbent[:12]}" if row.incumbent is None else f"v{row.incumbent}"


def _refuse_incumbent(view: Succession, version: Version) -> None:
    if version.number == view.incumbent:
        raise InputError(f"v{version.number} is the incumbent already; `harness history --promotions` tells since when")


def _reason(text: str) -> str:
    if not text.strip():
        raise InputError("--reason: is empty; expected a sentence, which is recorded")
    return text

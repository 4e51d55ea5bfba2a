"""`harness promote` and `harness rollback`: which version is the incumbent, and by whose decision."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from harness import promotion, wiring
from harness.cli import policies
from harness.cli.actor import actor
from harness.cli.output import one_line, say, say_json
from harness.errors import InputError, RefusedError

if TYPE_CHECKING:
    from harness.config import Settings
    from harness.policy import Event, Version
    from harness.promotion import Succession
    from harness.store import Store


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be promoted, and on the strength of what."""

    policy: str
    verdict: int | None
    force: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """Why, by whom, and against which incumbent it was decided."""

    reason: str | None
    if_incumbent: str | None
    by: str | None


def promote(request: Request, decision: Decision, settings: Settings, as_json: bool) -> int:
    """Make a version the incumbent."""
    if request.force and request.verdict is not None:
        raise InputError("--force: goes without a verdict; leave --verdict out, or --force")
    if request.force and decision.reason is None:
        raise InputError("--force: needs --reason TEXT, a sentence that says why no verdict is needed")
    named = policies.policy(request.policy, settings)
    refused = wiring.refusal(named.candidate.source)
    if refused is not None:
        raise InputError(f"{request.policy}: {refused.message}; expected a policy that can be run")
    # A policy that is promoted without a verdict may be the first thing that a store holds.
    with wiring.open_store(settings, create=request.force) as store:
        view = _view(store, decision.if_incumbent)
        known = store.version_by_digest(named.candidate.digest)
        if request.force:
            version = store.record(named.candidate)
            event = promotion.force(store, view, version, by=actor(decision.by), reason=decision.reason or "")
        elif known is None:
            raise RefusedError(f"{named.label}: has no verdict; `harness gate {named.label}` asks for one, --force goes without")
        else:
            version = known
            row = promotion.passed_verdict(store, view, version) if request.verdict is None else store.verdict(request.verdict)
            event = promotion.promote(store, view, version, row, by=actor(decision.by), reason=decision.reason or "")
    _tell(event, view, version, as_json)
    return 0


def rollback(to: str | None, decision: Decision, settings: Settings, as_json: bool) -> int:
    """Return to a former incumbent."""
    if decision.reason is None:
        raise InputError("--reason: is missing; expected a sentence, which is recorded")
    target = None if to is None else policies.required_version(to)
    with wiring.open_store(settings) as store:
        view = _view(store, decision.if_incumbent)
        event = promotion.rollback(store, view, by=actor(decision.by), reason=decision.reason, to=target)
        version = store.version(event.to or 0)
    _tell(event, view, version, as_json)
    return 0


def _view(store: Store, if_incumbent: str | None) -> Succession:
    """Return how things stand, refused where the caller decided on another incumbent."""
    view = promotion.succession(store)
    if if_incumbent is not None:
        expected = None if if_incumbent == "none" else policies.required_version(if_incumbent)
        if expected != view.incumbent:
            raise RefusedError(
                f"--if-incumbent: is {if_incumbent}, and {_words(view.incumbent)} by now; look again and decide again"
            )
    return view


def _words(incumbent: int | None) -> str:
    return "there is no incumbent" if incumbent is None else f"v{incumbent} is the incumbent"


def _tell(event: Event, view: Succession, version: Version, as_json: bool) -> None:
    if as_json:
        digest = version.candidate.digest
        say_json({"incumbent": version.number, "digest": digest, "before": view.incumbent, "event": asdict(event)})
        return
    before = "there was none before" if view.incumbent is None else f"before it was v{view.incumbent}"
    say(f"v{version.number} is the incumbent, {before}")
    forced = "without a verdict, " if event.facts.get("forced") else ""
    say(one_line(f"recorded as event {event.number}: {forced}{event.reason} ({event.facts['by']})"))

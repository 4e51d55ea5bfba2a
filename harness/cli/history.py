"""`harness history`: what happened to versions, as the store recorded it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from harness import wiring
from harness.cli.output import one_line, say, say_json, short, table
from harness.cli.policies import required_version
from harness.errors import InputError
from harness.policy import Event, EventKind
from harness.store.records import UnusableAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.config import Settings


PROPOSAL_FAULT = "proposal_fault"
"""What stands for an event where a model's answer became no version: there is no version that the event could be one of."""
_WIDE = 100
"""So much of a reason stands in a list of promotions; the verdict and the JSON document have all of it."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events are wanted, as the command line said it."""

    version: str | None
    run: int | None
    kinds: tuple[str, ...]
    limit: int | None
    promotions: bool = False
    """Only those that made a version the incumbent."""


def history(wanted: Filter, settings: Settings, as_json: bool) -> int:
    """List events, the oldest first."""
    version = None if wanted.version is None else required_version(wanted.version)
    names = [name.replace("-", "_") for name in wanted.kinds]
    kinds = None if not names else [_kind(name) for name in names if name != PROPOSAL_FAULT]
    # A fault of a proposal is about no version, and makes none the incumbent.
    tells_faults = version is None and not wanted.promotions and (not names or PROPOSAL_FAULT in names)
    with wiring.open_store(settings) as store:
        if version is not None:
            store.version(version)
        if wanted.run is not None:
            store.run(wanted.run)
        events = store.events(version=version, run=wanted.run, kinds=kinds)
        if wanted.promotions:
            turns = {turn.number for turn in store.turns()}
            events = [event for event in events if event.number in turns]
        faults = store.unusable_answers(wanted.run) if tells_faults else []
    if wanted.limit is not None:
        last = _in_order(events, faults)[-wanted.limit :] if wanted.limit else []
        events = [one for one in last if isinstance(one, Event)]
        faults = [one for one in last if isinstance(one, UnusableAnswer)]
    if as_json:
        say_json({"events": [asdict(event) for event in events], "proposal_faults": [asdict(fault) for fault in faults]})
        return 0
    if wanted.promotions:
        say(turns_table(events))
        return 0
    head = ("#", "when", "run", "event", "version", "to", "by", "reason")
    say(table(head, map(_row, _in_order(events, faults)), left=("when", "event", "by", "reason")))
    return 0


def _in_order(events: Sequence[Event], faults: Sequence[UnusableAnswer]) -> list[Event | UnusableAnswer]:
    """Return both in order of time; events keep theirs."""
    return sorted([*events, *faults], key=lambda one: one.at or "")


def turns_table(turns: Sequence[Event]) -> str:
    """Return promotions and rollbacks with what they rest on."""
    head = ("#", "when", "event", "from", "to", "verdict", "manifest", "by", "reason")
    return table(head, map(_turn_row, turns), left=("when", "event", "verdict", "manifest", "by", "reason"))


def _turn_row(turn: Event) -> list[str]:
    facts = turn.facts
    over, verdict = facts.get("over"), facts.get("verdict")
    rests_on = str(verdict) if verdict else "automatic" if facts.get("automatic") else "forced" if facts.get("forced") else "-"
    manifest = str(facts.get("manifest") or "-")[:12]
    before = "-" if over is None else f"v{over}"
    who = str(facts.get("by", "-"))
    return [
        str(turn.number),
        (turn.at or "")[:19],
        turn.kind,
        before,
        f"v{turn.to}",
        rests_on,
        manifest,
        who,
        short(one_line(turn.reason), _WIDE),
    ]


def _kind(name: str) -> EventKind:
    try:
        return EventKind(name)
    except ValueError:
        raise InputError(f"--kind: kind is {name!r}; expected one of {', '.join((*EventKind, PROPOSAL_FAULT))}") from None


def _row(event: Event | UnusableAnswer) -> list[str]:
    if isinstance(event, UnusableAnswer):
        said = f"{event.reason}: {event.message} (call {event.number} for position {event.position}, asked for {event.kind})"
        return ["-", event.at[:19], str(event.run), PROPOSAL_FAULT, "-", "", event.model, short(one_line(said), _WIDE)]
    run = "-" if event.run is None else str(event.run)
    to = "" if event.to is None else f"v{event.to}"
    who = str(event.facts.get("by", ""))
    return [str(event.number), (event.at or "")[:19], run, event.kind, f"v{event.version}", to, who, event.reason]

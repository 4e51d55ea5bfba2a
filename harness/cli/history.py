"""`harness history`: what happened to versions, as the store recorded it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from harness import wiring
from harness.cli.output import one_line, say, say_json, short, table
from harness.cli.policies import required_version
from harness.errors import InputError
from harness.policy import EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.config import Settings
    from harness.policy import Event


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
    kinds = None if not wanted.kinds else [_kind(name) for name in wanted.kinds]
    with wiring.open_store(settings) as store:
        if version is not None:
            store.version(version)
        if wanted.run is not None:
            store.run(wanted.run)
        events = store.events(version=version, run=wanted.run, kinds=kinds)
        if wanted.promotions:
            turns = {turn.number for turn in store.turns()}
            events = [event for event in events if event.number in turns]
    if wanted.limit is not None:
        events = events[len(events) - min(wanted.limit, len(events)) :]
    if as_json:
        say_json({"events": [asdict(event) for event in events]})
        return 0
    if wanted.promotions:
        say(turns_table(events))
        return 0
    head = ("#", "when", "run", "event", "version", "to", "by", "reason")
    say(table(head, map(_event_row, events), left=("when", "event", "by", "reason")))
    return 0


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
        return EventKind(name.replace("-", "_"))
    except ValueError:
        raise InputError(f"--kind: kind is {name!r}; expected one of {', '.join(EventKind)}") from None


def _event_row(event: Event) -> list[str]:
    run = "-" if event.run is None else str(event.run)
    to = "" if event.to is None else f"v{event.to}"
    who = str(event.facts.get("by", ""))
    return [str(event.number), (event.at or "")[:19], run, event.kind, f"v{event.version}", to, who, event.reason]

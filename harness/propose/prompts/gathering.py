"""Gather what a prompt can do without: all that is known beside the parents' code, in pieces that can go one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.propose.edits import EditKind
from harness.propose.memory import behaviour
from harness.propose.prompts.fence import quoted
from harness.propose.prompts.fitting import Goes, Part, Piece
from harness.propose.prompts.interface import sections
from harness.propose.prompts.standing import fault_told, groups_told, telling_replays
from harness.propose.prompts.told import replay_told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.propose.base import Judged
    from harness.propose.prompts.base import Ask
    from harness.propose.prompts.standing import Standing

_EXPENDABLE = ("Typical mistakes", "What a policy may use", "")
"""Sections of the interface description that can go first, in this order; the one without a heading opens it with an example."""
_WRITES_NO_CODE = (EditKind.PARAMETERS, EditKind.TEMPLATE)


def gather(ask: Ask, standing: Standing) -> tuple[Piece, ...]:
    """Return every piece, in the order in which a prompt shows them."""
    return (
        *_interface(ask.kind),
        *_groups(ask),
        *_replays(ask, standing),
        *_versions(standing),
        *_faults(ask, standing),
        *_inspirations(ask),
        *_lessons(ask.scratchpad),
    )


def _interface(kind: EditKind) -> Iterator[Piece]:
    for place, section in enumerate(sections()):
        name = f"interface: {section.heading or 'its opening'}"
        first = section.heading in _EXPENDABLE
        order = _EXPENDABLE.index(section.heading) if first else len(_EXPENDABLE) + place
        goes = Goes.INTERFACE if first or kind in _WRITES_NO_CODE else Goes.NEVER
        yield Piece(Part.INTERFACE, name, section.text, goes, order)


def _groups(ask: Ask) -> Iterator[Piece]:
    for judged in ask.parents:
        if judged.evaluation.fault is not None:
            continue
        number = judged.version.number
        others = {other.version.number: other for other in (ask.brief.best, ask.brief.incumbent, *ask.parents)}
        del others[number]
        compared = {f"version {other}": others[other] for other in others}
        for place, text in enumerate(groups_told(judged, compared), start=1):
            yield Piece(Part.GROUPS, f"group {place} of version {number}'s values", text, Goes.GROUP, -place, number)


def _replays(ask: Ask, standing: Standing) -> Iterator[Piece]:
    for judged in ask.parents[:1]:
        evaluation, number = judged.evaluation, judged.version.number
        chosen = telling_replays(evaluation)
        for nth, (result, place, why) in enumerate(chosen):
            beside = standing.beside(result.tree, place, judged)
            text = replay_told(result, ask.trees(result.tree), evaluation.settings, beside)
            goes = Goes.REPLAY if nth else Goes.WORST_REPLAY
            yield Piece(Part.REPLAYS, f"replay {nth + 1} of version {number} ({why})", text, goes, -nth, number)


def _versions(standing: Standing) -> Iterator[Piece]:
    for place, listed in enumerate(standing.versions()):
        number = listed.judged.version.number
        goes = Goes.GOOD_VERSION if listed.best else Goes.VERSION
        yield Piece(Part.VERSIONS, f"earlier version {number}", listed.text, goes, place, number)


def _faults(ask: Ask, standing: Standing) -> Iterator[Piece]:
    for nth, judged in enumerate(standing.faults(ask.parents)):
        number = judged.version.number
        yield Piece(Part.FAULTS, f"fault of version {number}", fault_told(judged), Goes.FAULT, -nth, number)


def _inspirations(ask: Ask) -> Iterator[Piece]:
    for nth, inspiration in enumerate(ask.inspirations):
        version = inspiration.judged.version
        yield Piece(
            Part.INSPIRATIONS,
            f"inspiration: version {version.number}",
            version.candidate.source,
            Goes.INSPIRATION,
            -nth,
            version.number,
        )


def _lessons(lessons: Sequence[str]) -> Iterator[Piece]:
    for place, lesson in enumerate(lessons):
        yield Piece(Part.LESSONS, f"lesson {place + 1} of {len(lessons)}", quoted(lesson, len(lesson)), Goes.LESSON, place)


def behaviour_told(judged: Judged) -> str:
    """Return in a sentence how a version behaves."""
    is_like = behaviour(judged.evaluation)
    return (
        f"How it behaves, each from 0 to 1: breadth {is_like.breadth:.2f} (share of picks that open a branch), "
        f"depth {is_like.depth:.2f} (share of the other picks that go on with what was just revealed), "
        f"stopping {is_like.stopping:.2f} (0 never ends the search itself, 0.5 does after 32 attempts), "
        f"batch {is_like.batch:.2f} (how full its batches are)."
    )

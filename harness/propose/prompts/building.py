"""Build a prompt: gather what is known, write it through the templates of `policy_templates/prompts`, cut it to its budget.

Pure but for reading the templates and the trees that are shown: the same ask gives the same prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.models.base import Message, Role
from harness.propose.edits import answer_form
from harness.propose.prompts.base import Foreign, Prompt
from harness.propose.prompts.choices import choices_told
from harness.propose.prompts.fence import Fence, KeyTakenError, clean, figure, shortened
from harness.propose.prompts.fitting import Part, fewest_left_out, without
from harness.propose.prompts.gathering import behaviour_told, gather
from harness.propose.prompts.rendering import environment
from harness.propose.prompts.standing import Standing
from harness.propose.prompts.told import evidence
from harness.score import Weight

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.propose.base import Judged
    from harness.propose.prompts.base import Ask
    from harness.propose.prompts.fitting import Piece

ANSWER_SHARE = 4
"""An answer to be repaired that is longer than this part of the budget loses its middle."""
NOTHING = "(empty)"
"""Stands for an answer without words: servers refuse messages that hold none."""


def build(ask: Ask) -> Prompt:
    """Return the prompt for an ask; it is longer than its budget only where what is never cut is.

    Raises:
        ValueError: figures or trajectories of a tree that is not for development stand in it.
    """
    _refuse_held_out(ask)
    standing = Standing(ask.brief, ask.twins)
    pieces = gather(ask, standing)
    attempt = 0
    while True:
        try:
            return _Writer(ask, Fence(_drawn_from(ask), attempt)).fitted(pieces)
        except KeyTakenError:
            attempt += 1


def _refuse_held_out(ask: Ask) -> None:
    judged = [*ask.brief.history, ask.brief.incumbent, ask.brief.best, *ask.parents, *(one.judged for one in ask.inspirations)]
    once = {id(one): one.evaluation for one in judged}.values()
    ask.trees.refuse_others(result.tree for evaluation in once for result in evaluation.results)


def _drawn_from(ask: Ask) -> Iterator[str]:
    for judged in (*ask.parents, *(one.judged for one in ask.inspirations)):
        yield judged.version.candidate.source
    yield from ask.scratchpad
    yield str(len(ask.brief.history))


class _Writer:
    """Writes one prompt with one key."""

    def __init__(self, ask: Ask, fence: Fence) -> None:
        self._ask = ask
        self._fence = fence
        self._always = _always(ask) | {"data": fence.data, "key": fence.key}
        shown = (*ask.parents, *(one.judged for one in ask.inspirations))
        self._headed = {judged.version.number: _headed(judged) for judged in shown}

    def fitted(self, pieces: Sequence[Piece]) -> Prompt:
        """Return the prompt with as many of the pieces as its budget has room for."""
        repairing, cut = self._repairing()
        room = self._ask.budget_chars - _characters(repairing)
        gone = fewest_left_out(pieces, lambda kept: _characters(self._opening(kept)) <= room)
        kept = without(pieces, gone)
        return Prompt((*self._opening(kept), *repairing), self._shown(kept), (*cut, *(piece.name for piece in gone)))

    def _opening(self, kept: Sequence[Piece]) -> tuple[Message, Message]:
        def told(part: Part, of: int | None = None) -> list[Foreign]:
            return [Foreign(piece.text) for piece in kept if piece.part is part and of in (None, piece.of)]

        ask = self._ask
        parents = [
            self._headed[number] | {"groups": told(Part.GROUPS, number), "replays": told(Part.REPLAYS, number)}
            for number in (judged.version.number for judged in ask.parents)
        ]
        versions = told(Part.VERSIONS)
        system = _render("system", interface=[piece.text for piece in kept if piece.part is Part.INTERFACE])
        user = _render(
            "user",
            **self._always,
            parents=parents,
            versions=versions,
            unlisted=len(ask.brief.history) - len(versions),
            faults=told(Part.FAULTS),
            inspirations=[
                self._headed[one.judged.version.number] | {"purpose": one.purpose.value}
                for one in ask.inspirations
                if told(Part.INSPIRATIONS, one.judged.version.number)
            ],
            lessons=told(Part.LESSONS),
        )
        return Message(Role.SYSTEM, system), Message(Role.USER, user)

    def _repairing(self) -> tuple[tuple[Message, ...], tuple[str, ...]]:
        """Return the messages of a repair, none where none is asked for, and what was cut from them."""
        repair = self._ask.repair
        if repair is None:
            return (), ()
        answer = shortened(clean(repair.answer), self._ask.budget_chars // ANSWER_SHARE)
        again = _render("repair", **self._always, fault=Foreign(repair.fault), advice=repair.advice)
        cut = ("the middle of the answer to be repaired",) if len(answer) < len(clean(repair.answer)) else ()
        return (Message(Role.ASSISTANT, answer.strip() or NOTHING), Message(Role.USER, again)), cut

    def _shown(self, kept: Sequence[Piece]) -> tuple[str, ...]:
        left = {piece.of for piece in kept if piece.part is Part.INSPIRATIONS}
        inspirations = [one.judged for one in self._ask.inspirations if one.judged.version.number in left]
        return tuple(dict.fromkeys(judged.version.candidate.digest for judged in (*self._ask.parents, *inspirations)))


def _always(ask: Ask) -> dict[str, Any]:
    """Return what stands in every prompt: what versions are judged by, where the run stands, what is asked for."""
    settings = ask.brief.incumbent.evaluation.settings
    return {
        "objective": settings.objective.value,
        "weights": settings.weights,
        "by_group": settings.weight is Weight.GROUP,
        "limits": settings.limits,
        "frontier": None if settings.frontier is None else settings.frontier.value,
        "trees": len(ask.trees),
        "incumbent": _valued(ask.brief.incumbent),
        "best": _valued(ask.brief.best),
        "kind": ask.kind.value,
        "form": answer_form(ask.kind),
        "choices": [Foreign(text) for text in choices_told(ask)],
    }


def _characters(messages: Iterable[Message]) -> int:
    return sum(len(message.text) for message in messages)


def _valued(judged: Judged) -> dict[str, Any]:
    return {"number": judged.version.number, "value": figure(judged.value)}


def _headed(judged: Judged) -> dict[str, Any]:
    """Return what is told of a version whose code is shown."""
    fault = evidence(judged)
    return _valued(judged) | {
        "code": Foreign(judged.version.candidate.source),
        "behaviour": "" if fault else behaviour_told(judged),
        "fault": Foreign(fault) if fault else None,
    }


def _render(name: str, **said: Any) -> str:
    return environment().get_template(f"{name}.md.j2").render(said).strip() + "\n"

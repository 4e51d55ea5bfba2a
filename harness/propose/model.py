"""Propose versions that a model writes: choose what to edit and how, ask, read the answer, have it repaired, give up in time.

What a model answers is a stranger's text. It is applied by `edits`, checked, and otherwise only ever run in a sandbox; whatever
is wrong with it ends in the journal with its reason and goes back to the model once or twice, as do faults of its versions in
the sandbox, with their evidence. Everything follows from the seed, the history and the journal.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from harness.models.base import ContextOverflow, ErrorKind, Finish, ModelError, ModelTimeout, Request
from harness.models.budget import BudgetSpentError
from harness.models.journal import Asked, Because, Outcome, PutAside
from harness.policy import Candidate, Origin
from harness.propose.asking import Asker
from harness.propose.bandit import Pull, choose
from harness.propose.edits import EditKind, FaultReason, ProposalFault, advice, allowed_values, apply, repairable, shape
from harness.propose.memory import Archive, Scratchpad
from harness.propose.prompts import Ask, Repair, build

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.models.base import Answer, Model
    from harness.models.journal import Call, Journal
    from harness.propose.asking import Answered
    from harness.propose.base import Brief, Judged
    from harness.propose.edits import Edited
    from harness.propose.prompts import DevelopmentTrees
    from harness.propose.templates import Template
    from sandbox.api import Fault

REPAIRS = 2
"""How often an answer, or a version that faulted, goes back to be repaired."""
DRAWS = 4
"""Edits that are begun for one version, before the models count as having nothing to say."""
LATE = 3
"""Calls without an answer in time, in a row, after which a run stops instead of paying for more of them."""
_INSPIRATIONS = 2
_SHORTER = 2
"""A prompt that is too long for a model is cut to this part, once."""

KINDS = {
    EditKind.BLOCKS: 3.0,
    EditKind.WHOLE: 2.0,
    EditKind.CROSS: 1.0,
    EditKind.PARAMETERS: 1.0,
    EditKind.TEMPLATE: 0.5,
}
"""How much is expected of a kind of edit before anything is known."""


class Refusal(StrEnum):
    """Why an edit that could be applied is no new version."""

    AT_CHECK = "refused-at-check"
    KNOWN_CODE = "known-code"


class Choice(NamedTuple):
    """An arm of the bandit: who is asked, and for which kind of edit."""

    model: str
    kind: EditKind


@dataclass(frozen=True, slots=True)
class Sampling:
    """How models are asked; `prompt_chars` bounds what they are shown."""

    temperature: float = 0.7
    max_output_tokens: int = 8_000
    timeout_s: float = 300.0
    prompt_chars: int = 60_000


@dataclass(frozen=True, slots=True)
class Means:
    """All that a model's versions are made with. `weights` say of each model how much is expected of it."""

    models: Sequence[Model]
    weights: Mapping[str, float]
    templates: tuple[Template, ...]
    trees: DevelopmentTrees
    journal: Journal
    refuse: Callable[[str], Fault | None]
    """The static check: why a source is not run, None where it may be."""
    sampling: Sampling = Sampling()
    ended: PutAside | None = None
    """Of a run that is made again from the store: why and where it asked no more."""
    kinds: Mapping[EditKind, float] = field(default_factory=lambda: dict(KINDS))


@dataclass(frozen=True, slots=True)
class _Draw:
    """What one edit starts from."""

    choice: Choice
    parents: tuple[Judged, ...]
    place: int


class _Refused(Exception):  # noqa: N818 - as ProposalFault: the untrusted side's
    """Raised where an answer is no new version."""

    def __init__(self, reason: str, message: str, *, again: bool, advice: str = "", edited: Edited | None = None) -> None:
        super().__init__(message)
        self.told = f"{reason}: {message}"
        self.advice = advice
        self.outcome = Outcome(reason, message, edited.lesson if edited else "", edited.rationale if edited else "")
        self.again = again


class ModelProposer:
    """A proposer that asks models, until it is put aside: once a budget is used up, or by whoever can do without it."""

    def __init__(self, means: Means, seed: int) -> None:
        self._means = means
        self._seed = seed
        self._asker = Asker({model.name: model for model in means.models}, means.journal)
        self._archive = Archive(seed)
        self._shapes: dict[str, str] = {}

    @property
    def aside(self) -> PutAside | None:
        """Return why models are asked no more, None while they are."""
        return self._means.journal.aside()

    def put_aside(self, brief: Brief, because: Because, reason: str) -> None:
        """Ask models no more in this run, whoever takes it on."""
        self._means.journal.put_aside(PutAside(len(brief.history) + 1, because, reason))

    def propose(self, brief: Brief, draws: int = DRAWS) -> Candidate | None:
        """Return the next candidate; None where models are put aside or no edit of several could be made.

        Raises:
            ModelError: a model is out of reach.
        """
        if self.aside is not None:
            return None
        self._archive.learn(brief.history)
        known = self._known(brief)
        for place in range(draws):
            try:
                candidate = self._written(brief, self._drawn(brief, place), known)
            except BudgetSpentError as error:
                self.put_aside(brief, Because.BUDGET, str(error))
                return None
            except ModelError:
                # A run that is made again from the store ends where the first one did.
                if self._means.ended is None or self._means.ended.position > len(brief.history) + 1:
                    raise
                self.put_aside(brief, self._means.ended.because, self._means.ended.reason)
                return None
            if candidate is not None:
                return candidate
        return None

    def _known(self, brief: Brief) -> dict[str, int]:
        """Return the version of each code, the first one where several have it."""
        known: dict[str, int] = {}
        for judged in brief.history:
            candidate = judged.version.candidate
            if candidate.digest not in self._shapes:
                self._shapes[candidate.digest] = shape(candidate.source)
            known.setdefault(self._shapes[candidate.digest], judged.version.number)
        return known

    def made(self, brief: Brief) -> dict[int, Call]:
        """Return, by position from 1, the calls whose answers became versions."""
        return _made(self._asker.calls_before(len(brief.history) + 1))

    def tried(self, brief: Brief) -> set[int]:
        """Return the positions for which a model was asked."""
        return {call.asked.position for call in self._asker.calls_before(len(brief.history) + 1)}

    def to_repair(self, brief: Brief) -> Call | None:
        """Return the call that made the last version, if that faulted and is to go back to its model."""
        made, by_number = self.made(brief), {judged.version.number: judged for judged in brief.history}
        last: Judged | None = brief.history[-1]
        call, repaired = made.get(len(brief.history)), 0
        while last is not None and last.evaluation.fault is not None:
            repaired += 1
            last = by_number.get(last.version.candidate.parent or 0)
        return call if call is not None and 0 < repaired <= REPAIRS else None

    def _drawn(self, brief: Brief, place: int) -> _Draw:
        broken = self.to_repair(brief) if not place else None
        if broken is not None:
            return _Draw(Choice(broken.exchange.request.model, EditKind.BLOCKS), (brief.history[-1],), place)
        parents = self._archive.parents(2, place) or (brief.best,)
        rng = random.Random(f"{self._seed}:choice:{len(brief.history)}:{place}")  # noqa: S311 - a search, no secret
        weights = {
            Choice(model.name, kind): self._means.weights[model.name] * self._means.kinds[kind]
            for model in self._means.models
            for kind in self._kinds(parents)
        }
        choice = choose(weights, self._pulls(brief), rng)
        return _Draw(choice, parents if choice.kind is EditKind.CROSS else parents[:1], place)

    def _kinds(self, parents: Sequence[Judged]) -> list[EditKind]:
        """Return the kinds of edit that there is something for."""
        there = {
            EditKind.CROSS: len(parents) > 1,
            EditKind.PARAMETERS: bool(allowed_values(parents[0].version.candidate, self._means.templates)),
            EditKind.TEMPLATE: bool(self._means.templates),
        }
        return [kind for kind in self._means.kinds if there.get(kind, True)]

    def _pulls(self, brief: Brief) -> list[Pull[Choice]]:
        calls = self._asker.calls_before(len(brief.history) + 1)
        paid, gained, made = costs(calls), gains(brief.history), _made(calls)
        return [
            Pull(
                Choice(call.exchange.request.model, EditKind(call.asked.kind)),
                gained[call.asked.position - 1] if made.get(call.asked.position) is call else 0.0,
                cost,
            )
            for call, cost in zip(calls, paid, strict=True)
        ]

    def _written(self, brief: Brief, draw: _Draw, known: Mapping[str, int]) -> Candidate | None:
        """Return what a model makes of the parents, None where it comes to nothing."""
        position = len(brief.history) + 1
        asked = Asked(position, draw.choice.kind.value, tuple(judged.version.number for judged in draw.parents))
        pad = Scratchpad.of(
            (call.outcome.lesson, call.outcome.rationale)
            for call in self._asker.calls_before(position)
            if call.outcome is not None
        )
        ask = Ask(
            brief,
            draw.choice.kind,
            draw.parents,
            self._means.trees,
            self._archive.inspirations(draw.parents, _INSPIRATIONS, draw.place),
            self._means.templates,
            pad.shown,
            self._archive.twins,
            budget_chars=self._means.sampling.prompt_chars,
        )
        for turn in range(1 + REPAIRS):
            answered = self._answered(asked, ask, draw, turn)
            if answered is None:
                return None
            try:
                edited = self._edited(answered.answer, draw, known)
            except _Refused as refused:
                self._asker.end(answered, refused.outcome)
                if not refused.again:
                    return None
                ask = replace(ask, repair=Repair(answered.answer.text, refused.told, refused.advice))
                continue
            self._asker.end(answered, Outcome(None, "", edited.lesson, edited.rationale))
            return _candidate(edited, draw)
        return None

    def _answered(self, asked: Asked, ask: Ask, draw: _Draw, turn: int) -> Answered | None:
        """Return the answer, None where even a shorter prompt is too long for the model, or its answer takes too long."""
        shorter = replace(ask, budget_chars=ask.budget_chars // _SHORTER)
        for one in (ask, shorter):
            how = self._means.sampling
            seed = int.from_bytes(hashlib.sha256(f"{self._seed}:{asked.position}:{draw.place}:{turn}".encode()).digest()[:4]) >> 1
            request = Request(build(one).messages, draw.choice.model, how.temperature, seed, how.max_output_tokens, how.timeout_s)
            try:
                return self._asker.ask(asked, request)
            except ContextOverflow:
                continue
            except ModelTimeout:
                if self._asker.late() >= LATE:
                    raise
                return None
        return None

    def _edited(self, answer: Answer, draw: _Draw, known: Mapping[str, int]) -> Edited:
        if answer.finish is Finish.REFUSED:
            raise _Refused(FaultReason.REFUSED, "the provider refused to answer", again=False)
        parents = [judged.version.candidate for judged in draw.parents]
        try:
            edited = apply(answer.text, draw.choice.kind, parents, self._means.templates, cut=answer.finish is Finish.LENGTH)
        except ProposalFault as fault:
            said = advice(fault, draw.choice.kind)
            raise _Refused(fault.reason, fault.message, again=repairable(fault), advice=said) from fault
        same = known.get(shape(edited.source))
        if same is not None:
            told = (
                f"this is the code of version {same}, comments, docstrings and layout aside; write something that was not tried"
            )
            raise _Refused(Refusal.KNOWN_CODE, told, again=True, edited=edited)
        refused = self._means.refuse(edited.source)
        if refused is not None:
            raise _Refused(Refusal.AT_CHECK, refused.message, again=True, edited=edited)
        return edited


def gains(history: Sequence[Judged]) -> list[float]:
    """Return how far each version of a history is above the best before it; 0.0 where it is not, and for the first."""
    best: float | None = None
    gained = []
    for judged in history:
        value = judged.value
        gained.append(0.0 if best is None or value is None else max(0.0, value - best))
        if value is not None:
            best = value if best is None else max(best, value)
    return gained


def _made(calls: Sequence[Call]) -> dict[int, Call]:
    return {call.asked.position: call for call in calls if call.outcome is not None and call.outcome.reason is None}


def costs(calls: Sequence[Call]) -> list[float]:
    """Return what each call cost in one unit for all: money where all of it is known, else tokens, else each call the same.

    A call that was not answered in time may have been paid for: it counts as the dearest answer of its model, or of any model
    where that one never answered. What was turned down cost nothing.
    """
    for spent in (_usd, _tokens):
        figures = [None if call.exchange.answer is None else spent(call.exchange.answer) for call in calls]
        if all(figure is not None for figure, call in zip(figures, calls, strict=True) if call.exchange.answer is not None):
            break
    else:
        return [1.0] * len(calls)
    dearest: dict[str, float] = {}
    for call, figure in zip(calls, figures, strict=True):
        if figure is not None:
            model = call.exchange.request.model
            dearest[model] = max(figure, dearest.get(model, 0.0))
    of_any = max(dearest.values(), default=0.0)
    without = [
        dearest.get(call.exchange.request.model, of_any) if call.exchange.kind is ErrorKind.TIMEOUT else 0.0 for call in calls
    ]
    return [other if figure is None else figure for figure, other in zip(figures, without, strict=True)]


def _usd(answer: Answer) -> float | None:
    return answer.cost_usd


def _tokens(answer: Answer) -> float | None:
    given, asked = answer.usage.input_tokens, answer.usage.output_tokens
    return None if given is None or asked is None else float(given + asked)


def _candidate(edited: Edited, draw: _Draw) -> Candidate:
    numbers = " and ".join(f"version {judged.version.number}" for judged in draw.parents)
    return Candidate(
        edited.source,
        Origin.MODEL if edited.template is None else Origin.TEMPLATE,
        edited.rationale or f"{edited.kind} of {numbers} by {draw.choice.model}, which gave no reason",
        edited.template,
        edited.params,
        draw.parents[0].version.number,
    )

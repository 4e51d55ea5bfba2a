"""What a run asked of models: calls, tokens, money, and what came of the answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from harness.cli.output import counted, one_line, say
from harness.propose.memory import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.models.base import Answer
    from harness.models.journal import Call
    from harness.propose.base import Judged


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The calls of a run; `spent` says why no more were made, where a budget ended them.

    `broken` are the versions that models wrote and that faulted in the sandbox, with the kind of fault; `twins` those that did on
    every development tree what an earlier version had done, and that one.
    """

    calls: Sequence[Call]
    spent: str | None
    broken: Mapping[int, str]
    twins: Mapping[int, int]

    @classmethod
    def of(cls, calls: Sequence[Call], judged: Iterable[Judged], spent: str | None) -> Self:
        """Return what a run asked, with what became of the versions that models wrote; `judged` are all versions in order."""
        written = {call.asked.position for call in calls if call.outcome is not None and call.outcome.reason is None}
        broken: dict[int, str] = {}
        twins: dict[int, int] = {}
        first: dict[str, int] = {}
        for position, one in enumerate(judged, start=1):
            number, fault, did = one.version.number, one.evaluation.fault, fingerprint(one.evaluation)
            earlier = number if did is None else first.setdefault(did, number)
            if position in written and fault is not None:
                broken[number] = fault.kind.value
            elif position in written and earlier != number:
                twins[number] = earlier
        return cls(calls, spent, broken, twins)

    @property
    def answers(self) -> list[Answer]:
        """Return what was answered."""
        return [call.exchange.answer for call in self.calls if call.exchange.answer is not None]

    @property
    def unpriced(self) -> int:
        """Return how many answers have no known cost."""
        return sum(answer.cost_usd is None for answer in self.answers)

    @property
    def faults(self) -> Mapping[str, int]:
        """Return how many answers became no version, by reason, the most frequent first."""
        reasons = Counter(call.outcome.reason for call in self.calls if call.outcome is not None and call.outcome.reason)
        return dict(reasons.most_common())


def show(use: ModelUse) -> None:
    """Print what a run asked of models."""
    became = sum(call.outcome is not None and call.outcome.reason is None for call in use.calls)
    kinds = Counter(str(call.exchange.kind or "unreachable") for call in use.calls if call.exchange.answer is None)
    why = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    unanswered = f", {kinds.total()} without an answer ({why})" if kinds else ""
    say(f"\nmodels: {counted(len(use.calls), 'call')}{unanswered}, {_tokens(use.answers)}, {cost(use.answers)}")
    faults = ", ".join(f"{reason} {count}" for reason, count in use.faults.items())
    say(f"{counted(became, 'answer')} became versions" + (f"; faults: {faults}" if faults else "; no faults"))
    if use.broken:
        say("faulted in the sandbox: " + ", ".join(f"v{number} {kind}" for number, kind in use.broken.items()))
    if use.twins:
        twins = ", ".join(f"v{number} as v{first}" for number, first in use.twins.items())
        say(f"behaved on every development tree as an earlier version: {twins}")
    if use.spent is not None:
        say(one_line(f"the budget ended the models' share: {use.spent}"))


def document(use: ModelUse) -> dict[str, Any]:
    """Return the same for programs; what is unknown is null."""
    answers = use.answers
    each = Counter(call.exchange.request.model for call in use.calls)
    return {
        "calls": len(use.calls),
        "answers": len(answers),
        "by_model": dict(each),
        "input_tokens": _sum([answer.usage.input_tokens for answer in answers]),
        "output_tokens": _sum([answer.usage.output_tokens for answer in answers]),
        "cost_usd": _sum([answer.cost_usd for answer in answers]),
        "answers_of_unknown_cost": use.unpriced,
        "model_s": sum(answer.latency_s for answer in answers),
        "versions": sum(call.outcome is not None and call.outcome.reason is None for call in use.calls),
        "faults": dict(use.faults),
        "sandbox_faults": {str(number): kind for number, kind in use.broken.items()},
        "twins": {str(number): first for number, first in use.twins.items()},
        "budget_spent": use.spent,
    }


def cost(answers: Sequence[Answer]) -> str:
    """Return in words what answers cost: unknown where nobody says, never nothing instead."""
    known = [answer.cost_usd for answer in answers if answer.cost_usd is not None]
    unknown = len(answers) - len(known)
    if not known:
        return "cost unknown" if unknown else "no cost"
    return f"{sum(known):.6f} USD" + (f" and {counted(unknown, 'answer')} of unknown cost" if unknown else "")


def _tokens(answers: Sequence[Answer]) -> str:
    sums = [
        _sum([answer.usage.input_tokens for answer in answers]),
        _sum([answer.usage.output_tokens for answer in answers]),
    ]
    given, asked = ("unknown" if figure is None else f"{figure:,}" for figure in sums)
    return f"{given} tokens in, {asked} out"


def _sum(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if len(known) == len(figures) else None

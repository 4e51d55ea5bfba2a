"""What a run asked of models: calls, tokens, money, and what came of the answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from harness.cli.costs import Outlay, Tokens
from harness.cli.output import one_line, say
from harness.models.journal import Because
from harness.propose.memory import fingerprint
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.models.base import Answer
    from harness.models.journal import Call, PutAside
    from harness.models.tries import Try
    from harness.propose.base import Judged


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The calls of a run and the tries that they took; `aside` says why no more were made, where models were put aside.

    `broken` are the versions that models wrote and that faulted in the sandbox, with the kind of fault; `twins` those that did on
    every development tree what an earlier version had done, and that one.
    """

    calls: Sequence[Call]
    tries: Sequence[Try]
    aside: PutAside | None
    broken: Mapping[int, str]
    twins: Mapping[int, int]

    @classmethod
    def of(cls, calls: Sequence[Call], tries: Sequence[Try], judged: Iterable[Judged], aside: PutAside | None) -> Self:
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
        return cls(calls, tries, aside, broken, twins)

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
    tokens, cost = Tokens.of(use.answers, use.tries).words, Outlay.of(use.tries).words
    say(f"\nmodels: {counted(len(use.calls), 'call')}{unanswered}, {tokens}, {cost}")
    faults = ", ".join(f"{reason} {count}" for reason, count in use.faults.items())
    what = "1 answer became a version" if became == 1 else f"{became} answers became versions"
    say(what + (f"; faults: {faults}" if faults else "; no faults"))
    if use.broken:
        say("faulted in the sandbox: " + ", ".join(f"v{number} {kind}" for number, kind in use.broken.items()))
    if use.twins:
        twins = ", ".join(f"v{number} as v{first}" for number, first in use.twins.items())
        say(f"behaved on every development tree as an earlier version: {twins}")
    if use.aside is not None:
        say(aside_words(use.aside))


def aside_words(aside: PutAside) -> str:
    """Return on one line why models are asked no more."""
    if aside.because is Because.BUDGET:
        return one_line(f"the budget ended the models' share at version {aside.position}: {aside.reason}")
    return one_line(f"the models were put aside at version {aside.position}: {aside.reason}")


def document(use: ModelUse) -> dict[str, Any]:
    """Return the same for programs; what is unknown is null."""
    answers = use.answers
    each = Counter(call.exchange.request.model for call in use.calls)
    return {
        "calls": len(use.calls),
        "answers": len(answers),
        "by_model": dict(each),
        **Tokens.of(answers, use.tries).document,
        **Outlay.of(use.tries).document,
        "answers_of_unknown_cost": use.unpriced,
        "model_s": sum(answer.latency_s for answer in answers),
        "versions": sum(call.outcome is not None and call.outcome.reason is None for call in use.calls),
        "faults": dict(use.faults),
        "sandbox_faults": {str(number): kind for number, kind in use.broken.items()},
        "twins": {str(number): first for number, first in use.twins.items()},
        "put_aside": None if use.aside is None else asdict(use.aside),
    }

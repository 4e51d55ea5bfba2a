"""What models did cost, in words and figures: known, at least, or unknown; never nothing where nobody says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.models.base import Answer
    from harness.models.tries import Try


@dataclass(frozen=True, slots=True)
class Outlay:
    """Money over some tries: what is known of it, and how many tries it is not known of."""

    usd: float
    tries: int
    unknown: int

    @classmethod
    def of(cls, tries: Iterable[Try]) -> Self:
        """Add up tries; one that nobody saw the end of is of unknown cost."""
        paid = [None if one.paid is None else one.paid.usd for one in tries]
        known = [usd for usd in paid if usd is not None]
        return cls(sum(known), len(paid), len(paid) - len(known))

    @property
    def words(self) -> str:
        """Return it in words."""
        if not self.unknown:
            return f"{self.usd:.6f} USD" if self.usd else "no cost"
        if self.usd:
            return f"at least {self.usd:.6f} USD, {self.unknown} of {counted(self.tries, 'try')} of unknown cost"
        return "cost unknown" if self.unknown == self.tries else f"cost unknown of {self.unknown} of {counted(self.tries, 'try')}"

    @property
    def document(self) -> dict[str, Any]:
        """Return it for programs: `cost_usd` is null unless all of it is known."""
        return {
            "cost_usd": None if self.unknown else self.usd,
            "cost_usd_at_least": self.usd,
            "tries": self.tries,
            "tries_of_unknown_cost": self.unknown,
        }


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of answers as they were counted; more were used where `uncounted`."""

    given: int
    asked: int
    uncounted: bool

    @classmethod
    def of(cls, answers: Iterable[Answer], tries: Iterable[Try]) -> Self:
        """Add up the answers; tries whose tokens nobody said leave them uncounted."""
        usages = [answer.usage for answer in answers]
        uncounted = any(one.paid is None or one.paid.tokens is None for one in tries)
        given, asked = [usage.input_tokens for usage in usages], [usage.output_tokens for usage in usages]
        missing = None in given or None in asked
        return cls(sum(count or 0 for count in given), sum(count or 0 for count in asked), uncounted or missing)

    @property
    def words(self) -> str:
        """Return them in words."""
        if self.uncounted and not (self.given or self.asked):
            return "unknown tokens"
        least = "at least " if self.uncounted else ""
        return f"{least}{self.given:,} tokens in, {least}{self.asked:,} out"

    @property
    def document(self) -> dict[str, Any]:
        """Return them for programs: null unless all of them were counted."""
        return {
            "input_tokens": None if self.uncounted else self.given,
            "output_tokens": None if self.uncounted else self.asked,
            "input_tokens_at_least": self.given,
            "output_tokens_at_least": self.asked,
        }


def tries_of(tries: Iterable[Try], requests: Iterable[str]) -> Sequence[Try]:
    """Return the tries for these requests, by digest: one call may have taken several."""
    wanted = set(requests)
    return [one for one in tries if one.request in wanted]

"""The records of a prompt: what is asked, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from harness.models.base import Message
    from harness.propose.base import Brief, Judged
    from harness.propose.edits import EditKind
    from harness.propose.memory import Inspiration
    from harness.propose.templates import Template
    from harness.tree import Tree

BUDGET_CHARACTERS = 60_000
"""Some 15,000 tokens of English and Python."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Words of somebody else: of a model, a tree, a policy. They enter a prompt through `data(…)` and in no other way."""

    text: str

    def __str__(self) -> NoReturn:
        message = "words of others are data: a prompt writes them as {{ data('what they are', these) }}"
        raise TypeError(message)


class DevelopmentTrees:
    """The trees of a run that may be shown, read when they are asked for. Any other one is refused, whoever asks."""

    def __init__(self, digests: Collection[str], read: Callable[[str], Tree]) -> None:
        self._digests = frozenset(digests)
        self._read = read

    def __len__(self) -> int:
        return len(self._digests)

    def __call__(self, digest: str) -> Tree:
        """Return a tree."""
        self.refuse_others([digest])
        tree = self._read(digest)
        self.refuse_others([tree.digest])
        return tree

    def refuse_others(self, digests: Iterable[str]) -> None:
        """Keep figures of other trees out as well.

        Raises:
            ValueError: one of them is no development tree, which would be our mistake and nobody else's.
        """
        others = set(digests) - self._digests
        if others:
            raise ValueError(f"tree {min(others)[:12]} is no development tree and must not reach a prompt")


@dataclass(frozen=True, slots=True)
class Repair:
    """An answer that came to nothing, and why: what could not be applied, what the check refused, how the sandbox saw it end.

    `advice` is what to do about it, in words of ours.
    """

    answer: str
    fault: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """All that a prompt is made of. Under which settings versions are judged stands in the brief's evaluations.

    `parents` are what to build on, one or (for a cross) two; one that faulted is shown with its evidence, to be repaired.
    `templates` are those that may be chosen or whose parameters may be set. `twins` says which versions did what an earlier one
    had done.
    """

    brief: Brief
    kind: EditKind
    parents: tuple[Judged, ...]
    trees: DevelopmentTrees
    inspirations: tuple[Inspiration, ...] = ()
    templates: tuple[Template, ...] = ()
    scratchpad: tuple[str, ...] = ()
    twins: Mapping[int, int] = field(default_factory=dict)
    repair: Repair | None = None
    budget_chars: int = BUDGET_CHARACTERS


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is sent. `shown` are digests of the policies whose code stands in it, `cut` names what was left out to stay short."""

    messages: tuple[Message, ...]
    shown: tuple[str, ...]
    cut: tuple[str, ...] = ()

    @property
    def characters(self) -> int:
        """Return how long it is."""
        return sum(len(message.text) for message in self.messages)

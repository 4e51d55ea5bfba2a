"""The records of the gate: what is asked of a candidate, and the answer with every figure that led to it.

A verdict is complete: whoever reads it needs neither the trees nor the evaluations to follow the decision. Nothing here decides;
importing it costs no numerical library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.score import Settings

Figure: TypeAlias = float | int | str | None


class Outcome(StrEnum):
    """The answer of the gate, and of each of its parts."""

    PASS = "pass"  # noqa: S105 - a verdict, no password
    REFUSE = "refuse"
    CANNOT_TELL = "cannot-tell"


class PartName(StrEnum):
    """What is asked of a candidate, in the order in which it is asked."""

    DISTINCT = "distinct"
    SANDBOX = "sandbox"
    FAULTS = "faults"
    GAIN = "gain"
    QUALITY = "quality"
    GROUPS = "groups"
    SUPPORT = "support"
    DECISION_TIME = "decision-time"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What each part asks for; all of it is part of the question that a verdict answers.

    Margins are in the unit of the difference that they bound: value for `min_gain` and `group_margin`, quality for
    `quality_margin`. `alpha` is the chance of a false promotion that is accepted over all looks at one tree, `power` the
    chance of finding a true gain of the observed size for which the number of needed trees is told. `resamples` is the least
    number; small levels take more. `seed` fixes every draw.
    """

    alpha: float = 0.05
    min_gain: float = 0.0
    quality_margin: float = 0.01
    group_margin: float = 0.05
    max_off_support: float = 0.6
    max_decision_cpu_s: float = 0.1
    allow_local: bool = False
    resamples: int = 10_000
    power: float = 0.8
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """One look at held-out trees and the level that it may use.

    `number` is 1 for trees that nobody looked at. `spent` is what the most looked-at of these trees had spent before, `left` what
    remains of alpha after this look. `again` says that this very question was asked before and nothing is spent.
    `ledger` is the digest of the ledger's entry, empty where there is no ledger.
    """

    number: int
    level: float
    spent: float
    left: float
    again: bool = False
    ledger: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One part's answer: a sentence with its figures for people, and the figures alone."""

    name: PartName
    outcome: Outcome
    words: str
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TreeDifference:
    """One held-out tree: both values and candidate minus incumbent; None where a side has no value."""

    tree: str
    """Digest of the tree; `name` and `group` are its words for people."""
    name: str
    group: str
    candidate: float | None
    incumbent: float | None
    difference: float | None
    quality_difference: float | None


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """The mean differences over the `trees` trees of one group."""

    group: str
    trees: int
    difference: float
    quality_difference: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of the gate. `candidate` and `incumbent` are digests of policies, `trees` stand in the order of their digests.

    `left_out` names trees that were given and do not count, with the reason for each.
    """

    outcome: Outcome
    reason: str
    parts: tuple[Part, ...]
    candidate: str
    incumbent: str
    look: Look | None
    trees: tuple[TreeDifference, ...]
    groups: tuple[GroupDifference, ...]
    left_out: tuple[tuple[str, str], ...]
    settings: Settings
    bounds: Bounds
    sandbox: str

    @property
    def passed(self) -> bool:
        """Say whether the candidate may be promoted."""
        return self.outcome is Outcome.PASS

    def part(self, name: PartName) -> Part | None:
        """Return this part's answer, None where it was not asked."""
        return next((part for part in self.parts if part.name is name), None)

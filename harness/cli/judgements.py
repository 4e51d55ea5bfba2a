"""What runs found a version to be worth, for `harness show` and `harness diff`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.evolve import Split

if TYPE_CHECKING:
    from harness.policy import Version
    from harness.score import Evaluation, Result
    from harness.store import Run, Store


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one run found a version to be worth."""

    run: Run
    splits: dict[Split, Evaluation]

    @property
    def results(self) -> list[tuple[Split, Result]]:
        """Return all replays with the side that their tree is on."""
        return [(split, result) for split, evaluation in self.splits.items() for result in evaluation.results]


def judgements(store: Store, version: Version) -> list[Judgement]:
    """Return what the runs found, the latest first."""
    found = []
    for run in reversed(store.runs()):
        known = {split: store.evaluation(run, version, split) for split in Split}
        splits = {split: evaluation for split, evaluation in known.items() if evaluation is not None}
        if splits:
            found.append(Judgement(run, splits))
    return found

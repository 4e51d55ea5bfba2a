"""A verdict to show, built by hand."""

from __future__ import annotations

from dataclasses import replace

from harness.gate.verdict import Bounds, GroupDifference, Look, Outcome, Part, PartName, TreeDifference, Verdict
from harness.score import Settings

LEDGER = "ab" * 32


def verdict(outcome: Outcome = Outcome.PASS, **changes: object) -> Verdict:
    """Return a verdict over four trees of two groups; the part `gain` bears its outcome."""
    differences = {"first": (0.01, 0.02), "second": (-0.005, 0.03)}
    trees = tuple(
        TreeDifference(f"{group}-{place}", f"tree {group} {place}", group, 0.5 + one, 0.5, one, 0.0)
        for group, of in differences.items()
        for place, one in enumerate(of)
    )
    parts = (
        Part(PartName.DISTINCT, Outcome.PASS, "the candidate is not the incumbent"),
        Part(PartName.GAIN, outcome, "mean +0.0138, lower bound +0.0010", {"mean": 0.01375, "p": 0.01, "test": "exact"}),
    )
    groups = tuple(GroupDifference(group, len(of), sum(of) / len(of), 0.0) for group, of in differences.items())
    look = Look(2, 0.0076, 0.0304, 0.012, ledger=LEDGER)
    built = Verdict(
        outcome, "the gain is shown", parts, "c" * 64, "d" * 64, look, trees, groups, (), Settings(), Bounds(), "docker"
    )
    return replace(built, **changes)  # type: ignore[arg-type]

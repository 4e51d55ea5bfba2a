"""Two evaluations over the same trees, as differences per tree and per group.

Trees stand in the order of their digests and groups in that of their names, so that the order in which trees were given changes
nothing, not even a draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import InputError
from harness.gate.verdict import GroupDifference, TreeDifference
from harness.score import difference, mean, refuse_mixed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.score import Evaluation, Result


@dataclass(frozen=True, slots=True)
class Differences:
    """What the gate judges: `trees` as given, and the values of those that count, one tuple for each group."""

    trees: tuple[TreeDifference, ...]
    groups: tuple[GroupDifference, ...]
    left_out: tuple[tuple[str, str], ...]
    value: tuple[tuple[float, ...], ...]
    quality: tuple[tuple[float, ...], ...]


def differences(candidate: Evaluation, incumbent: Evaluation, groups: Mapping[str, str]) -> Differences:
    """Pair two evaluations tree by tree; `groups` names the group of each tree by digest.

    After a fault of the candidate trees may be missing on its side: their differences are not known.

    Raises:
        InputError: the incumbent faulted, or the two were not judged on the same trees under the same settings.
    """
    theirs, ours = _by_tree(incumbent), _by_tree(candidate)
    _refuse_incomparable(candidate, incumbent, ours, theirs)
    trees = tuple(_tree(digest, groups[digest], ours.get(digest), theirs[digest]) for digest in sorted(theirs))
    faulted = candidate.fault is not None
    left_out = [] if faulted else [(tree.tree, "nothing in it has a score") for tree in trees if tree.difference is None]
    value: dict[str, list[float]] = {}
    quality: dict[str, list[float]] = {}
    for tree in trees:
        if tree.difference is not None and tree.quality_difference is not None:
            value.setdefault(tree.group, []).append(tree.difference)
            quality.setdefault(tree.group, []).append(tree.quality_difference)
    names = sorted(value)
    return Differences(
        trees,
        tuple(GroupDifference(name, len(value[name]), mean(value[name]) or 0.0, mean(quality[name]) or 0.0) for name in names),
        tuple(left_out),
        tuple(tuple(value[name]) for name in names),
        tuple(tuple(quality[name]) for name in names),
    )


def _by_tree(evaluation: Evaluation) -> dict[str, Result]:
    return {result.tree: result for result in evaluation.results}


def _tree(digest: str, group: str, ours: Result | None, theirs: Result) -> TreeDifference:
    value = None if ours is None else ours.figures.value
    quality = None if ours is None else ours.figures.quality
    figures = theirs.figures
    apart, quality_apart = difference(figures.value, value), difference(figures.quality, quality)
    return TreeDifference(digest, theirs.name, group, value, figures.value, apart, quality_apart)


def _refuse_incomparable(
    candidate: Evaluation, incumbent: Evaluation, ours: Mapping[str, Result], theirs: Mapping[str, Result]
) -> None:
    refuse_mixed(candidate.settings, incumbent.settings)
    for result in incumbent.results:
        fault = result.trajectory.fault
        if fault is not None:
            raise InputError(
                f"incumbent {incumbent.policy[:12]} faults on tree {result.name}: {fault.kind}: {fault.message}; "
                "compare with a policy that runs"
            )
    only_ours = sorted(ours.keys() - theirs.keys())
    missing = [] if candidate.fault else sorted(theirs.keys() - ours.keys())
    for digest in (*only_ours, *missing):
        name = (ours.get(digest) or theirs[digest]).name
        side = "incumbent" if digest in only_ours else "candidate"
        raise InputError(f"tree {name}: the {side} was not judged on it; replay both on the same trees")

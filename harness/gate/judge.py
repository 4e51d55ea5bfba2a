"""Judge a candidate against the incumbent on trees that neither was developed on.

A verdict passes when every part does, refuses when any part does, and else cannot tell. It never averages parts: no gain pays
for a fault.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.gate import claims, guards
from harness.gate.differences import differences
from harness.gate.verdict import Outcome, Part, PartName, Verdict
from harness.score import Evaluation, Weight

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.gate.differences import Differences
    from harness.gate.verdict import Bounds, Look
    from harness.score import Settings
    from sandbox.api import Fault


def judge(
    candidate: Evaluation,
    incumbent: Evaluation,
    groups: Mapping[str, str],
    bounds: Bounds,
    look: Look,
    *,
    left_out: Sequence[tuple[str, str]] = (),
) -> Verdict:
    """Return the verdict on two evaluations over the same held-out trees.

    `groups` names the group of each tree by digest; `left_out` are trees that were given and not replayed, with the reasons.

    Raises:
        InputError: the two cannot be compared, or the incumbent faulted.
    """
    found = differences(candidate, incumbent, groups)
    asked = tuple(_asked(candidate, incumbent, found, bounds, look))
    outcome, reason = _answer(asked)
    return Verdict(
        outcome,
        reason,
        asked,
        candidate.policy,
        incumbent.policy,
        look,
        found.trees,
        found.groups if candidate.fault is None else (),  # trees are missing: means of the others would say nothing
        (*left_out, *found.left_out),
        candidate.settings,
        bounds,
        candidate.sandbox,
    )


def refuse_same(digest: str, settings: Settings, bounds: Bounds, sandbox: str) -> Verdict:
    """Return the verdict on a candidate that is the incumbent byte for byte: nothing was replayed and no look taken."""
    unplayed = Evaluation(digest, sandbox, settings, ())
    return _unplayed((guards.distinct(digest, digest),), unplayed, unplayed, bounds)


def refuse_sandbox(candidate: Evaluation, incumbent: Evaluation, bounds: Bounds) -> Verdict:
    """Return the verdict on two evaluations that may not be made in their sandbox: they are empty, and no look was taken."""
    parts = (guards.distinct(candidate.policy, incumbent.policy), guards.sandbox(candidate, incumbent, bounds))
    return _unplayed(parts, candidate, incumbent, bounds)


def refuse_unrun(candidate: Evaluation, incumbent: Evaluation, fault: Fault, bounds: Bounds) -> Verdict:
    """Return the verdict on a candidate that the static check refused: both evaluations are empty, and no look was taken."""
    parts = (guards.distinct(candidate.policy, incumbent.policy), guards.unrun(fault))
    return _unplayed(parts, candidate, incumbent, bounds)


def nothing_to_ask(
    candidate: Evaluation, incumbent: Evaluation, bounds: Bounds, *, left_out: Sequence[tuple[str, str]]
) -> Verdict:
    """Return the verdict where no held-out tree is left: both evaluations are empty, and no look was taken."""
    words = "no held-out tree is left to ask; record fresh ones, or give others that have a score"
    parts = (guards.distinct(candidate.policy, incumbent.policy), Part(PartName.GAIN, Outcome.CANNOT_TELL, words, {"trees": 0}))
    return replace(_unplayed(parts, candidate, incumbent, bounds), left_out=tuple(left_out))


def _unplayed(parts: tuple[Part, ...], candidate: Evaluation, incumbent: Evaluation, bounds: Bounds) -> Verdict:
    outcome, reason = _answer(parts)
    return Verdict(
        outcome=outcome,
        reason=reason,
        parts=parts,
        candidate=candidate.policy,
        incumbent=incumbent.policy,
        look=None,
        trees=(),
        groups=(),
        left_out=(),
        settings=candidate.settings,
        bounds=bounds,
        sandbox=candidate.sandbox,
    )


def _asked(candidate: Evaluation, incumbent: Evaluation, found: Differences, bounds: Bounds, look: Look) -> list[Part]:
    by_group = candidate.settings.weight is Weight.GROUP
    asked = [
        guards.distinct(candidate.policy, incumbent.policy),
        guards.sandbox(candidate, incumbent, bounds),
        guards.faults(candidate),
    ]
    if candidate.fault is not None:
        return asked
    return [
        *asked,
        claims.gain(found.value, bounds, look, by_group=by_group),
        claims.quality(found.quality, bounds, by_group=by_group),
        guards.groups(found.groups, bounds),
        guards.support(candidate, bounds),
        guards.decision_time(candidate, bounds),
    ]


def _answer(asked: Sequence[Part]) -> tuple[Outcome, str]:
    if any(part.outcome is Outcome.REFUSE for part in asked):
        return Outcome.REFUSE, _refused(asked)
    open_parts = [part for part in asked if part.outcome is Outcome.CANNOT_TELL]
    if open_parts:
        return Outcome.CANNOT_TELL, f"cannot tell by {_names(open_parts)}: {open_parts[0].words}"
    gain = next(part for part in asked if part.name is PartName.GAIN)
    return Outcome.PASS, f"better: {gain.words}"


def _refused(asked: Sequence[Part]) -> str:
    refusing = [part for part in asked if part.outcome is Outcome.REFUSE]
    return f"refused by {_names(refusing)}: {refusing[0].words}"


def _names(some: Sequence[Part]) -> str:
    return ", ".join(part.name for part in some)

"""The parts that guard against harm, each a plain comparison of a figure with its bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from harness.gate.verdict import Outcome, Part, PartName
from harness.replay import Stop
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.gate.verdict import Bounds, Figure, GroupDifference
    from harness.score import Evaluation
    from sandbox.api import Fault

DOCKER = "docker"


def distinct(candidate: str, incumbent: str) -> Part:
    """Ask that there is something to judge."""
    if candidate == incumbent:
        words = f"the candidate is the incumbent byte for byte (digest {candidate[:12]}): there is nothing to promote"
        return Part(PartName.DISTINCT, Outcome.REFUSE, words)
    words = f"candidate {candidate[:12]} and incumbent {incumbent[:12]} differ"
    return Part(PartName.DISTINCT, Outcome.PASS, words)


def sandbox(candidate: Evaluation, incumbent: Evaluation, bounds: Bounds) -> Part:
    """Ask that both were isolated by containers, or that less was allowed by name."""
    used = sorted({candidate.sandbox, incumbent.sandbox})
    named = " and ".join(used)
    figures: dict[str, Figure] = {"sandbox": named, "allow_local": int(bounds.allow_local)}
    if used == [DOCKER]:
        return Part(PartName.SANDBOX, Outcome.PASS, "both were replayed in Docker containers", figures)
    if bounds.allow_local:
        return Part(PartName.SANDBOX, Outcome.PASS, f"replayed in {named}, which was allowed by name", figures)
    words = f"{named} is no boundary: the gate asks for docker, unless --allow-local says otherwise"
    return Part(PartName.SANDBOX, Outcome.REFUSE, words, figures)


def faults(candidate: Evaluation) -> Part:
    """Ask that the candidate kept its contract everywhere, and repeated itself where it was replayed twice."""
    for result in candidate.results:
        fault = result.trajectory.fault
        if fault is not None:
            at = "" if fault.round is None else f" in round {fault.round}"
            figures: dict[str, Figure] = {"kind": fault.kind.value, "tree": result.tree, "round": fault.round}
            words = f"{fault.kind} on tree {result.name}{at}: {fault.message}"
            return Part(PartName.FAULTS, Outcome.REFUSE, words, figures)
    return Part(
        PartName.FAULTS, Outcome.PASS, f"none in {counted(len(candidate.results), 'replay')}", {"replays": len(candidate.results)}
    )


def unrun(fault: Fault) -> Part:
    """Refuse what the static check found, before anything is run."""
    return Part(PartName.FAULTS, Outcome.REFUSE, f"{fault.kind}: {fault.message}", {"kind": fault.kind.value})


def groups(differences: Sequence[GroupDifference], bounds: Bounds) -> Part:
    """Ask that no group pays for the others' gain."""
    if not differences:
        return Part(PartName.GROUPS, Outcome.CANNOT_TELL, "no held-out tree is left to ask", {"groups": 0})
    worst = min(differences, key=lambda group: group.difference)
    figures: dict[str, Figure] = {
        "groups": len(differences),
        "worst": worst.group,
        "difference": worst.difference,
        "margin": bounds.group_margin,
    }
    words = (
        f"the worst of {len(differences)} is {worst.group} with {worst.difference:+z.4f} "
        f"over {worst.trees} of its trees (asked: at least {-bounds.group_margin:g})"
    )
    return Part(PartName.GROUPS, _answer(worst.difference >= -bounds.group_margin), words, figures)


def support(candidate: Evaluation, bounds: Bounds) -> Part:
    """Ask that the record could answer most of what the candidate picked."""
    wasted = sum(result.figures.wasted for result in candidate.results)
    picks = wasted + sum(result.figures.n for result in candidate.results)
    share, most = wasted / picks if picks else 0.0, bounds.max_off_support
    figures: dict[str, Figure] = {
        "off_support": share,
        "wasted": wasted,
        "picks": picks,
        "max_off_support": most,
    }
    words = f"the record had no answer to {share:.0%} of {counted(picks, 'pick')} (asked: at most {most:.0%})"
    return Part(PartName.SUPPORT, _answer(share <= most), words, figures)


def decision_time(candidate: Evaluation, bounds: Bounds) -> Part:
    """Ask that decisions are quick, in CPU time, which a busy machine does not lengthen; loading the policy is shared among them.

    Measured: the one part that does not repeat to the digit.
    """
    trajectories = [result.trajectory for result in candidate.results]
    asked = sum(len(trajectory.rounds) + (trajectory.stop is Stop.POLICY_STOPPED) for trajectory in trajectories)
    mean = math.fsum(result.cpu_s for result in candidate.results) / asked if asked else 0.0
    most = bounds.max_decision_cpu_s
    figures: dict[str, Figure] = {"decision_cpu_s": mean, "decisions": asked, "max_decision_cpu_s": most}
    words = f"{mean * 1000:.2f} ms of CPU time on average over {counted(asked, 'decision')} (asked: at most {most * 1000:g} ms)"
    return Part(PartName.DECISION_TIME, _answer(mean <= most), words, figures)


def _answer(passed: bool) -> Outcome:
    return Outcome.PASS if passed else Outcome.REFUSE

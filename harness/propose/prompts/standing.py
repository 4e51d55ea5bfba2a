"""What is known of a run's versions, in lines: values by group, replays that tell most, what was tried and how it ended."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from harness.policy import Origin
from harness.propose.prompts.fence import figure, quoted
from harness.propose.prompts.told import evidence
from harness.score import groups_of, mean
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.propose.base import Brief, Judged
    from harness.score import Evaluation, Result
    from sandbox.api import Fault

BEST_VERSIONS = 8
"""How many of the best are listed, whenever they were made."""
VERSIONS = 32
"""How many versions are listed, the latest beside the best."""
FAULTS = 4
WORST_TREES, BEST_TREES = 3, 1
RATIONALE = 400


class Standing:
    """The values of a run's versions, computed once for a prompt."""

    def __init__(self, brief: Brief, twins: Mapping[int, int]) -> None:
        self.brief = brief
        self.values = {judged.version.number: judged.value for judged in brief.history}
        self._twins = twins

    def versions(self) -> tuple[Listed, ...]:
        """Return versions of the history in order, those to be listed: the best and the latest."""
        history = self.brief.history
        values = [self.values[judged.version.number] for judged in history]
        valued = [place for place, value in enumerate(values) if value is not None]
        best = sorted(valued, key=lambda place: (-(values[place] or 0.0), place))[:BEST_VERSIONS]
        places = {*best, *range(max(0, len(history) - VERSIONS + len(best)), len(history))}
        return tuple(Listed(history[place], self._version(history[place]), place in best) for place in sorted(places))

    def _version(self, judged: Judged) -> str:
        version, candidate = judged.version, judged.version.candidate
        made = candidate.template if candidate.origin is Origin.TEMPLATE and candidate.template else candidate.origin.value
        base = f", from version {candidate.parent}" if candidate.parent is not None else ""
        why = f" {quoted(candidate.rationale, RATIONALE)}" if candidate.rationale.strip() else ""
        return f"version {version.number} ({made}{base}): {self._outcome(judged)}.{why}"

    def _outcome(self, judged: Judged) -> str:
        value = self.values[judged.version.number]
        fault = judged.evaluation.fault if value is None else None
        if fault is not None:
            return f"faulted, {fault.kind}" + (f" ({fault.rule})" if fault.rule else "")
        if value is None:
            return "no value"
        twin = self._twins.get(judged.version.number)
        if twin is not None:
            return f"value {figure(value)}; on every tree it did exactly what version {twin} had done"
        base = self.values.get(judged.version.candidate.parent or 0)
        return f"value {figure(value)}" if base is None else f"value {figure(value)} ({_signed(value - base)})"

    def faults(self, but: Sequence[Judged]) -> tuple[Judged, ...]:
        """Return the latest versions that faulted, one of each sort, the latest first."""
        found: dict[object, Judged] = {}
        skipped = {judged.version.number for judged in but}
        for judged in reversed(self.brief.history):
            number = judged.version.number
            if self.values[number] is None and number not in skipped and (fault := judged.evaluation.fault) is not None:
                found.setdefault(_sort(fault), judged)
                if len(found) == FAULTS:
                    break
        return tuple(found.values())

    def beside(self, tree: str, place: int, judged: Judged) -> str:
        """Return in words what the best of the other versions got on a tree; `place` is where its results hold it."""
        others: list[tuple[float, int]] = []
        for other in self.brief.history:
            results, number = other.evaluation.results, other.version.number
            if number == judged.version.number or self.values[number] is None or place >= len(results):
                continue
            value = results[place].figures.value
            if results[place].tree == tree and value is not None:
                others.append((value, -number))
        if not others:
            return ""
        value, number = max(others)
        return f"; version {-number} got {figure(value)} here"


class Listed(NamedTuple):
    """A version, the line that tells it, and whether it is one of the best."""

    judged: Judged
    text: str
    best: bool


class Telling(NamedTuple):
    """A replay that is worth telling, where it stands among the results, and why it was chosen."""

    result: Result
    place: int
    why: str


def _signed(gain: float) -> str:
    return f"{'+' if gain >= 0 else '-'}{figure(abs(gain))}"


def _sort(fault: Fault) -> object:
    return fault.kind, fault.rule, fault.message[:80]


def telling_replays(evaluation: Evaluation) -> tuple[Telling, ...]:
    """Return the replays that tell most of a policy: where it faulted, else those worth least, and the one worth most.

    Of those worth least no group of trees has two before each has one: one hard task would fill the prompt, and values of
    different tasks need not be on one scale.
    """
    results = evaluation.results
    faulted = [Telling(result, place, "faulted") for place, result in enumerate(results) if result.trajectory.fault]
    if faulted:
        return tuple(faulted[:1])
    groups = groups_of(results, evaluation.settings.group_by)
    valued = sorted((value, place) for place, result in enumerate(results) if (value := result.figures.value) is not None)
    before: Counter[str] = Counter()
    turns: list[tuple[int, float, int]] = []
    for value, place in valued:
        group = groups[results[place].tree]
        turns.append((before[group], value, place))
        before[group] += 1
    worst = [place for _, _, place in sorted(turns)[:WORST_TREES]]
    best = [place for _, place in reversed(valued) if place not in worst][:BEST_TREES]
    return (
        *(Telling(results[place], place, "worst") for place in worst),
        *(Telling(results[place], place, "best") for place in best),
    )


def groups_told(judged: Judged, others: Mapping[str, Judged]) -> Iterator[str]:
    """Yield a line for each group of trees, those first where it stays furthest behind the best of the others.

    `others` are versions to compare with, by the words for them.
    """
    mine, rest = _by_group(judged.evaluation), {name: _by_group(other.evaluation) for name, other in others.items()}
    lines: list[tuple[float, str, str]] = []
    for group, results in mine.items():
        value = mean(result.figures.value for result in results)
        theirs = {name: mean(result.figures.value for result in groups.get(group, ())) for name, groups in rest.items()}
        behind = max((other - (value or 0.0) for other in theirs.values() if other is not None), default=0.0)
        n, k = (sum(counts) / len(results) for counts in zip(*((r.figures.n, r.figures.k) for r in results), strict=True))
        served = sum(r.figures.n + r.figures.wasted for r in results)
        wasted = sum(r.figures.wasted for r in results) / served if served else 0.0
        beside = "".join(f", {name} {figure(other)}" for name, other in theirs.items() if other is not None)
        told = (
            f"{quoted(group, 80)} ({counted(len(results), 'tree')}): value {figure(value)}{beside}; "
            f"{n:.1f} attempts in {k:.1f} rounds, {wasted:.0%} of picks wasted"
        )
        lines.append((-behind, group, told))
    yield from (told for _, _, told in sorted(lines))


def _by_group(evaluation: Evaluation) -> dict[str, list[Result]]:
    groups = groups_of(evaluation.results, evaluation.settings.group_by)
    found: dict[str, list[Result]] = {}
    for result in evaluation.results:
        found.setdefault(groups[result.tree], []).append(result)
    return found


def fault_told(judged: Judged) -> str:
    """Return what a version had set out to do and how it faulted."""
    number, rationale = judged.version.number, judged.version.candidate.rationale
    return f"version {number}, which set out to {quoted(rationale, RATIONALE)}:\n{evidence(judged)}"

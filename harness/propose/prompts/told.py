"""Tell one replay as the policy could have seen it: what it picked, what that revealed, what it left.

Told from a `View` that is taken through the same rounds: what was never revealed is not there to be told. Ids are the policy's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from harness.propose.prompts.fence import figure, quoted, shortened
from harness.replay import Replay
from harness.words import counted
from sandbox.api import ROOT, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.propose.base import Judged
    from harness.score import Result, Settings
    from harness.tree import Tree
    from sandbox.api import Fault, Node

FIRST_ROUNDS, LAST_ROUNDS = 8, 4
LISTED = 12
"""Nodes of one round, or left at the end, that are listed."""
QUOTED = 240
"""Characters of a hypothesis or of feedback."""
TRACEBACK = 1_500


class Turn(NamedTuple):
    """A round as the policy saw it: what it picked, what that revealed, and which picks had nothing more."""

    picks: tuple[int, ...]
    new: Sequence[Node]
    closed: Sequence[int]
    best: float | None


class Walk(NamedTuple):
    """A replay as the policy saw it."""

    turns: Sequence[Turn]
    view: View


def walk(result: Result, tree: Tree, settings: Settings) -> Walk:
    """Take a view through the rounds of a replay once more."""
    frontier = tree.frontier if settings.frontier is None else settings.frontier
    run, view = Replay(tree, settings.limits, frontier), View(frontier)
    view.update(run.observe())
    ids = {ROOT: ROOT}
    turns: list[Turn] = []
    for taken in result.trajectory.rounds:
        picks = tuple(ids[place] for place in taken.picks)
        run.answer(picks)
        ids |= {place: len(ids) + nth for nth, place in enumerate(taken.revealed)}
        seen = run.observe()
        view.update(seen)
        turns.append(Turn(picks, view.new, seen.closed, None if view.best is None else view.best.score))
    return Walk(turns, view)


def replay_told(result: Result, tree: Tree, settings: Settings, beside: str = "") -> str:
    """Return a replay in lines of text, words of the tree in it. `beside` says what others got on the same tree."""
    turns, view = walk(result, tree, settings)
    worth, fault = result.figures, result.trajectory.fault
    valued = f"value {figure(worth.value)}, quality {figure(worth.quality)}" if fault is None else "no value"
    head = (
        f"tree {quoted(result.name, 80)} (task {quoted(result.task, 80)}): {valued}; "
        f"{counted(worth.n, 'attempt')} in {counted(worth.k, 'round')}, {counted(worth.wasted, 'pick')} wasted{beside}"
    )
    lines = [head, f"  at first: root {_number(view.nodes[0].score)}"]
    left_out = len(turns) - FIRST_ROUNDS - LAST_ROUNDS
    for number, turn in enumerate(turns, start=1):
        if left_out <= 0 or number <= FIRST_ROUNDS or number > len(turns) - LAST_ROUNDS:
            lines.append(f"  round {number}: {_round_told(turn)}")
        elif number == FIRST_ROUNDS + 1:
            lines.append(f"  ({counted(left_out, 'round')} not listed)")
    if fault is not None:
        lines.append(f"  then it faulted: {fault.kind}")
    lines += [f"  ended: {result.trajectory.stop}; {_left_told(view)}", *(f"  {said}" for said in _words_told(view))]
    return "\n".join(lines)


def evidence(judged: Judged) -> str:
    """Return why a version faulted, with what there is to find the cause; empty where it did not."""
    faulted = next((result for result in judged.evaluation.results if result.trajectory.fault), None)
    if faulted is None or faulted.trajectory.fault is None:
        return ""
    return _fault_told(faulted.trajectory.fault, faulted)


def _fault_told(fault: Fault, result: Result) -> str:
    rule = f" ({fault.rule})" if fault.rule else ""
    where = f" in round {fault.round}" if fault.round is not None else ""
    lines = [f"{fault.kind}{rule}{where} on tree {quoted(result.name, 80)}: {quoted(fault.message, 600)}"]
    if fault.figures:
        lines.append("figures: " + ", ".join(f"{name} = {value:g}" for name, value in sorted(fault.figures.items())[:LISTED]))
    if fault.traceback:
        lines.append(shortened(fault.traceback.strip(), TRACEBACK))
    if result.output.strip():
        lines.append(f"it had printed: {quoted(result.output, QUOTED)}")
    return "\n".join(lines)


def _round_told(turn: Turn) -> str:
    told = f"picked {_counted(turn.picks)}; "
    told += "revealed " + _listed([_revealed(node) for node in turn.new]) if turn.new else "revealed nothing"
    if turn.closed:
        told += f"; nothing more at {_listed([str(node) for node in turn.closed])}"
    return f"{told}; best {_number(turn.best)}"


def _revealed(node: Node) -> str:
    origin = "" if node.parent == ROOT else f" from {node.parent}"
    return f"{node.id}{origin} ({_standing(node)})"


def _standing(node: Node) -> str:
    if node.score is None:
        return "no score" if node.status == "ok" else node.status
    return _number(node.score) if node.status == "ok" else f"{_number(node.score)}, {node.status}"


def _left_told(view: View) -> str:
    left = sorted((node for node in view.leaves if not node.closed), key=lambda node: (node.score is None, -(node.score or 0.0)))
    closed = [node for node in view.leaves if node.closed]
    branches = len(view.nodes[0].children)
    opened = f"{branches} branches opened" + (", no more to open" if view.nodes[0].closed else "")
    leaves = _listed([f"{node.id} ({_standing(node)})" for node in left]) if left else "none"
    return f"{opened}; leaves not gone on with: {leaves}; leaves found closed: {len(closed)}"


def _words_told(view: View) -> Iterator[str]:
    """Yield what was said of the best attempt and of the first one that failed."""
    best = view.best
    failed = next((node for node in view.nodes[1:] if node.status != "ok"), None)
    for name, node in (("best", best), ("first failed", failed)):
        if node is not None and node.id != ROOT and (node.hypothesis or node.feedback):
            tried = f" tried {quoted(node.hypothesis, QUOTED)}" if node.hypothesis else ""
            said = f" got {quoted(node.feedback, QUOTED)}" if node.feedback else ""
            yield f"{name}, {node.id} at depth {node.depth}:{tried}{said}"


def _counted(picks: Sequence[int]) -> str:
    """Write a batch with picks of the same node taken together: `0 x8, 3`."""
    counts: dict[int, int] = {}
    for pick in picks:
        counts[pick] = counts.get(pick, 0) + 1
    return _listed([f"{pick} x{count}" if count > 1 else str(pick) for pick, count in counts.items()])


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - LISTED} more" if len(words) > LISTED else ""
    return ", ".join(words[:LISTED]) + more


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"

"""`harness replay`: what one policy is worth on recorded trees."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from harness import manifest, treefile, wholefile, wiring
from harness.cli import policies, rules
from harness.cli.exits import Exit
from harness.cli.output import indented, note, number, one_line, say, say_json, table
from harness.cli.progress import steps
from harness.cli.replayclock import by_clock, comparison
from harness.cli.replayclock import document as clock_document
from harness.cli.replayclock import show as show_clock
from harness.clock import timed
from harness.errors import InputError
from harness.evaluate import Job, evaluate
from harness.lazytrees import TreeFiles
from harness.score import Evaluation, Weight, groups_of
from harness.search import Mode
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.cli.policies import Named
    from harness.cli.replayclock import Clock
    from harness.config import Settings
    from harness.score import Objective, Result
    from harness.tree import Tree
    from harness.treefile import TreeFile
    from sandbox.api import Fault
    from sandbox.base import Isolation

_OUTPUTS = 3
_OUTPUT_LINES = 10
"""How much of what a policy printed is shown to people."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for beside the settings."""

    policy: str
    trees: tuple[Path, ...]
    params: tuple[str, ...]
    checked: bool
    trajectory: bool
    as_json: bool
    manifest: Path | None = None
    clock: Clock | None = None
    against: str | None = None
    """Another policy, to be compared by the clock."""


class _Entrant(NamedTuple):
    """A policy with its parameters."""

    named: Named
    params: Mapping[str, Any]


class _Replayed(NamedTuple):
    """A policy over all trees, and what its replays ran in, where that was asked for."""

    named: Named
    params: Mapping[str, Any]
    evaluation: Evaluation
    isolation: Isolation | None


def replay(request: Request, settings: Settings) -> int:
    """Replay a policy, and another one where that is asked for, and return the exit code: 0 when no replay faulted."""
    if request.manifest is not None:
        _refuse_manifest(request, request.manifest)
    if not request.trees:
        raise InputError("no trees given; write harness replay POLICY --trees PATH…, with tree files or folders")
    named = policies.policy(request.policy, settings)
    params = {**named.candidate.params, **policies.params(request.params)}
    asked = [_Entrant(named, params)]
    if request.against is not None:
        other = policies.policy(request.against, settings)
        asked.append(_Entrant(other, other.candidate.params))
    files = treefile.find(request.trees)
    _look_at(files)
    results: list[Result] = []
    try:
        first, *others = [_replayed(one, files, request, settings, results) for one in asked]
    except KeyboardInterrupt:
        after = f"{len(results)} of {counted(len(files) * len(asked), 'tree')}"
        note(f"interrupted after {after}; nothing was recorded, run the same command again")
        return Exit.INTERRUPTED
    against = others[0] if others else None
    if request.manifest is not None:
        _write_manifest(first, request.manifest, files, request, settings)
    if request.as_json:
        say_json(
            _document(request, first, against, files)
            | {"isolation": isolation_document(first.isolation), "settings": settings_document(settings) | {"params": params}}
        )
    else:
        _print(request, first, against, files)
    return Exit.NO if any(one.evaluation.fault for one in (first, *others)) else Exit.DONE


def _refuse_manifest(request: Request, place: Path) -> None:
    if request.clock is not None and (request.clock.mode is Mode.ASYNC or request.against is not None):
        raise InputError("--manifest: it fixes one policy in rounds; leave --clock-mode async and --against out")
    wholefile.refuse_no_place(place)


def _replayed(
    entrant: _Entrant, files: Sequence[TreeFile], request: Request, settings: Settings, results: list[Result]
) -> _Replayed:
    """Take a policy through all trees. Each result is added to `results` as it comes."""
    named, params = entrant
    judged_by = wiring.judged_by(settings)
    refused = wiring.refusal(named.candidate.source, checked=request.checked)
    effort = wiring.effort(settings, len(files))
    job = Job(named.candidate.source, judged_by, effort, params, refused)
    if request.clock is not None:
        job = replace(job, play=request.clock.play)
    # A policy that is not run at all needs no sandbox, not even one that is out of reach.
    opening = nullcontext(None) if refused else wiring.sandbox(settings, named.candidate.origin, note, candidates=1)
    before = len(results)
    with opening as sandbox, steps() as progress:
        progress.begin(f"replaying {named.label}", len(files))
        # `evaluate` never asks the sandbox of a policy that was refused.
        with closing(evaluate(job, TreeFiles(files), sandbox)) as judged:  # type: ignore[arg-type]
            for result in judged:
                results.append(result)
                progress.step()
        asked = request.as_json or request.manifest is not None
        isolation = sandbox.describe() if sandbox is not None and asked else None
    backend = "none" if sandbox is None else sandbox.name
    evaluation = Evaluation(named.candidate.digest, backend, judged_by, tuple(results[before:]))
    return _Replayed(named, params, evaluation, isolation)


def _write_manifest(done: _Replayed, place: Path, files: Sequence[TreeFile], request: Request, settings: Settings) -> None:
    how = manifest.How(wiring.guest_limits(settings), settings.repeats, done.isolation, request.checked)
    entry = manifest.Entry(policies.short_name(done.named), done.named.candidate, done.evaluation, done.params)
    where = {result.tree: treefile.path_of(file) for file, result in zip(files, done.evaluation.results, strict=True)}
    manifest.write(manifest.make(manifest.Kind.REPLAY, [entry], how, files=where, beside=place.parent), place)


def _look_at(files: Sequence[TreeFile]) -> None:
    """Read every tree once before the first replay, so that a bad one is named at once, and say what is odd about them."""
    digests: Counter[str] = Counter()
    for file in files:
        tree = treefile.read(file)
        digests[tree.digest] += 1
        if tree.top is None:
            note(f"{file}: tree {tree.name!r} has no score; it has no value and is left out of the mean")
        if digests[tree.digest] > 1:
            note(f"{file}: tree {tree.name!r} stands in another file as well; both count")


def settings_document(settings: Settings) -> dict[str, Any]:
    """Return the settings that fix an evaluation, as JSON."""
    judged = ("beta1", "beta2", "normalize", "objective", "weight", "group_by")
    names = (*judged, "max_batch", "max_rounds", "max_attempts", "frontier", "seed", "repeats")
    limits = ("load_cpu_s", "decision_cpu_s", "replay_cpu_s", "wall_factor", "memory_mib", "output_kib")
    return {name: getattr(settings, name) for name in names + limits}


def isolation_document(isolation: Isolation | None) -> dict[str, Any] | None:
    """Return what fixes a result beside settings and trees: the backend with its Python, image and runtime, as JSON."""
    return None if isolation is None else {name: getattr(isolation, name) for name in ("backend", "python", "image", "runtime")}


def fault_document(fault: Fault | None) -> dict[str, Any] | None:
    """Return a fault with its evidence as JSON."""
    return None if fault is None else asdict(fault)


def result_document(result: Result) -> dict[str, Any]:
    """Return one replay as JSON, its trajectory left out."""
    measured = {"decide_s": result.decide_s, "cpu_s": result.cpu_s, "memory_bytes": result.memory_bytes}
    return {
        "name": result.name,
        "digest": result.tree,
        "system": result.system,
        "task": result.task,
        **asdict(result.figures),
        "stop": result.trajectory.stop,
        "fault": fault_document(result.trajectory.fault),
        **measured,
        "output": result.output,
    }


def _document(request: Request, first: _Replayed, against: _Replayed | None, files: Sequence[TreeFile]) -> dict[str, Any]:
    document = _policy_document(request, first, files)
    if against is not None and request.clock is not None:
        rows = by_clock(request.clock, _all_again(files, first), first.evaluation, against.evaluation)
        document |= {"against": _policy_document(request, against, files), "by_clock": comparison(rows)}
    return document


def _policy_document(request: Request, done: _Replayed, files: Sequence[TreeFile]) -> dict[str, Any]:
    named, evaluation = done.named, done.evaluation
    trees = []
    for file, result in zip(files, evaluation.results, strict=True):
        document = result_document(result) | {"file": str(file)}
        if request.trajectory:
            document["rounds"] = _rounds(_again(file, result), result)
        if request.clock is not None:
            took = timed(result.trajectory, _again(file, result), request.clock.workers, request.clock.quality)
            document["clock"] = clock_document(took, request.clock)
        trees.append(document)
    return {
        "policy": {"digest": evaluation.policy, "name": named.label, "version": named.version},
        "sandbox": evaluation.sandbox,
        "trees": trees,
        "mean_value": evaluation.value,
        "mean_quality": evaluation.quality,
        "groups": [group._asdict() for group in _groups(evaluation)],
    }


class _Group(NamedTuple):
    """The trees of one group and their means; None where one of them faulted or none has a score."""

    group: str
    trees: int
    value: float | None
    quality: float | None


def _groups(evaluation: Evaluation) -> list[_Group]:
    groups = groups_of(evaluation.results, evaluation.settings.group_by)
    plain = replace(evaluation, settings=replace(evaluation.settings, weight=Weight.TREE))
    found = []
    for group in sorted(set(groups.values())):
        of = replace(plain, results=tuple(result for result in plain.results if groups[result.tree] == group))
        found.append(_Group(group, len(of.results), of.value, of.quality))
    return found


def _rounds(tree: Tree, result: Result) -> list[dict[str, Any]]:
    """Return what each round picked and revealed, in the tree file's own ids."""
    rounds = result.trajectory.rounds
    return [{"picks": list(tree.ids(turn.picks)), "revealed": list(tree.ids(turn.revealed))} for turn in rounds]


def _again(file: TreeFile, result: Result) -> Tree:
    tree = treefile.read(file)
    if tree.digest != result.tree:
        raise InputError(f"{file}: the file has changed while it was replayed; run the command again")
    return tree


def _all_again(files: Sequence[TreeFile], done: _Replayed) -> list[Tree]:
    return [_again(file, result) for file, result in zip(files, done.evaluation.results, strict=True)]


def _print(request: Request, first: _Replayed, against: _Replayed | None, files: Sequence[TreeFile]) -> None:
    both = [first] if against is None else [first, against]
    for place, done in enumerate(both):
        if place:
            say()
        _print_policy(request, done, files)
    if request.clock is not None:
        other = None if against is None else against.evaluation
        rows = by_clock(request.clock, _all_again(files, first), first.evaluation, other)
        show_clock(request.clock, rows, [done.named.label for done in both])
    for done in both:
        print_faults(done.evaluation.results)
        _print_output(done.evaluation.results)


def _print_policy(request: Request, done: _Replayed, files: Sequence[TreeFile]) -> None:
    named, evaluation = done.named, done.evaluation
    facts = f"policy {evaluation.policy[:12]}, sandbox {evaluation.sandbox}, {counted(len(files), 'tree')}"
    say(f"{named.label}  ({facts}{rules.words(evaluation.settings)})\n")
    rows = [result_row(result) for result in evaluation.results]
    if evaluation.settings.weight is Weight.GROUP:
        rows += [[f"group {of.group}", number(of.value), number(of.quality), *[""] * 5] for of in _groups(evaluation)]
    rows.append(["mean", number(evaluation.value), number(evaluation.quality), *[""] * 5])
    say(table(head(evaluation.settings.objective), rows, left=("tree", "stop")))
    if request.trajectory:
        for file, result in zip(files, evaluation.results, strict=True):
            say(f"\n{one_line(result.name)}:")
            for turn, taken in enumerate(_rounds(_again(file, result), result), start=1):
                picks, revealed = (one_line(", ".join(taken[name])) for name in ("picks", "revealed"))
                say(f"  {turn:4d}  {picks}  ->  {revealed or 'nothing'}")


def head(objective: Objective) -> tuple[str, ...]:
    """Return the head of a table of replays."""
    return ("tree", objective.value, "quality", "best", "N", "k", "wasted", "stop")


def result_row(result: Result) -> list[str]:
    """Return one replay as a row under `head`."""
    figures = result.figures
    counts = [str(figures.n), str(figures.k), str(figures.wasted)]
    fault = result.trajectory.fault
    stop = result.trajectory.stop.value if fault is None else f"{result.trajectory.stop}: {fault.kind}"
    return [result.name, *map(number, (figures.value, figures.quality, figures.best)), *counts, stop]


def print_faults(results: Sequence[Result]) -> None:
    """Print each distinct fault once with all its evidence, and on how many trees it stands.

    A fault's figures are measured and its words may hold what the tree showed: the place in the policy tells faults apart.
    """
    bearers: dict[str, list[Result]] = {}
    for result in results:
        fault = result.trajectory.fault
        if fault is not None:
            place = fault.traceback.rpartition("\n")[0] or re.sub(r"\d+", "N", fault.message)
            bearers.setdefault(f"{fault.kind} {fault.rule} {place}", []).append(result)
    for bearing in bearers.values():
        first = bearing[0].trajectory.fault
        if first is None:
            continue
        others = f" and {counted(len(bearing) - 1, 'more tree')}" if len(bearing) > 1 else ""
        when = "" if first.round is None else f" in round {first.round}"
        rule = "" if first.rule is None else f" ({first.rule})"
        say(f"\n{one_line(bearing[0].name)}{others}: {first.kind}{rule}{when}\n{indented(first.message)}")
        # How much the check found, its message says.
        figures = [f"{name} {_figure(value)}" for name, value in first.figures.items() if name != "findings"]
        if figures:
            say("    " + ", ".join(figures))
        if first.traceback:
            say(indented(first.traceback))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _print_output(results: Sequence[Result]) -> None:
    """Print the end of what the policy printed, the same text of several replays once."""
    printed: dict[str, list[str]] = {}
    for result in results:
        if result.output.strip():
            printed.setdefault(result.output, []).append(result.name)
    for output, names in list(printed.items())[:_OUTPUTS]:
        others = f" and {counted(len(names) - 1, 'more tree')}" if len(names) > 1 else ""
        lines = output.rstrip().splitlines()
        earlier = (
            [f"({counted(len(lines) - _OUTPUT_LINES, 'earlier line')}; --json has more)"] if len(lines) > _OUTPUT_LINES else []
        )
        say(f"\nprinted on {one_line(names[0])}{others}:\n{indented(chr(10).join([*earlier, *lines[-_OUTPUT_LINES:]]))}")
    if len(printed) > _OUTPUTS:
        say(f"\nand other text on {counted(len(printed) - _OUTPUTS, 'other tree')}; --json has it")

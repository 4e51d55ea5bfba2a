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
from harness.clock import timed
from harness.errors import InputError
from harness.evaluate import Job, evaluate
from harness.lazytrees import TreeFiles
from harness.score import Evaluation, Weight, groups_of
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.cli.policies import Named
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
    clock_workers: int | None = None
    """Workers of the simulated clock; None is no clock."""


def replay(request: Request, settings: Settings) -> int:
    """Replay a policy and return the exit code: 0 when no replay faulted."""
    if request.manifest is not None:
        wholefile.refuse_no_place(request.manifest)
    if not request.trees:
        raise InputError("no trees given; write harness replay POLICY --trees PATH…, with tree files or folders")
    named = policies.policy(request.policy, settings)
    params = {**named.candidate.params, **policies.params(request.params)}
    files = treefile.find(request.trees)
    _look_at(files)
    judged_by = wiring.judged_by(settings)
    refused = wiring.refusal(named.candidate.source, checked=request.checked)
    job = Job(named.candidate.source, judged_by, wiring.effort(settings, len(files)), params, refused)
    # A policy that is not run at all needs no sandbox, not even one that is out of reach.
    opening = nullcontext(None) if refused else wiring.sandbox(settings, named.candidate.origin, note, candidates=1)
    results: list[Result] = []
    try:
        with opening as sandbox, steps() as progress:
            progress.begin(f"replaying {named.label}", len(files))
            # `evaluate` never asks the sandbox of a policy that was refused.
            with closing(evaluate(job, TreeFiles(files), sandbox)) as judged:  # type: ignore[arg-type]
                for result in judged:
                    results.append(result)
                    progress.step()
            asked = request.as_json or request.manifest is not None
            isolation = sandbox.describe() if sandbox is not None and asked else None
    except KeyboardInterrupt:
        note(
            f"interrupted after {len(results)} of {counted(len(files), 'tree')}; nothing was recorded, run the same command again"
        )
        return Exit.INTERRUPTED
    evaluation = Evaluation(named.candidate.digest, "none" if sandbox is None else sandbox.name, judged_by, tuple(results))
    if request.manifest is not None:
        how = manifest.How(wiring.guest_limits(settings), settings.repeats, isolation, request.checked)
        entry = manifest.Entry(policies.short_name(named), named.candidate, evaluation, params)
        where = {result.tree: treefile.path_of(file) for file, result in zip(files, evaluation.results, strict=True)}
        made = manifest.make(manifest.Kind.REPLAY, [entry], how, files=where, beside=request.manifest.parent)
        manifest.write(made, request.manifest)
    if request.as_json:
        document = _document(request, named, files, evaluation)
        say_json(
            document | {"isolation": isolation_document(isolation), "settings": settings_document(settings) | {"params": params}}
        )
    else:
        _print(request, named, files, evaluation)
    return Exit.NO if evaluation.fault else Exit.DONE


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


def _document(request: Request, named: Named, files: Sequence[TreeFile], evaluation: Evaluation) -> dict[str, Any]:
    trees = []
    for file, result in zip(files, evaluation.results, strict=True):
        document = result_document(result) | {"file": str(file)}
        if request.trajectory:
            document["rounds"] = _rounds(_again(file, result), result)
        if request.clock_workers is not None:
            took = timed(result.trajectory, _again(file, result), request.clock_workers)
            document["clock"] = None if took is None else asdict(took)
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


def _print(request: Request, named: Named, files: Sequence[TreeFile], evaluation: Evaluation) -> None:
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
    if request.clock_workers is not None:
        _print_clock(request.clock_workers, files, evaluation)
    print_faults(evaluation.results)
    _print_output(evaluation.results)


def _print_clock(workers: int, files: Sequence[TreeFile], evaluation: Evaluation) -> None:
    """Print how long each replay would have taken."""
    rows, assumed = [], 0
    for file, result in zip(files, evaluation.results, strict=True):
        took = timed(result.trajectory, _again(file, result), workers)
        figures = ("-", "-", "-") if took is None else (_time(took.seconds), _time(took.to_best), _time(took.to_nearly))
        assumed += 0 if took is None else took.assumed
        rows.append([one_line(result.name), *figures])
    say(f"\nby the clock, {counted(workers, 'worker')}:")
    say(table(("tree", "seconds", "to best", "to 90 %"), rows, left=("tree",)))
    if assumed:
        say(f"{counted(assumed, 'attempt')} without recorded seconds, each taken for the median of its tree")


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}"


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

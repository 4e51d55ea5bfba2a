"""`harness evolve`: take the offline loop through one run, show each version as it is judged, and report at the end."""

from __future__ import annotations

import shlex
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from harness import developing, treefile, wiring
from harness.cli import modeluse, policies, report, rules
from harness.cli.actor import actor
from harness.cli.exits import Exit
from harness.cli.output import note, number
from harness.cli.progress import steps
from harness.cli.replay import isolation_document
from harness.config import flag, without_password
from harness.errors import InputError
from harness.evolve import HeldOut, Progress, Split, evolve, split_trees
from harness.policy import EventKind, Origin
from harness.store import RunPlan, RunState
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.cli.progress import Steps
    from harness.config import Loaded, Settings
    from harness.policy import Candidate
    from harness.propose.base import Proposer
    from harness.store import Run, Store
    from harness.tree import Tree
    from harness.treefile import TreeFile
    from sandbox.base import Sandbox

log = structlog.get_logger()

EXAMPLES = Path("examples/trees")
_EFFORT = ("repeats", "load_cpu_s", "decision_cpu_s", "replay_cpu_s", "wall_factor", "memory_mib", "output_kib")
"""Settings beside the plan's own that fix what a run comes to; the plan keeps them as options."""
_ENGINE = ("sandbox", "runtime", "image")
_JUDGED = ("objective", "weight", "group_by")
_RULES = ("beta1", "beta2", "normalize", *_JUDGED, "max_batch", "max_rounds", "max_attempts", "frontier")
_PLANNED = ("seed", "versions", "holdout", *_RULES, *_EFFORT, *_ENGINE, *developing.OPTIONS)
"""Settings that a run keeps from its beginning to its end."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for beside the settings."""

    trees: tuple[Path, ...] | None
    incumbent: str | None
    resume: str | None
    verbose: bool
    as_json: bool


def evolve_command(request: Request, loaded: Loaded) -> int:
    """Run evolve from the start, or from where a run stopped, and return the exit code."""
    return _begin(request, loaded) if request.resume is None else _resume(request, loaded)


def _begin(request: Request, loaded: Loaded) -> int:
    settings = developing.agreed(loaded.settings)
    asks_models = developing.asks_models(settings)
    files = _files(request, settings)
    start = _start(request, loaded, _scored(files))
    sides = split_trees(start.lucks, settings.holdout)
    if not sides[Split.DEVELOPMENT]:
        wish = "give more trees, or --holdout 0"
        raise InputError(f"no tree is left to develop on: holdout {settings.holdout} holds out all {len(start.lucks)}; {wish}")
    # The store comes last: a command that cannot begin makes none.
    origin = Origin.MODEL if asks_models else start.incumbent.origin
    kept = (*_EFFORT, *_ENGINE, *(developing.OPTIONS if asks_models else ()))
    with wiring.sandbox(settings, origin, note) as sandbox, wiring.open_store(settings, create=True) as store:
        store.add_trees(treefile.read(file) for file in files)
        version = store.record(start.incumbent)
        plan = RunPlan(
            settings.seed,
            settings.versions,
            wiring.judged_by(settings),
            sandbox.name,
            sides[Split.DEVELOPMENT],
            sides[Split.HELD_OUT],
            version.number,
            {name: getattr(settings, name) for name in kept},
        )
        run = store.begin_run(plan)
        trees = f"{counted(len(plan.development), 'tree')}, {len(plan.held_out)} held out"
        how = f"{sandbox.name} sandbox{rules.words(plan.settings)}"
        note(f"run {run.number}: {counted(plan.versions, 'version')} over {trees}, {how}")
        return _take(_stage(run, settings, store, sandbox, loaded), request)


@dataclass(frozen=True, slots=True)
class _Start:
    """What a run starts from: a policy, and the luck of each tree by its digest."""

    incumbent: Candidate
    lucks: Mapping[str, str]


def _start(request: Request, loaded: Loaded, scored: Mapping[str, str]) -> _Start:
    """Look at what there is and change nothing: trees given, else the store's; the policy named, else the store's incumbent."""
    file = wiring.sqlite_file(loaded.settings.store)
    if file is not None and not file.exists():
        return _Start(_named(request.incumbent or wiring.START, loaded.settings), scored)
    with wiring.open_store(loaded.settings) as store:
        waiting = store.unfinished_run()
        if waiting is not None:
            note(f"run {waiting.number} has not ended, {_command(waiting, loaded)} continues it; this begins another one")
        lucks = scored or {row.digest: row.luck for row in store.tree_rows() if row.best is not None}
        incumbent = None if request.incumbent else store.incumbent()
        if incumbent is not None:
            return _Start(incumbent.candidate, lucks)
    return _Start(_named(request.incumbent or wiring.START, loaded.settings), lucks)


def _resume(request: Request, loaded: Loaded) -> int:
    given = loaded.given(_PLANNED)
    given += ["trees"] * (request.trees is not None) + ["incumbent"] * (request.incumbent is not None)
    if given:
        raise InputError(f"{flag(given[0])}: a run goes on with the plan it began with; leave this out, or begin a new run")
    with wiring.open_store(loaded.settings) as store:
        run = _unfinished(str(request.resume), store)
        # A run that began without models goes on without, whatever is set by now.
        settings = loaded.settings.model_copy(
            update={"model": None, "proposer": "mix", **run.plan.options, "sandbox": run.plan.sandbox}
        )
        # What the plan names was agreed to when the run began: nothing is asked again.
        with wiring.sandbox(settings, Origin.TEMPLATE, note) as sandbox:
            note(f"run {run.number} goes on, {counted(run.plan.versions, 'version')} in all, {sandbox.name} sandbox")
            return _take(_stage(run, settings, store, sandbox, loaded), request)


def _command(run: Run, loaded: Loaded) -> str:
    """Return the command that takes a run up again."""
    store = ["--store", without_password(loaded.settings.store)] if loaded.origins["store"] == flag("store") else []
    return f"`{shlex.join(['harness', 'evolve', '--resume', str(run.number), *store])}`"


def _unfinished(named: str, store: Store) -> Run:
    if named == "latest":
        run = store.unfinished_run()
        if run is None:
            raise InputError("--resume: no run is unfinished; `harness evolve` begins one")
        return run
    if not named.isdecimal():
        raise InputError(f"--resume: run is {named!r}; expected the number of a run, or nothing for the latest")
    run = store.run(int(named))
    if run.state is RunState.FINISHED:
        raise InputError(f"--resume: run {run.number} has ended, best version v{run.best}; `harness show v{run.best}` shows it")
    return run


def _files(request: Request, settings: Settings) -> list[TreeFile]:
    """Return the tree files to develop on; none means those that the store holds."""
    if request.trees is not None:
        return treefile.find(request.trees)
    if EXAMPLES.is_dir():
        return treefile.find([EXAMPLES])
    file = wiring.sqlite_file(settings.store)
    if file is not None and not file.exists():
        raise InputError(f"no trees given, and neither {EXAMPLES} nor a store is here; write harness evolve --trees PATH…")
    return []


def _scored(files: Sequence[TreeFile]) -> dict[str, str]:
    """Read every file and return the luck of those with a score by digest, so that a bad file stops the command at once."""
    lucks: dict[str, str] = {}
    for file in files:
        tree: Tree = treefile.read(file)
        if tree.top is None:
            note(f"{file}: tree {tree.name!r} has no score and is left out")
        else:
            lucks[tree.digest] = tree.luck
    if files and not lucks:
        raise InputError(f"{files[0]}: no tree given has a score; expected recorded searches with scores")
    return lucks


def _named(named: str, settings: Settings) -> Candidate:
    candidate = policies.policy(named, settings).candidate
    refused = wiring.refusal(candidate.source, checked=False)
    if refused is not None:
        raise InputError(f"{named}: {refused.message}")
    return candidate


@dataclass(frozen=True, slots=True)
class _Stage:
    """A run with all that takes it on; `command` takes it up again."""

    run: Run
    settings: Settings
    store: Store
    sandbox: Sandbox
    command: str
    proposer: Proposer


def _stage(run: Run, settings: Settings, store: Store, sandbox: Sandbox, loaded: Loaded) -> _Stage:
    return _Stage(run, settings, store, sandbox, _command(run, loaded), developing.proposer(run, settings, store))


def _take(stage: _Stage, request: Request) -> int:
    """Take a run to its end, telling of each version once it is recorded."""
    began = time.monotonic()
    judged: list[Progress] = []
    held_out: list[HeldOut] = []
    ended = False
    try:
        with steps() as progress:
            for told in _told(stage, progress):
                if isinstance(told, Progress):
                    judged.append(told)
                    progress.line(_line(told))
                else:
                    held_out.append(told)
        ended = True
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    finally:
        if not ended:
            note(f"stopped; all that was told is recorded, and {stage.command} goes on from there")
    seconds = time.monotonic() - began
    isolation = isolation_document(stage.sandbox.describe()) if request.as_json else None
    ending = _ending(stage, len(judged))
    done = report.Report(stage.run, stage.store.name, judged, held_out, seconds, ending, isolation, _use(stage, judged))
    report.show(done, request.verbose, request.as_json)
    return _exit(ending, len(judged))


def _ending(stage: _Stage, judged: int) -> report.Ending:
    """Return what ended a run that has come to its end, with so many versions."""
    if judged == stage.run.plan.versions:
        return report.Ending(report.Ended.VERSIONS)
    if not (developing.asks_models(stage.settings) and stage.settings.proposer == "model"):
        return report.Ending(report.Ended.NOTHING_LEFT, "no template has anything left to try")
    aside = developing.aside(stage.proposer)
    if aside is not None:
        return report.Ending(report.Ended(aside.because.value), aside.reason)
    reason = f"the models wrote no more: nothing came of what they were asked for version {judged + 1}"
    return report.Ending(report.Ended.NO_USABLE_ANSWER, reason)


def _exit(ending: report.Ending, judged: int) -> Exit:
    """Return NO where models alone came to nothing: no answer of use, or none before the budget was spent."""
    if ending.by in {report.Ended.VERSIONS, report.Ended.NOTHING_LEFT}:
        return Exit.DONE
    return Exit.DONE if ending.by is report.Ended.BUDGET and judged > 1 else Exit.NO


def _use(stage: _Stage, judged: Sequence[Progress]) -> modeluse.ModelUse | None:
    """Return what the run asked of models, None where it has none."""
    if not developing.asks_models(stage.settings):
        return None
    calls, tries = stage.store.calls(stage.run), stage.store.tries(stage.run)
    return modeluse.ModelUse.of(calls, tries, (told.judged for told in judged), developing.aside(stage.proposer))


def _told(stage: _Stage, progress: Steps) -> Iterator[Progress | HeldOut]:
    plan = stage.run.plan
    position, is_told = 0, False

    def begin(trees: Sequence[str]) -> None:
        nonlocal is_told
        aside = None if is_told or not developing.asks_models(stage.settings) else developing.aside(stage.proposer)
        if aside is not None:
            is_told = True
            progress.line(f"{modeluse.aside_words(aside)}; {_instead(stage)}")
        words = "held-out trees" if trees == plan.held_out else f"version {position + 1} of {plan.versions}"
        progress.begin(words, len(trees))

    judge = wiring.SandboxJudge(
        stage.store, stage.sandbox, stage.settings, judged_by=plan.settings, begin=begin, step=progress.step
    )
    steps_of = evolve(
        stage.run,
        stage.store,
        stage.proposer,
        judge,
        alpha=stage.settings.alpha,
        by=f"{actor()}, run {stage.run.number}",
    )
    with closing(steps_of) as told:
        for one in told:
            if isinstance(one, Progress):
                position = one.position
                _log(stage.run, one)
            yield one


def _instead(stage: _Stage) -> str:
    return "the run ends here" if stage.settings.proposer == "model" else "templates go on"


def _log(run: Run, told: Progress) -> None:
    version, evaluation = told.judged.version, told.judged.evaluation
    if not told.resumed:
        digest = version.candidate.digest[:12]
        log.info(
            "version.judged",
            run=run.number,
            version=version.number,
            digest=digest,
            value=evaluation.value,
            outcome=told.outcome.value,
        )


def _line(told: Progress) -> str:
    version, candidate = told.judged.version, told.judged.version.candidate
    fault, best = told.judged.evaluation.fault, told.best
    became = {
        EventKind.SELECTED: "selected",
        EventKind.ROLLED_BACK: f"rolled back to v{best.version.number} ({number(best.value)})",
        EventKind.EVALUATED: f"no better than v{best.version.number}",
        EventKind.FAULTED: "faulted" if fault is None else f"faulted: {fault.kind}",
    }[told.outcome]
    recorded = "  (recorded before)" if told.resumed else ""
    origin = candidate.template or candidate.origin.value
    return f"{told.position:3d}/{told.of}  v{version.number:<4d} {origin:<20}  {number(told.judged.value):>8}  {became}{recorded}"

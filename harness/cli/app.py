"""The command line: what each command accepts, and how a command ends.

Exit codes: 0 yes or done, 1 the answer is no, 2 usage or bad input, 3 sandbox or store out of reach, 70 a bug of ours, 130
interrupted. This module imports typer and the standard library alone, so that `--help` is quick.
"""

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import __version__
from harness.cli import options as of
from harness.cli.exits import INTERRUPTED, Exit, Interrupted
from harness.cli.output import drop_answers, note
from harness.cli.spread import Quick, Spread
from harness.errors import HarnessError, InputError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.config import Loaded

app = typer.Typer(
    name="harness",
    cls=Quick,
    help="Improve the scheduler policies of coding agents by replaying recorded searches.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
trees_app = typer.Typer(cls=Quick, help="Look at recorded trees.", no_args_is_help=True, rich_markup_mode=None)
sandbox_app = typer.Typer(
    cls=Quick, help="Build, probe and clean up what isolates policies.", no_args_is_help=True, rich_markup_mode=None
)
task_app = typer.Typer(cls=Quick, help="Look at tasks of live searches.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(trees_app, name="trees")
app.add_typer(task_app, name="task")
models_app = typer.Typer(cls=Quick, help="Look at language models.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(models_app, name="models")

Policy = Annotated[
    str | None,
    typer.Argument(
        metavar="POLICY", help="A Python file, a version of the store such as v3, or a template's name.", show_default=False
    ),
]
Version = Annotated[
    str, typer.Argument(metavar="VERSION", help="A version of the store, such as v3, or incumbent.", show_default=False)
]


def run(args: "Sequence[str]") -> int:
    """Run one command and return its exit code. Whatever goes wrong ends here, in one line on standard error."""
    from sandbox.base import SandboxError

    try:
        code = _ended(args)
        sys.stdout.flush()
    except (HarnessError, SandboxError) as error:
        note(str(error))
        if isinstance(error, RefusedError):
            return Exit.NO
        return Exit.BAD_INPUT if isinstance(error, InputError) else Exit.OUT_OF_REACH
    except BrokenPipeError:
        drop_answers()
        return 0
    except OSError as error:
        drop_answers()
        helps = "make it accessible, or name another" if isinstance(error, PermissionError) else "free what is full or busy"
        note(f"{error}; {helps} and run the command again")
        return Exit.OUT_OF_REACH
    except Exception:  # noqa: BLE001 - the last line of the program: a bug of ours must not look like an answer
        note(f"this is a bug in the harness {__version__}; please report it with what follows\n{traceback.format_exc()}")
        return Exit.BUG
    return code


def _ended(args: "Sequence[str]") -> int:
    """Run one command to its end and return the code that it exits with."""
    try:
        app(args=list(args), prog_name="harness")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except (KeyboardInterrupt, Interrupted):
        note(INTERRUPTED)
        return Exit.INTERRUPTED
    return 0


def _least_one(name: str, text: str | None) -> int | None:
    count = _count(name, text)
    if count is not None and count < 1:
        raise InputError(f"{name}: {text} is too few; expected a whole number of at least 1")
    return count


def _count(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal():
        raise InputError(f"{flag}: {text!r} is no number; expected a whole number of at least 0")
    return int(text)


def _loaded(context: typer.Context) -> "Loaded":
    """Return the settings that hold for this command, and let logs follow them."""
    from harness import config, log

    # An option that takes several values and was left out is an empty list.
    given = {name: value for name, value in context.params.items() if name in config.FIELDS and value not in (None, [], ())}
    loaded = config.load(given, context.params.get("config"))
    log.configure(loaded.settings.log_level, loaded.settings.log_format)
    return loaded


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"harness {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Improve the scheduler policies of coding agents by replaying recorded searches."""


@app.command("replay", cls=Spread, short_help="Say what a policy is worth on recorded trees.")
def replay_command(
    context: typer.Context,
    policy: Policy = None,
    trees: of.Trees = None,
    sandbox: of.Sandbox = None,
    beta1: of.Beta1 = None,
    beta2: of.Beta2 = None,
    normalize: of.Normalize = None,
    objective: of.Objective = None,
    weight: of.Weight = None,
    group_by: of.GroupBy = None,
    max_batch: of.MaxBatch = None,
    max_rounds: of.MaxRounds = None,
    max_attempts: of.MaxAttempts = None,
    frontier: of.Frontier = None,
    seed: of.Seed = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Skip the static check; the sandbox alone must hold.")] = False,
    trajectory: Annotated[bool, typer.Option("--trajectory", help="Show what each round picked and revealed.")] = False,
    clock_workers: Annotated[
        str | None,
        typer.Option("--clock-workers", metavar="W", help="Say how long each replay would have taken, with so many workers."),
    ] = None,
    clock_mode: Annotated[
        str | None,
        typer.Option("--clock-mode", metavar="rounds|async", help="Ask after a whole batch, or when a worker is free."),
    ] = None,
    clock_quality: Annotated[
        str | None, typer.Option("--clock-quality", metavar="F", help="Take the time to this share of the span; default 0.9.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="POLICY", help="Another policy, to compare with by the clock.")
    ] = None,
    param: of.Param = None,
    manifest: of.Manifest = None,
    workers: of.Workers = None,
    repeats: of.Repeats = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Take a policy through recorded trees, each in a fresh sandboxed process, and say what it is worth."""
    from harness.cli.replay import Request, replay
    from harness.cli.replayclock import asked

    if policy is None:
        raise InputError("no policy given; write harness replay POLICY --trees PATH…, the policy before the trees")
    clock = asked(_count("--clock-workers", clock_workers), clock_mode, clock_quality, against)
    given = (tuple(trees or ()), tuple(param or ()), not no_check, trajectory, as_json, manifest)
    request = Request(policy, *given, clock, against)
    raise typer.Exit(replay(request, _loaded(context).settings))


@app.command("evolve", cls=Spread, short_help="Develop a better policy from recorded trees.")
def evolve_command(
    context: typer.Context,
    trees: of.Trees = None,
    versions: Annotated[
        str | None, typer.Option("--versions", metavar="M", help="Policy versions to judge, the incumbent included.")
    ] = None,
    holdout: Annotated[
        str | None, typer.Option("--holdout", metavar="F", help="Share of the trees that only judge the end.")
    ] = None,
    incumbent: Annotated[
        str | None,
        typer.Option("--incumbent", metavar="POLICY", help="Where to start: a file, a version such as v3, or a template's name."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="[RUN]", help="Continue an interrupted run: this one, or the latest.")
    ] = None,
    proposer: of.Proposer = None,
    model: of.Model = None,
    model_weight: of.ModelWeight = None,
    model_price: of.ModelPrice = None,
    model_timeout_s: of.ModelTimeout = None,
    temperature: of.Temperature = None,
    max_output_tokens: of.MaxOutputTokens = None,
    edits: of.Edits = None,
    prompt_chars: of.PromptChars = None,
    budget_usd: of.BudgetUsd = None,
    budget_tokens: of.BudgetTokens = None,
    budget_calls: of.BudgetCalls = None,
    seed: of.Seed = None,
    store: of.Store = None,
    sandbox: of.Sandbox = None,
    beta1: of.Beta1 = None,
    beta2: of.Beta2 = None,
    normalize: of.Normalize = None,
    objective: of.Objective = None,
    weight: of.Weight = None,
    group_by: of.GroupBy = None,
    max_batch: of.MaxBatch = None,
    max_rounds: of.MaxRounds = None,
    max_attempts: of.MaxAttempts = None,
    frontier: of.Frontier = None,
    workers: of.Workers = None,
    repeats: of.Repeats = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    config: of.Config = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every tree in the report.")] = False,
    as_json: of.AsJson = False,
) -> None:
    """Develop a better policy from recorded trees: propose, judge, keep the best, roll back what got worse.

    Exit code 1: models alone (--proposer model) wrote nothing usable. 3: sandbox, store or model out of reach; --resume goes on.
    """
    from harness.cli.evolve import Request
    from harness.cli.evolve import evolve_command as evolve

    request = Request(None if trees is None else tuple(trees), incumbent, resume, verbose, as_json)
    raise typer.Exit(evolve(request, _loaded(context)))


@app.command("explore", cls=Spread, short_help="Let a policy steer real searches of a task.")
def explore_command(
    context: typer.Context,
    task: Annotated[
        Path | None, typer.Argument(metavar="TASK", help="A task's folder, with its task.toml.", show_default=False)
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="POLICY", help="What steers; default the store's incumbent, else a template."),
    ] = None,
    searches: Annotated[
        str | None, typer.Option("--searches", metavar="N", help="Searches to make, each with the next seed; default 1.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="[SEARCH]", help="Continue an interrupted search: this one, or the latest.")
    ] = None,
    agent: of.Agent = None,
    attempts: of.Attempts = None,
    live_rounds: of.Rounds = None,
    live_wall_s: of.WallS = None,
    live_tokens: of.LiveTokens = None,
    live_usd: of.LiveUsd = None,
    slots: of.Slots = None,
    live_mode: of.LiveMode = None,
    frontier: of.Frontier = None,
    max_batch: of.MaxBatch = None,
    sibling_context: of.SiblingContext = None,
    rollouts: of.RolloutCount = None,
    rollout_selector: of.RolloutSelector = None,
    model: of.Model = None,
    seed: of.Seed = None,
    sandbox: of.Sandbox = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Let a policy steer real searches: it picks, agents make attempts, an evaluator scores them, and the tree is kept.

    Exit code 3: sandbox, agent or store out of reach; --resume goes on.
    """
    from harness.cli.explore import Request
    from harness.cli.explore import explore_command as explore

    count = _least_one("--searches", searches)
    raise typer.Exit(explore(Request(task, policy, count, resume, as_json), _loaded(context)))


@app.command("run", cls=Spread, short_help="Explore, develop, gate and promote, cycle after cycle.")
def run_campaign(
    context: typer.Context,
    task: Annotated[
        Path | None, typer.Argument(metavar="TASK", help="A task's folder, with its task.toml.", show_default=False)
    ] = None,
    cycles: Annotated[
        str | None, typer.Option("--cycles", metavar="T", help="Cycles of search, development and gate; default 3.")
    ] = None,
    versions: Annotated[
        str | None,
        typer.Option("--versions", metavar="M", help="Policy versions to judge in a cycle, the incumbent included."),
    ] = None,
    searches: Annotated[
        str | None, typer.Option("--searches", metavar="N", help="Live searches in each cycle; default 6.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="POLICY", help="What steers first; default the incumbent, else a template.")
    ] = None,
    trees: of.Trees = None,
    fixed: Annotated[bool, typer.Option("--fixed", help="The control arm: the policy never changes.")] = False,
    control: Annotated[bool, typer.Option("--control", help="Carry out the control arm as well, on the same seeds.")] = False,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="[CAMPAIGN]", help="Continue a campaign that was stopped: this one, or the latest."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Draw best so far there, PNG and SVG; takes matplotlib.")
    ] = None,
    agent: of.Agent = None,
    attempts: of.Attempts = None,
    live_rounds: of.Rounds = None,
    live_wall_s: of.WallS = None,
    live_tokens: of.LiveTokens = None,
    live_usd: of.LiveUsd = None,
    slots: of.Slots = None,
    live_mode: of.LiveMode = None,
    sibling_context: of.SiblingContext = None,
    rollouts: of.RolloutCount = None,
    rollout_selector: of.RolloutSelector = None,
    holdout: Annotated[
        str | None, typer.Option("--holdout", metavar="F", help="Share of the trees that only the gate looks at; default 0.5.")
    ] = None,
    proposer: of.Proposer = None,
    model: of.Model = None,
    budget_usd: of.BudgetUsd = None,
    budget_tokens: of.BudgetTokens = None,
    budget_calls: of.BudgetCalls = None,
    objective: of.Objective = None,
    beta1: of.Beta1 = None,
    beta2: of.Beta2 = None,
    max_batch: of.MaxBatch = None,
    frontier: of.Frontier = None,
    alpha: of.Alpha = None,
    allow_local: of.AllowLocal = None,
    seed: of.Seed = None,
    sandbox: of.Sandbox = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    workers: of.Workers = None,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Carry out whole cycles: explore live, store the trees, develop a policy on them, gate it, promote or keep, explore again.

    Exit code 3: sandbox, agent, model or store out of reach; --resume goes on.
    """
    from harness.cli.run import Request, run_command

    given = (tuple(trees or ()), fixed, control, resume, report, as_json)
    request = Request(task, policy, _least_one("--cycles", cycles), _least_one("--searches", searches), *given)
    raise typer.Exit(run_command(request, _loaded(context)))


@app.command("gate", cls=Spread, short_help="Decide whether a policy may become the incumbent.")
def gate_command(
    context: typer.Context,
    candidate: Annotated[
        str | None,
        typer.Argument(metavar="CANDIDATE", help="A file, a version such as v3, or a template's name.", show_default=False),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="POLICY", help="What it must beat; default the store's incumbent."),
    ] = None,
    trees: of.Trees = None,
    holdout: Annotated[
        str | None, typer.Option("--holdout", metavar="F", help="Share of the store's trees that is held out.")
    ] = None,
    policy_dir: Annotated[
        Path | None,
        typer.Option("--policy-dir", metavar="DIR", help="Folder with policy.py, the candidate, and policy.toml."),
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="REF", help="Git commit at which the folder's policy is the incumbent.")
    ] = None,
    alpha: of.Alpha = None,
    min_gain: of.MinGain = None,
    quality_margin: of.QualityMargin = None,
    group_margin: of.GroupMargin = None,
    max_off_support: of.MaxOffSupport = None,
    max_decision_cpu_s: of.MaxDecision = None,
    resamples: of.Resamples = None,
    power: of.Power = None,
    allow_local: of.AllowLocal = None,
    sandbox: of.Sandbox = None,
    beta1: of.Beta1 = None,
    beta2: of.Beta2 = None,
    normalize: of.Normalize = None,
    objective: of.Objective = None,
    weight: of.Weight = None,
    group_by: of.GroupBy = None,
    max_batch: of.MaxBatch = None,
    max_rounds: of.MaxRounds = None,
    max_attempts: of.MaxAttempts = None,
    frontier: of.Frontier = None,
    seed: of.Seed = None,
    workers: of.Workers = None,
    repeats: of.Repeats = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    store: of.Store = None,
    config: of.Config = None,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the verdict as JUnit XML.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the verdict as Markdown, for a job summary.")
    ] = None,
    manifest: of.Manifest = None,
    by: of.By = None,
    as_json: of.AsJson = False,
) -> None:
    """Decide whether a policy may become the incumbent: replay both on held-out trees and answer with a verdict."""
    from harness.cli.gate import Request, gate

    reports = {"junit": junit, "markdown": markdown, "manifest": manifest}
    request = Request(candidate, against, base, tuple(trees or ()), policy_dir, **reports, by=by, as_json=as_json)
    raise typer.Exit(gate(request, _loaded(context)))


@app.command("promote", short_help="Make a version the incumbent.")
def promote_command(
    context: typer.Context,
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="A version such as v3, or a file or template by its name.", show_default=False)
    ],
    verdict: Annotated[
        str | None, typer.Option("--verdict", metavar="N", help="The verdict to rest on; default the latest that fits.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Go without a verdict, which is recorded as such.")] = False,
    reason: of.Reason = None,
    if_incumbent: of.IfIncumbent = None,
    by: of.By = None,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Make a version the incumbent, on the strength of a verdict that it passed against the present one."""
    from harness.cli.promote import Decision, Request, promote

    request = Request(policy, _count("--verdict", verdict), force)
    raise typer.Exit(promote(request, Decision(reason, if_incumbent, by), _loaded(context).settings, as_json))


@app.command("rollback", short_help="Return to a former incumbent.")
def rollback_command(
    context: typer.Context,
    to: Annotated[
        str | None, typer.Option("--to", metavar="VERSION", help="A version that was the incumbent; default the one before.")
    ] = None,
    reason: of.Reason = None,
    if_incumbent: of.IfIncumbent = None,
    by: of.By = None,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Return to the version that was the incumbent before, or to an earlier one."""
    from harness.cli.promote import Decision, rollback

    raise typer.Exit(rollback(to, Decision(reason, if_incumbent, by), _loaded(context).settings, as_json))


@app.command("export", short_help="Write a version into a folder.")
def export_command(
    context: typer.Context,
    version: Version,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder to write to; made where it is missing.", show_default=False)
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace another policy that is there.")] = False,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Write a version into a folder: policy.py byte for byte, and manifest.json with where it comes from and what was decided."""
    from harness.cli.export import export

    raise typer.Exit(export(version, folder, force, _loaded(context).settings, as_json))


@app.command("history", cls=Spread)
def history_command(
    context: typer.Context,
    version: Annotated[str | None, typer.Option("--version", metavar="VERSION", help="Only events of this version.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only events of this run.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", metavar="KIND…", help="Only events of these kinds, such as selected or proposal_fault."),
    ] = None,
    promotions: Annotated[
        bool, typer.Option("--promotions", help="Only promotions and rollbacks of the incumbent, with what they rest on.")
    ] = False,
    limit: Annotated[str | None, typer.Option("--limit", metavar="N", help="Only the last N events.")] = None,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """List what happened to versions, oldest first."""
    from harness.cli.history import Filter, history

    wanted = Filter(version, _count("--run", run), tuple(kind or ()), _count("--limit", limit), promotions)
    raise typer.Exit(history(wanted, _loaded(context).settings, as_json))


@app.command("show", short_help="Show a version, its code and what it is worth.")
def show_command(
    context: typer.Context,
    version: Version,
    source: Annotated[bool, typer.Option("--source", help="Print the code alone.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print what it changed in the version that it is based on.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print what was sent to the model that wrote it.")] = False,
    answer: Annotated[bool, typer.Option("--answer", help="Print what that model answered.")] = False,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Show a version: where it comes from, its code, what it is worth, and why it faulted if it did."""
    from harness.cli.show import Alone, show

    asked = {Alone.SOURCE: source, Alone.DIFF: diff, Alone.PROMPT: prompt, Alone.ANSWER: answer}
    alone = [what for what, is_asked in asked.items() if is_asked]
    if len(alone) > 1:
        raise InputError(f"--{alone[0]} and --{alone[1]} are two things to print; expected one of them")
    raise typer.Exit(show(version, _loaded(context).settings, alone[0] if alone else None, as_json))


@app.command("diff", short_help="Compare two versions in code and value.")
def diff_command(
    context: typer.Context,
    first: Version,
    second: Version,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Compare two versions: their code, and their value on every tree, largest difference first."""
    from harness.cli.diff import diff

    raise typer.Exit(diff(first, second, _loaded(context).settings, as_json))


@app.command("bench", cls=Spread, short_help="Compare policies on named sets of trees.")
def bench_command(
    context: typer.Context,
    policies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[POLICY…]",
            help="Python files, versions such as v3, templates' names; default every template.",
            show_default=False,
        ),
    ] = None,
    trees: Annotated[
        list[Path] | None,
        typer.Option("--trees", metavar="SET…", help="Folders and packed sets, each a set of its own; single files are one."),
    ] = None,
    suite: Annotated[
        list[str] | None, typer.Option("--suite", metavar="examples|shared…", help="Sets of trees that have a name of their own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write leaderboards in every form, and the manifest, there.")
    ] = None,
    plots: Annotated[bool, typer.Option("--plots", help="Draw pictures into the folder of --out; takes matplotlib.")] = False,
    manifest: of.Manifest = None,
    objective: of.Objective = None,
    weight: of.Weight = None,
    group_by: of.GroupBy = None,
    sandbox: of.Sandbox = None,
    beta1: of.Beta1 = None,
    beta2: of.Beta2 = None,
    normalize: of.Normalize = None,
    max_batch: of.MaxBatch = None,
    max_rounds: of.MaxRounds = None,
    max_attempts: of.MaxAttempts = None,
    frontier: of.Frontier = None,
    seed: of.Seed = None,
    workers: of.Workers = None,
    repeats: of.Repeats = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    store: of.Store = None,
    config: of.Config = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the standings as CSV instead of text.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the leaderboards as Markdown instead of text.")] = False,
    as_json: of.AsJson = False,
) -> None:
    """Compare policies on named sets of trees: a leaderboard with intervals, every pair, curves and prices."""
    from harness.cli.bench import Request, bench

    given = tuple(policies or ()), tuple(trees or ()), tuple(suite or ())
    request = Request(*given, out, manifest, plots, as_csv, as_markdown, as_json)
    raise typer.Exit(bench(request, _loaded(context).settings))


@app.command("verify", cls=Spread, short_help="Run a manifest again and compare every digit.")
def verify_command(
    context: typer.Context,
    manifest: Annotated[
        Path | None,
        typer.Argument(metavar="MANIFEST", help="A file that --manifest wrote.", show_default=False),
    ] = None,
    trees: of.Trees = None,
    sandbox: of.Sandbox = None,
    workers: of.Workers = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Run again what a manifest holds, here and now, and compare every trajectory and figure to the last digit."""
    from harness.cli.verify import Request, verify

    if manifest is None:
        raise InputError("no manifest given; write harness verify MANIFEST, the manifest before --trees")
    raise typer.Exit(verify(Request(manifest, tuple(trees or ()), as_json), _loaded(context)))


@trees_app.command("validate", short_help="Read tree files strictly and name each that is wrong.")
def trees_validate(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Tree files and folders of them.", show_default=False)],
    as_json: of.AsJson = False,
) -> None:
    """Read tree files strictly; name each that is wrong, with line, field and value."""
    from harness.cli.trees import validate

    raise typer.Exit(validate(paths, as_json))


@trees_app.command("list")
def trees_list(
    context: typer.Context,
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="[PATH…]", help="Tree files and folders; default what the store holds.")
    ] = None,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """List trees with their task, size and best score."""
    from harness.cli.trees import listed

    raise typer.Exit(listed(paths or [], _loaded(context).settings, as_json))


@trees_app.command("show")
def trees_show(
    context: typer.Context,
    tree: Annotated[
        str, typer.Argument(metavar="TREE", help="A file, or the name or digest of a tree in the store.", show_default=False)
    ],
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Draw one tree with its scores, the way to its best node marked."""
    from harness.cli.trees import show

    raise typer.Exit(show(tree, _loaded(context).settings, as_json))


@trees_app.command("workspace", short_help="Write out what an attempt left.")
def trees_workspace(
    context: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="An attempt's id, such as a12, or best.", show_default=False)],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder; with --apply one of yours.", show_default=False)],
    tree: Annotated[
        str | None, typer.Option("--tree", metavar="TREE", help="Name or digest of the tree; default that of the latest search.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Bring what it changed since the start into the folder: all of it, or nothing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --apply: say what would change, and change nothing.")] = False,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Write out the workspace that an attempt of a live search left, or bring what it changed into a folder of yours."""
    from harness.cli.workspaces import workspace

    settings = _loaded(context).settings
    raise typer.Exit(workspace(node, folder, tree, settings, apply=apply, dry_run=dry_run, as_json=as_json))


@trees_app.command("sweep", short_help="Remove workspaces that no search needs.")
def trees_sweep(context: typer.Context, store: of.Store = None, config: of.Config = None, as_json: of.AsJson = False) -> None:
    """Remove workspaces of attempts that no search of the store needs any more."""
    from harness.cli.workspaces import sweep

    raise typer.Exit(sweep(_loaded(context).settings, as_json))


@trees_app.command("pack", short_help="Write many trees as one file, a named set.")
def trees_pack(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call this set.", show_default=False)],
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH…", help="Tree files, folders of them, and names of trees in the store.", show_default=False),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the set.", show_default=False)],
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Write many trees as one file that --trees takes like a folder; the same trees give the same bytes."""
    from harness.cli.trees import pack

    raise typer.Exit(pack(name, paths, output, _loaded(context).settings, as_json))


@sandbox_app.command("build", short_help="Build the image that policies run in.")
def sandbox_build(
    context: typer.Context,
    base: Annotated[
        str | None, typer.Option("--base", metavar="IMAGE", help="Base image with Python 3.11 or later; default a pinned one.")
    ] = None,
    if_engine: Annotated[bool, typer.Option("--if-engine", help="Do nothing where no Docker engine answers.")] = False,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Build the image that policies run in; where no registry answers, its base is made from Debian packages."""
    from harness.cli.sandboxes import build

    _loaded(context)
    raise typer.Exit(build(base, if_engine, as_json))


@sandbox_app.command("check", short_help="Probe the sandbox from inside.")
def sandbox_check(
    context: typer.Context,
    sandbox: of.Sandbox = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Probe the sandbox from inside and print what it isolates and what it leaves open."""
    from harness.cli.sandboxes import check

    raise typer.Exit(check(_loaded(context).settings, as_json))


@sandbox_app.command("sweep")
def sandbox_sweep(context: typer.Context, config: of.Config = None, as_json: of.AsJson = False) -> None:
    """Remove containers that a killed harness left behind."""
    from harness.cli.sandboxes import sweep

    _loaded(context)
    raise typer.Exit(sweep(as_json))


@task_app.command("check", short_help="Read a task and score its start.")
def task_check(
    context: typer.Context,
    task: Annotated[Path, typer.Argument(metavar="TASK", help="A task's folder, with its task.toml.", show_default=False)],
    sandbox: of.Sandbox = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Read a task, score the workspace that its searches start from, and say what is wrong."""
    from harness.cli.tasks import check

    raise typer.Exit(check(task, _loaded(context).settings, as_json))


@models_app.command("check", cls=Spread, short_help="Ask each configured model for one word.")
def models_check(
    context: typer.Context,
    model: of.Model = None,
    model_price: of.ModelPrice = None,
    model_timeout_s: of.ModelTimeout = None,
    temperature: of.Temperature = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Ask each configured model for one word, and print how long that took, what it used and what it cost."""
    from harness.cli.models import check

    raise typer.Exit(check(_loaded(context).settings, as_json))


@app.command("doctor", short_help="Look at everything the harness needs.")
def doctor_command(
    context: typer.Context,
    store: of.Store = None,
    sandbox: of.Sandbox = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Look at everything the harness needs and name the command that helps where something is missing."""
    from harness.cli.doctor import doctor

    raise typer.Exit(doctor(_loaded(context), as_json))


@app.command("config")
def config_command(
    context: typer.Context,
    sandbox: of.Sandbox = None,
    beta1: of.Beta1 = None,
    beta2: of.Beta2 = None,
    normalize: of.Normalize = None,
    objective: of.Objective = None,
    weight: of.Weight = None,
    group_by: of.GroupBy = None,
    max_batch: of.MaxBatch = None,
    max_rounds: of.MaxRounds = None,
    max_attempts: of.MaxAttempts = None,
    frontier: of.Frontier = None,
    seed: of.Seed = None,
    workers: of.Workers = None,
    repeats: of.Repeats = None,
    runtime: of.Runtime = None,
    image: of.Image = None,
    store: of.Store = None,
    config: of.Config = None,
    as_json: of.AsJson = False,
) -> None:
    """Print every setting, its value, and where the value comes from."""
    from harness.cli.settings import show

    raise typer.Exit(show(_loaded(context), as_json))


@app.command("version")
def version_command(as_json: of.AsJson = False) -> None:
    """Print the version of the harness, of Python and of the platform."""
    from harness.cli.settings import version

    raise typer.Exit(version(as_json))

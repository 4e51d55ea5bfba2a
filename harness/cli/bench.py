"""`harness bench`: several policies over named sets of trees, as leaderboards that anyone can make again."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness import manifest, treefile, wholefile, wiring
from harness.cli import policies
from harness.cli.benchsets import Sets, named_sets
from harness.cli.boards import cells, markdown, plots, tables, text
from harness.cli.exits import Exit
from harness.cli.output import note, say, say_exactly, say_json
from harness.cli.progress import steps
from harness.cli.replay import isolation_document, print_faults, settings_document
from harness.errors import InputError, reason_of
from harness.evaluate import Job, evaluate_all
from harness.lazytrees import FoundTrees
from harness.leaderboard import CONFIDENCE, Leaderboard, leaderboard
from harness.policy import Origin, digest_of
from harness.propose import templates
from harness.score import Evaluation, best_so_far
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.cli.benchsets import NamedSet
    from harness.cli.policies import Named
    from harness.config import Settings
    from harness.score import BestSoFar
    from sandbox.base import Isolation

_DIGEST_SHOWN = 8
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for beside the settings. No policy is every template of the harness."""

    policies: tuple[str, ...]
    trees: tuple[Path, ...]
    suites: tuple[str, ...]
    out: Path | None
    manifest: Path | None
    plots: bool
    as_csv: bool
    as_markdown: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class _Held:
    """A benchmark that was held: each policy, by its name here, over all trees, and what the replays ran in."""

    settings: Settings
    entrants: Mapping[str, Named]
    sets: Sets
    evaluations: Mapping[str, Evaluation]
    isolation: Isolation | None


def bench(request: Request, settings: Settings) -> int:
    """Hold a benchmark and return the exit code: 0 when no replay faulted."""
    _refuse_request(request)
    entrants = _entrants(request, settings)
    sets = named_sets(request.trees, request.suites, note)
    try:
        held = _hold(entrants, sets, settings)
        boards = _boards(held)
    except KeyboardInterrupt:
        note("interrupted; nothing was written, run the same command again")
        return Exit.INTERRUPTED
    _write_manifest(request, held)
    _write(request, held, boards)
    if request.as_json:
        say_json(_document(held, boards))
    elif request.as_csv:
        say_exactly(tables.standings(boards))
    elif request.as_markdown:
        say_exactly(markdown.markdown(boards))
    else:
        _print(boards, held.evaluations)
    return Exit.NO if any(evaluation.fault for evaluation in held.evaluations.values()) else Exit.DONE


def _refuse_request(request: Request) -> None:
    """Refuse before the first replay what could not be written after the last."""
    shown = [
        flag
        for flag, asked in (("--json", request.as_json), ("--csv", request.as_csv), ("--markdown", request.as_markdown))
        if asked
    ]
    if len(shown) > 1:
        raise InputError(f"{' and '.join(shown)} exclude each other; --out DIR writes all of them")
    if request.plots:
        if request.out is None:
            raise InputError("--plots: there is no place for pictures; write --out DIR as well")
        plots.require_matplotlib()
    if request.manifest is not None:
        wholefile.refuse_no_place(request.manifest)
    if request.out is not None:
        try:
            request.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--out: {request.out}: {reason_of(error)}; expected a folder, or a place where one can be made"
            ) from error


def _entrants(request: Request, settings: Settings) -> dict[str, Named]:
    """Return the policies by a name that each has for itself; one that is given twice counts once."""
    named = [policies.policy(one, settings) for one in request.policies or [template.name for template in templates.load()]]
    entrants: dict[str, Named] = {}
    for one in named:
        name = policies.short_name(one)
        same = [other for other in entrants.values() if _same(one, other)]
        if same:
            note(f"{one.label}: is the same policy as {same[0].label} and counts once")
            continue
        if name in entrants:
            name = f"{name} ({one.candidate.digest[:_DIGEST_SHOWN]})"
        entrants[name] = one
    return entrants


def _same(one: Named, other: Named) -> bool:
    return (one.candidate.digest, one.candidate.params) == (other.candidate.digest, other.candidate.params)


def _hold(entrants: Mapping[str, Named], sets: Sets, settings: Settings) -> _Held:
    """Replay every policy on every tree, each tree once whatever the number of its sets."""
    digests = list(sets.files)
    refused = {name: wiring.refusal(one.candidate.source) for name, one in entrants.items()}
    origins = [one.candidate.origin for one in entrants.values()]
    origin = next((one for one in origins if one is not Origin.TEMPLATE), Origin.TEMPLATE)
    running = sum(fault is None for fault in refused.values())
    # Policies that are not run at all need no sandbox, not even one that is out of reach.
    opening = wiring.sandbox(settings, origin, note, candidates=running) if running else nullcontext(None)
    judged_by, how = wiring.judged_by(settings), wiring.effort(settings, len(digests))
    jobs = {
        name: Job(one.candidate.source, judged_by, how, one.candidate.params, refused[name]) for name, one in entrants.items()
    }
    trees = FoundTrees(digests, sets.files, None)
    with opening as sandbox, steps() as progress:
        progress.begin("replaying", len(entrants) * len(digests))
        # The sandbox is never asked of a policy that was refused.
        asked = [(job, trees) for job in jobs.values()]
        judged = evaluate_all(asked, sandbox, wiring.workers(settings), progress.step)  # type: ignore[arg-type]
        isolation = None if sandbox is None else sandbox.describe()
    held_in = "none" if sandbox is None else sandbox.name
    done = {
        name: Evaluation(digest_of(job.source), held_in, judged_by, results)
        for (name, job), results in zip(jobs.items(), judged, strict=True)
    }
    return _Held(settings, entrants, sets, done, isolation)


def _boards(held: _Held) -> list[Leaderboard]:
    climbs = _climbs(held)
    settings = held.settings
    return [
        leaderboard(
            over.name,
            {name: _only(evaluation, over) for name, evaluation in held.evaluations.items()},
            climbs,
            resamples=settings.resamples,
            seed=settings.seed,
        )
        for over in held.sets.sets
    ]


def _climbs(held: _Held) -> dict[str, dict[str, BestSoFar]]:
    """Return how each policy climbed on each tree; a tree is read once for all of them."""
    trajectories = {
        name: {result.tree: result.trajectory for result in evaluation.results} for name, evaluation in held.evaluations.items()
    }
    climbs: dict[str, dict[str, BestSoFar]] = {name: {} for name in trajectories}
    for digest, file in held.sets.files.items():
        tree = treefile.read(file)
        if tree.digest != digest:
            raise InputError(f"{file}: the file has changed while it was replayed; run the command again")
        for name, of in trajectories.items():
            climbs[name][digest] = best_so_far(of[digest], tree)
    return climbs


def _only(evaluation: Evaluation, over: NamedSet) -> Evaluation:
    trees = set(over.trees)
    return replace(evaluation, results=tuple(result for result in evaluation.results if result.tree in trees))


def _write_manifest(request: Request, held: _Held) -> None:
    place = request.manifest if request.manifest is not None or request.out is None else request.out / MANIFEST
    if place is None:
        return
    how = manifest.How(wiring.guest_limits(held.settings), held.settings.repeats, held.isolation)
    entries = [
        manifest.Entry(name, one.candidate, _only(held.evaluations[name], over), one.candidate.params, over.name)
        for over in held.sets.sets
        for name, one in held.entrants.items()
    ]
    files = {digest: treefile.path_of(file) for digest, file in held.sets.files.items()}
    manifest.write(manifest.make(manifest.Kind.BENCH, entries, how, files=files, beside=place.parent), place)


def _write(request: Request, held: _Held, boards: Sequence[Leaderboard]) -> None:
    """Write into the folder of --out the leaderboards in every form."""
    if request.out is None:
        return
    pictures = {board.name: plots.draw(board, request.out) for board in boards} if request.plots else {}
    contents = {
        "leaderboard.md": markdown.markdown(boards, pictures),
        "leaderboard.csv": tables.standings(boards),
        "comparisons.csv": tables.pairings(boards),
        "groups.csv": tables.groups(boards),
        "curves.csv": tables.curves(boards),
        "prices.csv": tables.prices(boards),
        "bench.json": tables.as_json(_document(held, boards)),
    }
    for name, content in contents.items():
        wholefile.write(request.out / name, [content], "a leaderboard")
    written = [*contents, *([MANIFEST] if request.manifest is None else []), *_pictures(pictures)]
    note(f"{request.out}: {', '.join(written)}")


def _pictures(pictures: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[str]:
    count = sum(map(len, pictures.values()))
    if count:
        yield f"{counted(count, 'picture')} as PNG and SVG"


def _document(held: _Held, boards: Sequence[Leaderboard]) -> dict[str, Any]:
    return {
        "sets": [tables.document(board) for board in boards],
        "confidence": CONFIDENCE,
        "settings": settings_document(held.settings) | {"resamples": held.settings.resamples},
        "isolation": isolation_document(held.isolation),
    }


def _print(boards: Sequence[Leaderboard], evaluations: Mapping[str, Evaluation]) -> None:
    for board in boards:
        text.print_board(board)
        say()
    say(cells.ABOUT)
    for name, evaluation in evaluations.items():
        if evaluation.fault:
            say(f"\nfaults of {name}:")
            print_faults(evaluation.results)

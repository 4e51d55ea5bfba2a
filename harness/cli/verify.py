"""`harness verify`: run a manifest again, here and now, and compare every trajectory and figure."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from harness import config, manifest, rerun, treefile, wiring
from harness.cli.exits import Exit
from harness.cli.output import note, one_line, say, say_json
from harness.cli.progress import steps
from harness.errors import InputError
from harness.lazytrees import FoundTrees
from harness.policy import Origin
from harness.propose import templates
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.config import Loaded, Settings
    from harness.manifest import Comparison, Difference, Manifest, Place, Policy
    from harness.store import Store
    from harness.treefile import TreeFile

_MISSING_SHOWN = 3
_DIFFERENCES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for beside the settings."""

    manifest: Path
    trees: tuple[Path, ...]
    as_json: bool


def verify(request: Request, loaded: Loaded) -> int:
    """Run a manifest again and return the exit code: 0 when everything came out the same."""
    said = manifest.read(request.manifest)
    settings = _settings(said, request.manifest, loaded)
    replays = sum(len(judged.replays) for judged in said.judged)
    with ExitStack() as stack:
        found = _found(said, request, settings, stack)
        sandbox = stack.enter_context(wiring.sandbox(settings, _origin(said.policies), note))
        progress = stack.enter_context(steps())
        progress.begin(f"verifying {request.manifest}", replays)
        bench = rerun.Bench(
            sandbox=sandbox,
            trees=lambda digests: FoundTrees(digests, found.files, found.store),
            effort=lambda trees: wiring.effort(settings, trees),
            workers=wiring.workers(settings),
            refusal=lambda source: wiring.refusal(source, checked=said.checked),
            step=progress.step,
        )
        try:
            comparison = manifest.compare(said, rerun.again(said, bench))
        except KeyboardInterrupt:
            note("interrupted; nothing was compared, run the same command again")
            return Exit.INTERRUPTED
    if request.as_json:
        say_json(_document(request, said, comparison))
    else:
        _print(said, comparison)
    return Exit.DONE if comparison.same else Exit.NO


def _settings(said: Manifest, path: Path, loaded: Loaded) -> Settings:
    """Return the settings that the manifest fixes; what isolates policies, and how many at a time, is this command's."""
    judged_by, guest = said.settings, said.guest
    values = {
        **asdict(judged_by.limits),
        **asdict(judged_by.weights),
        **{name: getattr(judged_by, name) for name in ("frontier", "seed", "objective", "weight", "group_by")},
        **{name: getattr(guest, name) for name in ("load_cpu_s", "decision_cpu_s", "replay_cpu_s", "wall_factor")},
        "memory_mib": guest.memory_bytes // 2**20,
        "output_kib": guest.output_bytes // 2**10,
        "repeats": said.repeats,
    }
    return config.pinned(loaded, values, dict.fromkeys(values, str(path))).settings


def _origin(policies: Sequence[Policy]) -> Origin:
    """Return how far these policies are trusted. What a manifest says of their origin is not: a template must render to them."""
    known = {template.name: template for template in templates.load()}
    for policy in policies:
        template = known.get(policy.template or "")
        try:
            if template is None or templates.render(template, policy.params) != policy.source:
                return Origin.FILE
        except InputError:
            return Origin.FILE
    return Origin.TEMPLATE


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the trees of a manifest are: in files by digest, the others in the store."""

    files: Mapping[str, TreeFile]
    store: Store | None


def _found(said: Manifest, request: Request, settings: Settings, stack: ExitStack) -> _Found:
    """Find every tree by its digest: where --trees says, where the manifest says, in the store.

    Raises:
        InputError: a tree is nowhere; the message names it, and the file that has changed where there is one.
    """
    files = {treefile.read(file).digest: file for file in (treefile.find(request.trees) if request.trees else ())}
    changed: dict[str, str] = {}
    there: dict[Path, dict[str, TreeFile]] = {}
    for place in said.trees:
        if place.digest not in files and place.file is not None:
            file = request.manifest.parent / place.file
            if file not in there:
                there[file] = _digests(file)
            if place.digest in there[file]:
                files[place.digest] = there[file][place.digest]
            elif file.exists():
                changed[place.digest] = f"has changed: {file} {_now(list(there[file]))}"
    missing = [place for place in said.trees if place.digest not in files]
    store = _store(settings, stack) if missing else None
    stored = set() if store is None else {row.digest for row in store.tree_rows()}
    nowhere = [place for place in missing if place.digest not in stored]
    if nowhere:
        raise InputError(f"{request.manifest}: " + "; ".join(_told(nowhere, changed)))
    return _Found(files, store)


def _told(nowhere: Sequence[Place], changed: Mapping[str, str]) -> Iterator[str]:
    for place in nowhere[:_MISSING_SHOWN]:
        why = changed.get(place.digest, "is not there" if place.file is None else f"is not at {place.file}, nor in the store")
        yield f"tree {one_line(place.name)!r} ({place.digest[:12]}) {why}"
    if len(nowhere) > _MISSING_SHOWN:
        yield f"and {counted(len(nowhere) - _MISSING_SHOWN, 'more tree')}"
    yield "expected the trees that were judged; name their files or folders with --trees"


def _digests(file: Path) -> dict[str, TreeFile]:
    """Return the trees of a file by digest. A manifest may name any path: of what is no tree in there nothing is told."""
    try:
        found = [] if file.is_dir() else treefile.find([file])
        return {treefile.read(tree).digest: tree for tree in found}
    except (InputError, ValueError):
        return {}


def _now(digests: Sequence[str]) -> str:
    if len(digests) == 1:
        return f"is now {digests[0][:12]}"
    return f"holds {len(digests)} other trees" if digests else "is no tree file"


def _store(settings: Settings, stack: ExitStack) -> Store | None:
    file = wiring.sqlite_file(settings.store)
    if file is not None and not file.exists():
        return None
    return stack.enter_context(wiring.open_store(settings))


def _document(request: Request, said: Manifest, comparison: Comparison) -> dict[str, Any]:
    return {
        "same": comparison.same,
        "manifest": str(request.manifest),
        "kind": said.kind,
        "policies": len(said.policies),
        "trees": len(said.trees),
        "replays": comparison.replays,
        "differences": [asdict(difference) for difference in comparison.differences],
        "environment": list(comparison.environment),
    }


def _print(said: Manifest, comparison: Comparison) -> None:
    policies = counted(len(said.policies), "policy")
    scope = f"{counted(comparison.replays, 'replay')} of {policies} over {counted(len(said.trees), 'tree')}"
    if comparison.same:
        verdict = "" if said.verdict is None else ", and the verdict with every figure of its parts"
        say(f"the same: {scope}, every trajectory and figure to the last digit{verdict}")
    else:
        differences = comparison.differences
        say(f"not the same: {counted(len(differences), 'difference')} in {scope}")
        for difference in differences[:_DIFFERENCES_SHOWN]:
            say(f"  {_line(difference)}")
        if len(differences) > _DIFFERENCES_SHOWN:
            say(f"  and {len(differences) - _DIFFERENCES_SHOWN} more; --json lists them")
    for sentence in comparison.environment:
        say(f"environment: {sentence}")


def _line(difference: Difference) -> str:
    tree = "" if difference.tree is None else f" on tree {one_line(difference.tree)}"
    turn = "" if difference.round is None else f" in round {difference.round}"
    return f"{one_line(difference.policy) or 'gate'}{tree}{turn}: {difference.words}"

"""`harness doctor`: look at everything the harness needs, change nothing, and name the command that helps."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from harness import __version__, config, wiring
from harness.cli.exits import Exit
from harness.cli.output import note, say, say_json, table
from harness.cli.progress import steps
from harness.errors import HarnessError, InputError
from harness.policy import Origin
from harness.propose import templates
from harness.words import counted
from sandbox.base import SandboxError
from sandbox.probe import checks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.config import Loaded, Settings

_PYTHON = (3, 11)


class State(StrEnum):
    """How something stands."""

    GOOD = "good"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `helps` is a command or a sentence, empty where nothing is wrong."""

    name: str
    state: State
    words: str
    helps: str = ""


def doctor(loaded: Loaded, as_json: bool) -> int:
    """Print the findings; the exit code is 3 when something needed is missing."""
    findings = list(_findings(loaded))
    missing = any(finding.state is State.MISSING for finding in findings)
    if as_json:
        say_json({"healthy": not missing, "findings": [asdict(finding) for finding in findings]})
    else:
        rows = [[finding.name, finding.state, finding.words] for finding in findings]
        say(table(("what", "state", "found"), rows, left=("what", "state", "found")))
        for finding in findings:
            if finding.helps:
                say(f"\n{finding.name}: {finding.helps}")
    return Exit.OUT_OF_REACH if missing else Exit.DONE


def _findings(loaded: Loaded) -> Iterator[Finding]:
    yield Finding("harness", State.GOOD, __version__)
    yield _python()
    yield from _settings(loaded)
    yield _templates()
    yield from _engine(loaded.settings)
    yield _sandbox(loaded.settings)
    yield _store(loaded.settings)
    yield from _workspaces(loaded.settings)
    yield from _models(loaded.settings)


def _python() -> Finding:
    words = f"{platform.python_version()} on {platform.platform(terse=True)}, {len(os.sched_getaffinity(0))} cores"
    if sys.version_info < _PYTHON:
        return Finding("python", State.MISSING, words, f"install Python {'.'.join(map(str, _PYTHON))} or later")
    return Finding("python", State.GOOD, words)


def _settings(loaded: Loaded) -> Iterator[Finding]:
    changed = sum(origin != "default" for origin in loaded.origins.values())
    file = "no file" if loaded.file is None else str(loaded.file)
    yield Finding("settings", State.GOOD, f"{file}; {changed} of {len(config.FIELDS)} are not the default")
    for sentence in config.idle_variables():
        yield Finding("settings", State.NOTE, sentence, "`harness config` shows every setting and where it comes from")


def _templates() -> Finding:
    try:
        found = templates.load()
    except InputError as error:
        return Finding("templates", State.MISSING, str(error), "mend this file of policy_templates, or take it out of the folder")
    return Finding("templates", State.GOOD, f"{len(found)}: {', '.join(template.name for template in found)}")


def _engine(settings: Settings) -> Iterator[Finding]:
    trouble = wiring.engine_trouble()
    if trouble is not None:
        needed = settings.sandbox == "docker"
        helps = "start a Docker engine; without one, `--sandbox local` isolates by the kernel alone"
        yield Finding("engine", State.MISSING if needed else State.NOTE, trouble, helps)
        return
    yield Finding("engine", State.GOOD, "a Docker engine answers")
    if settings.image is not None:
        unfit = wiring.image_trouble(settings.image)
        if unfit is None:
            yield Finding("image", State.GOOD, f"{settings.image}, as set")
        else:
            yield Finding("image", State.MISSING, unfit, "leave out the setting `image` for the sandbox's own")
    elif wiring.image_is_built():
        yield Finding("image", State.GOOD, "built")
    else:
        yield Finding("image", State.NOTE, "not built yet; the first command that needs it does", "`harness sandbox build`")


def _sandbox(settings: Settings) -> Finding:
    """Open the sandbox that the settings ask for, and try to get out of it."""
    try:
        with wiring.sandbox(settings, Origin.TEMPLATE, note) as opened, steps() as progress:
            isolation = opened.describe()
            progress.begin(f"probing the {opened.name} sandbox", None)
            results = []
            for result in checks(opened):
                results.append(result)
                progress.step()
    except SandboxError as error:
        return Finding("sandbox", State.MISSING, str(error), "`harness sandbox check` says more")
    holes = [result.name for result in results if not result.held]
    held = f"{len(results) - len(holes)} of {counted(len(results), 'attempt')} to get out held"
    words = f"{isolation.backend}, Python {isolation.python}; {held}"
    if holes:
        return Finding("sandbox", State.MISSING, words, f"not held: {', '.join(holes)}; `harness sandbox check` says more")
    return Finding("sandbox", State.GOOD, words)


def _store(settings: Settings) -> Finding:
    file = wiring.sqlite_file(settings.store)
    if file is not None and not file.exists():
        folder = _existing(file.absolute().parent)
        if os.access(folder, os.W_OK):
            return Finding("store", State.GOOD, f"none yet at {file}; `harness evolve` makes it")
        return Finding(
            "store", State.MISSING, f"none at {file}, and {folder} cannot be written", "name another place with --store"
        )
    try:
        with wiring.open_store(settings) as store:
            broken, name = store.check(), store.name
            versions, trees = len(store.versions()), len(store.tree_rows())
    except HarnessError as error:
        return Finding("store", State.MISSING, str(error), "name another store with --store, or mend this one")
    if broken:
        return Finding(
            "store",
            State.MISSING,
            f"broken in {counted(len(broken), 'place')}: {broken[0]}",
            "\n  ".join(["all of them:", *broken]),
        )
    return Finding("store", State.GOOD, f"{name}: {counted(versions, 'version')}, {counted(trees, 'tree')}, all whole")


def _workspaces(settings: Settings) -> Iterator[Finding]:
    """Read every workspace that a live search of the store needs; where there is none nothing is said."""
    needed = _needed(settings)
    if not needed:
        return
    many = counted(len(needed), "workspace")
    helps = (
        "the setting `workspaces` names the place; nodes whose workspace is lost cannot be continued, their trees can be replayed"
    )
    try:
        folder = wiring.snapshots_folder(settings)
        is_there = (folder / "HEAD").exists()
        broken = wiring.snapshots(settings).damaged(needed) if is_there else []
    except HarnessError as error:
        yield Finding("workspaces", State.MISSING, str(error), helps)
        return
    if not is_there:
        yield Finding("workspaces", State.MISSING, f"{folder}: is not there, and should hold {many}", helps)
    elif broken:
        words = f"{len(broken)} of {many} cannot be restored: {broken[0]}"
        yield Finding("workspaces", State.MISSING, words, "\n  ".join([helps, "all of them:", *broken]))
    else:
        yield Finding("workspaces", State.GOOD, f"{folder}: {many}, all whole")


def _needed(settings: Settings) -> set[str]:
    """Return the addresses of workspaces; of a store that is not there, or that `_store` found broken, none."""
    file = wiring.sqlite_file(settings.store)
    if file is not None and not file.exists():
        return set()
    try:
        with wiring.open_store(settings) as store:
            return store.snapshots()
    except HarnessError:
        return set()


def _models(settings: Settings) -> Iterator[Finding]:
    """Look whether models can be asked at all, without asking."""
    for name in settings.model or ():
        try:
            named = wiring.require_model(name)
        except HarnessError as error:
            yield Finding("model", State.MISSING, str(error), "see docs/models.md")
        else:
            yield Finding("model", State.GOOD, f"{named}: can be asked; `harness models check` does")


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder

"""`harness gate`: may a candidate become the incumbent? Both are replayed on held-out trees, and a verdict is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import wholefile, wiring
from harness.cli import gatesides, gatetrees, policyfolder
from harness.cli.actor import actor
from harness.cli.exits import Exit
from harness.cli.gaterun import Case, run
from harness.cli.output import note, say_json
from harness.cli.verdicts.junit import junit
from harness.cli.verdicts.markdown import markdown
from harness.cli.verdicts.shown import shown_document
from harness.cli.verdicts.text import print_verdict
from harness.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.cli.gatesides import Sides
    from harness.cli.gatetrees import Given
    from harness.cli.verdicts.shown import Shown
    from harness.config import Loaded, Settings


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for beside the settings."""

    candidate: str | None
    against: str | None
    base: str | None
    trees: tuple[Path, ...]
    policy_dir: Path | None
    junit: Path | None
    markdown: Path | None
    manifest: Path | None
    by: str | None
    as_json: bool


def gate(request: Request, loaded: Loaded) -> int:
    """Judge a candidate and return the exit code: 0 when it may be promoted, 1 when it may not."""
    for file in (request.junit, request.markdown, request.manifest):
        if file is not None:
            wholefile.refuse_no_place(file)
    folder = None if request.policy_dir is None else policyfolder.read(request.policy_dir)
    held = loaded if folder is None else folder.pinned(loaded)
    settings = held.settings
    sides = gatesides.sides(request.candidate, request.against, request.base, folder, held)
    paths = request.trees or (() if folder is None else folder.trees)
    given = _given(paths, sides, settings)
    if folder is not None:
        folder.refuse_other_trees(paths, given.set_digest)
    shown = run(Case(sides, given, settings, actor(request.by), request.manifest))
    if shown is None:
        return Exit.INTERRUPTED
    for file, report in _reports(request, shown):
        wholefile.write(file, [report], "a report")
    if request.as_json:
        say_json(shown_document(shown))
    else:
        print_verdict(shown)
    return Exit.DONE if shown.verdict.passed else Exit.NO


def _given(paths: tuple[Path, ...], sides: Sides, settings: Settings) -> Given:
    if paths:
        return gatetrees.of_files(paths, note)
    file = wiring.sqlite_file(settings.store)
    if file is not None and not file.exists():
        raise InputError("no trees given, and there is no store to take held-out ones from; write harness gate … --trees PATH…")
    with wiring.open_store(settings) as store:
        return gatetrees.of_store(store, store.version_by_digest(sides.candidate.candidate.digest), settings.holdout)


def _reports(request: Request, shown: Shown) -> Iterator[tuple[Path, str | bytes]]:
    if request.junit is not None:
        yield request.junit, junit(shown)
    if request.markdown is not None:
        yield request.markdown, markdown(shown)

"""Read a task from its folder: `task.toml`, the start workspace, the evaluator. What is wrong is named by file and line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from harness import tomlfile
from harness.errors import InputError
from harness.search import Allowance
from harness.task.base import AGENT_FOLDER, ATTEMPT_S, Scoring, Task
from harness.task.commandline import command_settings
from harness.task.digest import digest_of
from harness.task.places import unknown_place, wish
from harness.task.table import Table
from harness.tree import Direction
from sandbox.job import JobLimits

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "task/1"
FILE = "task.toml"
PLACES = ("evaluator", "workspace", "given", "run")
"""What a command may name: the evaluator's folder, what is judged, what candidates may read, how the candidate's run ended."""

_PROGRAM = "evaluate.py"
COMMAND = ("python3", "-I", f"{{evaluator}}/{_PROGRAM}", "{workspace}")
"""The evaluator of a task that names none."""

_NOT_SEEN = "a folder without the evaluator, which no agent and no candidate may see"
_NAME_CHARACTERS = 200
_MIB = 2**20
LIMITS = {
    "cpu_s": "cpu_s",
    "wall_s": "wall_s",
    "memory_mib": "memory_bytes",
    "workspace_mib": "workspace_bytes",
    "workspace_files": "workspace_files",
    "scratch_mib": "scratch_bytes",
    "output_kib": "output_bytes",
    "processes": "processes",
    "cpus": "cpus",
}
_FRACTIONS = {"cpu_s", "wall_s", "cpus"}
FACTORS = {"memory_mib": _MIB, "workspace_mib": _MIB, "scratch_mib": _MIB, "output_kib": 1024}
_TOP = ("format", "name", "statement", "direction", "files", "best_known", "attempt_s")
_TABLES = ("start", "evaluate", "allowance", "agent")


def read(folder: Path) -> Task:
    """Return the task of a folder.

    Raises:
        InputError: something is missing or wrong; the message names file, line, value and what was expected.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; a task is a folder with a {FILE}")
    file = tomlfile.read(folder / FILE, "task file", 'name = "my task"')
    top = Table(file, "", file.values, folder)
    if top.word("format") != FORMAT:
        top.refuse("format", f"{FORMAT!r}, the format that this version reads")
    top.only(*_TOP, *_TABLES)
    evaluate = top.table("evaluate", missing={})
    evaluate.only("command", "folder", "run", "given", "limits", "run_limits")
    start = top.table("start", missing={"folder": "start"})
    start.only("folder")
    allowance = top.table("allowance", missing={})
    allowance.only(*(field.name for field in fields(Allowance)))
    agents = top.table("agent", missing={})
    agents.only("search", "command")
    search = agents.table("search", missing={})
    search.only("moves")
    moves = search.path("moves", is_folder=False) if "moves" in search.values else None
    scoring = _scoring(evaluate)
    begin = start.path("folder", is_folder=True)
    if scoring.folder.resolve().is_relative_to(begin.resolve()):
        start.refuse("folder", _NOT_SEEN)
    return Task(
        name=_name(top),
        statement=top.word("statement"),
        direction=_direction(top),
        folder=folder,
        start=begin,
        files=_patterns(top),
        scoring=scoring,
        digest=digest_of(folder, [folder / FILE, begin, scoring.folder, scoring.given, *_programs(moves)]),
        allowance=Allowance(
            attempts=allowance.count("attempts"),
            rounds=allowance.count("rounds"),
            wall_s=allowance.number("wall_s", above=0.0),
            tokens=allowance.count("tokens"),
            usd=allowance.number("usd", above=0.0),
        ),
        attempt_s=top.number("attempt_s", above=0.0) or ATTEMPT_S,
        moves=moves,
        best_known=top.number("best_known"),
        command=command_settings(agents.table("command")) if "command" in agents.values else None,
    )


def _programs(moves: Path | None) -> list[Path]:
    """Return the search agent's file and the Python files beside it, which it may import."""
    return [] if moves is None else [moves, *moves.parent.glob("*.py")]


def _name(top: Table) -> str:
    name = top.word("name")
    if len(name) > _NAME_CHARACTERS or not name.isprintable():
        top.refuse("name", f"one line of at most {_NAME_CHARACTERS} characters that can be printed")
    return name


def _direction(top: Table) -> Direction:
    if top.values.get("direction") not in list(Direction):
        top.refuse("direction", "'max' where a larger score is better, 'min' where a smaller one is")
    return Direction(top.values["direction"])


def _patterns(top: Table) -> tuple[str, ...]:
    patterns = top.words("files")
    for pattern in patterns:
        parts = PurePosixPath(pattern).parts
        if pattern.startswith("/") or ".." in parts or not parts or parts[0] == AGENT_FOLDER:
            top.refuse("files", f"patterns of files in the workspace, such as '*.py'; {pattern!r} is none")
    return patterns


def _scoring(evaluate: Table) -> Scoring:
    folder = evaluate.path("folder", is_folder=True) if "folder" in evaluate.values else evaluate.folder / "evaluator"
    if not folder.is_dir():
        evaluate.refuse("folder", f"a folder that is there; {folder} is none")
    given = evaluate.path("given", is_folder=True) if "given" in evaluate.values else None
    if given is not None and folder.resolve().is_relative_to(given.resolve()):
        evaluate.refuse("given", _NOT_SEEN)
    run = evaluate.words("run") if "run" in evaluate.values else ()
    command = evaluate.words("command") if "command" in evaluate.values else COMMAND
    if command == COMMAND and not (folder / _PROGRAM).is_file():
        evaluate.refuse("command", f"the evaluator's command, or the program {folder / _PROGRAM}")
    for key, words in (("command", command), ("run", run)):
        odd = unknown_place(words, PLACES)
        if odd is not None:
            evaluate.refuse(key, wish(odd, PLACES))
    for key, words, hidden in (("command", command, ()), ("run", run, ("{evaluator}", "{run}", "{workspace}"))):
        if any(place in word for word in words for place in hidden):
            evaluate.refuse(key, "a command of the workspace; what candidates run knows nothing of the evaluator")
        if given is None and any("{given}" in word for word in words):
            evaluate.refuse(key, "no {given} where the task has no folder 'given'")
    if "run_limits" in evaluate.values and not run:
        evaluate.refuse("run_limits", "nothing where there is no 'run'")
    return Scoring(
        command=command,
        folder=folder,
        limits=_limits(evaluate.table("limits", missing={})),
        run=run,
        run_limits=_limits(evaluate.table("run_limits", missing={})) if run else None,
        given=given,
    )


def _limits(table: Table) -> JobLimits:
    table.only(*LIMITS)
    chosen: dict[str, Any] = {}
    for key, name in LIMITS.items():
        least = 0 if key in {"scratch_mib", "output_kib"} else 1
        value = table.number(key, above=0.0) if key in _FRACTIONS else table.count(key, least)
        if value is not None:
            chosen[name] = value * FACTORS.get(key, 1)
    try:
        return JobLimits(**chosen)
    except ValueError as error:
        raise InputError(f"{table.file.where('', table.name)}: {table.name!r} cannot be kept: {error}") from None

"""The process that plans and makes attempts: it loads a task's moves once, then answers lines of JSON until its input ends.

A task's own code runs here and nowhere else: what hangs, floods or breaks in it does so in a process that can be ended.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
import time
import traceback
import zlib
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from harness.agents.search.walk import Effort, EffortFault, Genome, Moves, SolverFault, State, Walk, walked, ways
from harness.errors import InputError
from harness.task.base import AGENT_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TextIO

STATE = f"{AGENT_FOLDER}/search.json"


class TaskMoves(Moves, Protocol):
    """What a task's `moves.py` gives as `MOVES`: moves, and how an answer stands in the workspace."""

    file: str
    """The file that holds the answer."""

    def load(self, text: str) -> Any:
        """Return the answer that `keep` wrote down, for a child to go on from."""

    def keep(self, answer: Any) -> str:
        """Return all that a child needs of an answer."""

    def dump(self, answer: Any) -> str:
        """Return what the file holds of an answer, mended where only rounding is wrong with it."""


def load_moves(path: Path, direction: str) -> TaskMoves:
    """Return the moves of a task of a direction, "max" or "min".

    Python files beside them can be imported as parts of one package: `from .other import name`.

    Raises:
        InputError: the file cannot be run, or defines no `MOVES` that a search could use.
    """
    package = ModuleType(f"task_moves_{zlib.crc32(os.fsencode(path.absolute())):08x}")
    package.__path__ = [str(path.parent)]
    spec = importlib.util.spec_from_file_location(f"{package.__name__}.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: is no Python file; expected the moves of a task")
    module = importlib.util.module_from_spec(spec)
    sys.modules[package.__name__] = package
    sys.modules[spec.name] = module  # where dataclasses look for what their annotations name
    try:
        spec.loader.exec_module(module)
        trouble = _trouble(module, direction)
    except Exception as error:
        wanted = "expected a file that defines MOVES"
        raise InputError(f"{_place(error, path)}: {type(error).__name__}: {error}; {wanted}") from error
    if trouble:
        raise InputError(f"{path}: {trouble}")
    moves: TaskMoves = module.MOVES
    return moves


def _trouble(module: ModuleType, direction: str) -> str:
    """Return what keeps the moves of a module from being used, nothing where they can be."""
    if not hasattr(module, "MOVES"):
        return "defines no MOVES; docs/agents.md says what it must have"
    moves = module.MOVES
    wanted = (*Moves.__annotations__, "file", "open", "move", "load", "keep", "dump")
    if missing := [name for name in wanted if not hasattr(moves, name)]:
        return f"MOVES lacks {', '.join(missing)}; docs/agents.md says what it must have"
    for name in ("families", "operators", "temperatures"):
        listed = getattr(moves, name)
        if not isinstance(listed, tuple | list) or not listed:
            return f"MOVES.{name} is {listed!r}; expected a tuple that is not empty"
    if moves.direction != direction:
        return f"MOVES.direction is {moves.direction!r}; expected {direction!r}, as the task says"
    return ""


def _place(error: Exception, path: Path) -> str:
    """Return the file and line of the task's own code where it broke, the file alone where that does not show."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename is not None:
        places.append((error.filename, error.lineno))
    own = [(Path(name), line) for name, line in places if Path(name).parent == path.parent.absolute()]
    return f"{path.with_name(own[-1][0].name)}:{own[-1][1]}" if own else str(path)


def drawn(
    moves: TaskMoves, ask: Mapping[str, Any], kept: Mapping[str, Any] | None
) -> tuple[Genome, list[str], np.random.Generator]:
    """Return the strategy of an attempt, the moves that it will make, and the generator as it is then.

    `ask` has seed, strategy (a rollout's prefix), avoid (families of siblings) and status (of the parent); `kept` is what the
    parent left.
    """
    prefix = ask["strategy"]
    rng = np.random.default_rng([ask["seed"], zlib.crc32(prefix.encode())] if prefix else ask["seed"])
    if kept is None:
        genome = Genome.draw(moves, rng, ask["avoid"])
    else:
        genome = Genome(**{**kept["genome"], "weights": tuple(kept["genome"]["weights"])})
        if ask["status"] not in (None, "ok"):
            genome = genome.chastened(ask["status"], kept["planned"], moves, rng)
        genome = genome.mutated(rng)
    return genome, genome.planned(moves, rng), rng


def answers(moves: TaskMoves, ask: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what an attempt is going to try; where `ask` wants more than its plan, make it and yield what became of it."""
    try:
        kept = state_of(Path(ask["workspace"]), moves) if ask["continues"] else None
        genome, planned, rng = drawn(moves, ask, kept)
        statement = f"{'open' if kept is None else 'continue'} with {', '.join(planned)}"
        yield {"fault": None, "hypothesis": [genome.family, statement, ways(genome, moves)]}
        if not ask["plan"]:
            yield _attempt(moves, ask, kept, (genome, planned, rng))
    except Exception as error:  # noqa: BLE001 - the door to moves that somebody wrote: their mistakes are attempts that failed
        fault = {"status": "failed", "message": f"{type(error).__name__}: {error}"}
        yield {"fault": fault, "hypothesis": [], "notes": "", "cpu_s": 0.0}


def _attempt(
    moves: TaskMoves,
    ask: Mapping[str, Any],
    kept: Mapping[str, Any] | None,
    strategy: tuple[Genome, list[str], np.random.Generator],
) -> dict[str, Any]:
    """Make one attempt in a workspace, and return what became of it."""
    began = time.process_time()
    workspace = Path(ask["workspace"])
    genome, planned, rng = strategy
    # What the evaluator refused is not built on: its parent's answer is.
    source = None if kept is None else kept["answer"] if ask["status"] == "ok" else kept["before"]
    score = ask["score"] if ask["status"] == "ok" else (kept or {}).get("before_score")
    before = State(genome, None if source is None else moves.load(source), score)
    walk, effort = Walk(), Effort(moves.effort)
    fault, answer = None, source
    try:
        found = walked(moves, before, planned, rng=rng, effort=effort, walk=walk).answer
        (workspace / moves.file).write_text(moves.dump(found))
        answer = moves.keep(found)
    except SolverFault as broken:
        fault = {"status": "failed", "message": str(broken)}
    except EffortFault as broken:
        fault = {"status": "timeout", "message": str(broken)}
    left = {"genome": asdict(genome), "planned": planned, "answer": answer, "before": source, "before_score": score}
    (workspace / STATE).parent.mkdir(exist_ok=True)
    (workspace / STATE).write_text(json.dumps(left))
    return {"fault": fault, "notes": "; ".join(walk.notes), "cpu_s": time.process_time() - began}


def state_of(workspace: Path, moves: TaskMoves) -> dict[str, Any] | None:
    """Return what the parent left, None where another agent made it: then a file of that name may hold anything."""
    try:
        kept = json.loads((workspace / STATE).read_text())
        genome = Genome(**kept["genome"])
        weights = np.array(genome.weights, dtype=float)
        fits = (
            genome.family in moves.families
            and weights.shape == (len(moves.operators),)
            and bool(np.all(np.isfinite(weights)) and np.all(weights >= 0.0) and 0.0 < weights.sum() < np.inf)
            and isinstance(genome.temperature, int | float)
            and isinstance(genome.careful, bool)
            and all(isinstance(name, str) for name in kept["planned"])
            and all(kept[name] is None or isinstance(kept[name], str) for name in ("answer", "before"))
            and (kept["before_score"] is None or isinstance(kept["before_score"], int | float))
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return kept if fits else None


def main() -> None:
    """Load the moves, say so or what is wrong with them, then answer until the input ends.

    The input ends when the harness does; then all of the process group ends at once, in the middle of whatever it is at.
    """
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a task's moves print is no answer, and neither is what a library in them does
    asked: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    direction, path = sys.argv[1:]
    try:
        moves = load_moves(Path(path), direction)
    except InputError as refused:
        _say(answer, {"refused": str(refused)})
        return
    _say(answer, {"refused": None})
    while True:
        for said in answers(moves, json.loads(asked.get())):
            _say(answer, said)


def _say(answer: TextIO, said: Mapping[str, Any]) -> None:
    answer.write(json.dumps(said) + "\n")
    answer.flush()


def _listen(asked: SimpleQueue[str]) -> None:
    """Pass on what is asked, also while an attempt is being made, so that the end of the input ends that attempt too."""
    for line in sys.stdin:
        asked.put(line)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()

"""The process that makes attempts: it loads a task's moves once, then answers lines of JSON until its input ends."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
import time
import zlib
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from harness.agents.search.walk import Effort, EffortFault, Genome, Moves, SolverFault, State, Walk, walked, ways
from harness.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE = ".agent/search.json"


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


def load_moves(path: Path) -> TaskMoves:
    """Return the moves of a task.

    Raises:
        InputError: the file cannot be run, or defines no `MOVES`.
    """
    name = f"task_moves_{zlib.crc32(os.fsencode(path)):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: is no Python file; expected the moves of a task")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for what their annotations name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path}: {type(error).__name__}: {error}; expected a file that defines MOVES") from error
    moves: Any = getattr(module, "MOVES", None)
    missing = [
        name for name in (*Moves.__annotations__, "file", "open", "move", "load", "keep", "dump") if not hasattr(moves, name)
    ]
    if missing:
        raise InputError(f"{path}: MOVES lacks {', '.join(missing)}; docs/agents.md says what it must have")
    checked: TaskMoves = moves
    return checked


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


def attempt(moves: TaskMoves, ask: Mapping[str, Any]) -> dict[str, Any]:
    """Make one attempt in a workspace, and return what became of it."""
    began = time.process_time()
    workspace = Path(ask["workspace"])
    kept = state_of(workspace, moves) if ask["continues"] else None
    genome, planned, rng = drawn(moves, ask, kept)
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
    said = "; ".join(walk.notes)
    return {
        "fault": fault,
        "notes": said,
        "cpu_s": time.process_time() - began,
        "ways": ways(genome, moves),
        "effort": effort.spent,
    }


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
    """Answer until the input ends, which it does when the harness does; then all of the process group ends at once."""
    moves = load_moves(Path(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a task's moves print is no answer, and neither is what a library in them does
    asked: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    while True:
        line = asked.get()
        try:
            said = attempt(moves, json.loads(line))
        except Exception as error:  # noqa: BLE001 - the door to moves that somebody wrote: their mistakes are attempts that failed
            said = {"fault": {"status": "failed", "message": f"{type(error).__name__}: {error}"}, "notes": "", "cpu_s": 0.0}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


def _listen(asked: SimpleQueue[str]) -> None:
    """Pass on what is asked, also while an attempt is being made, so that the end of the input ends that attempt too."""
    for line in sys.stdin:
        asked.put(line)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()

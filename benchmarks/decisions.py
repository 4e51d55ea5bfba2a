"""What isolation costs: a decision against a bare echo, a fresh process against a bare fork, a candidate's first decision.

Host, container and the plain process that they are measured against share one core, as evaluation places its workers. Times are
medians of single steps, the two sides taken in turn: a step in which the machine did something else counts for nothing.
"""

from __future__ import annotations

import marshal
import os
import socket
import statistics
import subprocess
import sys
import time
from array import array
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import REPETITIONS, Row
from benchmarks.world import LIMITS, POLICIES
from sandbox.api import Context, Observation
from sandbox.base import GuestLimits
from sandbox.docker import DockerSandbox
from sandbox.guest import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sandbox.base import Session

STEPS = 200
POOL_FILLS_S = 2.0
PAUSE_S = 2.0
ROOT_PICKER = "class Policy:\n    def __init__(self, context): pass\n    def decide(self, view): return [0, 1, 2, 3]\n"
# Four nodes that share no object, as those of a tree.
REVEALED = [
    (0, (n / 8, "ok", {"moves": 3.0, "accepted": float(n)}, f"moved by 0.123{n}", (n / 16, None, None), "")) for n in range(1, 5)
]


def rows() -> Iterator[Row]:
    """Yield the figures of one container beside one plain process."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        with _plain() as plain:
            sandbox = DockerSandbox()
            yield from _decision(sandbox, plain)
            yield from _fresh_process(sandbox, plain)
            yield from _first_decision(sandbox, plain)
            sandbox.close()
    finally:
        os.sched_setaffinity(0, cores)


def _decision(sandbox: DockerSandbox, plain: socket.socket) -> Iterator[Row]:
    context = Context({}, 0, LIMITS, "leaf")
    ratios, over_answers, decided, echoed = [], [], [], []
    with sandbox.open(ROOT_PICKER, GuestLimits()) as session:
        for _ in range(REPETITIONS):
            replay = session.start(context)
            replay.decide(Observation(1, [(-1, REVEALED[0][1])]))
            turns = iter(range(2, STEPS + 2))
            one = _median_s(lambda: replay.decide(Observation(next(turns), REVEALED)))  # noqa: B023 - called in this turn
            other = _median_s(lambda: _echo(plain, (1, 1, REVEALED, [], [])))
            answered = _median_s(lambda: _answer(plain, [1, 1, REVEALED, [], []]))
            replay.finish()
            decided.append(one)
            echoed.append(other)
            ratios.append(one / other)
            over_answers.append(one / answered)
    shown = f"{1e6 * statistics.median(decided):.0f} us, {1e6 * statistics.median(echoed):.0f} us"
    yield Row("a decision in the container; a bare echo of the same payload", shown)
    yield _ratio("a decision over a bare echo", ratios, 1.5)
    yield Row(
        "a decision over the same question to a bare process that answers four ids", f"{statistics.median(over_answers):.2f} x"
    )


def _fresh_process(sandbox: DockerSandbox, plain: socket.socket) -> Iterator[Row]:
    context, source = Context({}, 0, LIMITS, "leaf"), POLICIES["greedy"]
    code = marshal.dumps(compile(source, "policy.py", "exec"))
    ratios, ours, bare, children = [], [], [], []
    with sandbox.open(source, GuestLimits()) as session:
        _begin_and_end(session, context)
        for _ in range(REPETITIONS):
            one = _median_s(lambda: _begin_and_end(session, context))
            other = _median_s(lambda: _echo(plain, code))
            ours.append(one)
            bare.append(other)
            ratios.append(one / other)
            used = statistics.median(session.start(context).finish().cpu_s for _ in range(STEPS))
            children.append(used / statistics.median(_echo(plain, code)[0] for _ in range(STEPS)))
    shown = f"{1e3 * statistics.median(ours):.2f} ms, {1e3 * statistics.median(bare):.2f} ms"
    yield Row("a locked process from fork to end; a bare fork with the same policy", shown)
    yield _ratio("a fresh process over a bare fork, policy loaded in both", ratios, 1.3)
    yield Row("CPU of the locked child over the bare one's, which other load moves less", f"{statistics.median(children):.2f} x")


def _first_decision(sandbox: DockerSandbox, plain: socket.socket) -> Iterator[Row]:
    took = [_first_decision_s(sandbox, f"ready {number}") for number in range(REPETITIONS)]
    middle = 1e3 * statistics.median(took)
    name = "a new candidate's first decision, as soon as a container waits"
    yield Row(name, f"{middle:.1f} ms", "<= 15 ms", met=middle <= 15)  # noqa: PLR2004
    after_pause, bare, at_once = [], [], []
    code = marshal.dumps(compile(POLICIES["greedy"], "policy.py", "exec"))
    for number in range(REPETITIONS):
        time.sleep(PAUSE_S)
        after_pause.append(_first_decision_s(sandbox, f"rested {number}"))
        time.sleep(PAUSE_S)
        bare.append(_took_s(lambda: _echo(plain, code)))
        at_once.append(_took_s(lambda: _echo(plain, code)))
    shown = ", ".join(f"{1e3 * statistics.median(each):.1f} ms" for each in (after_pause, bare, at_once))
    yield Row(f"the same after a pause of {PAUSE_S:.0f} s; a bare fork after it; the next one", shown)


def _first_decision_s(sandbox: DockerSandbox, name: str) -> float:
    """Return how long a candidate that nobody has seen waits for its first answer, from asking for its session."""
    ready = sandbox._pool._ready  # noqa: SLF001 - a meter on our own part
    patience = time.monotonic() + POOL_FILLS_S
    while not any(ready.values()) and time.monotonic() < patience:
        time.sleep(0.01)
    began = time.perf_counter()
    with sandbox.open(f"{POLICIES['greedy']}\n# candidate {name}\n", GuestLimits()) as session:
        replay = session.start(Context({}, 0, LIMITS, "leaf"))
        replay.decide(Observation(1, [(-1, REVEALED[0][1])]))
        took = time.perf_counter() - began
        replay.finish()
    return took


def _took_s(step: Callable[[], object]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def _ratio(name: str, ratios: list[float], most: float) -> Row:
    ratio = statistics.median(ratios)
    return Row(name, f"{ratio:.2f} x", f"<= {most} x", met=ratio <= most)


def _median_s(step: Callable[[], object]) -> float:
    return statistics.median(_took_s(step) for _ in range(STEPS))


def _begin_and_end(session: Session, context: Context) -> None:
    session.start(context).finish()


def _echo(plain: socket.socket, work: Any) -> Any:
    plain.send(marshal.dumps(work, wire.MARSHAL_VERSION))  # the very bytes that a policy's process is sent
    return marshal.loads(plain.recv(65_536))  # noqa: S302 - from our own process


def _answer(plain: socket.socket, question: list[Any]) -> list[int]:
    plain.send(marshal.dumps(question, wire.MARSHAL_VERSION))
    return array("I", plain.recv(65_536)).tolist()


@contextmanager
def _plain() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    script = Path(__file__).with_name("plain.py")
    command = [sys.executable, "-s", "-S", "-P", str(script), str(theirs.fileno())]
    environment = {"PYTHONPATH": str(script.parents[1])}
    with ours, subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment):
        theirs.close()
        yield ours
        ours.close()

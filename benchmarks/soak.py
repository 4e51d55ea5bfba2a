"""Tens of thousands of replays, good and hostile, to find what leaks: `python -m benchmarks soak [REPLAYS]`, 50,000 by default.

Two workers side by side. Each keeps one container for the whole soak, in which good and hostile replays alternate, and opens and
closes a fresh one all along. Memory, descriptors, threads, processes, temporary files and containers are counted once everything
is warm, and again at the end.
"""

from __future__ import annotations

import gc
import os
import platform
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.hostile import context, drive, outcome
from benchmarks.table import Row
from sandbox.base import GuestLimits
from sandbox.docker import DockerSandbox
from sandbox.engine import connect, engine_trouble
from sandbox.guest import calls
from sandbox.owner import OWNER_LABEL, Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.session import RunnerSession

REPLAYS = 50_000
_WORKERS = 2
_IN_A_FRESH_ONE = 250  # replays in each container that comes and goes
WARM = 1_000  # replays before the first figures
_LIMITS = GuestLimits(
    load_cpu_s=0.5, decision_cpu_s=0.04, replay_cpu_s=0.2, wall_factor=25.0, memory_bytes=48 * 2**20, output_bytes=20_000
)
_HARNESS_GROWTH_BYTES, _CONTAINER_GROWTH_BYTES = 10 * 2**20, 2 * 2**20

# One policy for all, since a container has one: the seed says what a replay does.
_HOSTILE = {
    "decision-timeout": "while True: pass",
    "out-of-memory": "hoard = [bytearray(2**20) for _ in range(10**6)]",
    "exited": "os._exit(3)",
    "output-flood": "while True: print('x' * 1000)",
    "killed-by-seccomp": f"ctypes.CDLL(None).syscall({calls.MACHINES[platform.machine()][1]['ptrace']}, 0, 1, 0, 0)",
    "protocol-fault": "os.write(3, b'A' * 50)",
    "exception": "sys.modules.clear(); raise ValueError('x' * 10**6)",
    "bad-answer": "return [True]",
    "process-limit": "_thread.start_new_thread(print, ())",
}
_ONE_IN = 4  # hostile
_SOURCE = (
    "import _thread, ctypes, os, sys\nclass Policy:\n    def __init__(self, context): self.turn = context.seed\n"
    "    def decide(self, view):\n"
    + "".join(f"        if self.turn == {turn}:\n            {body}\n" for turn, body in enumerate(_HOSTILE.values(), 1))
    + "        return [node for node in view.selectable if not view.nodes[node].closed]\n"
)


@dataclass(frozen=True, slots=True)
class _Figures:
    """What a leak would make grow."""

    harness_bytes: int
    container_bytes: int
    descriptors: int
    threads: int
    processes: int
    files: int
    containers: int


@dataclass(frozen=True, slots=True)
class _Soaked:
    """What ran, and what was counted before anything, once warm, at the end, and when all was closed."""

    outcomes: Counter[str]
    wall_s: float
    before: dict[str, int]
    first: _Figures
    last: _Figures
    after: dict[str, int]


def rows(replays: int = REPLAYS, warm: int = WARM) -> Iterator[Row]:
    """Yield what ran and how it ended, then each figure at first and at last."""
    trouble = engine_trouble()
    if trouble is not None:
        yield Row("soak", f"not measured: {trouble}")
        return
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        tempfile.tempdir = folder  # of our own, so that nothing but ours is counted
        try:
            soaked = _soak(replays, warm)
        finally:
            tempfile.tempdir = None
    outcomes, first, last = soaked.outcomes, soaked.first, soaked.last
    yield Row("soak: replays", f"{outcomes.total():,} in {soaked.wall_s:.0f} s, {outcomes.total() / soaked.wall_s:.0f}/s")
    yield Row("soak: how they ended", ", ".join(f"{kind} {count:,}" for kind, count in sorted(outcomes.items())))
    wrong = outcomes.total() - _expected(replays, outcomes)
    yield Row("soak: replays that ended as nothing of their kind should", f"{wrong:,}", "0", met=wrong == 0)
    grown = last.harness_bytes - first.harness_bytes
    shown = f"{first.harness_bytes / 2**20:.1f} MB first, {last.harness_bytes / 2**20:.1f} MB last"
    yield Row("soak: memory of the harness", shown, "flat", met=grown < _HARNESS_GROWTH_BYTES)
    grown = last.container_bytes - first.container_bytes
    shown = f"{first.container_bytes / 2**20:.2f} MB first, {last.container_bytes / 2**20:.2f} MB last"
    yield Row("soak: memory of the containers' runners, together", shown, "flat", met=grown < _CONTAINER_GROWTH_BYTES)
    for name in ("descriptors", "threads", "processes", "files", "containers"):
        one, other = soaked.before[name], soaked.after[name]
        at_work = f"at work {getattr(first, name)} first, {getattr(last, name)} last"
        yield Row(f"soak: {name}", f"{one} before, {other} after; {at_work}", "as before", met=other <= one)


def _soak(replays: int, warm: int) -> _Soaked:
    sandbox = DockerSandbox()
    before = _things()
    kept = [sandbox.open(_SOURCE, _LIMITS) for _ in range(_WORKERS)]
    try:
        _run(sandbox, kept, warm)
        first, began = _figures(kept), time.monotonic()
        outcomes = _run(sandbox, kept, replays)
        wall_s = time.monotonic() - began
        last = _figures(kept)
    finally:
        for session in kept:
            session.close()
        sandbox.close()
    return _Soaked(outcomes, wall_s, before, first, last, _things())


def _expected(replays: int, outcomes: Counter[str]) -> int:
    """Return how many ended as their kind should: at most as many of each hostile kind as there were, the rest answered."""
    hostile = replays // _ONE_IN
    each = -(-hostile // len(_HOSTILE)) + _WORKERS
    return min(outcomes["answered"], replays - hostile + _WORKERS) + sum(min(outcomes[kind], each) for kind in _HOSTILE)


def _run(sandbox: DockerSandbox, kept: list[RunnerSession], replays: int) -> Counter[str]:
    with ThreadPoolExecutor(_WORKERS, "soak") as pool:
        shares = [replays // _WORKERS + (worker < replays % _WORKERS) for worker in range(_WORKERS)]
        done = [
            pool.submit(_share, sandbox, session, share, place)
            for place, (session, share) in enumerate(zip(kept, shares, strict=True))
        ]
        return sum((one.result() for one in done), Counter())


def _share(sandbox: DockerSandbox, kept: RunnerSession, replays: int, place: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    fresh = sandbox.open(_SOURCE, _LIMITS)
    try:
        for number in range(replays):
            turn = (number // _ONE_IN + place) % len(_HOSTILE) + 1 if number % _ONE_IN == _ONE_IN - 1 else 0
            session = kept if number % 2 else fresh
            outcomes[outcome(drive(session, context(seed=turn)))] += 1
            if number % (2 * _IN_A_FRESH_ONE) == 2 * _IN_A_FRESH_ONE - 1:
                fresh.close()
                fresh = sandbox.open(_SOURCE, _LIMITS)
    finally:
        fresh.close()
    return outcomes


def _figures(kept: list[RunnerSession]) -> _Figures:
    things = _things()
    runners = [session._running().pid for session in kept]  # noqa: SLF001 - a meter on our own part
    return _Figures(harness_bytes=_resident(os.getpid()), container_bytes=sum(map(_resident, runners)), **things)


def _things() -> dict[str, int]:
    gc.collect()
    client = connect()
    try:
        mine = {"label": f"{OWNER_LABEL}={Owner.this_process()}"}
        containers = len(client.api.containers(all=True, filters=mine))
    finally:
        client.close()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "processes": len(children),
        "files": len(list(Path(tempfile.gettempdir()).iterdir())),
        "containers": containers,
    }


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

"""Replays in a hardened container, a fresh process each, against the peer without any isolation.

CPU seconds are those of the harness (this process) and of the container (its runner with all its children) together; the
container's start and end are part of the wall time.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import REPETITIONS, Row
from benchmarks.world import LIMITS, POLICIES, brooms
from harness.evaluate import Job, evaluate
from harness.score import Effort, Settings
from harness.tree import attempt_fields
from sandbox.docker import DockerSandbox
from sandbox.engine import engine_trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.tree import Tree
    from sandbox.base import GuestLimits
    from sandbox.session import RunnerSession

PEER = "dreamrsi==0.3.0b3"
PEER_TREES = 20
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def rows() -> Iterator[Row]:
    """Yield the sandbox's figures, or the one row that says why there are none."""
    trouble = engine_trouble()
    if trouble is not None:
        yield Row("sandbox", f"not measured: {trouble}")
        return
    trees = brooms(100, 5)
    spent = [_spend(trees) for _ in range(REPETITIONS)]
    replays = len(trees) * len(POLICIES)
    rate = statistics.median(replays / one.wall_s for one in spent)
    per_cpu = statistics.median(replays / (one.host_cpu_s + one.container_cpu_s) for one in spent)
    each = statistics.median(1000 * (one.host_cpu_s + one.container_cpu_s) / replays for one in spent)
    host = statistics.median(1000 * one.host_cpu_s / replays for one in spent)
    yield Row("sandbox: replays per second, container start and end included", f"{rate:.0f}", ">= 150", met=rate >= 150)  # noqa: PLR2004
    yield Row("sandbox: CPU per replay, harness and container", f"{each:.1f} ms, of which harness {host:.1f} ms")
    peer = _peer(trees[:PEER_TREES])
    if isinstance(peer, str):
        yield Row("sandbox: peer", f"not measured: {peer}")
        return
    ratio = per_cpu / (peer["replays"] / peer["cpu_s"])
    yield Row(f"peer {PEER}, no isolation: CPU per replay", f"{1000 * peer['cpu_s'] / peer['replays']:.1f} ms")
    yield Row("sandbox: replays per CPU second over the peer's", f"{ratio:.1f} x", ">= 5 x", met=ratio >= 5)  # noqa: PLR2004


@dataclass(slots=True)
class _Spent:
    wall_s: float = 0.0
    host_cpu_s: float = 0.0
    container_cpu_s: float = 0.0


class _MeteredSandbox(DockerSandbox):
    """Reads each runner's CPU clock before its container goes."""

    def __init__(self, spent: _Spent) -> None:
        super().__init__()
        self.spent = spent

    def open(self, source: str, limits: GuestLimits) -> RunnerSession:
        session = super().open(source, limits)
        close, pid = session.close, session._running().pid  # noqa: SLF001 - a meter on our own part

        def read_and_close() -> None:
            self.spent.container_cpu_s += _cpu_of(pid)
            close()

        session.close = read_and_close  # type: ignore[method-assign]
        return session


def _cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and of all its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * TICK_S


def _spend(trees: Sequence[Tree]) -> _Spent:
    spent = _Spent()
    settings, effort = Settings(limits=LIMITS), Effort(repeats=0, workers=os.cpu_count() or 1)
    began, used = time.monotonic(), _own_cpu_s()
    sandbox = _MeteredSandbox(spent)
    for source in POLICIES.values():
        faults = [r.trajectory.fault for r in evaluate(Job(source, settings, effort), trees, sandbox) if r.trajectory.fault]
        if faults:
            raise RuntimeError(f"a benchmark policy faulted: {faults[0]}")
    sandbox.close()
    spent.wall_s, spent.host_cpu_s = time.monotonic() - began, _own_cpu_s() - used
    return spent


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peer(trees: Sequence[Tree]) -> dict[str, Any] | str:
    """Run the peer in a virtual environment of its own; a sentence where it cannot be had."""
    folder = Path(sys.prefix) / "peer"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PEER]
    if subprocess.run(install, check=False, capture_output=True).returncode:
        return f"{PEER} could not be installed"
    recorded = [
        {"name": tree.name, "attempts": [{"metrics": {}, "feedback": "", **attempt_fields(a)} for a in tree.attempts]}
        for tree in trees
    ]
    work = {"max_rounds": LIMITS.max_rounds, "max_batch": LIMITS.max_batch, "trees": recorded}
    script = Path(__file__).with_name("peer.py")
    done = subprocess.run([str(python), str(script)], input=json.dumps(work), capture_output=True, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures

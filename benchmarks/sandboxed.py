"""Replays in hardened containers, a fresh process each: against the floor of each step, the local backend, and the peers.

CPU seconds are those of the harness (this process) and of the containers (their runners with all their children) together; the
containers' start and end are part of the wall time.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import decisions, peers
from benchmarks.table import REPETITIONS, Row
from benchmarks.world import LIMITS, POLICIES, brooms
from harness.evaluate import Job, evaluate_all
from harness.score import Effort, Settings
from sandbox.base import GuestLimits
from sandbox.docker import DockerSandbox
from sandbox.engine import engine_trouble
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.tree import Tree
    from sandbox.base import Sandbox
    from sandbox.session import RunnerSession

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
CONTAINERS = 2
ONE_BY_ONE = 10


def rows() -> Iterator[Row]:
    """Yield the sandbox's figures, or the one row that says why there are none."""
    trouble = engine_trouble()
    if trouble is not None:
        yield Row("sandbox", f"not measured: {trouble}")
        return
    yield Row("load of the machine before, over 1, 5 and 15 minutes", "{:.1f} {:.1f} {:.1f}".format(*os.getloadavg()))
    yield from decisions.rows()
    trees = brooms(100, 5)
    replays = len(trees) * len(POLICIES)
    spent, local, alone = [], [], []
    for _ in range(REPETITIONS):
        spent.append(_spend(trees))
        local.append(_spend_locally(trees))
        alone.append(_spend(trees, dict(list(POLICIES.items())[:1])).cpu_s)
    rate = statistics.median(replays / one.wall_s for one in spent)
    yield Row("replays per second on two containers, their start and end included", f"{rate:.0f}", ">= 300", met=rate >= 300)  # noqa: PLR2004
    running = statistics.median((replays - 1) / one.running_s for one in spent)
    yield Row("the same from the first replay's end to the last one's", f"{running:.0f}")
    share = statistics.median(other.wall_s / one.wall_s for one, other in zip(spent, local, strict=True))
    yield Row("rate in containers over the local backend's", f"{share:.2f}", ">= 0.85", met=share >= 0.85)  # noqa: PLR2004
    running_share = statistics.median(other.running_s / one.running_s for one, other in zip(spent, local, strict=True))
    yield Row("the same from the first replay's end to the last one's", f"{running_share:.2f}")
    more = statistics.median(one.cpu_s / other.cpu_s for one, other in zip(spent, local, strict=True))
    yield Row("CPU in containers over the local backend's, which other load moves less", f"{more:.2f} x")
    cpu_s = statistics.median(one.cpu_s for one in spent)
    host_cpu_s = statistics.median(one.host_cpu_s for one in spent)
    shown = f"{1000 * cpu_s / replays:.1f} ms, of which harness {1000 * host_cpu_s / replays:.1f} ms"
    yield Row("CPU per replay, harness and container", shown)
    idle = statistics.median(one.idle_share for one in spent)
    yield Row("share of the cores that was idle meanwhile", f"{idle:.0%}")
    yield _containers()
    each = statistics.median(alone)
    yield Row("one fresh candidate on 100 trees, harness and containers", f"{each:.2f} CPU s", "<= 1 CPU s", met=each <= 1)
    yield from peers.rows(trees, replays / cpu_s)
    yield Row("load of the machine after", "{:.1f} {:.1f} {:.1f}".format(*os.getloadavg()))


@dataclass(slots=True)
class _Spent:
    wall_s: float = 0.0
    host_cpu_s: float = 0.0
    container_cpu_s: float = 0.0
    idle_share: float = 0.0
    running_s: float = 0.0

    @property
    def cpu_s(self) -> float:
        """Return all of it."""
        return self.host_cpu_s + self.container_cpu_s


class _MeteredSandbox(DockerSandbox):
    """Reads each runner's CPU clock before its container goes."""

    def __init__(self, spent: _Spent, candidates: int) -> None:
        super().__init__(candidates=candidates)
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


def _spend(trees: Sequence[Tree], policies: Mapping[str, str] = POLICIES) -> _Spent:
    spent = _Spent()
    began, used, idle_s = time.monotonic(), _own_cpu_s(), _machine()[1]
    sandbox = _MeteredSandbox(spent, len(policies))
    spent.running_s = _judge_all(trees, sandbox, policies)
    sandbox.close()
    spent.wall_s, spent.host_cpu_s = time.monotonic() - began, _own_cpu_s() - used
    spent.idle_share = (_machine()[1] - idle_s) / spent.wall_s / (os.cpu_count() or 1)
    return spent


def _containers() -> Row:
    """Return what one container costs all in all: creating, starting and removing it, without a single replay."""
    sandbox = DockerSandbox(warm=0)
    sandbox.open("", GuestLimits()).close()
    began, used, busy_s = time.monotonic(), _own_cpu_s(), _machine()[0]
    runners_s = 0.0
    for _ in range(ONE_BY_ONE):
        with sandbox.open("", GuestLimits()) as session:
            runners_s += _cpu_of(session._running().pid)  # noqa: SLF001 - a meter on our own part
    sandbox.close()
    each = 1000 / ONE_BY_ONE
    wall, own, all_cpu = time.monotonic() - began, _own_cpu_s() - used, _machine()[0] - busy_s
    shown = f"{each * wall:.0f} ms; CPU {each * all_cpu:.0f} ms, runner {each * runners_s:.0f}, harness {each * own:.0f}"
    return Row("a container from start to end; CPU of the whole machine, and whose", shown)


def _machine() -> tuple[float, float]:
    """Return the seconds that all cores have worked and have been idle."""
    counted = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    user, nice, system, idle, waiting, *rest = [int(ticks) * TICK_S for ticks in counted]
    return user + nice + system + sum(rest), idle + waiting


def _spend_locally(trees: Sequence[Tree]) -> _Spent:
    began, used = time.monotonic(), sum(os.times()[:4])
    running_s = _judge_all(trees, LocalSandbox(), POLICIES)
    return _Spent(time.monotonic() - began, sum(os.times()[:4]) - used, running_s=running_s)


def _judge_all(trees: Sequence[Tree], sandbox: Sandbox, policies: Mapping[str, str]) -> float:
    """Return the seconds between the first replay's end and the last one's."""
    settings, effort = Settings(limits=LIMITS), Effort(repeats=0, workers=CONTAINERS)
    ended: list[float] = []
    asked = [(Job(source, settings, effort), trees) for source in policies.values()]
    for results in evaluate_all(asked, sandbox, CONTAINERS, lambda: ended.append(time.monotonic())):
        for result in results:
            if result.trajectory.fault:
                raise RuntimeError(f"a benchmark policy faulted: {result.trajectory.fault}")
    return ended[-1] - ended[0]


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

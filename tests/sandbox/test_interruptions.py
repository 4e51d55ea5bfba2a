"""What comes from outside of a replay is no fault of its policy: a machine that stands still, a process that somebody kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from guests import QUICK, context
from test_contract import FIRST

from sandbox.api import FaultKind, PolicyFault
from sandbox.docker import DockerSandbox
from sandbox.engine import connect
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sandbox.base import Sandbox

PROJECT = Path(__file__).parents[2]
LIMITS = replace(QUICK, decision_cpu_s=0.2, wall_factor=3.0)  # 0.6 s of wall time
UNHURRIED = """
import time
class Policy:
    def __init__(self, context): pass
    def decide(self, view):
        for _ in range(40): time.sleep(0.01)
        return [0]
"""
DECIDES = f"""
import sys
from dataclasses import replace
from guests import QUICK, context
from test_contract import FIRST
from sandbox.local import LocalSandbox

limits = replace(QUICK, decision_cpu_s=0.2, wall_factor=3.0)
with LocalSandbox().open({UNHURRIED!r}, limits) as session:
    replay = session.start(context())
    print(session._runner.pid, flush=True)
    print(replay.decide(FIRST), flush=True)
"""


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def stand_still(pids: list[int], seconds: float) -> None:
    """Stop processes for a while."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def test_a_machine_that_stood_still_is_no_timeout() -> None:
    """Harness, runner and policy stopped together for twice the wall limit, as a paused machine has them: the decision stands."""
    path = os.pathsep.join([str(PROJECT), str(PROJECT / "tests"), str(Path(__file__).parent)])
    run = [sys.executable, "-c", DECIDES]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as harness:
        assert harness.stdout is not None
        runner = int(harness.stdout.readline())
        time.sleep(0.1)
        stand_still([harness.pid, runner, *children(runner)], 1.2)

        assert harness.stdout.read() == "[0]\n"


@contextmanager
def meanwhile(doing: Callable[[], Any]) -> Iterator[None]:
    """Have this done in another thread, a tenth of a second from now."""
    timer = threading.Timer(0.1, doing)
    timer.start()
    yield
    timer.join()


def test_a_runner_that_stood_still_is_no_timeout_of_its_policy() -> None:
    """The harness went on meanwhile, asks the runner before it blames the policy, and waits once more."""
    with LocalSandbox().open(UNHURRIED, LIMITS) as session:
        replay = session.start(context())
        runner: Any = session._runner
        with meanwhile(lambda: stand_still([runner.pid, *children(runner.pid)], 2.0)):
            assert replay.decide(FIRST) == [0]
        assert session._runner is runner


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("relay", [False, True])
def test_a_container_that_was_paused_for_a_while_is_no_timeout_of_its_policy(relay: bool) -> None:
    """The same, by `docker pause` and `docker unpause`."""
    sandbox, client = DockerSandbox(warm=0, relay=relay), connect()

    def pause() -> None:
        client.api.pause(runner.name)
        time.sleep(2.0)
        client.api.unpause(runner.name)

    with sandbox.open(UNHURRIED, LIMITS) as session:
        replay = session.start(context())
        runner: Any = session._runner
        with meanwhile(pause):
            assert replay.decide(FIRST) == [0]
        assert session._runner is runner
    sandbox.close()
    client.close()


def test_a_policy_that_sleeps_is_timed_out_all_the_same(sandbox: Sandbox) -> None:
    """Its runner answers at once."""
    with sandbox.open(UNHURRIED.replace("40", "1000"), LIMITS) as session:
        replay = session.start(context())
        began = time.monotonic()
        with pytest.raises(PolicyFault) as raised:
            replay.decide(FIRST)

        assert raised.value.fault.kind is FaultKind.DECISION_TIMEOUT
        assert 0.6 <= raised.value.fault.figures["used_wall_s"] < 6.0
        assert "time.sleep(0.01)" in raised.value.fault.traceback
        assert time.monotonic() - began < 9.0  # of ten that it would sleep


def policy_of(session: Any) -> int:
    """Return the policy's process as the host sees it."""
    (child,) = children(session._runner.pid)
    return child


def test_a_policy_that_somebody_kills_once_is_asked_again(sandbox: Sandbox) -> None:
    """No policy can send itself that signal, and with so little memory in use the kernel had no reason to."""
    with sandbox.open(UNHURRIED, LIMITS) as session:
        replay = session.start(context())
        child = policy_of(session)
        with meanwhile(lambda: os.kill(child, signal.SIGKILL)):
            assert replay.decide(FIRST) == [0]


def test_a_policy_that_is_killed_twice_has_exited_and_is_not_said_to_want_memory(sandbox: Sandbox) -> None:
    """Nobody knows whose doing it was; the words say what is known."""

    def kill_two() -> None:
        runner: Any = session._runner
        os.kill(policy_of(session), signal.SIGKILL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            following: Any = session._runner
            if following not in (None, runner) and children(following.pid):
                time.sleep(0.1)
                os.kill(policy_of(session), signal.SIGKILL)
                return
            time.sleep(0.05)

    with sandbox.open(UNHURRIED, LIMITS) as session:
        replay = session.start(context())
        with meanwhile(kill_two), pytest.raises(PolicyFault) as raised:
            replay.decide(FIRST)

    assert raised.value.fault.kind is FaultKind.EXITED
    assert "SIGKILL" in raised.value.fault.message
    assert "killed from outside" in raised.value.fault.message


@pytest.mark.docker
@pytest.mark.usefixtures("engine")
def test_a_policy_that_the_kernel_ends_for_want_of_memory_is_told_from_these() -> None:
    """Past its own limit, which is off here, only the container's is left: the same signal, and much memory held."""
    sandbox = DockerSandbox(warm=0, without={"rlimits"})
    hoards = UNHURRIED.replace("for _ in range(40): time.sleep(0.01)", "self.hoard = [bytearray(2**20) for _ in range(10**6)]")
    with sandbox.open(hoards, replace(LIMITS, decision_cpu_s=20.0)) as session:
        replay = session.start(context())
        with pytest.raises(PolicyFault) as raised:
            replay.decide(FIRST)
    sandbox.close()

    assert raised.value.fault.kind is FaultKind.OUT_OF_MEMORY
    assert "the kernel ended the policy's process for want of memory" in raised.value.fault.message

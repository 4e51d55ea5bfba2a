"""What only the local backend has: it works for everybody, and leaves nothing behind without an engine to clean up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from guests import GOOD, QUICK, drive

from harness.replay import Stop
from sandbox.local import LocalSandbox

PROJECT = Path(__file__).parents[2]
LOOPS = """
from sandbox.api import Context, Limits, Observation
from sandbox.base import GuestLimits
from sandbox.local import LocalSandbox

source = "class Policy:\\n    def __init__(self, context): pass\\n    def decide(self, view):\\n        while True: pass\\n"
session = LocalSandbox().open(source, GuestLimits(decision_cpu_s=600.0, replay_cpu_s=600.0))
replay = session.start(Context({}, 0, Limits(), "leaf"))
print(session._runner.pid, flush=True)
replay.decide(Observation(1, [(-1, (None, "ok", {}, "", (None, None, None), ""))]))
"""
ANSWERS = LOOPS.replace("while True: pass", "return [0, 0]").replace("replay.decide(", "print(replay.decide(").rstrip() + ")\n"


LATE = """
import os
from sandbox.guest import kernel

identity = kernel.Identity()
runner, (ended, ends) = os.getpid(), os.pipe()
if kernel.fork() == 0:
    os.close(ends)
    os.read(ended, 1)
    while os.getppid() == runner:
        pass
    kernel.die_with_parent(9)
    try:
        identity.hide()
    except OSError as error:
        print(error, flush=True)
    os._exit(0)
os._exit(0)
"""


def test_a_process_whose_runner_ended_before_it_was_locked_goes_no_further() -> None:
    """Its program waits for it, and nobody would end it: the kernel only tells of a parent that ends later."""
    late = subprocess.run(
        [sys.executable, "-c", LATE], stdout=subprocess.PIPE, text=True, check=True, timeout=30, env={"PYTHONPATH": str(PROJECT)}
    )

    assert late.stdout == "the runner is gone\n"


def test_a_killed_harness_leaves_no_process() -> None:
    """Runner and child end by themselves, in the middle of an endless decision."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen([sys.executable, "-c", LOOPS], stdout=subprocess.PIPE, text=True, env=environment) as harness:
        assert harness.stdout is not None
        runner = int(harness.stdout.readline())
        time.sleep(0.2)
        group = processes_of_session(runner)
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    deadline = time.monotonic() + 10
    while processes_of_session(runner) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert len(group) == 2
    assert processes_of_session(runner) == []


def processes_of_session(leader: int) -> list[int]:
    """Return the processes of the session that the runner leads, itself included."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user runs all other tests as one")
def test_an_ordinary_user_can_use_it(everybodys: Path) -> None:
    """Without any privilege, with whatever Python the system has for everybody."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if (
        python is None
        or subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode
    ):
        pytest.skip("no Python 3.11 for all users; install python3")
    done = subprocess.run(
        [python, "-B", "-c", ANSWERS],
        env={"PYTHONPATH": str(everybodys)},
        user=12_345,
        group=12_345,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[1] == "[0, 0]"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_root_does_not_run_policies() -> None:
    """The runner becomes a user that owns nothing."""
    with LocalSandbox().open(GOOD, QUICK) as session:
        assert drive(session).stop is Stop.EXHAUSTED
        status = Path(f"/proc/{session._runner.pid}/status").read_text(encoding="ascii")  # type: ignore[union-attr]

    assert "Uid:\t65530\t65530\t65530\t65530" in status
    assert "Groups:\t \n" in status
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status

"""What only local jobs have: layers in place of a container, each shown to matter; and they work for everybody."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from test_jobs import LIMITS, content, python

from sandbox.base import SandboxError
from sandbox.guest.jobwire import LANDLOCK, NAMESPACES, SECCOMP
from sandbox.localjob import LocalJobs
from sandbox.owner import Owner

if TYPE_CHECKING:
    from sandbox.job import JobResult

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with one file."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it was", encoding="utf-8")
    return folder


def told(workspace: Path, source: str, *without: str) -> str:
    """Return what a command prints when the runner goes without these layers."""
    with LocalJobs(without=without) as jobs:
        return jobs.run(python(source), workspace, LIMITS).stdout


def test_a_network_by_name_is_refused(workspace: Path) -> None:
    with LocalJobs() as jobs, pytest.raises(SandboxError, match="a local job has no network"):
        jobs.run(["true"], workspace, LIMITS, network="bridge")


def test_without_landlock_the_machines_files_are_read(workspace: Path) -> None:
    source = "print(open('/etc/group').read(4))"

    assert told(workspace, source) == ""
    assert told(workspace, source, LANDLOCK) == "root\n"


def test_without_the_filter_sockets_are_made(workspace: Path) -> None:
    source = "import socket; print(socket.socket(16, 3).family == 16)"

    assert told(workspace, source) == ""
    assert told(workspace, source, SECCOMP) == "True\n"


def test_without_namespaces_other_processes_are_seen(workspace: Path) -> None:
    source = f"import os; print({os.getpid()} == os.getpid() or os.path.exists('/proc/{os.getpid()}/status'))"

    assert told(workspace, source, LANDLOCK) == "False\n"
    assert told(workspace, source, LANDLOCK, NAMESPACES) == "True\n"


def test_without_namespaces_a_job_still_ends_what_it_started_and_leaves_no_folder(workspace: Path) -> None:
    """Thousands of folders deep, locked, with a survivor that left its session and its parent."""
    before = set(Path("/tmp").glob("dream-harness-job-*"))  # noqa: S108 - where they would be
    source = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            time.sleep(1000)
        os.wait()
        open("new", "w").write(open("../inputs/one").read())
        os.chdir(os.environ["HOME"])
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
        os.chmod(".", 0)
        """
    with LocalJobs(without=[NAMESPACES]) as jobs:
        result = jobs.run(python(source), workspace, replace(LIMITS, scratch_bytes=2**20), {"one": b"1"})

    assert (result.exit_code, result.stderr) == (0, "")
    assert content(workspace) == {"kept.txt": "as it was", "new": "1"}
    assert set(Path("/tmp").glob("dream-harness-job-*")) <= before  # noqa: S108 - as above


@pytest.mark.parametrize("without", [[], [NAMESPACES]])
def test_a_job_leaves_no_object_of_the_kernels_behind_and_holds_no_memory_that_nobody_counts(
    workspace: Path, without: list[str]
) -> None:
    """Segments, semaphores and queues would be there for the next job; files in memory are in nothing that is looked at."""
    source = """
        import ctypes, os
        kernel = ctypes.CDLL(None, use_errno=True)
        made = [kernel.shmget(4711, 4096, 0o1600), kernel.semget(4711, 1, 0o1600), kernel.msgget(4711, 0o1600)]
        made += [kernel.shmctl(0, 14, None), kernel.mq_unlink(b"/none")]  # SHM_INFO tells of all segments that there are
        try:
            made.append(os.memfd_create("held"))
        except PermissionError:
            print(made)
        """

    assert told(workspace, source, *without) == "[-1, -1, -1, -1, -1]\n"


HARNESS = """
import sys
from pathlib import Path
from sandbox.localjob import LocalJobs
from test_jobs import LIMITS, python

result = LocalJobs(without=sys.argv[3:]).run(python(sys.argv[2]), Path(sys.argv[1]), LIMITS)
print(result.exit_code, result.stdout, result.stderr)
"""


def environment() -> dict[str, str]:
    """Return what a harness of a test is started with."""
    paths = [str(PROJECT), str(PROJECT / "tests"), str(Path(__file__).parent)]
    return {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.parametrize("without", [[], [NAMESPACES]])
def test_a_killed_harness_leaves_no_process(workspace: Path, without: list[str]) -> None:
    """Runner and command end by themselves, in the middle of a long sleep."""
    mark = f"time.sleep({1000 + os.getpid()})"
    command = [sys.executable, "-c", HARNESS, str(workspace), f"import time; {mark}", *without]
    with subprocess.Popen(command, env=environment()) as harness:
        commands = awaited(mark, 1, harness.pid)
        harness.send_signal(signal.SIGKILL)
        harness.wait()

    assert len(commands) == 1
    assert awaited(mark, 0, harness.pid) == []


def awaited(mark: str, count: int, but: int) -> list[int]:
    """Return the processes with this mark in their command, once they are so many or some seconds are over."""
    deadline = time.monotonic() + 10
    while True:
        found = []
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                text = command.read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if mark.encode() in text and int(command.parent.name) not in {but, os.getpid()} and b"HARNESS" not in text:
                found.append(int(command.parent.name))
        if len(found) == count or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user runs all other tests as one")
@pytest.mark.parametrize("without", [[], [NAMESPACES]])
def test_an_ordinary_user_can_run_jobs(everybodys: Path, without: list[str]) -> None:
    """Without any privilege; inputs are out of reach of the user that owns them."""
    interpreter = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    test = "import sys; sys.exit(sys.version_info < (3, 11))"
    if interpreter is None or subprocess.run([interpreter, "-c", test], check=False).returncode:
        pytest.skip("no Python 3.11 for all users; install python3")
    base = everybodys / "open"
    (base / "workspace").mkdir(parents=True)
    for folder in (base, base / "workspace"):
        os.chown(folder, 12_345, 12_345)
    program = """
import sys
from pathlib import Path
from sandbox.job import JobLimits
from sandbox.localjob import LocalJobs

source = "import os; open('made', 'w'); print(os.getuid()); open('../inputs/one', 'a')"
result = LocalJobs(without=sys.argv[2:]).run(["python3", "-c", source], Path(sys.argv[1]), JobLimits(), {"one": b"1"})
print(result.stdout, result.stderr)
"""
    done = subprocess.run(
        [interpreter, "-B", "-c", program, str(base / "workspace"), *without],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(everybodys)},
        user=12_345,
        group=12_345,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.startswith("12345\n")
    assert "PermissionError" in done.stdout or "Read-only" in done.stdout
    assert (base / "workspace" / "made").stat().st_uid == 12_345


def test_describing_makes_folders_that_tell_their_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the next start removes what a killed harness left of them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[str] = []

    class Watched(LocalJobs):
        def run(self, *arguments: Any, **settings: Any) -> JobResult:
            seen.extend(entry.name for entry in tmp_path.iterdir())
            return super().run(*arguments, **settings)

    with Watched() as jobs:
        jobs.describe()

    assert [name.startswith(f"dream-harness-{str(Owner.this_process()).replace('/', '_')}_") for name in seen] == [True]
    assert list(tmp_path.iterdir()) == []

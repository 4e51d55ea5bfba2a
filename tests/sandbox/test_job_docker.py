"""What only jobs in containers have: the container's walls, its labels, networks by name, what a killed harness leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import APIError
from relays import TcpRelay
from test_jobs import LIMITS, content, names, python

from sandbox.base import SandboxError
from sandbox.docker import sweep
from sandbox.dockerjob import DockerJobs
from sandbox.engine import connect
from sandbox.guest.jobwire import SECCOMP
from sandbox.job import JobCancelledError
from sandbox.owner import OWNER_LABEL, Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docker import DockerClient

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]
PROJECT = Path(__file__).parents[2]
SLEEPS = python("import time; open('new', 'w'); time.sleep(1000)")


@pytest.fixture(scope="module")
def client() -> Iterator[DockerClient]:
    """Return a client of the engine."""
    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="module")
def jobs() -> Iterator[DockerJobs]:
    """Return the backend."""
    with DockerJobs() as made:
        yield made


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with one file."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it was", encoding="utf-8")
    return folder


def job_containers(client: DockerClient, pid: int) -> list[str]:
    """Return the ids of the containers in which this process runs jobs."""
    found = client.api.containers(all=True, filters={"label": OWNER_LABEL})
    mine = [entry for entry in found if Owner.parse(entry["Labels"][OWNER_LABEL]).pid == pid]
    return [entry["Id"] for entry in mine if "sandbox.guest.job" in entry["Command"]]


def while_it_runs(client: DockerClient, jobs: DockerJobs, workspace: Path, look: Callable[[str], None]) -> BaseException | None:
    """Have a sleeping job looked at, cancel it, and return what it raised."""
    cancel = threading.Event()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            jobs.run(SLEEPS, workspace, LIMITS, cancel=cancel)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        (container,) = awaited(lambda: running(client))
        look(container)
    finally:
        cancel.set()
        thread.join()
    return raised[0] if raised else None


def running(client: DockerClient) -> list[str]:
    """Return the containers of this process's jobs in which a command runs beside the runner."""
    return [container for container in job_containers(client, os.getpid()) if len(processes(client, container)) > 1]


def processes(client: DockerClient, container: str) -> list[Any]:
    """Return the processes in a container, none when it is not up or not there."""
    try:
        listed: list[Any] = client.api.top(container)["Processes"]
    except APIError:
        return []
    return listed


def awaited(look: Callable[[], list[str]]) -> list[str]:
    """Return what comes to be there within some seconds."""
    deadline = time.monotonic() + 20
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def test_the_container_of_a_job_is_walled_in(client: DockerClient, jobs: DockerJobs, workspace: Path) -> None:
    """The engine was asked for every wall, and says that they stand; cancelled, the container is gone."""
    seen: dict[str, Any] = {}
    raised = while_it_runs(client, jobs, workspace, lambda container: seen.update(client.api.inspect_container(container)))
    host, config = seen["HostConfig"], seen["Config"]

    assert isinstance(raised, JobCancelledError)
    assert host["NetworkMode"] == "none"
    assert host["IpcMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert sorted(name.removeprefix("CAP_") for name in host["CapAdd"]) == ["KILL", "SETGID", "SETUID"]
    assert host["Privileged"] is False
    assert "no-new-privileges" in host["SecurityOpt"]
    assert any(option.startswith("seccomp={") for option in host["SecurityOpt"])
    assert host["Memory"] == host["MemorySwap"] > LIMITS.memory_bytes
    assert host["PidsLimit"] == LIMITS.processes + 4
    assert sorted(host["Tmpfs"]) == ["/job/inputs", "/job/workspace"]
    assert f"size={LIMITS.workspace_bytes},nr_inodes={LIMITS.workspace_files + 1}" in host["Tmpfs"]["/job/workspace"]
    assert seen["Mounts"] == []
    assert not any("HARNESS" in entry or "HOME" in entry for entry in config["Env"])
    assert job_containers(client, os.getpid()) == []
    assert names(workspace) == ["kept.txt"]


def test_the_command_is_nobody(jobs: DockerJobs, workspace: Path) -> None:
    """Another user than the runner, without a capability to gain, behind a filter of its own."""
    told = jobs.run(python("print(open('/proc/self/status').read())"), workspace, LIMITS).stdout

    assert "Uid:\t65531\t65531\t65531\t65531" in told
    assert "Groups:\t \n" in told
    for kind in ("Inh", "Prm", "Eff", "Amb"):
        assert f"Cap{kind}:\t0000000000000000" in told
    assert "NoNewPrivs:\t1" in told
    assert "Seccomp_filters:\t2" in told


def test_the_containers_own_filter_holds_without_the_runners(workspace: Path) -> None:
    """Either of the two suffices: sockets, tracing, mounting, namespaces, keyrings, io_uring are refused all the same."""
    source = """
        import ctypes, errno, os, socket
        libc = ctypes.CDLL(None, use_errno=True)
        for family, kind in ((2, 1), (10, 1), (16, 3), (17, 3), (40, 1)):
            try:
                print(socket.socket(family, kind))
            except PermissionError:
                pass
        print([call for call in ("ptrace", "mount", "unshare", "setns", "umount2", "perf_event_open") if hasattr(libc, call)
               and (getattr(libc, call)(0x10000000, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM)])
        print(open("/proc/self/status").read().count("Seccomp_filters:\\t1"))
        """
    with DockerJobs(without=[SECCOMP]) as jobs:
        result = jobs.run(python(source), workspace, LIMITS)

    assert (result.stdout, result.stderr) == ("[]\n1\n", "")


def test_the_runner_is_out_of_reach(jobs: DockerJobs, workspace: Path) -> None:
    """Signals, memory, descriptors, priority: all refused, and the job ends as it should."""
    source = """
        import os, signal
        tries = [lambda n=n: os.kill(1, n) for n in (9, 19, 15, 0)] + [
            lambda: open("/proc/1/mem", "rb"), lambda: os.listdir("/proc/1/fd"), lambda: os.readlink("/proc/1/root"),
            lambda: os.setpriority(0, 1, 19), lambda: os.sched_setaffinity(1, {0}), lambda: os.setuid(0), lambda: os.nice(-5),
            lambda: os.mknod("device", 0o60600, os.makedev(1, 3)), lambda: os.chroot("."),
            lambda: open("/proc/1/oom_score_adj", "w"), lambda: open("/proc/self/oom_score_adj", "wb", 0).write(b"-900"),
        ]
        for number, attempt in enumerate(tries):
            try:
                print(number, attempt())
            except OSError:
                pass
        """
    result = jobs.run(python(source), workspace, LIMITS)

    assert (result.stdout, result.stderr, result.exit_code) == ("", "", 0)


def test_pools_of_processes_want_scratch(jobs: DockerJobs, workspace: Path) -> None:
    """POSIX semaphores are made where scratch lies, and nowhere else."""
    source = """
        import ctypes, os
        print(ctypes.CDLL(None).sem_open(b"/semaphore", os.O_CREAT, 0o600, 1) != 0, os.environ["TMPDIR"])
        """

    assert jobs.run(python(source), workspace, LIMITS).stdout == "False /job/workspace\n"
    assert jobs.run(python(source), workspace, replace(LIMITS, scratch_bytes=2**20)).stdout == "True /dev/shm\n"


def test_a_network_is_there_only_by_name(client: DockerClient, jobs: DockerJobs, workspace: Path) -> None:
    """With one the command has an interface and may use TCP; other families stay refused."""
    source = """
        import socket
        listener = socket.create_server(("0.0.0.0", 0))
        socket.create_connection(("127.0.0.1", listener.getsockname()[1])).send(b"x")
        print(open("/proc/net/dev").read().count(":"), "interfaces")
        for family, kind in ((16, 3), (17, 3), (40, 1), (38, 5)):
            try:
                print(socket.socket(family, kind))
            except OSError:
                pass
        """
    name = f"dream-harness-test-{os.getpid()}"
    network = client.networks.create(name, driver="bridge", internal=True)
    try:
        result = jobs.run(python(source), workspace, LIMITS, network=name)
    finally:
        network.remove()

    assert (result.stdout, result.stderr) == ("2 interfaces\n", "")


@pytest.mark.parametrize("network", ["host", "none", "", "container:other"])
def test_a_network_that_is_none_of_the_engines_own_is_refused(jobs: DockerJobs, workspace: Path, network: str) -> None:
    with pytest.raises(SandboxError, match="give the name of a network"):
        jobs.run(SLEEPS, workspace, LIMITS, network=network)


def test_an_unknown_network_or_image_is_an_error_that_leaves_nothing(
    client: DockerClient, jobs: DockerJobs, workspace: Path
) -> None:
    with pytest.raises(SandboxError, match="no-such-network"):
        jobs.run(SLEEPS, workspace, LIMITS, network="no-such-network")
    with DockerJobs(image="dream-harness-sandbox:no-such-tag") as others, pytest.raises(SandboxError, match="sandbox build"):
        others.run(SLEEPS, workspace, LIMITS)

    assert job_containers(client, os.getpid()) == []
    assert content(workspace) == {"kept.txt": "as it was"}


def test_a_container_that_somebody_removes_is_our_error_not_the_commands(
    client: DockerClient, jobs: DockerJobs, workspace: Path
) -> None:
    raised = while_it_runs(client, jobs, workspace, client.api.kill)

    assert type(raised) is SandboxError
    assert "the job's runner was lost: it ended with status 137" in str(raised)
    assert content(workspace) == {"kept.txt": "as it was"}


def test_an_engine_at_the_end_of_a_tcp_connection_serves_as_well(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is mounted and no socket shared: all of a job goes through the engine."""
    with TcpRelay.to_engine() as relay:
        monkeypatch.setenv("DOCKER_HOST", relay.address)
        with DockerJobs() as jobs:
            result = jobs.run(python("open('big', 'wb').write(bytes(2**22)); print(1)"), workspace, LIMITS)

    assert (result.exit_code, result.stdout) == (0, "1\n")
    assert (workspace / "big").stat().st_size == 2**22


def test_the_documented_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands in docs/sandbox.md, with an evaluator that reads what an attempt wrote."""
    text = (PROJECT / "docs" / "sandbox.md").read_text(encoding="utf-8")
    (tmp_path / "attempt").mkdir()
    (tmp_path / "attempt" / "answer").write_text("42", encoding="utf-8")
    (tmp_path / "evaluate.py").write_text("print(open('answer').read())", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(text.partition("```python\n")[2].partition("```")[0], {})  # noqa: S102 - our own words

    assert capsys.readouterr().out == "0 None 42\n\n"


HARNESS = """
import sys
from pathlib import Path
from sandbox.dockerjob import DockerJobs
from test_jobs import LIMITS, python

DockerJobs().run(python("import time; print(1); time.sleep(1000)"), Path(sys.argv[1]), LIMITS)
"""


def test_a_killed_harness_leaves_a_container_that_ends_at_once_and_is_swept(
    client: DockerClient, jobs: DockerJobs, workspace: Path
) -> None:
    """What it had begun beside the workspace goes with the next job there."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "tests"), str(Path(__file__).parent)]),
    }
    with subprocess.Popen([sys.executable, "-c", HARNESS, str(workspace)], env=environment) as harness:
        (container,) = awaited(lambda: [c for c in job_containers(client, harness.pid) if len(processes(client, c)) > 1])
        harness.kill()
        harness.wait()

    assert awaited(lambda: [] if processes(client, container) else ["ended"]) == ["ended"]
    sweep()
    assert job_containers(client, harness.pid) == []
    assert len(list(workspace.parent.iterdir())) == 2
    jobs.run(python(""), workspace, LIMITS)
    assert content(workspace) == {"kept.txt": "as it was"}

"""What only the Docker backend has: the container's own walls, its labels, and what is said when the engine fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from guests import GOOD, QUICK, context, drive, small_tree

from harness.evaluate import Job, evaluate
from harness.replay import Stop
from harness.score import Effort, Settings
from sandbox.base import SandboxError
from sandbox.container import Container
from sandbox.docker import DockerSandbox, _Kind, affordable, sweep
from sandbox.engine import connect, engine_trouble, translated
from sandbox.image import ImageStatus, build, image_status, image_tag
from sandbox.owner import OWNER_LABEL, Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from docker import DockerClient

    from sandbox.container import Plan

    Mine: TypeAlias = Callable[[], list[str]]

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]
PROJECT = Path(__file__).parents[2]


@pytest.fixture
def client() -> Iterator[DockerClient]:
    """Return a client of the engine."""
    client = connect()
    yield client
    client.close()


@pytest.fixture
def docker_sandbox() -> Iterator[DockerSandbox]:
    """Return a Docker sandbox."""
    sandbox = DockerSandbox(warm=0)
    yield sandbox
    sandbox.close()


def owned_by(client: DockerClient, pid: int) -> list[str]:
    """Return the ids of the containers that this process owns."""
    found = client.api.containers(all=True, filters={"label": OWNER_LABEL})
    return [entry["Id"] for entry in found if Owner.parse(entry["Labels"][OWNER_LABEL]).pid == pid]


@pytest.fixture
def mine(client: DockerClient) -> Mine:
    """Return what tells the containers that this test has added."""
    before = set(owned_by(client, os.getpid()))
    return lambda: [container for container in owned_by(client, os.getpid()) if container not in before]


def test_the_container_is_walled_in(client: DockerClient, docker_sandbox: DockerSandbox, mine: Mine) -> None:
    """The engine was asked for every wall, and says that they stand."""
    with docker_sandbox.open(GOOD, QUICK):
        (container,) = mine()
        found: dict[str, Any] = client.api.inspect_container(container)
    host, config = found["HostConfig"], found["Config"]

    assert host["NetworkMode"] == "none"
    assert host["IpcMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] in (None, [])
    assert host["Privileged"] is False
    assert "no-new-privileges" in host["SecurityOpt"]
    assert any(option.startswith("seccomp={") for option in host["SecurityOpt"])
    assert host["Memory"] == host["MemorySwap"] == QUICK.memory_bytes + 64 * 2**20
    assert host["PidsLimit"] == 32
    assert host["NanoCpus"] == 10**9
    assert host["Sysctls"]["kernel.shmmni"] == "0"
    assert config["User"] == "65529:65529"
    assert [(mount["Destination"], mount["RW"]) for mount in found["Mounts"]] == [("/channel", False)]
    assert not any("HARNESS" in entry or "HOME" in entry for entry in config["Env"])


class Knocking(Container):
    """A container at whose socket somebody else of this machine knocks before it is started."""

    def _create(self, plan: Plan, channel: list[str], mounts: dict[str, Any]) -> None:
        socket_path = f"{mounts['Binds'][0].split(':')[0]}/s"
        become = "import os, socket; os.setgroups([]); os.setgid(65534); os.setuid(65534)"
        knock = f"{become}; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect({socket_path!r})"
        self.knocked = subprocess.run([sys.executable, "-c", knock], capture_output=True, text=True, check=False)
        super()._create(plan, channel, mounts)


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user, which takes root")
def test_nobody_else_of_the_machine_can_connect_to_a_runners_socket(docker_sandbox: DockerSandbox) -> None:
    """Neither to answer in its place nor to keep it from being heard; its own runner finds the way all the same."""
    keeper = docker_sandbox._engine()
    container = Knocking(keeper, docker_sandbox._plan(keeper.client, _Kind(2**26, None)), relayed=False)
    container.remove()

    assert "PermissionError" in container.knocked.stderr


def test_the_socket_is_gone_before_a_policy_arrives(client: DockerClient, docker_sandbox: DockerSandbox, mine: Mine) -> None:
    """Nobody else can connect: neither the socket nor its folder exists any more."""
    with docker_sandbox.open(GOOD, QUICK):
        (container,) = mine()
        (mount,) = client.api.inspect_container(container)["Mounts"]

        assert not Path(mount["Source"]).exists()


def test_closing_removes_every_container(mine: Mine) -> None:
    """Of sessions that were closed, and of those that were not."""
    sandbox = DockerSandbox(warm=0)
    sandbox.open(GOOD, QUICK).close()
    session = sandbox.open(GOOD, QUICK)
    session.start(context())
    sandbox.close()

    assert mine() == []
    session.close()


def test_a_container_that_is_let_go_leaves_by_itself(client: DockerClient, docker_sandbox: DockerSandbox) -> None:
    """The engine need not end it, which is a third of the work of removing; one that hangs is ended all the same."""
    seen = []
    for hangs in (False, True):
        since = int(time.time())
        with docker_sandbox.open(GOOD, QUICK) as session:
            name = session._runner.name
            if hangs:
                client.api.pause(name)
        wait_until(lambda name=name: not client.api.containers(all=True, filters={"name": name}))
        events = client.api.events(since, int(time.time()) + 1, {"container": name}, decode=True)
        seen.append([event["Action"] for event in events if event["Action"] in {"kill", "die", "destroy"}])

    assert seen == [["die", "destroy"], ["kill", "die", "destroy"]]


def test_sessions_open_side_by_side(docker_sandbox: DockerSandbox) -> None:
    """From several threads at once, each with a container of its own."""
    stops = []

    def work() -> None:
        with docker_sandbox.open(GOOD, QUICK) as session:
            stops.extend(drive(session).stop for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert stops == [Stop.EXHAUSTED] * 9


def test_a_container_follows_its_thread_to_its_core(client: DockerClient, docker_sandbox: DockerSandbox, mine: Mine) -> None:
    """A thread that is pinned to one core gets its container there; one that is not leaves the choice to the kernel."""
    cores = os.sched_getaffinity(0)
    chosen = []
    for wanted in (cores, {min(cores)}):
        os.sched_setaffinity(0, wanted)
        with docker_sandbox.open(GOOD, QUICK):
            (container,) = mine()
            chosen.append(client.api.inspect_container(container)["HostConfig"]["CpusetCpus"])
    os.sched_setaffinity(0, cores)

    assert chosen == ["" if len(cores) > 1 else str(min(cores)), str(min(cores))]


def test_workers_of_one_candidate_and_their_containers_share_a_core_each(client: DockerClient, mine: Mine) -> None:
    """As many containers side by side as there are workers, each on one core, while trees are left to be judged."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    sandbox = DockerSandbox(warm=0)
    slow = GOOD.replace("return", "import time; time.sleep(0.05)\n        return")
    job = Job(slow, Settings(), Effort(limits=QUICK, repeats=0, workers=len(cores)))
    results = evaluate(job, [small_tree()] * 8, sandbox)
    next(results)
    used = {client.api.inspect_container(container)["HostConfig"]["CpusetCpus"] for container in mine()}
    assert [result.trajectory.fault for result in results] == [None] * 7
    sandbox.close()

    assert used == {str(core) for core in cores}


STAYS = """
import time
class Policy:
    def __init__(self, context): pass
    def decide(self, view):
        time.sleep(0.2)
        return [0]
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_leaves_no_container_however_it_ends(client: DockerClient, tmp_path: Path, how: signal.Signals) -> None:
    """Interrupted or told to end, it removes them itself; killed, the next command does."""
    (tmp_path / "stays.py").write_text(STAYS)
    command = [sys.executable, "-m", "harness", "replay", "stays.py", "--no-check", "--trees", PROJECT / "examples/trees"]
    run = partial(subprocess.Popen, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(PROJECT)}, stderr=subprocess.DEVNULL)
    with run([*command, "--sandbox", "docker"], stdout=subprocess.DEVNULL) as killed:
        deadline = time.monotonic() + 30
        while not owned_by(client, killed.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert owned_by(client, killed.pid)
        time.sleep(0.3)
        killed.send_signal(how)
        killed.wait(30)
    if how is signal.SIGKILL:
        with run([*command, "--sandbox", "docker", "--max-rounds", "0"], stdout=subprocess.DEVNULL) as following:
            assert following.wait(60) == 0

    assert owned_by(client, killed.pid) == []


HARNESS = """
import sys, time
from guests import GOOD, QUICK, context
from sandbox.docker import DockerSandbox

session = DockerSandbox(warm=0).open(GOOD, QUICK)
session.start(context())
print("started", flush=True)
time.sleep(600)
"""


def test_what_a_killed_harness_leaves_is_swept_and_what_a_living_one_uses_stays(client: DockerClient) -> None:
    """Two harnesses run; one is killed: the next sweep removes its container and not the other's."""
    path = os.pathsep.join([str(PROJECT), str(Path(__file__).parent)])
    killed, living = (
        subprocess.Popen([sys.executable, "-c", HARNESS], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})
        for _ in range(2)
    )
    try:
        for process in (killed, living):
            assert process.stdout is not None
            assert process.stdout.readline() == b"started\n"
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert len(owned_by(client, killed.pid)) == 1

        assert sweep() >= 1
        assert owned_by(client, killed.pid) == []
        assert len(owned_by(client, living.pid)) == 1
    finally:
        for process in (killed, living):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        sweep()


def test_a_container_that_dies_is_replaced(client: DockerClient, docker_sandbox: DockerSandbox, mine: Mine) -> None:
    """Removed by somebody else between two replays: the session gets another one and goes on."""
    with docker_sandbox.open(GOOD, QUICK) as session:
        assert drive(session).stop is Stop.EXHAUSTED
        (container,) = mine()
        client.api.remove_container(container, force=True)

        assert drive(session).stop is Stop.EXHAUSTED


def test_a_candidate_finds_a_container_ready_that_no_other_has_had(client: DockerClient, mine: Mine) -> None:
    """Once one was asked for, the next is there before its candidate; each serves one candidate and goes."""
    sandbox = DockerSandbox(warm=1)
    with sandbox.open(GOOD, QUICK) as first:
        wait_until(lambda: len(mine()) == 2)
        (ready,) = set(mine()) - {client.api.inspect_container(first._runner.name)["Id"]}
        with sandbox.open(GOOD, QUICK) as second:
            assert client.api.inspect_container(second._runner.name)["Id"] == ready
            assert drive(second).stop is Stop.EXHAUSTED
    sandbox.close()

    assert mine() == []


def test_nothing_is_started_for_candidates_that_will_not_come(mine: Mine) -> None:
    """Of two that are known to come, the first has a container started for the second, the second none for a third."""
    sandbox = DockerSandbox(warm=1, candidates=2)
    for source, others in ((GOOD, 1), (f"{GOOD}\n", 0)):
        with sandbox.open(source, QUICK) as session:
            assert drive(session).stop is Stop.EXHAUSTED
            wait_until(lambda others=others: len(mine()) == 1 + others)
            time.sleep(0.3)
            assert len(mine()) == 1 + others
        wait_until(lambda others=others: len(mine()) == others)
    sandbox.close()


def wait_until(true: Callable[[], bool]) -> None:
    """Wait until a condition holds, and fail where it never does."""
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(("available_kib", "containers"), [(8_000_000, 30), (600_000, 2), (100_000, 0)])
def test_what_waits_is_bounded_by_the_memory_that_is_available(available_kib: int, containers: int) -> None:
    """A tenth of it; memory that is full of files which the kernel would give back counts as available."""
    text = f"MemTotal:        8145472 kB\nMemFree:           90000 kB\nMemAvailable:    {available_kib} kB\nBuffers:  1 kB\n"

    assert affordable(text) == containers


def test_an_image_is_found_again() -> None:
    """Building twice builds once."""
    lines: list[str] = []
    first = build(log=lines.append)

    assert image_status() is ImageStatus.READY
    assert build() == first
    assert lines == [f"image {image_tag()} is there"]


def test_a_missing_image_names_the_command_that_builds_it() -> None:
    """The message says what to run."""
    sandbox = DockerSandbox(image="dream-harness-sandbox:no-such-tag", warm=0)
    with pytest.raises(SandboxError, match="run `harness sandbox build`"):
        sandbox.open(GOOD, QUICK)
    sandbox.close()


def test_want_of_descriptors_is_not_taken_for_want_of_an_engine() -> None:
    """The engine's client tells both as an aborted connection."""
    with pytest.raises(SandboxError, match="may hold no more open files; raise `ulimit -n`"), translated("reach the engine"):
        raise OSError("('Connection aborted.', OSError(24, 'Too many open files'))")


def test_an_unknown_base_is_refused() -> None:
    """An image that is nowhere to be had is an error of the operator's."""
    with pytest.raises(SandboxError, match="neither here nor to be had"):
        build("dream-harness-no-such-base:1")


def test_an_unknown_runtime_is_refused(mine: Mine) -> None:
    """The engine's own words are passed on, and nothing is left behind."""
    sandbox = DockerSandbox(runtime="no-such-runtime", warm=0)
    with pytest.raises(SandboxError, match="no-such-runtime"):
        sandbox.open(GOOD, QUICK)
    sandbox.close()

    assert mine() == []


def test_no_engine_is_an_error_of_ours(tmp_path: Path) -> None:
    """Without one, the message says where it looked and what helps; in a process of its own, since the environment decides."""
    program = textwrap.dedent("""
        import gc
        from sandbox.engine import engine_trouble
        print(engine_trouble())
        gc.collect()
    """)
    address = f"unix://{tmp_path}/docker.sock"
    environment = {**os.environ, "DOCKER_HOST": address, "PYTHONPATH": str(PROJECT)}
    run = [sys.executable, "-W", "always::ResourceWarning", "-c", program]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)

    assert f"none answers at DOCKER_HOST={address}; start one" in done.stdout
    assert "unclosed" not in done.stderr
    assert engine_trouble() is None

"""Engines that are elsewhere, and engines that fail: the whole contract through a relay, and no failure is a policy's fault."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import NotFound
from engines import Engine, folder_for_engine, saved_image
from guests import GOOD, QUICK, context, drive
from relays import TcpRelay
from test_contract import *  # noqa: F403 - the contract of every backend, over the fixture below
from test_contract import FIRST

from harness.replay import Stop
from sandbox.api import FaultKind, PolicyFault
from sandbox.base import SandboxError
from sandbox.docker import DockerSandbox, sweep
from sandbox.owner import owned_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docker import DockerClient

    from sandbox.container import Plan

PROJECT = Path(__file__).parents[2]
pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]


@pytest.fixture(scope="module")
def tcp_sandbox(engine: None) -> Iterator[DockerSandbox]:
    """Return a sandbox of an engine at the end of a TCP connection."""
    with TcpRelay.to_engine() as relay:
        opened = DockerSandbox()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", relay.address)
            opened._engine()
        yield opened
        opened.close()


@pytest.fixture
def sandbox(tcp_sandbox: DockerSandbox) -> DockerSandbox:
    """Put the engine that is elsewhere in the place of the backends at hand."""
    return tcp_sandbox


def test_an_engine_reached_by_tcp_is_spoken_with_through_a_relay(tcp_sandbox: DockerSandbox) -> None:
    """Nothing of this machine is mounted, the host reads no clock itself, and the sandbox says so."""
    with tcp_sandbox.open(GOOD, QUICK) as session:
        container: Any = session._runner
        assert drive(session).stop is Stop.EXHAUSTED
        assert container.clock() > 0.0
        assert container.pid == 0
        found = tcp_sandbox._engine().client.api.inspect_container(container.name)

    assert found["Mounts"] == []
    assert any("CPU time as the container's own runner reports it" in line for line in tcp_sandbox.describe().isolates)


def test_a_local_engine_whose_containers_see_no_socket_of_ours_is_relayed_as_well() -> None:
    """As with Docker Desktop, or gVisor: found out with the first container, and kept to."""
    sandbox = Elsewhere(warm=0)
    with sandbox.open(GOOD, QUICK) as session:
        assert drive(session).stop is Stop.EXHAUSTED
    with sandbox.open(GOOD, QUICK) as session:
        assert drive(session).stop is Stop.EXHAUSTED
    sandbox.close()

    assert sandbox.planned == ["socket", "relay", "relay"]


class Elsewhere(DockerSandbox):
    """Mounts nothing over the folder of the socket, as an engine in a virtual machine does that has no such folder."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.planned: list[str] = []

    def _plan(self, client: DockerClient, kind: Any) -> Plan:
        plan = super()._plan(client, kind)
        self.planned.append("relay" if self._relay else "socket")
        # The later of two options counts.
        return plan if self._relay else plan._replace(command=["--socket", "/nowhere/s", *plan.command])


def test_a_flood_stands_still_in_the_policys_own_socket(tcp_sandbox: DockerSandbox) -> None:
    """A hundred megabytes that nobody asked for are a fault, and neither runner nor harness holds them meanwhile."""
    flood = "import os\nclass Policy:\n    def __init__(self, context): pass\n    def decide(self, view):\n"
    flood += "        while True: os.write(3, bytes(8000))\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tcp_sandbox.open(flood, QUICK) as session:
        for _ in range(5):
            replay = session.start(context())
            with pytest.raises(PolicyFault) as raised:
                replay.decide(FIRST)
            assert raised.value.fault.kind is FaultKind.PROTOCOL_FAULT
        assert session.health()[2] == 0

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


SLEEPER = (
    "import time\nclass Policy:\n    def __init__(self, context): pass\n    def decide(self, view):\n        time.sleep(0.8)\n"
)
SLEEPER += "        return [0]\n"


def end_two(session: Any, end: Callable[[str], Any]) -> None:
    """Do this to the session's container, and to the one that takes its place."""
    first = session._runner
    time.sleep(0.2)
    end(first.name)
    while session._runner in (None, first):
        time.sleep(0.01)
    time.sleep(0.2)
    end(session._runner.name)


@pytest.mark.parametrize("doing", ["remove", "kill"])
@pytest.mark.parametrize("relay", [False, True])
def test_who_ends_two_containers_is_not_taken_for_the_policy(relay: bool, doing: str) -> None:
    """An operator's removal or kill, twice in one replay: an error of ours with a next step; the session still serves."""
    sandbox = DockerSandbox(warm=0, relay=relay)
    api = sandbox._engine().client.api
    end = partial(api.remove_container, force=True) if doing == "remove" else api.kill
    with sandbox.open(SLEEPER, QUICK) as session:
        replay = session.start(context())
        operator = threading.Thread(target=end_two, args=(session, end))
        operator.start()
        with pytest.raises(SandboxError, match=r"lost twice in one replay: .*somebody has (removed|ended).*run the command"):
            replay.decide(FIRST)
        operator.join()
        assert session.start(context()).decide(FIRST) == [0]
    sandbox.close()


@pytest.mark.slow
def test_a_paused_container_is_replaced_and_known_to_be_paused() -> None:
    """The replay goes on in another one; what the first one suffered has a name."""
    sandbox = DockerSandbox(warm=0)
    api = sandbox._engine().client.api
    with sandbox.open(GOOD, QUICK) as session:
        container: Any = session._runner
        api.pause(container.name)

        assert container.loss().ours
        assert "`docker unpause` it" in container.loss().words
        assert drive(session).stop is Stop.EXHAUSTED
        assert session._runner is not container
    sandbox.close()


def test_a_container_whose_creation_was_interrupted_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is known before the engine is asked: Ctrl-C after the order and before the answer leaves nothing."""
    sandbox = DockerSandbox(warm=0)
    api = sandbox._engine().client.api
    create, made = api.create_container_from_config, []

    def interrupted(*arguments: Any) -> None:
        made.append(create(*arguments)["Id"])
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "create_container_from_config", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sandbox.open(GOOD, QUICK)
    with pytest.raises(NotFound):
        api.inspect_container(made[0])
    sandbox.close()


def test_the_folder_of_a_dead_harness_is_swept_and_that_of_a_living_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both tell their owner by their names; what tells none is nobody's to remove."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = "import os, sys\nfrom sandbox.owner import owned_folder\nwith owned_folder() as folder:\n"
    program += "    (folder / 's').touch()\n    print(folder, flush=True)\n    os.kill(os.getpid(), 9)\n"
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    left = Path(subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True).stdout.strip())  # noqa: PLW1510 - it is killed
    other = tmp_path / "dream-harness-other_thing"
    other.mkdir()
    assert (left / "s").exists()
    with owned_folder() as living:
        sweep()

        assert sorted(tmp_path.iterdir()) == sorted([living, other])


# An engine of our own, to be stopped and killed


@pytest.fixture
def second_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Return a second engine that DOCKER_HOST names and that has the sandbox's image."""
    image = saved_image()
    with folder_for_engine() as folder:
        engine = Engine(folder)
        try:
            monkeypatch.setenv("DOCKER_HOST", engine.address)
            client = engine.wait()
            client.images.load(image)
            client.close()
            yield engine
        finally:
            engine.end()


@pytest.mark.slow
@pytest.mark.parametrize("relay", [False, True])
def test_an_engine_that_is_killed_in_the_middle_is_an_error_of_ours(second_engine: Engine, relay: bool) -> None:
    """Within a replay, with and without a relay: no fault, a sentence that helps, and no long wait at the end."""
    sandbox = DockerSandbox(warm=0, relay=relay)
    session = sandbox.open(SLEEPER, QUICK)
    session.start(context())
    second_engine.process.kill()
    second_engine.process.wait()
    began = time.monotonic()
    with pytest.raises(SandboxError, match="none answers at DOCKER_HOST="):
        sandbox.open(GOOD, QUICK)
    session.close()
    sandbox.close()

    assert time.monotonic() - began < 15.0


@pytest.mark.slow
def test_an_engine_that_hangs_costs_one_wait_at_the_end_however_many_containers(second_engine: Engine) -> None:
    """Stopped with three containers: closing gives up after the first one, and the next start sweeps."""
    sandbox = DockerSandbox(warm=0)
    sessions = [sandbox.open(GOOD, QUICK) for _ in range(3)]
    second_engine.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert drive(sessions[0]).stop is Stop.EXHAUSTED  # which needs no engine
    sandbox.close()

    assert time.monotonic() - began < 15.0
    second_engine.process.send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_a_run_whose_engine_is_killed_ends_with_3_and_goes_on_when_there_is_one_again(
    second_engine: Engine, tmp_path: Path
) -> None:
    """In the middle of an evaluation: no version is faulted for it, and the resumed run is as one that was left in peace."""
    command = [sys.executable, "-m", "harness", "evolve"]
    trees = map(str, sorted((PROJECT / "examples/trees").rglob("*.jsonl"))[:6])
    begin = ["--trees", *trees, "--sandbox", "docker", "--versions", "3", "--json"]
    place: dict[str, Any] = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(PROJECT)}}
    told = []
    with subprocess.Popen([*command, *begin], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **place) as run:
        assert run.stderr is not None
        for line in run.stderr:
            told.append(line)
            if " 1/3  v" in line:
                second_engine.process.kill()
                second_engine.process.wait()
        assert run.wait(60) == 3, told
    assert "start one, for example `sudo systemctl start docker`" in "".join(told)

    second_engine.start_again()
    second_engine.wait().close()
    versions = []
    for how in (["--resume", "--json"], [*begin, "--store", "whole.db"]):
        ended = subprocess.run([*command, *how], capture_output=True, check=True, **place)
        versions.append([(line["digest"], line["value"], line["outcome"]) for line in json.loads(ended.stdout)["versions"]])
    assert versions[0] == versions[1]
    assert len(versions[0]) == 3

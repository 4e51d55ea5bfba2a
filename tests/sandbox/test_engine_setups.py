"""How an engine is reached, and what is said when it, its disk or its image is not as it must be: a sentence with what helps."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from engines import Engine, folder_for_engine, saved_image
from guests import GOOD, QUICK, drive
from relays import TcpRelay
from wants import want_of_docker

from harness.replay import Stop
from sandbox.base import SandboxError
from sandbox.docker import DockerSandbox
from sandbox.dockerjob import DockerJobs
from sandbox.engine import OTHER_AUTHORITIES, connect, engine_trouble, is_remote, translated
from sandbox.image import VERSION_LABEL, build, image_tag, image_trouble, image_version
from sandbox.owner import owned_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

PROJECT = Path(__file__).parents[2]
pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]


# No permission on the socket

NOBODY = """
import os, sys
from sandbox.engine import engine_trouble
engine_trouble()  # loads all that an ordinary user might not be able to read
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid(12345, 12345, 12345)
    os.setresuid(12345, 12345, 12345)
os.environ["DOCKER_HOST"] = sys.argv[1]
print(engine_trouble())
"""


def test_who_may_not_use_the_socket_is_told_how_to(tmp_path: Path) -> None:
    """A user that is in no group of the engine's; or, for want of root to become one, a socket that is closed to all."""
    path = Path("/var/run/docker.sock")
    with socket.socket(socket.AF_UNIX) as closed:
        if os.getuid() != 0:
            path = tmp_path / "s"
            closed.bind(str(path))
            closed.listen()
            path.chmod(0)
        run = [sys.executable, "-c", NOBODY, f"unix://{path}"]
        told = subprocess.run(run, env={**os.environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, check=True)

    assert "no permission on its socket; run `sudo usermod -aG docker $USER`" in told.stdout


# Images


@contextmanager
def relabelled(labels: dict[str, str]) -> Iterator[str]:
    """Lend an image that was built from the sandbox's own and has these labels in the place of its."""
    client = connect()
    container = client.containers.create(image_tag())
    changes = [f"LABEL {name}={value}" for name, value in labels.items()]
    image = container.commit("dream-harness-test", "relabelled", changes=changes)
    container.remove()
    try:
        yield "dream-harness-test:relabelled"
    finally:
        client.images.remove(image.id, force=True)
        client.close()


def refusals(image: str) -> list[str]:
    """Return what the sandbox of policies, that of jobs and the look of `harness doctor` say of an image."""
    said = []
    sandbox = DockerSandbox(image=image, warm=0)
    with pytest.raises(SandboxError) as raised:
        sandbox.open(GOOD, QUICK)
    said.append(str(raised.value))
    sandbox.close()
    with DockerJobs(image=image) as jobs, pytest.raises(SandboxError) as raised:
        jobs.describe()
    return [*said, str(raised.value), image_trouble(image) or ""]


def test_an_image_of_another_version_is_refused_with_both_versions() -> None:
    """Its guest would speak otherwise, or show policies something else."""
    with relabelled({VERSION_LABEL: "0123456789abcdef"}) as image:
        for said in refusals(image):
            assert f"the image {image} is of version 0123456789abcdef of the sandbox" in said
            assert f"version {image_version()} is needed; run `harness sandbox build`" in said


def test_an_image_that_is_none_of_the_sandboxs_is_refused() -> None:
    """Whatever its entry point would do."""
    with relabelled({VERSION_LABEL: ""}) as image:
        for said in refusals(image):
            assert f"the image {image} is not made from the sandbox's own" in said
            assert f"FROM {image_tag()}" in said


def test_an_image_that_is_missing_is_refused_with_the_command_that_makes_one() -> None:
    """For policies, jobs and the doctor alike."""
    for said in refusals("dream-harness-test:missing"):
        assert "there is no image dream-harness-test:missing on the engine; run `harness sandbox build`" in said


def test_an_image_made_from_the_sandboxs_own_serves() -> None:
    """It inherits the version, whatever else is in it."""
    with relabelled({"mine": "yes"}) as image:
        assert image_trouble(image) is None
        sandbox = DockerSandbox(image=image, warm=0)
        with sandbox.open(GOOD, QUICK) as session:
            assert drive(session).stop is Stop.EXHAUSTED
        sandbox.close()


# Disks


def test_want_of_room_here_is_not_taken_for_the_engines() -> None:
    """The same words of the kernel, about another disk."""
    with pytest.raises(SandboxError, match="the disk of this machine is full; make room"), translated("start"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_that_cannot_be_made_is_not_taken_for_want_of_an_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The place for temporary files is what is wrong."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    sandbox = DockerSandbox(warm=0, relay=False)
    with pytest.raises(SandboxError, match=r"cannot make a folder for temporary files: No such file.*set TMPDIR"):
        sandbox.open(GOOD, QUICK)
    with pytest.raises(SandboxError), owned_folder():
        pass
    sandbox.close()


@contextmanager
def started(monkeypatch: pytest.MonkeyPatch, folder: Path, *options: str, **variables: str) -> Iterator[DockerClient]:
    """Start a second engine that has the sandbox's image, and lend a client of it."""
    image = saved_image()
    engine = Engine(folder, options)
    try:
        for name, value in {"DOCKER_HOST": engine.address, **variables}.items():
            monkeypatch.setenv(name, value)
        client = engine.wait()
        try:
            client.images.load(image)
            yield client
        finally:
            client.close()
    finally:
        engine.end()


@pytest.mark.slow
def test_a_full_disk_of_the_engines_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last block: neither a container nor an image can be made, and both say what makes room."""
    with folder_for_engine() as folder:
        disk = folder / "data"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "small", disk], check=False).returncode:
            want_of_docker("no small disk can be mounted here")
        with started(monkeypatch, folder) as client:
            client.images.get(image_tag()).tag("full", "1")
            client.images.remove(image_tag(), noprune=True)
            with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
                while True:
                    filler.write(bytes(4096))
            sandbox = DockerSandbox(image="full:1", warm=0)
            for attempt in (lambda: sandbox.open(GOOD, QUICK), lambda: build("full:1")):
                with pytest.raises(SandboxError, match="its disk is full; `docker system prune` makes room"):
                    attempt()
            sandbox.close()


# Ways to an engine


def openssl(*words: str | Path) -> None:
    """Run openssl."""
    if subprocess.run(["openssl", *words], capture_output=True, check=False).returncode:
        want_of_docker("openssl cannot make certificates here; `apt-get install openssl`")


def certificates(folder: Path) -> None:
    """Make an authority, and one certificate of it that serves both ends."""
    folder.mkdir()
    key = ["-newkey", "rsa:2048", "-nodes", "-days", "1"]
    openssl("req", "-x509", *key, "-subj", "/CN=authority", "-keyout", folder / "ca-key.pem", "-out", folder / "ca.pem")
    openssl(
        *("req", "-x509", *key, "-subj", "/CN=either", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        *("-CA", folder / "ca.pem", "-CAkey", folder / "ca-key.pem", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth,clientAuth"),
    )


def free_port() -> int:
    """Return a port of loopback that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.mark.slow
def test_an_engine_behind_tls_is_reached_by_certificates_and_not_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Policies and jobs run over it as over any other; with no certificate, or another authority's, it is said what to set."""
    for name in OTHER_AUTHORITIES:
        monkeypatch.delenv(name, raising=False)
    ours, others = tmp_path / "ours", tmp_path / "others"
    certificates(ours)
    certificates(others)
    address = f"tcp://127.0.0.1:{free_port()}"
    options = [f"--host={address}", "--tlsverify", f"--tlscacert={ours}/ca.pem"]
    options += [f"--tlscert={ours}/cert.pem", f"--tlskey={ours}/key.pem"]
    variables = {"DOCKER_HOST": address, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(ours)}
    with folder_for_engine() as folder, started(monkeypatch, folder, *options, **variables) as client:
        assert is_remote(client)
        sandbox = DockerSandbox(warm=0)
        with sandbox.open(GOOD, QUICK) as session:
            assert drive(session).stop is Stop.EXHAUSTED
        sandbox.close()
        with DockerJobs() as jobs:
            assert jobs.describe().python.startswith("3.")
        with monkeypatch.context() as patch:
            patch.setenv(OTHER_AUTHORITIES[0], str(others / "ca.pem"))
            assert f"unset {OTHER_AUTHORITIES[0]}, which stands in for ca.pem" in str(engine_trouble())
        for name, value in (("DOCKER_CERT_PATH", str(others)), ("DOCKER_TLS_VERIFY", None), ("DOCKER_CERT_PATH", None)):
            if value is None:
                monkeypatch.delenv(name)
            else:
                monkeypatch.setenv(name, value)
            assert f"at DOCKER_HOST={address} wants certificates" in str(engine_trouble())


@pytest.mark.slow
def test_a_runtime_is_passed_on_and_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The engine makes the container with it, and what isolated the policy says so, in the JSON of a command as well."""
    with folder_for_engine() as folder, started(monkeypatch, folder, "--add-runtime=another=runc") as client:
        sandbox = DockerSandbox(runtime="another", warm=0)
        with sandbox.open(GOOD, QUICK) as session:
            container: Any = session._runner
            assert client.api.inspect_container(container.name)["HostConfig"]["Runtime"] == "another"
            assert drive(session).stop is Stop.EXHAUSTED
        assert sandbox.describe().runtime == "another"
        sandbox.close()
        policy = tmp_path / "policy.py"
        policy.write_text("class Policy:\n    def __init__(self, context): pass\n    def decide(self, view): return []\n")
        trees = PROJECT / "examples/trees"
        run = [sys.executable, "-m", "harness", "replay", policy, "--trees", trees, "--runtime", "another", "--json"]
        told = subprocess.run(run, env={**os.environ, "PYTHONPATH": str(PROJECT)}, cwd=tmp_path, capture_output=True, check=True)
        assert json.loads(told.stdout)["isolation"]["runtime"] == "another"


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Leave the choice of the engine to the contexts in a folder of this test."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def add_context(folder: Path, name: str, address: str) -> None:
    """Do what `docker context create` does."""
    about = folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    about.mkdir(parents=True)
    endpoints = {"docker": {"Host": address, "SkipTLSVerify": False}}
    (about / "meta.json").write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": endpoints}))


@pytest.mark.parametrize("by", ["use", "variable"])
def test_the_context_in_use_says_which_engine(monkeypatch: pytest.MonkeyPatch, no_variables: Path, by: str) -> None:
    """As it does for `docker`: chosen by `docker context use` or by DOCKER_CONTEXT, where DOCKER_HOST names none."""
    with TcpRelay.to_engine() as relay:
        add_context(no_variables, "elsewhere", relay.address)
        assert not is_remote_now()
        if by == "use":
            (no_variables / "config.json").write_text('{"currentContext": "elsewhere"}')
        else:
            monkeypatch.setenv("DOCKER_CONTEXT", "elsewhere")
        assert is_remote_now()
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    assert not is_remote_now()


def is_remote_now() -> bool:
    """Return whether the engine that is found now is reached otherwise than by a local socket."""
    client = connect()
    try:
        return is_remote(client)
    finally:
        client.close()


def test_a_context_whose_engine_is_silent_or_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, no_variables: Path
) -> None:
    """Never is another engine taken in its place."""
    add_context(no_variables, "silent", f"unix://{no_variables}/s")
    monkeypatch.setenv("DOCKER_CONTEXT", "silent")
    assert f"none answers at unix://{no_variables}/s, by the Docker context in use; start one" in str(engine_trouble())
    monkeypatch.setenv("DOCKER_CONTEXT", "unknown")
    assert "there is no Docker context 'unknown', which DOCKER_CONTEXT names; `docker context ls`" in str(engine_trouble())


def test_an_engine_by_ssh_is_reached_by_a_forwarded_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the whole command."""
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@far.example")

    assert "`ssh -NL ./engine.sock:/var/run/docker.sock me@far.example`, and set DOCKER_HOST=unix://$PWD/engine.sock" in str(
        engine_trouble()
    )

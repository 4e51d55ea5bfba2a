"""What tests share: where recorded data lies, and the sandboxes, each as real as it is anywhere."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from wants import want_of_docker

from sandbox.docker import DockerSandbox
from sandbox.engine import engine_trouble
from sandbox.image import build
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.base import Sandbox

# Before numpy is loaded: xdist runs tests side by side already, and BLAS threads that wait for a core spin on it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts what runs in the background with Ctrl-C ignored, which the commands that tests interrupt would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

PROJECT = Path(__file__).parents[1]
BACKENDS = [pytest.param("docker", marks=pytest.mark.docker), "local"]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder with recorded searches of other systems, or skip."""
    folder = Path(os.environ.get("HARNESS_SHARED", PROJECT.parent / "shared"))
    if not (folder / "trees").is_dir():
        pytest.skip(f"no recorded searches at {folder}; set HARNESS_SHARED to the folder that holds trees/")
    return folder


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """Return a folder that every user of the machine may enter, with a copy of our `sandbox` in it.

    Neither pytest's folders nor the one that holds this checkout need be open to others.
    """
    with tempfile.TemporaryDirectory(prefix="dream-harness-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(PROJECT / "sandbox", folder / "sandbox", ignore=shutil.ignore_patterns("__pycache__"))
        yield folder


@pytest.fixture(scope="session")
def engine() -> None:
    """Have a Docker engine with the sandbox's image, or skip or fail."""
    trouble = engine_trouble()
    if trouble is not None:
        want_of_docker(trouble)
    build()


@pytest.fixture(scope="session")
def sandboxes(request: pytest.FixtureRequest) -> Iterator[dict[str, Sandbox]]:
    """Keep what `sandbox` has made, one of each backend."""
    made: dict[str, Sandbox] = {}
    yield made
    for sandbox in made.values():
        sandbox.close()


@pytest.fixture(params=BACKENDS)
def sandbox(request: pytest.FixtureRequest, sandboxes: dict[str, Sandbox]) -> Sandbox:
    """Return one backend after the other."""
    if request.param == "docker":
        request.getfixturevalue("engine")
    if request.param not in sandboxes:
        sandboxes[request.param] = DockerSandbox() if request.param == "docker" else LocalSandbox()
    return sandboxes[request.param]

"""A second Docker engine beside the one at hand, for tests that stop it, fill its disk, or reach it in other ways."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wants import want_of_docker

from sandbox.base import SandboxError
from sandbox.engine import connect
from sandbox.image import image_tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from docker import DockerClient

_START_S = 30.0


class Engine:
    """A second engine with its own socket and data, below one folder."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.socket = folder / "docker.sock"
        self.address = f"unix://{self.socket}"
        places = {"data-root": self.data, "exec-root": folder / "exec", "pidfile": folder / "pid", "host": self.address}
        self._command = [
            "dockerd",
            "--iptables=false",
            "--bridge=none",
            *(f"--{name}={place}" for name, place in places.items()),
            *options,
        ]
        self._log = folder / "log"
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, stdout=log, stderr=log)

    def start_again(self) -> None:
        """Start it in the same place after it was killed; what it left would keep it from starting."""
        for left in (self.folder / "pid", self.folder / "exec/containerd/containerd.pid"):
            left.unlink(missing_ok=True)
        self.process = self._started()

    def wait(self) -> DockerClient:
        """Return a client of the engine that DOCKER_HOST names, which is to be this one, once it answers."""
        deadline = time.monotonic() + _START_S
        while True:
            with suppress(SandboxError):
                return connect()
            if self.process.poll() is not None or time.monotonic() > deadline:
                last_words = self._log.read_text(encoding="utf-8", errors="replace")[-500:]
                want_of_docker(f"no second engine starts here: {last_words}")
            time.sleep(0.2)

    def end(self) -> None:
        """End it, and what one that was killed has left running and mounted."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(60)
        shims = subprocess.run(["pgrep", "-f", f"address {self.folder}/"], capture_output=True, text=True, check=False)
        for shim in shims.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(shim), signal.SIGKILL)
        mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
        for place in sorted((place for place in mounted if place.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "--lazy", place], check=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the SDK leaves sockets open that found no engine
            gc.collect()


@contextmanager
def folder_for_engine() -> Iterator[Path]:
    """Lend a folder with a short name, since the path of a socket is limited; skip, or fail, where no engine can be started."""
    if shutil.which("dockerd") is None:
        want_of_docker("dockerd is not installed; `apt-get install docker.io`")
    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def saved_image() -> bytes:
    """Return the sandbox's image as the engine at hand has it."""
    client = connect()
    try:
        return b"".join(client.images.get(image_tag()).save(named=True))
    finally:
        client.close()

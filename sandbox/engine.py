"""The Docker engine: how to reach it, and what to say when it cannot be reached."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

_TIMEOUT_S = 60


def connect(timeout_s: int = _TIMEOUT_S) -> DockerClient:
    """Return a client of the engine that DOCKER_HOST names, the local one by default.

    Raises:
        SandboxError: none answers, or not to us.
    """
    import docker  # noqa: PLC0415 - a tenth of a second that only those who use it shall pay

    with translated("reach the Docker engine"):
        _knock(timeout_s)
        client = docker.from_env(timeout=timeout_s)
        try:
            client.ping()
        except BaseException:
            client.close()
            raise
        return client


def _knock(timeout_s: int) -> None:
    """Connect to the engine's Unix socket and let go: the SDK never closes a socket of its own that found no engine."""
    from docker.utils import parse_host  # noqa: PLC0415 - as above

    address: Any = parse_host(os.environ.get("DOCKER_HOST"))  # text, whatever the stubs say
    kind, _, path = address.partition("://")
    if kind == "http+unix":
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(timeout_s)
            door.connect(f"/{path.removeprefix('/')}")


def engine_trouble(timeout_s: int = 2) -> str | None:
    """Return None when a Docker engine answers, else a sentence on why not and what helps."""
    try:
        connect(timeout_s).close()
    except SandboxError as error:
        return str(error)
    return None


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn what the engine's client raises into a SandboxError that says which command helps."""
    from docker.errors import DockerException, ImageNotFound  # noqa: PLC0415 - as above
    from requests.exceptions import RequestException  # noqa: PLC0415 - as above

    try:
        yield
    except ImageNotFound as error:
        raise SandboxError(f"cannot {doing}: {error.explanation}; run `harness sandbox build`") from error
    except (DockerException, RequestException, OSError) as error:
        raise SandboxError(f"cannot {doing}: {_advice(error)}") from error


def _advice(error: Exception) -> str:
    text = str(error)
    if "Too many open files" in text:  # before what it looks like: the SDK calls this an aborted connection
        return "this process may hold no more open files; raise `ulimit -n`, or run fewer --workers"
    if "PermissionError" in text or "Permission denied" in text:
        return "no permission on its socket; run `sudo usermod -aG docker $USER`, log in again, or use --sandbox local"
    signs = ("No such file", "Connection refused", "Connection aborted")
    if isinstance(error, FileNotFoundError) or any(sign in text for sign in signs):
        at = os.environ.get("DOCKER_HOST")
        answers = f"none answers at DOCKER_HOST={at}" if at else "none answers"
        return f"{answers}; start one, for example `sudo systemctl start docker`, or use --sandbox local"
    if "no space left" in text.lower():
        return f"its disk is full; `docker system prune` makes room ({text})"
    return text

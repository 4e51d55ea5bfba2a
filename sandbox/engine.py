"""The Docker engine: how to reach it, and what to say when it cannot be reached."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

_TIMEOUT_S = 60
_REMOVAL_S = 10  # a hundred times what it takes


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
        if "No such container" in str(error):
            raise SandboxError(f"cannot {doing}: somebody has removed the container; run the command again") from error
        raise SandboxError(f"cannot {doing}: {_advice(error)}") from error


def remove(client: DockerClient, container: str) -> None:
    """Remove a container, by id or name, unless it is gone or going."""
    from docker.errors import APIError, NotFound  # noqa: PLC0415 - as above

    try:
        client.api.remove_container(container, force=True, v=True)
    except NotFound:
        pass
    except APIError as error:
        if "already in progress" not in str(error):
            raise


class Remover:
    """Removes containers, waiting for each; never raises, since the next start sweeps what is left.

    An engine that has once not answered is not asked again: to wait for each of many containers would take minutes.
    """

    def __init__(self) -> None:
        self._client = connect(_REMOVAL_S)
        self._gave_up = False

    def remove(self, container: str) -> None:
        """Remove a container, by id or name."""
        from docker.errors import APIError  # noqa: PLC0415 - as above
        from requests.exceptions import RequestException  # noqa: PLC0415 - as above

        if self._gave_up:
            return
        try:
            with suppress(APIError):  # an answer, if none that helps
                remove(self._client, container)
        except (RequestException, OSError):
            self._gave_up = True

    def close(self) -> None:
        """Let go of the engine."""
        self._client.close()


def is_remote(client: DockerClient) -> bool:
    """Return whether the engine is reached otherwise than by a local socket: on another machine as far as we know."""
    return not str(client.api.base_url).startswith("http+docker://localhost")


def _where() -> str:
    at = os.environ.get("DOCKER_HOST")
    return f"the engine at DOCKER_HOST={at}" if at else "the engine"


def _advice(error: Exception) -> str:
    text = str(error)
    if "Too many open files" in text:  # before what it looks like: the SDK calls this an aborted connection
        return "this process may hold no more open files; raise `ulimit -n`, or run fewer --workers"
    if "PermissionError" in text or "Permission denied" in text:
        return "no permission on its socket; run `sudo usermod -aG docker $USER`, log in again, or use --sandbox local"
    if "timed out" in text.lower():
        return f"{_where()} does not answer any more; `docker info` shows whether it hangs, restart it and run the command again"
    signs = ("No such file", "Connection refused", "Connection aborted")
    if isinstance(error, FileNotFoundError) or any(sign in text for sign in signs):
        at = os.environ.get("DOCKER_HOST")
        answers = f"none answers at DOCKER_HOST={at}" if at else "none answers"
        return f"{answers}; start one, for example `sudo systemctl start docker`, or use --sandbox local"
    if "no space left" in text.lower():
        return f"its disk is full; `docker system prune` makes room ({text})"
    return text

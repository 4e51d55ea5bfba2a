"""The Docker engine: how to reach it, and what to say when it cannot be reached."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

_TIMEOUT_S = 60
_LEAVING_S = 2  # for a runner that was told to, on a busy machine
_REMOVAL_S = 8  # a hundred times what it takes
OTHER_AUTHORITIES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables that the SDK's HTTP library follows in place of the engine's own authority."""

_NO_DESCRIPTORS = "this process may hold no more open files; raise `ulimit -n`, or run fewer --workers"
_NO_PERMISSION = "no permission on its socket; run `sudo usermod -aG docker $USER`, log in again, or use --sandbox local"
_HANGS = "does not answer any more; `docker info` shows whether it hangs, restart it and run the command again"
_NOBODY = ("No such file", "Connection refused", "Connection aborted")
_START = "start one, for example `sudo systemctl start docker`, or use --sandbox local"


def connect(timeout_s: int = _TIMEOUT_S) -> DockerClient:
    """Return a client of the engine that `docker` itself would take: DOCKER_HOST, else the context in use, else the local one.

    Raises:
        SandboxError: none answers, or not to us.
    """
    import docker  # noqa: PLC0415 - a tenth of a second that only those who use it shall pay

    with translated("reach the Docker engine"):
        settings = _settings()
        _knock(settings.get("base_url"), timeout_s)
        client = docker.DockerClient(**settings, timeout=timeout_s)
        try:
            client.ping()
        except BaseException:
            client.close()
            raise
        if not is_remote(client):  # then no proxy lies between, and need not be looked for with each request
            client.api.trust_env = False
        return client


def _settings() -> dict[str, Any]:
    """Return where the engine is, and by which certificates it is spoken with: by the variables, else by the context in use."""
    from docker.context import ContextAPI  # noqa: PLC0415 - as above
    from docker.utils import kwargs_from_env  # noqa: PLC0415 - as above

    settings: dict[str, Any] = {**kwargs_from_env()}
    if "base_url" not in settings:
        context = os.environ.get("DOCKER_CONTEXT")
        if context and ContextAPI.get_context(context) is None:
            raise SandboxError(
                f"there is no Docker context {context!r}, which DOCKER_CONTEXT names; `docker context ls` shows all"
            )
        settings = {**ContextAPI.kwargs_from_context(), **settings}
    address = str(settings.get("base_url", ""))
    if address.startswith("ssh://"):
        raise SandboxError(
            f"the harness does not speak ssh itself, as {address} asks for: have it forward the engine's socket, "
            f"`ssh -NL ./engine.sock:/var/run/docker.sock {address.removeprefix('ssh://')}`, and set "
            "DOCKER_HOST=unix://$PWD/engine.sock"
        )
    return settings


def _knock(host: str | None, timeout_s: int) -> None:
    """Connect to the engine's Unix socket and let go: the SDK never closes a socket of its own that found no engine."""
    from docker.utils import parse_host  # noqa: PLC0415 - as above

    address: Any = parse_host(host)  # text, whatever the stubs say
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
        """Remove a container, by id or name, whose first process was told to leave.

        To see it leave takes a third less CPU time of the engine than to end it.
        """
        from docker.errors import APIError  # noqa: PLC0415 - as above
        from requests.exceptions import RequestException  # noqa: PLC0415 - as above

        if self._gave_up:
            return
        with suppress(APIError, RequestException, OSError):  # it may be paused, or have ended long ago
            self._client.api.wait(container, timeout=_LEAVING_S)
        if self._gave_up:  # meanwhile, for another
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
    """Return " at …" for an engine that somebody has named, "" for the local one."""
    at = os.environ.get("DOCKER_HOST")
    if at:
        return f" at DOCKER_HOST={at}"
    from docker.context import ContextAPI  # noqa: PLC0415 - as above

    address = str(ContextAPI.kwargs_from_context().get("base_url", "")).removeprefix("http+")
    return "" if address in ("", ContextAPI.DEFAULT_CONTEXT.Host) else f" at {address}, by the Docker context in use"


def _advice(error: Exception) -> str:
    text = str(error)
    here = error.errno if isinstance(error, OSError) else None  # what the engine says of itself has no number
    causes = (
        # Before what it looks like: the SDK calls this an aborted connection.
        ("Too many open files" in text, _NO_DESCRIPTORS),
        (here == errno.ENOSPC, f"the disk of this machine is full; make room where temporary files go, {tempfile.gettempdir()}"),
        ("PermissionError" in text or "Permission denied" in text, _NO_PERMISSION),
        ("certificate" in text.lower() or "to an HTTPS server" in text, _untrusted(text)),
        ("timed out" in text.lower(), f"the engine{_where()} {_HANGS}"),
        (isinstance(error, FileNotFoundError) or any(sign in text for sign in _NOBODY), f"none answers{_where()}; {_START}"),
        ("no space left" in text.lower(), f"its disk is full; `docker system prune` makes room ({text})"),
    )
    return next((advice for applies, advice in causes if applies), text)


def _untrusted(text: str) -> str:
    usurper = next((name for name in OTHER_AUTHORITIES if os.environ.get(name)), None)
    hint = "" if usurper is None else f", and unset {usurper}, which stands in for ca.pem"
    return (
        f"the engine{_where()} wants certificates, and these do not do; set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH to a folder "
        f"with ca.pem, cert.pem and key.pem{hint} ({text})"
    )

"""Build and find the sandbox's image. Its tag is a digest of all that goes into it, so that an outdated one is never used."""

from __future__ import annotations

import hashlib
import io
import tarfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sandbox.base import SandboxError
from sandbox.engine import connect, translated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docker import DockerClient

ImageId: TypeAlias = str  # "sha256:..."

REPOSITORY = "dream-harness-sandbox"
VERSION_LABEL = "dream-harness.version"
_VERSION = 2  # of how images are built, beside the files that go into them
_PACKAGE = Path(__file__).parent
_REGISTRY_SILENCE_S = 10


class ImageStatus(StrEnum):
    """Whether the image of this version of the sandbox is there."""

    READY = "ready"
    MISSING = "missing"


def image_version() -> str:
    """Return the digest of what goes into the image of this version of the sandbox."""
    digest = hashlib.sha256(str(_VERSION).encode())
    for name, content in _files():
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def image_tag() -> str:
    """Return the tag of the image that belongs to this version of the sandbox."""
    return f"{REPOSITORY}:{image_version()}"


def require_version(client: DockerClient, name: str) -> None:
    """Look at the image before anything is made from it.

    Raises:
        SandboxError: it is not there, or neither of this version of the sandbox nor built from one that is.
    """
    from docker.errors import ImageNotFound  # noqa: PLC0415 - see sandbox.engine

    with translated(f"look at the image {name}"):
        try:
            found = client.images.get(name).labels.get(VERSION_LABEL)
        except ImageNotFound:
            raise SandboxError(
                f"there is no image {name} on the engine; run `harness sandbox build`, which makes the sandbox's own"
            ) from None
    if found != image_version():
        is_what = f"of version {found} of the sandbox" if found else "not made from the sandbox's own"
        raise SandboxError(
            f"the image {name} is {is_what}, and version {image_version()} is needed; run `harness sandbox build`, and make "
            f"an image of yours anew FROM {image_tag()}"
        )


def image_status() -> ImageStatus:
    """Return whether the image is built.

    Raises:
        SandboxError: no engine answers.
    """
    client = connect()
    try:
        return ImageStatus.READY if _find(client, image_tag()) else ImageStatus.MISSING
    finally:
        client.close()


def image_trouble(name: str) -> str | None:
    """Return None when this image can be used, else a sentence on why not and what helps."""
    try:
        client = connect()
        try:
            require_version(client, name)
        finally:
            client.close()
    except SandboxError as error:
        return str(error)
    return None


def build(base: str | None = None, log: Callable[[str], None] = lambda _line: None) -> ImageId:
    """Return the image of this version, building it where it is not there yet.

    Args:
        base: a base image with Python 3.11 or later; it is always built anew from it. None means the default of
            Dockerfile.sandbox, or, where no registry answers, a base made from Debian packages.
        log: told what happens, a line at a time.

    Raises:
        SandboxError: it cannot be built here; the message says what is missing.
    """
    tag = image_tag()
    client = connect()
    try:
        found = _find(client, tag)
        if found is not None and base is None:
            log(f"image {tag} is there")
            return found
        chosen = base or _default_base()
        if _find(client, chosen) is None and not _pulled(client, chosen, log):
            if base is not None:
                raise SandboxError(
                    f"the base image {base} is neither here nor to be had from a registry; `docker images` shows what is"
                )
            from sandbox.debian import import_base  # noqa: PLC0415 - the rare case

            chosen = import_base(client, f"{REPOSITORY}-base", log)
        log(f"building {tag} on {chosen}")
        with translated("build the sandbox image"):
            image, _ = client.images.build(
                fileobj=_context(),
                custom_context=True,
                dockerfile="Dockerfile",
                tag=tag,
                buildargs={"BASE": chosen},
                labels={VERSION_LABEL: image_version()},
                rm=True,
                network_mode="none",
            )
        log(f"built {tag}")
        return str(image.id)
    finally:
        client.close()


def _find(client: DockerClient, name: str) -> ImageId | None:
    from docker.errors import ImageNotFound  # noqa: PLC0415 - see sandbox.engine

    with translated(f"look for the image {name}"):
        try:
            return str(client.images.get(name).id)
        except ImageNotFound:
            return None


def _pulled(client: DockerClient, name: str, log: Callable[[str], None]) -> bool:
    """Return whether a registry gave the image; one that says nothing for some seconds is taken for absent."""
    from docker.errors import DockerException  # noqa: PLC0415 - see sandbox.engine
    from requests.exceptions import RequestException  # noqa: PLC0415 - see sandbox.engine

    log(f"pulling {name}")
    impatient = connect(_REGISTRY_SILENCE_S)
    try:
        repository, _, tag = name.rpartition(":")
        for _ in impatient.api.pull(repository or name, tag=tag if repository else None, stream=True, decode=True):
            pass
    except (DockerException, RequestException) as error:
        log(f"no registry gave {name}: {str(error)[:200]}")
        return False
    finally:
        impatient.close()
    return _find(client, name) is not None


def _dockerfile() -> Path:
    beside, above = _PACKAGE / "Dockerfile.sandbox", _PACKAGE.parent / "Dockerfile.sandbox"
    return beside if beside.exists() else above  # in an installed wheel / in the source tree


def _default_base() -> str:
    lines = _dockerfile().read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG BASE="))


def _files() -> Iterator[tuple[str, bytes]]:
    yield "Dockerfile", _dockerfile().read_bytes()
    for path in (_PACKAGE / "__init__.py", _PACKAGE / "api.py", *sorted((_PACKAGE / "guest").glob("*.py"))):
        yield f"sandbox/{path.relative_to(_PACKAGE).as_posix()}", path.read_bytes()


def _context() -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in _files():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    buffer.seek(0)
    return buffer

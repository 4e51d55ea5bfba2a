"""Make a base image from Debian packages, for machines that reach a package archive but no registry.

What comes out holds a Python with its standard library and the C libraries that it needs: no shell, no package manager, no
set-uid file.
"""

from __future__ import annotations

import io
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.base import SandboxError
from sandbox.engine import translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from docker import DockerClient

_PACKAGES = ("libc6", "zlib1g", "libexpat1", "libffi8")
_LIBRARIES = (
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libz.so.1",
    "libexpat.so.1",
    "libffi.so.8",
)
_LOADERS = {"x86_64": "lib64/ld-linux-x86-64.so.2", "aarch64": "lib/ld-linux-aarch64.so.1"}
_LEFT_OUT = (
    "test", "idlelib", "lib2to3", "ensurepip", "distutils", "tkinter", "turtledemo", "pydoc_data", "turtle.py", "unittest",
    "venv", "wsgiref", "xmlrpc", "dbm", "curses", "sqlite3", "multiprocessing", "msilib", "__pycache__",
)  # fmt: skip
_EXTENSIONS_LEFT_OUT = (
    "_ssl", "_hashlib", "_curses", "_dbm", "_sqlite3", "_tkinter", "readline", "_crypt", "_test", "_xxtest", "nis", "ossaudiodev",
    "_uuid", "_bz2", "_lzma", "_ctypes_test",
)  # fmt: skip
_EMPTY_FOLDERS = ("proc", "sys", "dev", "etc", "run", "tmp")
_ACCOUNTS = "root:x:0:0::/:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"


def import_base(client: DockerClient, repository: str, log: Callable[[str], None]) -> str:
    """Return the tag of a base image made from this machine's Debian packages.

    Raises:
        SandboxError: this machine has no apt, or apt no packages.
    """
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise SandboxError(
                f"no registry answers, and this machine has no {tool} to make a base image from Debian packages with; "
                "bring an image of Python 3.11 (`docker load`) and run `harness sandbox build --base IMAGE`"
            )
    machine = platform.machine()
    if machine not in _LOADERS:
        raise SandboxError(f"a base image can be made from Debian packages on {', '.join(_LOADERS)}; this machine is {machine}")
    version = _python_version()
    log(f"making a base image with Python {version} from Debian packages")
    with tempfile.TemporaryDirectory(prefix="dream-harness-base-") as folder:
        packages, root = Path(folder, "packages"), Path(folder, "root")
        packages.mkdir()
        minor = ".".join(version.split(".")[:2])
        python = (f"python{minor}-minimal", f"libpython{minor}-minimal", f"libpython{minor}-stdlib")
        _run("apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *python, *_PACKAGES, cwd=packages)
        unpacked = Path(folder, "unpacked")
        for package in sorted(packages.glob("*.deb")):
            _run("dpkg-deb", "-x", str(package), str(unpacked), cwd=packages)
        _assemble(unpacked, root, minor, _LOADERS[machine])
        tag = f"{version}-{machine}".replace("~", "-").replace("+", "-")
        with translated("import the base image"):
            client.api.import_image_from_data(
                _archive(root), repository=repository, tag=tag, changes=[f"ENV PYTHON_VERSION={version}", "ENV PATH=/usr/bin"]
            )
    return f"{repository}:{tag}"


def _python_version() -> str:
    """Return the full version of the distribution's Python, such as "3.11.2"."""
    shown = _run("apt-cache", "show", "python3-minimal", cwd=Path("/"))
    found = re.search(r"^Version: (\d+\.\d+\.\d+)", shown, re.MULTILINE)
    if found is None:
        raise SandboxError("apt knows no package python3-minimal; run `sudo apt-get update`")
    if tuple(map(int, found[1].split("."))) < (3, 11):
        raise SandboxError(
            f"the distribution's Python is {found[1]}; the sandbox needs 3.11 or later: `harness sandbox build --base IMAGE`"
        )
    return found[1]


def _run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise SandboxError(f"`{' '.join(command[:2])}` failed: {lines[-1]}; run `sudo apt-get update` and try again")
    return done.stdout


def _assemble(unpacked: Path, root: Path, minor: str, loader: str) -> None:
    binaries, library = root / "usr/bin", root / f"usr/lib/python{minor}"
    libraries = root / "lib" / _triplet(unpacked)
    for folder in (binaries, libraries, (root / loader).parent, *(root / name for name in _EMPTY_FOLDERS)):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(unpacked / f"usr/bin/python{minor}", binaries / f"python{minor}")
    (binaries / "python3").symlink_to(f"python{minor}")
    extensions = tuple(f"{name}." for name in _EXTENSIONS_LEFT_OUT)

    def left_out(folder: str, names: list[str]) -> set[str]:
        inside = folder.endswith("lib-dynload")
        return {
            name for name in names if (inside and name.startswith(extensions)) or name in _LEFT_OUT or name.startswith("config-")
        }

    shutil.copytree(unpacked / f"usr/lib/python{minor}", library, ignore=left_out, symlinks=False, ignore_dangling_symlinks=True)
    for name, target in ((Path(loader).name, root / loader), *((name, libraries / name) for name in _LIBRARIES)):
        shutil.copy2(next(unpacked.rglob(name)), target)
    (root / "etc/passwd").write_text(_ACCOUNTS, encoding="ascii")


def _triplet(unpacked: Path) -> str:
    return next(unpacked.rglob("libc.so.6")).parent.name


def _archive(root: Path) -> bytes:
    def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(root, arcname=".", filter=owned_by_root)
    return buffer.getvalue()

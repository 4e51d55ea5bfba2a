"""A file as it stands at another commit of the repository that it lies in. Reads through git and changes nothing."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from harness.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_S = 60
_FILE_MODES = frozenset({b"100644", b"100755"})


def read_at(ref: str, path: Path) -> bytes | None:
    """Return a file's bytes at a commit, None where the commit has no such file.

    Raises:
        InputError: git is not there, the folder is in no repository, the commit is not known, or the path is no file there.
    """
    folder = path.parent
    commit = commit_of(ref, folder)
    listed = _git(folder, "ls-tree", "-z", commit, "--", f"./{path.name}")
    if not listed:
        return None
    mode, kind, blob = listed.partition(b"\t")[0].split()
    if mode not in _FILE_MODES:
        raise InputError(f"{path} at {ref}: is a {kind.decode()} of mode {mode.decode()}; expected a regular file")
    return _git(folder, "cat-file", "blob", blob.decode())


def commit_of(ref: str, folder: Path) -> str:
    """Return the digest of the commit that a branch, tag or revision names.

    Raises:
        InputError: git is not there, the folder is in no repository, or the commit is not known.
    """
    _git(folder, "rev-parse", "--is-inside-work-tree")
    try:
        # The suffix makes options of git impossible: none of them ends so.
        found = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except InputError:
        wish = "name a branch, tag or commit that is here; a shallow clone needs it fetched first (fetch-depth: 0)"
        raise InputError(f"git ref {ref!r} is not known in {folder}; {wish}") from None
    return found.decode().strip().splitlines()[-1]


def _git(folder: Path, *args: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - git, with arguments that are no options
            ["git", "-C", str(folder), *args],  # noqa: S607 - the git of the user's path
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise InputError("git is not installed; it is needed to read a policy at another commit") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"git {args[0]} in {folder}: no answer within {_TIMEOUT_S} seconds") from None
    if done.returncode != 0:
        said = next(iter(done.stderr.decode(errors="replace").splitlines()), "no reason given")
        raise InputError(f"git {args[0]} in {folder}: {said}")
    return done.stdout

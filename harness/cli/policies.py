"""Which policy is meant: a file, a version of the store (`v3`, `3`, or `incumbent`), or a template by its name."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import wiring
from harness.errors import InputError, reason_of
from harness.policy import Candidate, Origin
from harness.propose import templates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.config import Settings
    from harness.policy import Version
    from harness.store import Store

_VERSION = re.compile(r"v?([0-9]{1,9})")
INCUMBENT = "incumbent"
"""Stands for the version that is the incumbent; a file of that name is written `./incumbent`."""
_EXPECTED = "a Python file with class Policy, a version such as v3, or the name of a template"
_READ_BYTES = 16 * 2**20
"""No more of a file is read; what a sandbox takes is far less."""


@dataclass(frozen=True, slots=True)
class Named:
    """A policy and how the user named it; `version` is its number where the store knows it."""

    label: str
    candidate: Candidate
    version: int | None = None


def policy(named: str, settings: Settings) -> Named:
    """Return the policy of a version of the store, of a file, or of a template at its defaults; a file comes before a template.

    Raises:
        InputError: there is no such file, version or template.
    """
    if named == INCUMBENT or version_number(named) is not None:
        with wiring.open_store(settings) as store:
            version = stored_version(named, store)
            return Named(f"v{version.number}", version.candidate, version.number)
    if named.endswith(templates.SUFFIX):
        name = Path(named).name.removesuffix(templates.SUFFIX)
        raise InputError(f"{named}: is a template, no policy; one of the harness is taken by its name, here {name}")
    template = None if os.path.lexists(named) else templates.as_it_comes(named)
    return Named(named, Candidate(read(Path(named)), Origin.FILE, f"from {named}") if template is None else template)


def short_name(named: Named) -> str:
    """Return the name of a policy as a file that travels holds it: a path tells of one machine alone."""
    return named.label if named.version is not None or named.candidate.template == named.label else Path(named.label).name


def version_number(named: str) -> int | None:
    """Return the number in `v3` or `3`, None for anything else. A file of such a name is written `./3`."""
    match = _VERSION.fullmatch(named)
    return int(match[1]) if match else None


def stored_version(named: str, store: Store) -> Version:
    """Return a version of the store by its number, or the incumbent by that word.

    Raises:
        InputError: there is no such version.
    """
    if named != INCUMBENT:
        return store.version(required_version(named))
    version = store.incumbent()
    if version is None:
        raise InputError("there is no incumbent yet; `harness promote` makes one")
    return version


def required_version(named: str) -> int:
    """Return the number of a version.

    Raises:
        InputError: the text is no number of a version.
    """
    number = version_number(named)
    if number is None:
        raise InputError(f"version is {named!r}; expected the number of a version, such as v3")
    return number


def read(path: Path) -> str:
    """Return a policy's source. Bytes that are not UTF-8 stay recognisable, so that the check can refuse them by name.

    Raises:
        InputError: the file cannot be read or is no policy by its size.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(_READ_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: {reason}; expected {_EXPECTED}") from error
    if len(raw) > _READ_BYTES:
        raise InputError(f"{path}: has more than {_READ_BYTES} bytes; expected a Python file with class Policy")
    return decoded(raw)


def decoded(raw: bytes) -> str:
    """Return the source that these bytes are."""
    # Editors of some systems begin a file with a byte order mark, which Python reads past.
    return raw.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def params(given: Iterable[str]) -> dict[str, Any]:
    """Return parameters given as NAME=JSON.

    Raises:
        InputError: one is not of this form.
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InputError(f"--param: {text!r} is no NAME=JSON; expected for example width=4")
        try:
            found[name] = json.loads(value, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise InputError(f"--param: {name} is {value!r}; expected JSON, such as 4, 0.5, true or '\"text\"'") from None
    return found


def _refuse_constant(literal: str) -> None:
    raise ValueError(literal)

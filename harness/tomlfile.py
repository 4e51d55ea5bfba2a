"""Read a TOML file that people wrote, and know where each key stands, so that a wrong value can be named by its line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.errors import InputError, reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MOST_BYTES = 2**20
"""No more of a file is read."""
_LARGEST = 2**63
_TOO_LARGE = "holds a whole number of more than 64 bits; expected none above 2^63"
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A TOML file: its values, and the text that they stand in. `name` is what messages call it."""

    name: str
    text: str
    values: Mapping[str, Any]

    def where(self, key: str, table: str = "") -> str:
        """Return file and line of a key of a table, or of the table itself where the key is empty.

        The file alone is named where the key is written in some unusual way.
        """
        written = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
        inside = ""
        for number, line in enumerate(self.text.splitlines(), start=1):
            header = _TABLE.match(line)
            if header is not None:
                inside = header[1].strip("\"'")
            if inside == table and (bool(header) if not key else bool(written.match(line))):
                return f"{self.name}:{number}"
        return self.name


def read(path: Path, wanted: str, example: str) -> TomlFile:
    """Return a file; `wanted` says in words what it should be, and `example` shows a line of it.

    Raises:
        InputError: it cannot be read, or is no TOML.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {reason_of(error)}; expected a readable {wanted}") from error
    return parse(str(path), raw, wanted, example)


def parse(name: str, raw: bytes, wanted: str, example: str) -> TomlFile:
    """Return a file from its bytes.

    Raises:
        InputError: it is too long, or no TOML.
    """
    if len(raw) > _MOST_BYTES:
        raise InputError(f"{name}: has more than {_MOST_BYTES} bytes; expected a {wanted}")
    try:
        text = raw.decode()
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: byte {error.start + 1} is not UTF-8; expected a TOML file") from error
    except RecursionError:
        raise InputError(f"{name}: nests too deep; expected lines such as {example}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: not TOML: {error}; expected lines such as {example}") from error
    except ValueError:  # Python's own limit of digits
        raise InputError(f"{name}: {_TOO_LARGE}") from None
    if not _are_small(values):
        raise InputError(f"{name}: {_TOO_LARGE}")
    return TomlFile(name, text, values)


def _are_small(value: Any) -> bool:
    """Return whether all whole numbers fit in 64 bits, as TOML has it: a larger one is no float, and may not be printed."""
    if isinstance(value, int):
        return -_LARGEST <= value < _LARGEST
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_are_small, inner))

"""Tables of a TOML file that people write: each value is checked when it is asked for, and refused by line, value and wish."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn

from harness.errors import InputError, reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.tomlfile import TomlFile


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the file; every value that is asked for is checked, and refused with its place."""

    file: TomlFile
    name: str
    values: Mapping[str, Any]
    folder: Path

    def refuse(self, key: str, wanted: str) -> NoReturn:
        """Say what is wrong with the value of a key, or that there is none."""
        where, full = self._where(key), f"{self.name}.{key}".lstrip(".")
        if key not in self.values:
            raise InputError(f"{where}: {full!r} is missing; expected {wanted}")
        shown = repr(self.values[key])
        shown = shown if len(shown) <= 80 else shown[:77] + "..."  # noqa: PLR2004 - a message stays readable
        raise InputError(f"{where}: {full!r} is {shown}; expected {wanted}")

    def only(self, *known: str) -> None:
        """Refuse keys that mean nothing here."""
        for key in self.values:
            if key not in known:
                full = f"{self.name}.{key}".lstrip(".")
                raise InputError(f"{self._where(key)}: {full!r} is not known; expected one of {', '.join(known)}")

    def _where(self, key: str) -> str:
        """Return the place of a key, of its table where it stands in none of its own lines, or of the table around."""
        outer, _, inner = self.name.rpartition(".")
        found = (
            self.file.where(key, self.name),
            self.file.where("", f"{self.name}.{key}".lstrip(".")),
            self.file.where(inner, outer) if self.name else self.file.name,
            self.file.where("", self.name) if self.name else self.file.name,
        )
        return next((where for where in found if where != self.file.name), self.file.name)

    def table(self, key: str, missing: Mapping[str, Any] | None = None) -> Table:
        """Return the table of a key, `missing` where there is none."""
        full = f"{self.name}.{key}".lstrip(".")
        value = self.values.get(key, missing)
        if not isinstance(value, dict):
            self.refuse(key, f"a table: lines below [{full}]")
        return Table(self.file, full, value, self.folder)

    def word(self, key: str) -> str:
        """Return a string that is not empty, without the space around it."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            self.refuse(key, "a string that is not empty")
        return value.strip()

    def words(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, none of them empty."""
        value = self.values.get(key)
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(word, str) and word and "\0" not in word for word in value)
        ):
            self.refuse(key, "a list of strings, none of them empty or with a zero byte")
        return tuple(value)

    def number(self, key: str, above: float = -math.inf) -> float | None:
        """Return a finite number, None where there is none."""
        value = self.values.get(key)
        if value is None:
            return None
        wanted = "a finite number" if above == -math.inf else f"a finite number above {above:g}"
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf or not value > above:
            self.refuse(key, wanted)
        return float(value)

    def count(self, key: str, least: int = 1) -> int | None:
        """Return a whole number, None where there is none."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.refuse(key, f"a whole number of at least {least}")
        return value

    def path(self, key: str, *, is_folder: bool) -> Path:
        """Return a folder or file inside of `folder`."""
        kind = "folder" if is_folder else "file"
        pure = PurePosixPath(self.word(key))
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            self.refuse(key, f"the name of a {kind} inside {self.folder}")
        path = self.folder / pure
        try:
            is_there = path.is_dir() if is_folder else path.is_file()
        except OSError as error:  # such as a name that is too long
            self.refuse(key, f"a {kind} that is there; {reason_of(error)}")
        if not is_there:
            self.refuse(key, f"a {kind} that is there; {path} is none")
        if not path.resolve().is_relative_to(self.folder.resolve()):
            self.refuse(key, f"the name of a {kind} inside {self.folder}; a link leads out of it")
        return path

"""A policy under version control: `policies/NAME/policy.py`, and `policy.toml` with everything that fixes its judgement.

What `policy.toml` pins holds against settings files and variables, so that a verdict means the same on every machine. The
trees are named by the digest of their set: other trees are refused, not judged on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import config, gitfile, tomlfile
from harness.config import near, without_password
from harness.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.config import Loaded
    from harness.tomlfile import TomlFile

POLICY, RULES = "policy.py", "policy.toml"
FORMAT = "policy/1"
LIMITS = ("max_batch", "max_rounds", "max_attempts", "frontier", "seed")
VALUE = ("beta1", "beta2", "normalize", "objective", "weight", "group_by")
GATE = (
    "alpha", "min_gain", "quality_margin", "group_margin", "max_off_support", "max_decision_cpu_s", "resamples", "power",
    "repeats",
)  # fmt: skip
PROCESS = ("load_cpu_s", "decision_cpu_s", "replay_cpu_s", "wall_factor", "memory_mib", "output_kib")
SETTINGS: Mapping[str, tuple[str, ...]] = {"limits": LIMITS, "value": VALUE, "gate": GATE, "process": PROCESS}
TABLES: Mapping[str, tuple[str, ...]] = {"trees": ("paths", "digest"), **SETTINGS}
_TOP = ("format", "description", *TABLES)
_DIGEST_LENGTH = 64


@dataclass(frozen=True, slots=True)
class PolicyFolder:
    """A policy's folder, read strictly: where its trees are, which set they must be, and the settings that it pins."""

    folder: Path
    rules: TomlFile
    trees: tuple[Path, ...]
    set_digest: str

    @property
    def policy(self) -> Path:
        """Return the policy's file."""
        return self.folder / POLICY

    @property
    def pins(self) -> Mapping[str, Any]:
        """Return the settings that hold for this policy, by name."""
        return {key: value for table in SETTINGS for key, value in self.rules.values.get(table, {}).items()}

    def pinned(self, loaded: Loaded) -> Loaded:
        """Return the settings with what this folder pins.

        Raises:
            InputError: a value is wrong, or a flag says otherwise.
        """
        places = {key: self.rules.where(key, table) for table in TABLES for key in self.rules.values.get(table, {})}
        return config.pinned(loaded, self.pins, {key: places[key] for key in self.pins})

    def refuse_other_trees(self, given: Sequence[Path], found: str) -> None:
        """Refuse a set of trees that is not the pinned one.

        Raises:
            InputError: it is another set.
        """
        if found != self.set_digest:
            where = " ".join(map(str, given)) or "the store"
            wish = "give the trees that are pinned, or pin these in a change of its own"
            place = self.rules.where("digest", "trees")
            raise InputError(f"{place}: digest is {self.set_digest}, and the trees of {where} have {found}; {wish}")


def read(folder: Path) -> PolicyFolder:
    """Return a policy's folder.

    Raises:
        InputError: a file is missing, or something in `policy.toml` is wrong; the message names line, key, value and wish.
    """
    path = folder / RULES
    if not (folder / POLICY).is_file():
        raise InputError(f"{folder}: has no {POLICY}; expected a folder with {POLICY} and {RULES}")
    for file in (folder / POLICY, path):
        # What it leads to would change without it, and with nobody judging; and may be no business of whoever wrote the link.
        if file.is_symlink():
            raise InputError(f"{file}: is a symbolic link; expected a regular file, which alone is what lands")
    rules = tomlfile.read(path, f"{RULES} beside the policy", "max_batch = 8")
    _refuse_unknown(rules)
    trees = rules.values["trees"]
    paths = trees.get("paths", [])
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise InputError(f"{rules.where('paths', 'trees')}: paths is {paths!r}; expected a list of files and folders")
    if "digest" not in trees:
        raise InputError(
            f"{rules.name}: [trees] has no digest; expected that of the set, which `harness trees list PATH…` prints"
        )
    digest = trees["digest"]
    if not isinstance(digest, str) or len(digest) != _DIGEST_LENGTH or not set(digest) <= set("0123456789abcdef"):
        wish = "expected the digest of the set, which `harness trees list PATH…` prints"
        raise InputError(f"{rules.where('digest', 'trees')}: digest is {digest!r}; {wish}")
    return PolicyFolder(folder, rules, tuple(folder / path for path in paths), digest)


def _refuse_unknown(rules: TomlFile) -> None:
    for key, value in rules.values.items():
        if key not in _TOP:
            table = key if isinstance(value, dict) else ""
            hint = near(key, _TOP) or f"; expected one of {', '.join(_TOP)}"
            raise InputError(f"{rules.where('' if table else key, table)}: {key} is not known here{hint}")
    if rules.values.get("format") != FORMAT:
        raise InputError(f"{rules.where('format')}: format is {rules.values.get('format')!r}; expected {FORMAT!r}")
    if not isinstance(rules.values.get("description", ""), str):
        raise InputError(f"{rules.where('description')}: description is {rules.values['description']!r}; expected text")
    for table, keys in TABLES.items():
        inside = rules.values.get(table, {})
        if not isinstance(inside, dict):
            raise InputError(f"{rules.where(table)}: {table} is {inside!r}; expected a table, [{table}]")
        for key in inside:
            if key not in keys:
                hint = near(key, keys) or f"; expected one of {', '.join(keys)}"
                raise InputError(f"{rules.where(key, table)}: {key} is not known in [{table}]{hint}")
    if "trees" not in rules.values:
        raise InputError(f"{rules.name}: has no table [trees]; expected one with the digest of the trees")


def changed_rules(folder: PolicyFolder, ref: str) -> list[str]:
    """Return what `policy.toml` says otherwise than at a commit, a line each; empty where nothing did or it is new.

    Raises:
        InputError: the commit cannot be read.
    """
    raw = gitfile.read_at(ref, folder.folder / RULES)
    if raw is None or raw == folder.rules.text.encode():
        return []
    return _differences(f"{folder.rules.name} at {ref}", raw, folder.rules.values)


def changed_settings(file: Path | None, ref: str) -> list[str]:
    """Return what the settings file of the working directory says otherwise than at a commit, a line each.

    `file` is the one in use; of another one, and outside of a repository, no commit tells.
    """
    if file not in (None, config.FILE):
        return []
    try:
        raw = gitfile.read_at(ref, Path.cwd() / config.FILE)
    except InputError:
        return []
    now = {} if file is None else tomlfile.read(file, "settings file", "max_batch = 8").values
    return _differences(f"{config.FILE} at {ref}", raw or b"", now)


def _differences(name: str, raw: bytes, values: Mapping[str, Any]) -> list[str]:
    try:
        before = _flat(tomlfile.parse(name, raw, RULES, "max_batch = 8").values)
    except InputError:
        return ["it was no TOML before"]
    now = _flat(values)
    keys = dict.fromkeys((*before, *now))
    return [f"{key} {_said(before, key)} -> {_said(now, key)}" for key in keys if before.get(key) != now.get(key)]


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= {f"{key}.{inner}": of for inner, of in value.items()} if isinstance(value, dict) else {key: value}
    return flat


def _said(values: Mapping[str, Any], key: str) -> str:
    return without_password(repr(values[key])) if key in values else "(default)"

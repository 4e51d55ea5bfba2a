"""Read and write manifests. Reading is strict: what is wrong is named by file, field and value, with what was expected."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from harness import wholefile
from harness.errors import InputError, reason_of
from harness.gate.document import verdict_from
from harness.jsonlines import shown
from harness.manifest.records import FORMAT, Manifest
from harness.policy import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pydantic_core import ErrorDetails

    from harness.manifest.records import Judged

_BYTES = 256 * 2**20
"""No more of a file is read."""
_DIGEST_LENGTH = 64
_EXPORTED = "exported-policy/1"
"""What `harness export` writes beside a policy: its verdicts stand in it, each with its manifest."""
_ONE_LINE = 4
"""Depth from which a value stands on one line: a replay is one, a manifest is read by people too."""


def plain(manifest: Manifest) -> dict[str, Any]:
    """Return a manifest as a value of JSON, as a file would hold it."""
    said: dict[str, Any] = json.loads("".join(_lines(asdict(manifest))))
    return said


def write(manifest: Manifest, path: Path) -> None:
    """Write a manifest whole or not at all, replacing what was there.

    Raises:
        InputError: the place cannot be written.
    """
    wholefile.write(path, [*_lines(asdict(manifest)), "\n"], "a manifest")


def _lines(value: Any, depth: int = 0) -> Iterator[str]:
    brackets = "{}" if isinstance(value, dict) else "[]" if isinstance(value, list | tuple) else ""
    if depth >= _ONE_LINE or not brackets or not value:
        yield json.dumps(value, allow_nan=False)
        return
    inside = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for place, (name, item) in enumerate(inside):
        yield ("," if place else brackets[0]) + "\n" + " " * (depth + 1)
        if name is not None:
            yield json.dumps(name) + ": "
        yield from _lines(item, depth + 1)
    yield "\n" + " " * depth + brackets[1]


def read(path: Path) -> Manifest:
    """Return the manifest of a file; of an exported policy that of its last verdict which has one.

    Raises:
        InputError: the file cannot be read, or is no manifest that this version knows.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {reason_of(error)}; expected a readable manifest") from error
    if len(raw) > _BYTES:
        raise InputError(f"{path}: has more than {_BYTES // 2**20} MiB; expected a manifest")
    said = _decoded(path, raw)
    if isinstance(said, dict) and said.get("format") == _EXPORTED:
        said = _of_export(path, said)
        raw = json.dumps(said).encode()
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        found = said.get("format") if isinstance(said, dict) else said
        raise InputError(f"{path}: format is {shown(found)}; expected {FORMAT!r}, a file that --manifest wrote")
    try:
        manifest = TypeAdapter(Manifest).validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InputError(f"{path}: {_told(first)}") from None
    _refuse_incoherent(path, manifest)
    return manifest


def _of_export(path: Path, said: Mapping[str, Any]) -> Any:
    verdicts = said.get("verdicts")
    rows = [row for row in verdicts if isinstance(row, dict)] if isinstance(verdicts, list) else []
    last = next((row["manifest"] for row in reversed(rows) if row.get("manifest")), None)
    if last is None:
        raise InputError(f"{path}: is an exported policy without a verdict that could be made again; expected a manifest")
    return last


def _decoded(path: Path, raw: bytes) -> Any:
    try:
        return json.loads(raw.decode(), object_pairs_hook=_distinct, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start + 1} is not UTF-8; expected a manifest") from None
    except RecursionError:
        raise InputError(f"{path}: nests too deep; expected a manifest") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}; expected a manifest") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"field {shown(twice)} stands twice in one object")
    return made


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no finite number")


def _told(error: ErrorDetails) -> str:
    """Return a sentence for what pydantic found."""
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).removeprefix(".")
    if error["type"] == "missing":
        return f"{field} is missing; expected a manifest of the format {FORMAT!r}"
    if error["type"] == "unexpected_keyword_argument":
        return f"{field} is no field of the format {FORMAT!r} (value {shown(error['input'])})"
    wish = error["msg"].removeprefix("Input should be ")
    return f"{field} is {shown(error['input'])}; expected {wish[:1].lower()}{wish[1:]}"


def _refuse_incoherent(path: Path, manifest: Manifest) -> None:
    """Refuse what has the right form and contradicts itself."""
    names: set[str] = set()
    for place, policy in enumerate(manifest.policies):
        if policy.name in names:
            raise InputError(f"{path}: policies[{place}].name is {shown(policy.name)} again; expected each name once")
        names.add(policy.name)
        digest = digest_of(policy.source)
        if policy.digest != digest:
            raise InputError(f"{path}: policies[{place}].digest is {policy.digest!r}; expected that of its source, {digest}")
    trees: set[str] = set()
    for place, tree in enumerate(manifest.trees):
        if len(tree.digest) != _DIGEST_LENGTH or tree.digest in trees:
            raise InputError(f"{path}: trees[{place}].digest is {shown(tree.digest)}; expected 64 hex digits, each tree once")
        trees.add(tree.digest)
    if not manifest.judged:
        raise InputError(f"{path}: judged is []; expected at least one policy over a set of trees")
    for place, judged in enumerate(manifest.judged):
        _refuse_strangers(f"{path}: judged[{place}]", judged, names, trees)
    if manifest.verdict is not None:
        _refuse_no_verdict(path, manifest)


def _refuse_strangers(where: str, judged: Judged, policies: set[str], trees: set[str]) -> None:
    if judged.policy not in policies:
        raise InputError(f"{where}.policy is {shown(judged.policy)}; expected a name among policies")
    for place, replay in enumerate(judged.replays):
        if replay.tree not in trees:
            raise InputError(f"{where}.replays[{place}].tree is {shown(replay.tree)}; expected a digest among trees")


def _refuse_no_verdict(path: Path, manifest: Manifest) -> None:
    digests = {policy.name: policy.digest for policy in manifest.policies}
    judged = {digests[judged.policy] for judged in manifest.judged}
    try:
        verdict = verdict_from(manifest.verdict or {})
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: verdict is none that a gate writes: {error}") from None
    if verdict.look is None:
        raise InputError(f"{path}: verdict.look is None; expected the look that was taken, without which nothing is judged again")
    for side, digest in (("candidate", verdict.candidate), ("incumbent", verdict.incumbent)):
        if digest not in judged:
            raise InputError(f"{path}: verdict.{side} is {shown(digest)}; expected the digest of a policy that was judged")

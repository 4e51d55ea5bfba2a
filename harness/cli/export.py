"""`harness export`: a version as files that stand by themselves, `policy.py` and `manifest.json`.

A manifest stands only beside the policy that it tells of: whenever a write is cut off, there is a whole export or none.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harness import __version__, promotion, wiring
from harness.cli.lineage import lineage
from harness.cli.output import say, say_json
from harness.cli.policies import stored_version
from harness.cli.written import brief_document, written
from harness.errors import InputError
from harness.gate.document import document
from harness.policy import digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from harness.config import Settings
    from harness.policy import Version
    from harness.store import RecordedVerdict, Store

FORMAT = "exported-policy/1"
POLICY, MANIFEST = "policy.py", "manifest.json"


def export(named: str, folder: Path, force: bool, settings: Settings, as_json: bool) -> int:
    """Write a version into a folder."""
    with wiring.open_store(settings) as store:
        version = stored_version(named, store)
        manifest = exported(store, version)
    _refuse_other(folder, version, force)
    _write(folder, _source(version), json.dumps(manifest, indent=2, allow_nan=False).encode() + b"\n")
    if as_json:
        say_json({"folder": str(folder), "files": [str(folder / POLICY), str(folder / MANIFEST)], "manifest": manifest})
    else:
        say(f"v{version.number} is in {folder}: {POLICY}, {MANIFEST}")
    return 0


def exported(store: Store, version: Version) -> dict[str, Any]:
    """Return the manifest of a version: the same each time, as long as nothing more is decided about it."""
    candidate = version.candidate
    turns = [event for event in store.turns() if version.number in {event.to, event.version}]
    by_model = written(store, version)
    return {
        "format": FORMAT,
        "harness": __version__,
        "version": version.number,
        "digest": candidate.digest,
        "incumbent": promotion.succession(store).incumbent == version.number,
        "created_at": version.created_at,
        "origin": candidate.origin.value,
        "template": candidate.template,
        "params": dict(candidate.params),
        "rationale": candidate.rationale,
        **({} if by_model is None else {"written": brief_document(by_model)}),
        "lineage": [
            {"version": ancestor.number, "digest": ancestor.candidate.digest, "origin": ancestor.candidate.origin.value}
            for ancestor in lineage(store, version)
        ],
        "verdicts": [verdict_document(row) for row in store.verdicts(version.number) if row.candidate == version.number],
        "promotions": [asdict(event) for event in turns],
    }


def verdict_document(row: RecordedVerdict) -> dict[str, Any]:
    """Return a verdict as it is recorded."""
    head = {"number": row.number, "candidate": row.candidate, "incumbent": row.incumbent, "by": row.by, "at": row.at}
    return head | {"digest": row.digest, "verdict": document(row.verdict), "manifest": row.manifest or None}


def _source(version: Version) -> bytes:
    try:
        return version.candidate.source.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"v{version.number}: its source is no text ({error.reason}) and makes no file") from error


def _refuse_other(folder: Path, version: Version, force: bool) -> None:
    """Refuse a folder with another policy, or something that is none of ours."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is no folder; expected one to write {POLICY} and {MANIFEST} to")
    if force:
        return
    policy, manifest = folder / POLICY, folder / MANIFEST
    if policy.exists() and digest_of(policy.read_bytes().decode("utf-8", "surrogateescape")) != version.candidate.digest:
        raise InputError(f"{policy}: is another policy than v{version.number}; --force replaces it")
    if manifest.exists() and not _is_ours(manifest):
        raise InputError(f"{manifest}: is no manifest of an exported policy; --force replaces it")


def _is_ours(manifest: Path) -> bool:
    try:
        said = json.loads(manifest.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("format") == FORMAT


def _write(folder: Path, policy: bytes, manifest: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drafts = {folder / POLICY: policy, folder / MANIFEST: manifest}
    try:
        for target, content in drafts.items():
            _write_through(_draft(target), content)
        (folder / MANIFEST).unlink(missing_ok=True)  # it tells of what is replaced next
        for target in drafts:
            _draft(target).replace(target)
        _sync_folder(folder)
    finally:
        for target in drafts:
            _draft(target).unlink(missing_ok=True)


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}")


def _write_through(file: Path, content: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)

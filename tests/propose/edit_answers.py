"""Answers as they were recorded, and the policies that they edit."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.policy import Candidate, Origin
from harness.propose.edits import EditKind
from harness.propose.templates import defaults, load, render

HERE = Path(__file__).parent
TEMPLATES = load(HERE / "templates")
WRITTEN = (HERE / "written.policy").read_text()
PARENTS = {
    "written": Candidate(WRITTEN, Origin.MODEL),
    "crlf": Candidate(WRITTEN.replace("\n", "\r\n"), Origin.FILE),
    **{
        template.name: Candidate(render(template, defaults(template)), Origin.TEMPLATE, "", template.name, defaults(template))
        for template in TEMPLATES
    },
}


@dataclass(frozen=True)
class Recorded:
    """One answer: its text, what it answers, and what is expected of it."""

    name: str
    text: str
    kind: EditKind
    parents: tuple[Candidate, ...]
    cut: bool
    expected: dict[str, Any]


def recorded() -> list[Recorded]:
    """Return every answer of the folder, by name."""
    return [_read(file) for file in sorted((HERE / "answers").glob("*.answer"))]


def _read(file: Path) -> Recorded:
    head, _, answer = file.read_bytes().partition(b"\n%%%\n")
    said = tomllib.loads(head.decode())
    parents = tuple(PARENTS[name] for name in said["parents"])
    return Recorded(file.stem, answer.decode(), EditKind(said["kind"]), parents, said.get("cut", False), said)

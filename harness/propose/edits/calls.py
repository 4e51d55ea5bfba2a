"""Read an answer that is JSON in place of text, such as a tool call: find the code or the edits in it and write them as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from harness.propose.edits import marks

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEARCH = ("search", "old_str", "old_string", "old", "original", "find")
_REPLACE = ("replace", "new_str", "new_string", "new", "updated", "replacement")
_CODE = ("code", "source", "content", "file_text", "new_source", "policy", "python", "text", "answer", "input", "diff", "patch")
_SECTIONS = {"rationale": "rationale", "explanation": "rationale", "lesson": "lesson"}
_DEPTH = 8
_ENTRIES = 200


def as_text(text: str) -> str | None:
    """Return what a JSON answer says, as blocks, code and sections; None where it is no JSON or says no such thing."""
    lines = marks.unfenced(text.split("\n"))
    try:
        value = json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return None
    said = list(_said(value))
    return "\n".join(said) if said else None


def _said(value: object) -> Iterator[str]:
    """Walk through the JSON, not deeper than tool calls nest, and yield what has the name of an edit."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    seen = 0
    while waiting and seen < _ENTRIES:
        entry, depth = waiting.pop()
        seen += 1
        if depth > _DEPTH:
            continue
        if isinstance(entry, list):
            waiting.extend((inner, depth + 1) for inner in reversed(entry[:_ENTRIES]))
        elif isinstance(entry, str):
            inner = _decoded(entry)
            waiting.extend([(inner, depth + 1)] if isinstance(inner, dict | list) else [])
        elif isinstance(entry, dict):
            yield from _edit(entry)
            waiting.extend((inner, depth + 1) for inner in list(entry.values())[:_ENTRIES][::-1])


def _edit(entry: dict[str, object]) -> Iterator[str]:
    texts = {name: value for name, value in entry.items() if isinstance(value, str)}
    for name, section in _SECTIONS.items():
        if name in texts:
            yield f"<{section}>{texts[name]}</{section}>"
    search = next((texts[name] for name in _SEARCH if name in texts), None)
    replace = next((texts[name] for name in _REPLACE if name in texts), None)
    if search is not None and replace is not None:
        yield "\n".join([marks.SEARCH, *_lines(search), marks.DIVIDER, *_lines(replace), marks.REPLACE])
        return
    code = next((texts[name] for name in _CODE if "\n" in texts.get(name, "") and _decoded(texts[name]) is None), None)
    if code is not None:
        structured = any(marks.fence(line) or marks.begins(line) for line in code.split("\n"))
        yield code if structured else f"```python\n{code}\n```"


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _decoded(text: str) -> object:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

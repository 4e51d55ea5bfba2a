"""Read an object from an answer: JSON, TOML, a Python literal or lines of `name = value`; alone, fenced or in the midst of prose.

Nothing is evaluated. Texts longer than an object can be are not looked at, and only the first few places where one may begin.
"""

from __future__ import annotations

import ast
import json
import tomllib
import warnings
from typing import TYPE_CHECKING, TypeAlias

from harness.propose.edits import marks
from harness.source import scan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

CHARACTERS = 20_000
_PLACES = 16
_WORDS = {"true": True, "false": False, "null": None}

Object: TypeAlias = dict[str, object]


def objects(lines: Sequence[str], names: Collection[str]) -> list[Object]:
    """Return the objects of an answer, in order: those that are fenced or written out, else what lines say of known names."""
    parts = [lines[part.first : part.last] for part in marks.fenced(lines)]
    found = [read for part in parts if (read := read_object("\n".join(part))) is not None]
    if not found:
        text = "\n".join(lines)
        whole = read_object(text)
        found = list(_embedded(text)) if whole is None else [whole]
    if not found:
        said = _said(lines, names)
        found = [said] if said else []
    return found


def read_object(text: str) -> Object | None:
    """Return the object that a text is, None where it is none."""
    text = text.strip()
    if not text or len(text) > CHARACTERS:
        return None
    for read in (json.loads, _literal, tomllib.loads):
        try:
            value = read(text)
        except (ValueError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict) and value:
            return {str(name): entry for name, entry in value.items()}
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            return {str(name): entry for name, entry in value[0].items()}
    return None


def scalar(text: str) -> object:
    """Return the value that a text writes out, or the text itself."""
    text = text.strip().strip("`").rstrip(",;").strip()
    if not text or len(text) > marks.MARK_CHARACTERS:
        return text
    try:
        return _literal(text)
    except (ValueError, RecursionError, MemoryError):
        return text


def _embedded(text: str) -> Iterator[Object]:
    """Yield the objects in braces that stand in a text."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    for _ in range(_PLACES):
        if at < 0:
            return
        end = at + 1
        try:
            value, end = decoder.raw_decode(text[: at + CHARACTERS], at)
        except (ValueError, RecursionError):
            closing = text.find("}", at, at + CHARACTERS)
            value = read_object(text[at : closing + 1]) if closing > 0 else None
            end = closing + 1 if value else at + 1
        if isinstance(value, dict) and value:
            yield {str(name): entry for name, entry in value.items()}
        at = text.find("{", end)


def _said(lines: Sequence[str], names: Collection[str]) -> Object:
    """Return what lines such as `width = 12`, `- width: 12` or `**width**: 12` say of known names."""
    said: Object = {}
    for line in lines:
        bare = line.strip().lstrip("-*•> ") if len(line) <= marks.MARK_CHARACTERS else ""
        ends = [bare.find(sign) for sign in "=:" if sign in bare]
        name = bare[: min(ends)].strip("*_`\"' ").strip() if ends else ""
        if name in names:
            value = bare[min(ends) + 1 :].strip("*").partition("#")[0]
            said[name] = scalar(value)
    return said


def _literal(text: str) -> object:
    """Read a Python literal in which JSON's words stand for themselves."""
    if not scan(text).parsable:
        raise ValueError
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expression = ast.parse(text, "<answer>", mode="eval").body
    except SyntaxError as error:
        raise ValueError from error
    return _value(expression)


def _value(node: ast.expr | None) -> object:
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float, str, type(None)):
        return node.value
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = _value(node.operand)
        if type(number) is int or type(number) is float:
            return -number if isinstance(node.op, ast.USub) else number
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(entry) for entry in node.elts]
    if isinstance(node, ast.Dict):
        return {str(_value(name)): _value(value) for name, value in zip(node.keys, node.values, strict=True)}
    raise ValueError

"""What may be set in a policy that no template declares: its constants, and the defaults with which it reads `context.params`.

A version is known by its code, so what is set is written into the code: the same code with other parameters would pass for the
version that was judged before.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from harness.propose.edits.samecode import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.propose.templates import Value


class Settable(NamedTuple):
    """A value in a source, and the places where it stands: (line, column, end line, end column), columns in bytes."""

    value: Value
    places: tuple[tuple[int, int, int, int], ...]


def settable(source: str, params: Mapping[str, object]) -> dict[str, Settable]:
    """Return what may be set in a source, by name.

    Constants are assigned once at top level, in capitals, to a number, text or truth. Parameters are read as
    `….params["name"]` or `….params.get("name", default)`; `params` are those that the policy is given.
    """
    tree = parsed(source)
    if tree is None:
        return {}
    found: dict[str, Settable] = {}
    twice: set[str] = set()
    for name, assigned in _assigned(tree):
        if name in found:
            twice.add(name)
        constant = _scalar(assigned)
        if constant is not None:
            found[name] = Settable(constant, (_place(assigned),))
    for name, value, node in _read(tree, params):
        places = found[name].places if name in found else ()
        found[name] = Settable(value, (*places, _place(node)))
    return {name: entry for name, entry in found.items() if name not in twice}


def rewritten(source: str, values: Mapping[Settable, Value]) -> str:
    """Return the source with other values in these places."""
    lines = [line.encode() for line in source.split("\n")]
    edits = [(place, value) for entry, value in values.items() for place in entry.places]
    for (line, column, end, end_column), value in sorted(edits, key=lambda edit: edit[0][:2], reverse=True):
        tail = lines[end - 1][end_column:]
        lines[line - 1 : end] = [lines[line - 1][:column] + repr(value).encode() + tail]
    return b"\n".join(lines).decode()


def _assigned(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    assigned: list[tuple[str, ast.expr]] = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name) and target.id.isupper():
            assigned.append((target.id, value))
    return assigned


def _read(tree: ast.Module, params: Mapping[str, object]) -> list[tuple[str, Value, ast.expr]]:
    """Return what is read from `context.params`: name, value as it is, and the expression that can be replaced by another."""
    read: list[tuple[str, Value, ast.expr]] = []
    name: ast.expr
    default: ast.expr | None
    place: ast.expr
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_params(node.value) and isinstance(node.ctx, ast.Load):
            name, default, place = node.slice, None, node
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and _is_params(node.func.value)
            and len(node.args) == 2  # noqa: PLR2004 - a name and a default
        ):
            name, default, place = node.args[0], node.args[1], node.args[1]
        else:
            continue
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            given = params.get(name.value)
            value = given if type(given) in (bool, int, float, str) else _scalar(default)
            if value is not None:
                read.append((name.value, value, place))  # type: ignore[arg-type] # the line above asks for its exact type
    return read


def _is_params(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "params"


def _scalar(node: ast.expr | None) -> Value | None:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if not isinstance(node, ast.Constant) or isinstance(node.value, bytes | complex):
        return None
    value = node.value
    if isinstance(value, bool | str):
        return value if sign == 1 else None
    return sign * value if isinstance(value, int | float) else None


def _place(node: ast.expr) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset

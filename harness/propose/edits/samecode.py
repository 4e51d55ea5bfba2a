"""Tell whether two sources are the same code, and whether a text is code at all. Nothing is executed."""

from __future__ import annotations

import ast
import hashlib
import warnings

from harness.source import scan

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def same_code(a: str, b: str) -> bool:
    """Return whether two sources differ in nothing but layout, comments and docstrings.

    Sources that Python cannot read are the same where their text is.
    """
    if a == b:
        return True
    trees = parsed(a), parsed(b)
    if trees[0] is None or trees[1] is None:
        return trees[0] is trees[1] and _lines(a) == _lines(b)
    return _alike(trees[0], trees[1])


def shape(source: str) -> str:
    """Return what sources that are the same code have in common, in hex: one look instead of a comparison with each of many."""
    told = hashlib.sha256()
    tree = parsed(source)
    waiting: list[object] = ["\n".join(_lines(source)) if tree is None else tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.AST):
            told.update(f"{type(one).__name__}(".encode())
            waiting.extend(_part(one, name) for name in one._fields if name != "kind")
        elif isinstance(one, list):
            told.update(f"[{len(one)}:".encode())
            waiting.extend(one)
        else:
            told.update(f"{type(one).__name__}:{_leaf(one)};".encode("utf-8", "surrogatepass"))
    return told.hexdigest()


def parsed(source: str) -> ast.Module | None:
    """Return a source as Python reads it, None where it cannot; measured first, so that no parser is overrun."""
    if not scan(source).parsable:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source, "<policy>")
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return None


def _lines(source: str) -> list[str]:
    return [line.rstrip() for line in source.replace("\r\n", "\n").split("\n") if line.strip()]


def _alike(a: ast.AST, b: ast.AST) -> bool:
    # A stack of ours: long chains of `elif` nest deeper than Python's own may grow.
    waiting: list[tuple[object, object]] = [(a, b)]
    while waiting:
        one, other = waiting.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, ast.AST):
            waiting.extend((_part(one, name), _part(other, name)) for name in one._fields if name != "kind")
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            waiting.extend(zip(one, other, strict=True))
        elif _leaf(one) != _leaf(other):
            return False
    return True


def _leaf(value: object) -> str:
    # Python writes no int of many thousand digits in decimal, but reads one in hex.
    return hex(value) if type(value) is int else repr(value)


def _part(node: object, name: str) -> object:
    part: object = getattr(node, name, None)
    if name == "body" and isinstance(node, _DOCUMENTED) and isinstance(part, list):
        return _undocumented(part)
    return part


def _undocumented(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    rest = body[1:] if documented else body
    # A body of nothing but a docstring is what `pass` is.
    return [statement for statement in rest if not isinstance(statement, ast.Pass)]

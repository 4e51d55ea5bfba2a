"""Judge a policy's source without running it: a quick filter and a report for its author, never the boundary.

The sandbox alone must hold; what passes here may still be hostile, and what only shows when code runs is found there. Nothing
is executed or imported, and the text is measured before Python's own parser meets it.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.source import FINDINGS, CheckRule, Finding, scan
from sandbox.api import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ALLOWED_MODULES = frozenset(
    {
        "__future__",
        "abc",
        "array",
        "base64",
        "binascii",
        "bisect",
        "cmath",
        "collections",
        "collections.abc",
        "contextlib",
        "copy",
        "csv",
        "dataclasses",
        "decimal",
        "difflib",
        "enum",
        "fractions",
        "functools",
        "graphlib",
        "hashlib",
        "heapq",
        "itertools",
        "json",
        "math",
        "numbers",
        "operator",
        "pprint",
        "random",
        "re",
        "reprlib",
        "statistics",
        "string",
        "struct",
        "textwrap",
        "types",
        "typing",
        "unicodedata",
        "warnings",
        "weakref",
        "zlib",
    }
)

_INSTEAD = {
    "time": "a policy must not depend on the clock; use view.round, view.attempts and node.cost",
    "datetime": "a policy must not depend on the clock; use view.round, view.attempts and node.cost",
    "sys": "for a number larger than all others use math.inf",
    "secrets": "use random, which is seeded from context.seed",
    "uuid": "use random, which is seeded from context.seed",
    "numpy": "the sandbox holds the standard library only; use math, statistics and random",
    "scipy": "the sandbox holds the standard library only; use math, statistics and random",
    "os": "a policy has no files, processes or environment; all it may know is in context and view",
    "subprocess": "a policy has no processes; it answers with ids",
    "threading": "a policy has one thread; keep state on self",
    "multiprocessing": "a policy has one process; keep state on self",
    "harness": "context and view are handed to the policy",
    "sandbox": "context and view are handed to the policy",
}

_NAMES = {
    "__builtins__": "use the built-in functions by their names",
    "__import__": "use an import statement",
    "__loader__": "use an import statement",
    "__spec__": "use an import statement",
    "breakpoint": "there is no terminal; raise an exception with what you want to see",
    "compile": "write the code out",
    "eval": "write the code out; for data use json.loads",
    "exec": "write the code out",
    "exit": "return [] from decide to end the search",
    "globals": "keep state on self",
    "help": "there is no terminal",
    "input": "there is no terminal; settings are in context.params",
    "open": "there are no files; settings are in context.params",
    "quit": "return [] from decide to end the search",
}

_ATTRIBUTES = frozenset(
    {
        *("__base__", "__bases__", "__builtins__", "__closure__", "__code__", "__getattribute__", "__globals__", "__import__"),
        *("__loader__", "__mro__", "__reduce__", "__reduce_ex__", "__spec__", "__subclasses__", "__traceback__"),
        *("_getframe", "ag_frame", "cr_frame", "f_back", "f_builtins", "f_code", "f_globals", "f_locals", "func_globals"),
        *("gi_code", "gi_frame", "tb_frame", "tb_next"),
    }
)


def check(source: str) -> tuple[Finding, ...]:
    """Return why this source is refused, in order of place; nothing means that it passes.

    Costs time in proportion to the source, whatever it holds. Stops early where going on would tell nothing more.
    """
    text, parsable = scan(source)
    if not parsable:
        return _listed(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, "<policy>")
    except SyntaxError as error:
        line = (error.text or "").strip()[:80]
        reason = error.msg[:120]
        told = f"{reason}: {line}" if line else reason
        text.append(Finding(max(error.lineno or 1, 1), max(error.offset or 1, 1), f"syntax error: {told}", CheckRule.SYNTAX))
        return _listed(text)
    except (RecursionError, MemoryError, ValueError):
        return _listed([*text, Finding(1, 1, "code nests too deep for Python's parser; split it up", CheckRule.TOO_DEEP)])
    nodes = list(ast.walk(tree))
    code = [*_policy_class(tree, nodes), *_imports(nodes), *_reaching_out(nodes)]
    return _listed([*text, *_in_characters(source, code)])


def refusal(findings: Sequence[Finding]) -> Fault | None:
    """Return the fault of a source with these findings, None where there is none."""
    if not findings:
        return None
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return Fault(FaultKind.REFUSED_AT_CHECK, f"{findings[0]}{more}", figures={"findings": len(findings)})


def _listed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: (finding.line, finding.column))[:FINDINGS])


_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _policy_class(tree: ast.Module, nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    bound = dict(_bound(tree.body))
    policy = bound.get("Policy")
    if policy is None and not any(isinstance(node, ast.alias) and node.name == "*" for node in nodes):
        told = "no class Policy at top level; expected `class Policy` with `__init__(self, context)` and `decide(self, view)`"
        yield Finding(1, 1, told, CheckRule.POLICY)
    if not isinstance(policy, ast.ClassDef):
        return  # bound in another way, such as `Policy = Other`: what it is shows when it is loaded
    members, whole = _members(policy, bound)
    members |= {
        node.attr: node
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Policy"
    }
    for name, argument in (("__init__", "context"), ("decide", "view")):
        method = members.get(name)
        if method is None and whole and not (name == "__init__" and "__new__" in members):
            told = f"class Policy has no method {name}; expected `def {name}(self, {argument})`"
            yield Finding(policy.lineno, policy.col_offset + 1, told, CheckRule.POLICY)
        elif isinstance(method, ast.AsyncFunctionDef):
            told = f"Policy.{name} is async; expected a plain `def {name}(self, {argument})`"
            yield Finding(method.lineno, method.col_offset + 1, told, CheckRule.POLICY)
        elif isinstance(method, ast.FunctionDef) and not _takes_one(method):
            told = f"Policy.{name} cannot be called with one argument; expected `def {name}(self, {argument})`"
            yield Finding(method.lineno, method.col_offset + 1, told, CheckRule.POLICY)


def _members(policy: ast.ClassDef, bound: dict[str, ast.AST]) -> tuple[dict[str, ast.AST], bool]:
    """Return what a class and its bases in this file define, and whether that is all there can be."""
    members: dict[str, ast.AST] = {}
    whole = True
    waiting: list[ast.ClassDef] = [policy]
    seen: set[ast.ClassDef] = set()
    while waiting:
        current = waiting.pop(0)
        if current in seen:
            continue
        seen.add(current)
        members = dict(_bound(current.body)) | members
        whole = whole and not current.decorator_list and not current.keywords
        for base in current.bases:
            known = bound.get(base.id) if isinstance(base, ast.Name) else None
            if isinstance(known, ast.ClassDef):
                waiting.append(known)
            elif not (isinstance(base, ast.Name) and base.id in ("object", "ABC")):
                whole = False
    return members, whole


def _bound(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that these statements bind, in order, those inside of `if`, `try`, `with` and loops included."""
    waiting: list[ast.AST] = [*reversed(body)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _DEFINITIONS):
            yield node.name, node
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id, node
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0], node
        elif not isinstance(node, ast.Lambda):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _takes_one(method: ast.FunctionDef) -> bool:
    """Return whether a method can be called with one argument beside self; one that is decorated may be anything."""
    given = 2
    for decorator in method.decorator_list:
        if not isinstance(decorator, ast.Name) or decorator.id not in ("staticmethod", "classmethod", "override"):
            return True
        given -= decorator.id == "staticmethod"
    arguments = method.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    least = most - len(arguments.defaults)
    return least <= given and (given <= most or arguments.vararg is not None) and None not in arguments.kw_defaults


def _imports(nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            yield _finding(node, "relative import; a policy is one file, so put the code into it", CheckRule.IMPORT)
        elif isinstance(node, ast.ImportFrom) and node.module not in ALLOWED_MODULES:
            yield _finding(node, _no_import(node.module or ""), CheckRule.IMPORT)
        elif isinstance(node, ast.Import):
            refused = [alias.name for alias in node.names if alias.name not in ALLOWED_MODULES]
            yield from (_finding(node, _no_import(name), CheckRule.IMPORT) for name in refused)


def _reaching_out(nodes: Sequence[ast.AST]) -> Iterator[Finding]:
    own = {name for node in nodes for name in _binds(node)}
    named = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in ("__name__", "__qualname__")}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in _NAMES and node.id not in own:
            yield _finding(node, f"{node.id} is not for policies; {_NAMES[node.id]}", CheckRule.NAME)
        elif isinstance(node, ast.Attribute) and (
            node.attr in _ATTRIBUTES or (node.attr == "__class__" and id(node) not in named)
        ):
            told = f"attribute {node.attr} reaches around the interface; use what context and view offer, or type(...)"
            yield _finding(node, told, CheckRule.ATTRIBUTE)
        elif isinstance(node, ast.Call) and (attribute := _looked_up(node)) in _ATTRIBUTES:
            told = f"attribute {attribute} reaches around the interface; use what context and view offer"
            yield _finding(node, told, CheckRule.ATTRIBUTE)


def _binds(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node makes the policy's own, so that `open = []` is no call for a file."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, _DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.alias):
        yield node.asname or node.name


def _looked_up(call: ast.Call) -> object:
    """Return the name that `getattr(thing, "name")` looks up, None for other calls."""
    if isinstance(call.func, ast.Name) and call.func.id == "getattr" and len(call.args) > 1:
        name = call.args[1]
        return name.value if isinstance(name, ast.Constant) else None
    return None


def _no_import(module: str) -> str:
    top = module.partition(".")[0]
    known = f"import {top} itself" if top in ALLOWED_MODULES else "use modules that compute, such as math, random and heapq"
    return f"module {module} is not for policies; {_INSTEAD.get(top, known)}"


def _in_characters(source: str, findings: list[Finding]) -> list[Finding]:
    """Count columns in characters, as people do; Python's parser counts bytes."""
    if source.isascii() or not findings:
        return findings
    lines = [line.encode() for line in re.split(r"\r\n|\r|\n", source)]
    return [
        replace(finding, column=len(lines[finding.line - 1][: finding.column - 1].decode(errors="ignore")) + 1)
        for finding in findings
    ]


def _finding(node: ast.expr | ast.stmt, message: str, rule: CheckRule) -> Finding:
    return Finding(node.lineno, node.col_offset + 1, message, rule)

"""Read and write recorded trees as `discovery-tree/1` files: JSON Lines, a header and then one node a line (docs/tree-format.md).

Reading is strict and takes one line at a time: the first thing that is wrong ends it with the file, the line, the field, the
value and what was expected. What this version does not know is kept, so that a file survives reading and writing. Writing
never leaves half a file, and never a file that reading refuses.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from harness.errors import InputError, TreeError
from harness.tree import attempt_fields, attempt_of, header_fields, tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.tree import Attempt, Tree

FORMAT = "discovery-tree/1"
LINE_BYTES = 64 * 2**20
"""The longest line that is read; a longer one is refused without holding it."""
DEPTH = 100
"""How deep JSON may nest within one line."""

_LARGEST = int(sys.float_info.max)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 60


class _Line(NamedTuple):
    """One line of a file, and where it stands for people: `trees/t7.jsonl:12`."""

    where: str
    fields: dict[str, Any]


class _Bad(Exception):  # noqa: N818 - never leaves this module: it gets its file and line and becomes a TreeError
    """What is wrong with a line, before it is known where the line stands."""


def read(path: Path) -> Tree:
    """Return the tree of one file.

    Raises:
        InputError: the file cannot be read.
        TreeError: the file breaks the format; the message names file, line, field, value and what was expected.
    """
    try:
        with path.open("rb") as stream:
            return _tree(str(path), _parsed(str(path), stream))
    except OSError as error:
        raise InputError(f"{path}: {_reason(error)}; expected a readable tree file") from error


def write(tree: Tree, path: Path) -> None:
    """Write a tree whole or not at all, replacing what was there.

    Raises:
        InputError: the place cannot be written.
        TreeError: the tree holds what the format cannot express, such as an infinite score.
    """
    draft = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        try:
            with draft.open("xb") as stream:
                for line in lines(tree):
                    stream.write(line.encode())
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InputError(f"{path}: {_reason(error)}; expected a place where a tree file can be written") from error


def lines(tree: Tree) -> Iterator[str]:
    """Yield a tree's lines, each with its line end.

    Raises:
        TreeError: before the first line, when the tree holds what the format cannot express.
    """
    fields = [header_fields(tree), *map(attempt_fields, tree.attempts)]
    for number, line in enumerate(fields, start=1):
        try:
            _visit(line)
        except _Bad as bad:
            raise TreeError(f"{tree.name}: line {number}: {bad}") from None
    again = _tree(tree.name, (_Line(f"{tree.name}: line {number}", line) for number, line in enumerate(fields, start=1)))
    if again != tree:
        raise TreeError(
            f"{tree.name}: the tree would not survive its file; expected no known field in `extra`, and null for no value"
        )
    for line in fields:
        yield json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"


def find(paths: Iterable[Path]) -> list[Path]:
    """Return the tree files among files and folders, sorted and each once; folders are searched to any depth for `*.jsonl`.

    Raises:
        InputError: a path does not exist, or a folder holds no tree file or cannot be searched.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(_inside(path))
            if not inside:
                raise InputError(f"{path}: no tree in this folder; expected *.jsonl files in it or below")
        elif path.exists():
            inside = [path]
        else:
            raise InputError(f"{path}: no such file or folder; expected tree files or folders that hold them")
        for file in inside:
            found.setdefault(file.resolve(), file)
    return sorted(found.values())


def _inside(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> NoReturn:
        raise InputError(f"{error.filename}: {_reason(error)}; expected a folder that can be searched") from error

    for where, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(where, name) for name in names if name.endswith(".jsonl"))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _shown(value: object) -> str:
    """Return a value as a message shows it: on one line and short."""
    return _REPR.repr(value)


# From bytes to fields


def _parsed(name: str, stream: Any) -> Iterator[_Line]:
    """Yield the lines of a file as JSON objects; blank lines are accepted at its end alone."""
    blank = 0
    number = 0
    while raw := stream.readline(LINE_BYTES + 1):
        number += 1
        where = f"{name}:{number}"
        if len(raw) > LINE_BYTES:
            raise TreeError(f"{where}: line is longer than {LINE_BYTES // 2**20} MiB; expected one node a line")
        if number == 1 and raw.startswith(_BYTE_ORDER_MARK):
            raise TreeError(f"{where}: file begins with a byte order mark; save it as UTF-8 without one")
        if not raw.strip():
            blank = blank or number
            continue
        if blank:
            raise TreeError(f"{name}:{blank}: line is blank; expected one JSON object a line, blank lines only at the end")
        try:
            yield _Line(where, _object_of(raw))
        except _Bad as bad:
            raise TreeError(f"{where}: {bad}") from None


def _object_of(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} of the line (0x{raw[error.start]:02x})"
        raise _Bad(f"{byte} is not UTF-8; save the file as UTF-8") from None
    try:
        value = _STRICT.decode(text)
    except _NotFinite:
        _visit(_decoded(_LENIENT, text))
        raise
    except (RecursionError, ValueError):
        value = _decoded(_LENIENT, text)
    if text.count("[") + text.count("{") > DEPTH or "\\ud" in text or "\\uD" in text:
        _visit(value)
    if type(value) is not dict:
        raise _Bad(f"line holds {_kind(value)} {_shown(value)}; expected a JSON object")
    return value


def _decoded(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except RecursionError:
        raise _Bad(f"JSON nests too deep; expected at most {DEPTH} levels") from None
    except json.JSONDecodeError as error:
        near = _shown(text[error.pos : error.pos + 60].rstrip())
        if not text.endswith("\n") and text.lstrip().startswith("{"):
            told = f"line is cut: the file ends inside its JSON, {len(text)} characters in"
            raise _Bad(f"{told}; restore the file, or delete this line") from None
        raise _Bad(f"not JSON at column {error.colno}, near {near}: {error.msg}; expected one JSON object a line") from None
    except ValueError:
        raise _Bad("a number of more than 4300 digits; expected a number in the range of a float") from None


class _NotFinite(_Bad):
    """A number that is no finite float was met; which field holds it is found out afterwards."""


def _no_constant(literal: str) -> NoReturn:
    raise _NotFinite(f"number is {literal}; expected a finite number or null")


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise _NotFinite(f"number {_shown(literal)} is beyond the range of a float; expected a finite number or null")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Bad(f"field {_shown(twice)} stands twice in one object; expected each once")
    return made


_STRICT = json.JSONDecoder(object_pairs_hook=_distinct, parse_float=_finite, parse_constant=_no_constant)
_LENIENT = json.JSONDecoder(object_pairs_hook=_distinct)


def _visit(value: Any, field: str = "", depth: int = 0) -> None:  # noqa: C901 - one branch for each type of JSON
    """Refuse, by the name of its field, what no file may hold at any depth; the slow way, for lines that call for it."""
    if depth > DEPTH:
        raise _Bad(f"field {_cut(field)} nests too deep; expected at most {DEPTH} levels")
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise _Bad(f"{_cut(field)} has the key {_shown(key)}; expected strings as keys")
            _encodable(key, field or "the line")
            _visit(item, f"{field}.{key}" if field else key, depth + 1)
    elif type(value) is list:
        for place, item in enumerate(value):
            _visit(item, f"{field}[{place}]", depth + 1)
    elif type(value) is float:
        if not math.isfinite(value):
            raise _Bad(f"{_cut(field)} is {value}; expected a finite number or null")
    elif type(value) is str:
        _encodable(value, field)
    elif value is not None and type(value) not in (bool, int):
        raise _Bad(f"{_cut(field)} is {_shown(value)}, which JSON cannot express")


def _encodable(text: str, field: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        odd = f"U+{ord(text[error.start]):04X}"
        raise _Bad(f"{_cut(field)} holds half of a character ({odd}, a lone surrogate); expected whole characters") from None


def _cut(field: str) -> str:
    short = field if len(field) <= 60 else f"{field[:28]}...{field[-28:]}"  # noqa: PLR2004 - as long as a value is shown
    return short.encode("ascii", "backslashreplace").decode() if not short.isprintable() else short


# From fields to a tree


def _tree(name: str, numbered: Iterable[_Line]) -> Tree:
    rest = iter(numbered)
    header = next(rest, None)
    if header is None:
        raise TreeError(f"{name}: file is empty; expected a header line and then one node a line")
    _check(header, _check_header)
    return tree_of(header.fields, _attempts(header.fields.get("root", {}).get("id"), rest))


def _attempts(root_id: str | None, rest: Iterator[_Line]) -> Iterator[Attempt]:
    places: dict[str, str] = {}
    for line in rest:
        _check(line, _check_node)
        node, parent = line.fields["id"], line.fields["parent"]
        if node in places:
            raise TreeError(f"{line.where}: id {_shown(node)} is taken by {places[node]}; ids must be unique")
        if node == root_id:
            raise TreeError(f"{line.where}: id {_shown(node)} is the root's, which stands in the header; leave this line out")
        if parent is not None and parent not in places:
            raise TreeError(f"{line.where}: {_orphan(node, parent, root_id, rest)}")
        places[node] = line.where
        yield attempt_of(line.fields)


def _orphan(node: str, parent: str, root_id: str | None, rest: Iterator[_Line]) -> str:
    """Say why a parent is not there: reads on, as far as the file allows, to tell a later parent from an unknown one."""
    if parent == node:
        return f"node {_shown(node)} is its own parent; expected an earlier node, or null for the root"
    if parent == root_id:
        return f"parent {_shown(parent)} is the root, which nodes name as null; write null"
    later: dict[Any, Any] = {}
    try:
        for line in rest:
            if isinstance(line.fields.get("id"), str):
                later[line.fields["id"]] = line.fields.get("parent")
    except TreeError:
        pass  # the first thing wrong is what is told; what follows it only helps to tell it
    if parent not in later:
        root = "; null is the root" if parent in ("root", "", "0", "null", "None") else ""
        return (
            f"node {_shown(node)} has the unknown parent {_shown(parent)}; expected an earlier node, or null for the root{root}"
        )
    above: Any = later[parent]
    passed = {parent}
    while isinstance(above, str) and above not in passed:
        passed.add(above)
        if above == node:
            return f"node {_shown(node)} descends from itself through its parent {_shown(parent)}; expected no cycle"
        above = later.get(above)
    return f"node {_shown(node)} comes before its parent {_shown(parent)}; put parents first"


def _check(line: _Line, check: Callable[[Mapping[str, Any]], None]) -> None:
    try:
        check(line.fields)
    except _Bad as bad:
        raise TreeError(f"{line.where}: {bad}") from None


class _Wish(NamedTuple):
    """What a field must hold."""

    met: Callable[[Any], bool]
    words: str


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and -_LARGEST <= value <= _LARGEST)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_word(value: Any) -> bool:
    return type(value) is str and value != ""


def _is_object(value: Any) -> bool:
    return type(value) is dict


_NUMBER_OR_NULL = _Wish(lambda value: value is None or _is_number(value), "a number in the range of a float, or null")
_WORD = _Wish(_is_word, "a string that is not empty")
_WORD_OR_NULL = _Wish(lambda value: value is None or _is_word(value), "a string that is not empty, or null")
_TEXT = _Wish(_is_text, "a string")
_OBJECT = _Wish(_is_object, "an object")
_NUMBERS = _Wish(lambda value: type(value) is dict and all(map(_is_number, value.values())), "an object of numbers")
_TIME = _Wish(lambda value: value is None or _is_number(value) or _is_word(value), "a number, a string or null")

_HEADER = {
    "name": _WORD,
    "task": _TEXT,
    "direction": _Wish(lambda value: value in ("max", "min"), "'max' or 'min'"),
    "frontier": _Wish(lambda value: value in ("leaf", "any"), "'leaf' or 'any'"),
    "root": _OBJECT,
    "source": _OBJECT,
    "created_at": _TIME,
}
_ROOT = {"score": _NUMBER_OR_NULL, "metrics": _NUMBERS, "id": _WORD_OR_NULL}
_NODE = {
    "id": _WORD,
    "parent": _WORD_OR_NULL,
    "score": _NUMBER_OR_NULL,
    "status": _WORD,
    "metrics": _NUMBERS,
    "feedback": _TEXT,
    "cost": _OBJECT,
    "hypothesis": _TEXT,
    "parents": _Wish(lambda value: type(value) is list and all(map(_is_word, value)), "a list of node ids"),
    "snapshot": _WORD_OR_NULL,
    "terminal": _Wish(lambda value: value is None or type(value) is bool, "true, false or null"),
    "created_at": _TIME,
}
_COST = {"seconds": _NUMBER_OR_NULL, "tokens": _NUMBER_OR_NULL, "usd": _NUMBER_OR_NULL}


def _check_fields(fields: Mapping[str, Any], wishes: Mapping[str, _Wish], prefix: str = "") -> None:
    for name, value in fields.items():
        wish = wishes.get(name)
        if wish is not None and not wish.met(value):
            _refuse(f"{prefix}{name}", value, wish)


def _refuse(field: str, value: Any, wish: _Wish) -> NoReturn:
    if wish is _NUMBERS and type(value) is dict:
        key = next(key for key, item in value.items() if not _is_number(item))
        raise _Bad(f"{_cut(f'{field}.{key}')} is {_shown(value[key])}; expected a number in the range of a float")
    raise _Bad(f"{field} is {_shown(value)}; expected {wish.words}")


def _require(fields: Mapping[str, Any], names: Sequence[str], meaning: Mapping[str, str]) -> None:
    for name in names:
        if name not in fields:
            raise _Bad(f"{name} is missing; {meaning[name]}")


def _check_header(fields: Mapping[str, Any]) -> None:
    found = fields.get("format")
    if "format" not in fields:
        raise _Bad(f"header is missing; expected a first line with the fields format ({FORMAT!r}) and name")
    if found != FORMAT:
        raise _Bad(f"format is {_shown(found)}; expected {FORMAT!r}")
    _require(fields, ("name",), {"name": "expected what people call this tree"})
    _check_fields(fields, _HEADER)
    _check_fields(fields.get("root", {}), _ROOT, "root.")


_MEANING = {
    "id": "expected a string that no other node has",
    "parent": "null says the root",
    "score": "null says not scored",
}


def _check_node(fields: Mapping[str, Any]) -> None:
    if not fields.keys() >= _MEANING.keys():
        _require(fields, tuple(_MEANING), _MEANING)
    _check_fields(fields, _NODE)
    if "cost" in fields:
        _check_fields(fields["cost"], _COST, "cost.")
    if fields["id"] == "root":
        raise _Bad("id is 'root', the word for the root wherever nodes are listed; give this node another id")
    if "parents" in fields:
        _check_parents(fields["id"], fields["parents"])


def _check_parents(node: str, parents: Sequence[str]) -> None:
    if node in parents:
        raise _Bad(f"parents names {_shown(node)}, the node itself; expected other nodes")
    if len(set(parents)) < len(parents):
        raise _Bad(f"parents is {_shown(parents)}; expected each id once")


def _kind(value: Any) -> str:
    words = {list: "a list", str: "a string", type(None): "null", bool: "a boolean"}
    return words.get(type(value), "a number")

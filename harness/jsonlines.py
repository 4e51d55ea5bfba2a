"""Read JSON Lines strictly: one object a line, whole, finite, of bounded size and depth, and told by file and line when not.

One line is held at a time. Nothing is known here of what the objects mean.
"""

from __future__ import annotations

import json
import math
import reprlib
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn

from harness.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE_BYTES = 64 * 2**20
"""The longest line that is read; a longer one is refused without holding it."""
DEPTH = 100
"""How deep JSON may nest within one line."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 60


class Line(NamedTuple):
    """One line of a file, and where it stands for people: `trees/t7.jsonl:12`."""

    where: str
    fields: dict[str, Any]


class BadLine(Exception):  # noqa: N818 - whoever knows file and line turns it into a TreeError
    """What is wrong with a line, before it is known where the line stands."""


def objects(name: str, stream: BinaryIO, first: int = 1) -> Iterator[Line]:
    """Yield the lines of a file as JSON objects; blank lines are accepted at its end alone. `first` numbers the first of them.

    Raises:
        TreeError: a line is no JSON object, or holds what no file may; the message names file, line, field and value.
    """
    blank = 0
    number = first - 1
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
            yield Line(where, _object_of(raw))
        except BadLine as bad:
            raise TreeError(f"{where}: {bad}") from None


def _object_of(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} of the line (0x{raw[error.start]:02x})"
        raise BadLine(f"{byte} is not UTF-8; save the file as UTF-8") from None
    try:
        value = _STRICT.decode(text)
    except _NotFinite:
        admit(_decoded(_LENIENT, text))
        raise
    except (RecursionError, ValueError):
        value = _decoded(_LENIENT, text)
    if text.count("[") + text.count("{") > DEPTH or "\\ud" in text or "\\uD" in text:
        admit(value)
    if type(value) is not dict:
        raise BadLine(f"line holds {_kind(value)} {shown(value)}; expected a JSON object")
    return value


def _decoded(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except RecursionError:
        raise BadLine(f"JSON nests too deep; expected at most {DEPTH} levels") from None
    except json.JSONDecodeError as error:
        near = shown(text[error.pos : error.pos + 60].rstrip())
        if not text.endswith("\n") and text.lstrip().startswith("{"):
            told = f"line is cut: the file ends inside its JSON, {len(text)} characters in"
            raise BadLine(f"{told}; restore the file, or delete this line") from None
        raise BadLine(f"not JSON at column {error.colno}, near {near}: {error.msg}; expected one JSON object a line") from None
    except ValueError:
        raise BadLine("a number of more than 4300 digits; expected a number in the range of a float") from None


class _NotFinite(BadLine):
    """A number that is no finite float was met; which field holds it is found out afterwards."""


def _no_constant(literal: str) -> NoReturn:
    raise _NotFinite(f"number is {literal}; expected a finite number or null")


def _finite(literal: str) -> float:
    number = float(literal)
    if math.isinf(number):
        raise _NotFinite(f"number {shown(literal)} is beyond the range of a float; expected a finite number or null")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise BadLine(f"field {shown(twice)} stands twice in one object; expected each once")
    return made


_STRICT = json.JSONDecoder(object_pairs_hook=_distinct, parse_float=_finite, parse_constant=_no_constant)
_LENIENT = json.JSONDecoder(object_pairs_hook=_distinct)


def admit(value: Any, field: str = "", depth: int = 0) -> None:  # noqa: C901 - one branch for each type of JSON
    """Refuse, by the name of its field, what no file may hold at any depth; the slow way, for lines that call for it."""
    if depth > DEPTH:
        raise BadLine(f"field {cut(field)} nests too deep; expected at most {DEPTH} levels")
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise BadLine(f"{cut(field)} has the key {shown(key)}; expected strings as keys")
            _encodable(key, field or "the line")
            admit(item, f"{field}.{key}" if field else key, depth + 1)
    elif type(value) is list:
        for place, item in enumerate(value):
            admit(item, f"{field}[{place}]", depth + 1)
    elif type(value) is float:
        if not math.isfinite(value):
            raise BadLine(f"{cut(field)} is {value}; expected a finite number or null")
    elif type(value) is str:
        _encodable(value, field)
    elif value is not None and type(value) not in (bool, int):
        raise BadLine(f"{cut(field)} is {shown(value)}, which JSON cannot express")


def _encodable(text: str, field: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        odd = f"U+{ord(text[error.start]):04X}"
        raise BadLine(f"{cut(field)} holds half of a character ({odd}, a lone surrogate); expected whole characters") from None


def cut(field: str) -> str:
    """Return the name of a field as a message shows it."""
    short = field if len(field) <= 60 else f"{field[:28]}...{field[-28:]}"  # noqa: PLR2004 - as long as a value is shown
    return short.encode("ascii", "backslashreplace").decode() if not short.isprintable() else short


def shown(value: object) -> str:
    """Return a value as a message shows it: on one line and short."""
    return _REPR.repr(value)


def _kind(value: Any) -> str:
    words = {list: "a list", str: "a string", type(None): "null", bool: "a boolean"}
    return words.get(type(value), "a number")

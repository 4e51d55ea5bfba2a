"""What each field of `discovery-tree/1` must hold (docs/tree-format.md), in words for whoever wrote another thing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from harness.jsonlines import BadLine, cut, shown
from sandbox.api import METRIC_CHARACTERS, METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FORMAT = "discovery-tree/1"
_LARGEST = int(sys.float_info.max)


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

HEADER = {
    "name": _WORD,
    "task": _TEXT,
    "direction": _Wish(lambda value: value in ("max", "min"), "'max' or 'min'"),
    "frontier": _Wish(lambda value: value in ("leaf", "any"), "'leaf' or 'any'"),
    "root": _OBJECT,
    "source": _OBJECT,
    "created_at": _TIME,
}
ROOT = {"score": _NUMBER_OR_NULL, "metrics": _NUMBERS, "id": _WORD_OR_NULL}
NODE = {
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
COST = {"seconds": _NUMBER_OR_NULL, "tokens": _NUMBER_OR_NULL, "usd": _NUMBER_OR_NULL}


def _check_fields(fields: Mapping[str, Any], wishes: Mapping[str, _Wish], prefix: str = "") -> None:
    for name, value in fields.items():
        wish = wishes.get(name)
        if wish is not None and not wish.met(value):
            _refuse(f"{prefix}{name}", value, wish)


def _refuse(field: str, value: Any, wish: _Wish) -> NoReturn:
    if wish is _NUMBERS and type(value) is dict:
        key = next(key for key, item in value.items() if not _is_number(item))
        raise BadLine(f"{cut(f'{field}.{key}')} is {shown(value[key])}; expected a number in the range of a float")
    raise BadLine(f"{field} is {shown(value)}; expected {wish.words}")


def _check_metrics(field: str, metrics: Mapping[str, float]) -> None:
    """Refuse more than any policy can be shown: its process would end for want of memory, and bear the blame."""
    if len(metrics) > METRICS:
        raise BadLine(
            f"{field} holds {len(metrics):,} numbers; expected at most {METRICS:,}, since policies are shown all of them"
        )
    for name in metrics:
        if len(name) > METRIC_CHARACTERS:
            raise BadLine(f"{field} has a name of {len(name):,} characters; expected at most {METRIC_CHARACTERS}")


def _require(fields: Mapping[str, Any], names: Sequence[str], meaning: Mapping[str, str]) -> None:
    for name in names:
        if name not in fields:
            raise BadLine(f"{name} is missing; {meaning[name]}")


def check_header(fields: Mapping[str, Any]) -> None:
    """Raise BadLine where a header line does not hold what it must."""
    found = fields.get("format")
    if "format" not in fields:
        raise BadLine(f"header is missing; expected a first line with the fields format ({FORMAT!r}) and name")
    if found != FORMAT:
        raise BadLine(f"format is {shown(found)}; expected {FORMAT!r}")
    _require(fields, ("name",), {"name": "expected what people call this tree"})
    _check_fields(fields, HEADER)
    root = fields.get("root", {})
    _check_fields(root, ROOT, "root.")
    _check_metrics("root.metrics", root.get("metrics", {}))


_MEANING = {
    "id": "expected a string that no other node has",
    "parent": "null says the root",
    "score": "null says not scored",
}


def check_node(fields: Mapping[str, Any]) -> None:
    """Raise BadLine where a node line does not hold what it must, taken by itself."""
    if not fields.keys() >= _MEANING.keys():
        _require(fields, tuple(_MEANING), _MEANING)
    _check_fields(fields, NODE)
    if "metrics" in fields:
        _check_metrics("metrics", fields["metrics"])
    if "cost" in fields:
        _check_fields(fields["cost"], COST, "cost.")
    if fields["id"] == "root":
        raise BadLine("id is 'root', the word for the root wherever nodes are listed; give this node another id")
    if "parents" in fields:
        _check_parents(fields["id"], fields["parents"])


def _check_parents(node: str, parents: Sequence[str]) -> None:
    if node in parents:
        raise BadLine(f"parents names {shown(node)}, the node itself; expected other nodes")
    if len(set(parents)) < len(parents):
        raise BadLine(f"parents is {shown(parents)}; expected each id once")

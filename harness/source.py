"""A policy's source as text: what a reader cannot see or would misread, and how deep it nests.

Looked at before Python's own parser meets it, in time that is in proportion to the source, whatever it holds.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE_BYTES = 256 * 1024
DEPTH = 100
"""How deep brackets may nest."""
OPERATORS = 500
"""How many operators one expression may chain, those of the expressions around it included."""
FINDINGS = 50
"""How many findings are listed at most."""

# Letters that read as ASCII ones; a word of these and ASCII alone passes for another.
_LOOKALIKES = frozenset("асеорхуіѕјһԁԛԝАВСЕНІЈКМОРЅТХΑΒΕΖΗΙΚΜΝΟΡΤΥΧο")  # noqa: RUF001 - they are the point


class CheckRule(StrEnum):
    """What a finding is about."""

    NOT_TEXT = "not-text"
    TOO_LARGE = "too-large"
    ENCODING = "encoding"
    INVISIBLE = "invisible-character"
    LOOKALIKE = "lookalike-name"
    TOO_DEEP = "too-deep"
    SYNTAX = "syntax"
    POLICY = "policy-class"
    IMPORT = "import"
    NAME = "name"
    ATTRIBUTE = "attribute"


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason why a source is refused. `line` and `column` count from 1."""

    line: int
    column: int
    message: str
    rule: CheckRule

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"


class Scan(NamedTuple):
    """What is wrong with a source as text, and whether a parser may still be asked about it."""

    findings: list[Finding]
    parsable: bool


def scan(source: str) -> Scan:
    """Look at a source as text."""
    unreadable = _unreadable(source)
    if unreadable:
        return Scan([unreadable], parsable=False)
    found = [*_invisible(source), *_encoding(source)]
    deep = _too_deep(source)
    if deep:
        return Scan([*found, deep], parsable=False)
    return Scan([*found, *_lookalikes(source)], parsable=True)


def _at(source: str, offset: int, message: str, rule: CheckRule) -> Finding:
    return Finding(source.count("\n", 0, offset) + 1, offset - source.rfind("\n", 0, offset), message, rule)


def _unreadable(source: str) -> Finding | None:
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        told = f"{_code_point(source[error.start])} is half of a character (a lone surrogate); save the file as UTF-8"
        return _at(source, error.start, told, CheckRule.NOT_TEXT)
    if size > SOURCE_BYTES:
        return Finding(1, 1, f"source has {size} bytes; expected at most {SOURCE_BYTES}", CheckRule.TOO_LARGE)
    nul = source.find("\0")
    if nul >= 0:
        return _at(source, nul, "NUL character; Python source is text", CheckRule.NOT_TEXT)
    return None


_PRINTABLE_ASCII = re.compile(r"[\t\n\f\r\x20-\x7e]*")
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp", "Co"})


def _invisible(source: str) -> list[Finding]:
    """Find characters that a reader does not see, such as those that reorder text; in strings and comments as well."""
    if _PRINTABLE_ASCII.fullmatch(source):
        return []
    odd = {char: unicodedata.category(char) for char in set(source) - set("\t\n\f\r")}
    odd = {char: kind for char, kind in odd.items() if kind in _INVISIBLE}
    if not odd:
        return []
    places = [found.start() for found in re.finditer("[" + re.escape("".join(odd)) + "]", source)]
    return [
        _at(
            source,
            place,
            f"invisible character {_code_point(source[place])}; leave it out, or write it as an escape in a string",
            CheckRule.INVISIBLE,
        )
        for place in places[:FINDINGS]
    ]


def _code_point(char: str) -> str:
    name = unicodedata.name(char, "")
    return f"U+{ord(char):04X} {name}".rstrip()


_COOKIE = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


def _encoding(source: str) -> list[Finding]:
    for number, line in enumerate(source.split("\n", 2)[:2], start=1):
        cookie = _COOKIE.match(line)
        if cookie and cookie[1].lower().replace("_", "-") not in ("utf-8", "utf8"):
            return [Finding(number, 1, f"source declares the encoding {cookie[1]!r}; expected utf-8", CheckRule.ENCODING)]
        if line.strip() and not line.lstrip().startswith("#"):
            break
    return []


# Just enough of Python's grammar to measure it: strings and comments are passed over whole, even where they never end.
_TOKEN = re.compile(
    r"""
      (?P<skip> \"{3}(?:\\.|[^\\])*?(?:\"{3}|\\?\Z) | '{3}(?:\\.|[^\\])*?(?:'{3}|\\?\Z)
              | "(?:\\.|[^\\"\r\n])*(?:["\r\n]|\\?\Z) | '(?:\\.|[^\\'\r\n])*(?:['\r\n]|\\?\Z) | \#[^\r\n]* | \\\r?\n )
    | (?P<open> [(\[{] )
    | (?P<close> [)\]}] )
    | (?P<part> [,;\r\n] )
    | (?P<name> [^\W\d]\w* )
    | (?P<number> \d[\w.]* )
    | (?P<operator> [-+*/%@&|^~<>=!.:]+? )
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = frozenset({"not", "lambda", "await", "if", "else", "and", "or", "in", "is"})


def _too_deep(source: str) -> Finding | None:
    """Measure how deep expressions nest, which is what hurts a parser: by brackets, and by operators one after the other."""
    chained = [0]
    total = 0
    for token in _TOKEN.finditer(source):
        kind = token.lastgroup
        if kind == "open":
            chained[-1] += 1
            total += 1
            chained.append(0)
            if len(chained) > DEPTH + 1:
                return _at(source, token.start(), f"brackets nest deeper than {DEPTH}; split the code up", CheckRule.TOO_DEEP)
        elif kind == "close" and len(chained) > 1:
            total -= chained.pop()
        elif kind == "part" and (len(chained) == 1 or token[0] == ","):
            total -= chained[-1]
            chained[-1] = 0
        elif kind == "operator" or (kind == "name" and token[0] in _WORDS):
            chained[-1] += 1
            total += 1
        if total > OPERATORS:
            told = f"more than {OPERATORS} operators in one expression; split it up"
            return _at(source, token.start(), told, CheckRule.TOO_DEEP)
    return None


def _lookalikes(source: str) -> Iterator[Finding]:
    if source.isascii():
        return
    seen: set[str] = set()
    for token in _TOKEN.finditer(source):
        word = token[0]
        if token.lastgroup != "name" or word.isascii() or word in seen:
            continue
        seen.add(word)
        plain = unicodedata.normalize("NFKC", word)
        if plain != word:
            told = f"name {word!a} is read by Python as {plain!a}; write it so"
        elif all(char.isascii() or char in _LOOKALIKES for char in word):
            told = f"name {word!a} looks like another, written in ASCII; write names in letters of one alphabet"
        else:
            continue
        yield _at(source, token.start(), told, CheckRule.LOOKALIKE)
        if len(seen) > FINDINGS:
            return

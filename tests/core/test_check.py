"""The static check: what it refuses and says, what it must let pass, and that no source hurts it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from typing import TYPE_CHECKING

import pytest

from harness.check import ALLOWED_MODULES, check, refusal
from harness.propose import templates
from harness.source import DEPTH, FINDINGS, OPERATORS, SOURCE_BYTES, CheckRule, Finding
from sandbox.api import FaultKind
from sandbox.guest.modules import PRELOADED

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = '''
class Policy:
    """Open one branch and follow it."""

    def __init__(self, context):
        self.limits = context.limits

    def decide(self, view):
        return [view.selectable[-1]]
'''


def with_code(code: str) -> str:
    return f"{code}\n{PLAIN}"


def messages(source: str) -> list[str]:
    return [str(finding) for finding in check(source)]


# What passes

GOOD = {
    "plain": PLAIN,
    "annotated": (
        "from __future__ import annotations\nimport math, heapq\nfrom collections import Counter, defaultdict\n"
        "from dataclasses import dataclass\n__all__ = ['Policy']\n"
        "class Policy:\n    __slots__ = ('open', 'context')\n"
        "    def __init__(self, context: 'Context') -> None:\n        self.context = context\n"
        "    def decide(self, view: 'View') -> list[int]:\n        return []\n"
    ),
    "inherited": (
        "from abc import ABC, abstractmethod\n"
        "class Base(ABC):\n    def __init__(self, context):\n        super().__init__()\n"
        "    @abstractmethod\n    def decide(self, view): ...\n"
        "class Policy(Base):\n    def decide(self, view, *, depth=3):\n        return []\n"
    ),
    "dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass Policy:\n    context: object\n"
        "    def decide(self, view):\n        return []\n"
    ),
    "bound by assignment": "class Mine:\n    def __init__(self, c): pass\n    def decide(self, v): return []\nPolicy = Mine\n",
    "made by a function": "def make():\n    class P: pass\n    return P\nPolicy = make()\n",
    "of an unknown base": "import collections\nclass Policy(collections.UserDict):\n    x = 1\n",
    "methods assigned": (
        "def first(self, context): pass\nclass Policy:\n    __init__ = first\n    decide = lambda self, view: []\n"
    ),
    "method set later": "class Policy:\n    def __init__(self, *args): pass\nPolicy.decide = lambda self, view: []\n",
    "methods in branches": (
        "import math\nclass Policy:\n    def __init__(self, context, extra=None): pass\n"
        "    if math.pi > 3:\n        def decide(self, view): return []\n    else:\n        def decide(self, view): return [0]\n"
    ),
    "static": "class Policy:\n    def __init__(self, context): pass\n    @staticmethod\n    def decide(view): return []\n",
    "decorated": (
        "import functools\nclass Policy:\n    def __init__(self, context): pass\n"
        "    @functools.cache\n    def decide(*a): return []\n"
    ),
    "built by __new__": (
        "class Policy:\n    def __new__(cls, context): return object.__new__(cls)\n    def decide(self, view): return []\n"
    ),
    "names of its own": with_code(
        "def search(input, open=()):\n    compile = list(open)\n    return compile + [input]\nexec = search\nexec(1)"
    ),
    "harmless dunders": with_code(
        "class A:\n    def __repr__(self):\n"
        "        return f'{self.__class__.__name__} {type(self).__qualname__} {__name__} {self.__dict__}'\n"
        "    def __eq__(self, other):\n        return super().__eq__(other)\n"
    ),
    "method names": with_code("import re\nWORD = re.compile('a')\nclass B:\n    def open(self): return self.open()\n"),
    "coding": "#!/usr/bin/env python3\n# -*- coding: UTF_8 -*-\n" + PLAIN,
    "Windows": PLAIN.replace("\n", "\r\n"),
    "other alphabets": with_code("# größe, 評価, 🙂\nλ_max = Δt = β1 = größe = оценка = 'é 🙂'"),
    "odd escape": with_code(r"WORD = '\d' is '\d'"),
    "long table": with_code("TABLE = [" + "[1.5, -2, {'a': 3}], " * 4000 + "]"),
    "long text": with_code("TEXT = '''" + "((((" * 5000 + "'''\nMORE = \"" + "----" * 5000 + '"  # ' + "[[[[" * 5000),
    "long program": with_code("a = 1\n" + "".join(f"if a == {n}:\n    a = a + 1 - (a * 2)\n" for n in range(3000))),
}


@pytest.mark.parametrize("case", GOOD)
def test_good_policy_passes(case: str) -> None:
    assert messages(GOOD[case]) == []


def test_every_template_passes() -> None:
    for template in templates.load():
        assert messages(templates.render(template, templates.defaults(template))) == [], template


def test_all_that_may_be_imported_is_there_in_the_sandbox() -> None:
    assert set(PRELOADED) >= ALLOWED_MODULES
    assert check(with_code("".join(f"import {name}\n" for name in sorted(ALLOWED_MODULES - {"__future__"})))) == ()


# What is refused, and how it is told

REFUSED = {
    "empty": ("", "line 1, column 1: no class Policy at top level; expected `class Policy` with `__init__(self, context)`"),
    "function alone": ("def decide(view): return []", "line 1, column 1: no class Policy at top level; "),
    "nested class": ("def f():\n    class Policy: pass", "line 1, column 1: no class Policy at top level; "),
    "no decide": (
        "class Policy:\n    def __init__(self, context): pass",
        "line 1, column 1: class Policy has no method decide; ",
    ),
    "no constructor": (
        "class Policy:\n    def decide(self, view): return []",
        "line 1, column 1: class Policy has no method __init__;",
    ),
    "too few arguments": (
        PLAIN.replace("(self, view)", "(self)"),
        "line 8, column 5: Policy.decide cannot be called with one argu",
    ),
    "too many arguments": (
        PLAIN.replace("(self, context)", "(self, context, seed)"),
        "line 5, column 5: Policy.__init__ cannot be",
    ),
    "keyword needed": (
        PLAIN.replace("(self, view)", "(self, view, *, depth)"),
        "line 8, column 5: Policy.decide cannot be called",
    ),
    "async": (
        PLAIN.replace("def decide", "async def decide"),
        "line 8, column 5: Policy.decide is async; expected a plain `def ",
    ),
    "syntax": (with_code("x = = 1"), "line 1, column 5: syntax error: invalid syntax: x = = 1"),
    "indentation": (
        "class Policy:\npass",
        "line 2, column 1: syntax error: expected an indented block after class definition on",
    ),
    "number of many digits": (with_code("x = " + "9" * 5000), "line 1, column 1: syntax error: Exceeds the limit"),
    "operating system": (with_code("import os"), "line 1, column 1: module os is not for policies; a policy has no files, "),
    "from a submodule": (
        with_code("from os.path import join"),
        "line 1, column 1: module os.path is not for policies; a policy has",
    ),
    "clock": (
        with_code("def f():\n    import time"),
        "line 2, column 5: module time is not for policies; a policy must not depend",
    ),
    "installed package": (
        with_code("import numpy as np"),
        "line 1, column 1: module numpy is not for policies; the sandbox holds",
    ),
    "inner module": (
        with_code("import json.decoder"),
        "line 1, column 1: module json.decoder is not for policies; import json itself",
    ),
    "unknown module": (
        with_code("import pdb"),
        "line 1, column 1: module pdb is not for policies; use modules that compute, such as ",
    ),
    "own package": (
        with_code("from sandbox.api import View"),
        "line 1, column 1: module sandbox.api is not for policies; context ",
    ),
    "relative import": (
        with_code("from . import base"),
        "line 1, column 1: relative import; a policy is one file, so put the code",
    ),
    "eval": (
        with_code("x = eval('1')"),
        "line 1, column 5: eval is not for policies; write the code out; for data use json.loads",
    ),
    "alias of open": (with_code("f = open"), "line 1, column 5: open is not for policies; there are no files; settings are in "),
    "builtins": (
        with_code("__builtins__['x']"),
        "line 1, column 1: __builtins__ is not for policies; use the built-in functions",
    ),
    "subclasses": (
        with_code("().__class__.__base__.__subclasses__()"),
        "line 1, column 1: attribute __subclasses__ reaches around",
    ),
    "globals of a function": (
        with_code("f = PLAIN.__globals__"),
        "line 1, column 5: attribute __globals__ reaches around the interfa",
    ),
    "looked up by name": (
        with_code("f = getattr(len, '__self__', getattr(f, '__code__'))"),
        "line 1, column 30: attribute __code__ reach",
    ),
    "frames": (
        with_code("def f(g):\n    return g.gi_frame"),
        "line 2, column 12: attribute gi_frame reaches around the interface; ",
    ),
    "class of an object": (
        with_code("k = f.__class__"),
        "line 1, column 5: attribute __class__ reaches around the interface; use what",
    ),
    "lone surrogate": (
        with_code("x = 'a\ud800'"),
        "line 1, column 7: U+D800 is half of a character (a lone surrogate); save the",
    ),
    "NUL": (with_code("x = 1\n#\0"), "line 2, column 2: NUL character; Python source is text"),
    "text that is reordered": (
        with_code("x = 'a\u202e'"),
        "line 1, column 7: invisible character U+202E RIGHT-TO-LEFT OVERRIDE; ",
    ),
    "isolate in a comment": (
        with_code("# \u2067"),
        "line 1, column 3: invisible character U+2067 RIGHT-TO-LEFT ISOLATE; leave it",
    ),
    "zero width": (with_code("x\u200b = 1"), "line 1, column 2: invisible character U+200B ZERO WIDTH SPACE; leave it out, or "),
    "escape code": (
        with_code("# \x1b[2J"),
        "line 1, column 3: invisible character U+001B; leave it out, or write it as an escape",
    ),
    "byte order mark": ("\ufeff" + PLAIN, "line 1, column 1: invisible character U+FEFF ZERO WIDTH NO-BREAK SPACE; "),
    "coding cookie": (
        "\n# vim: set fileencoding=utf-7 :\n" + PLAIN,
        "line 2, column 1: source declares the encoding 'utf-7'; expec",
    ),
    "size": (PLAIN + "#" * SOURCE_BYTES, f"line 1, column 1: source has {SOURCE_BYTES + len(PLAIN)} bytes; expected at most "),
    "size in bytes": (
        PLAIN + "#" + "é" * (SOURCE_BYTES // 2),
        f"line 1, column 1: source has {SOURCE_BYTES + len(PLAIN) + 1} bytes; ",
    ),
    "brackets": ("x = " + "(" * (DEPTH + 1), "line 1, column 105: brackets nest deeper than 100; split the code up"),
    "mixed brackets": ("x = " + "[({" * 40, "line 1, column 105: brackets nest deeper than 100; split the code up"),
    "full-width letters": (
        with_code("\uff45\uff56\uff41\uff4c('1')"),
        "line 1, column 1: name '\\uff45\\uff56\\uff41\\uff4c' is read by ",
    ),
    "Cyrillic lookalike": (
        with_code("\u043e\u0440\u0435n = 1"),
        "line 1, column 1: name '\\u043e\\u0440\\u0435n' looks like another, written in ",
    ),
    "only lookalikes": (
        with_code("x = 1\n\u0441\u043e\u0440\u0443 = 2"),
        "line 2, column 1: name '\\u0441\\u043e\\u0440\\u0443' looks like another",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_place_reason_and_what_to_use_instead(case: str) -> None:
    source, told = REFUSED[case]
    found = messages(source)
    assert found
    assert found[0].startswith(told)
    assert all(len(message) < 260 for message in found)


def test_full_width_name_is_told_together_with_what_it_means() -> None:
    """Python reads full-width letters as ASCII ones; both the spelling and the function behind it are reported."""
    rules = [finding.rule for finding in check(with_code("\uff45\uff56\uff41\uff4c('1')"))]
    assert rules == [CheckRule.LOOKALIKE, CheckRule.NAME]


def test_findings_stand_in_order_of_place_and_are_bounded() -> None:
    found = check(with_code("import os, sys\nx = open\n" + "eval\n" * 1000))
    assert [finding.rule for finding in found[:4]] == [CheckRule.IMPORT, CheckRule.IMPORT, CheckRule.NAME, CheckRule.NAME]
    assert [finding.line for finding in found] == [1, 1, 2, *range(3, FINDINGS)]
    assert len(found) == FINDINGS


def test_refusal_is_a_fault_that_names_the_first_finding_and_their_number() -> None:
    fault = refusal(check(with_code("import os\nopen")))
    assert fault is not None
    assert fault.kind is FaultKind.REFUSED_AT_CHECK
    assert fault.message.startswith("line 1, column 1: module os is not for policies")
    assert fault.message.endswith(" (and 1 more)")
    assert refusal(()) is None


def test_finding_is_a_record() -> None:
    assert check("x = 1")[0] == Finding(1, 1, check("x = 1")[0].message, CheckRule.POLICY)


def test_warnings_of_the_parser_are_neither_shown_nor_errors() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        assert check(with_code(r"x = '\d' is '\w'")) == ()
    assert caught == []


# What must not hurt it

BOMBS = {
    "unary": "-" * 90_000 + "1",
    "not": "not " * 60_000 + "1",
    "lambda": "lambda:" * 36_000 + "1",
    "attributes": "x" + ".a" * 120_000,
    "calls": "x" + "()" * 120_000,
    "indices": "x" + "[0]" * 80_000,
    "sum": "1" + "+1" * 120_000,
    "power": "x" + "**x" * 80_000,
    "comparison": "x" + "<x" * 120_000,
    "ternary": "1 if 1 else " * 20_000 + "1",
    "elif": "if a: pass\n" + "elif a: pass\n" * 15_000,
    "statements in line": "if a:" * 40_000,
    "nested blocks": "".join(" " * n + "if 1:\n" for n in range(600)),
    "assignments": "x=" * 120_000 + "1",
    "patterns": "match x:\n case " + "a|" * 120_000 + "a: pass",
    "unclosed text": '"""' + '\\"""' * 60_000,
    "unclosed texts": "'''" + '"""' * 80_000,
    "half an escape": "'" * 3 + "\\" * 200_001,
    "quotes": "'\"" * 120_000,
    "braces in a format": 'f"' + "{" * 200_000 + '"',
    "nested formats": "f'{" * 60_000,
    "line ends": "\n" * 250_000 + "(",
    "carriage returns": "\r" * 250_000,
    "findings": "eval\n" * 50_000,
    "invisible": "\u202e" * 80_000,
    "full-width names": "".join(f"\uff45{n} " for n in range(25_000)),
    "big power": "x = 2 ** 100000000 ** 2 * 'a' * 10 ** 9\n" * 5000,
    "decorators": "@a\n" * 80_000 + "def f(): pass",
    "bases": "".join(f"class A{n}({f'A{n - 1}' if n else ''}): pass\n" for n in range(8_000)) + "class Policy(A7999): pass",
    "own base": "class Policy(Policy): pass",
    "arguments": "def f(" + "a," * 120_000 + "): pass",
    "closing": ")" * 250_000,
}

BOUNDED = """
import json, resource, sys, time
from harness.check import check
resource.setrlimit(resource.RLIMIT_AS, (2**30,) * 2)
taken = {}
for name, source in json.load(sys.stdin).items():
    began = time.process_time()
    findings = check(source)
    taken[name] = (time.process_time() - began, len(findings))
print(json.dumps(taken))
"""


def in_a_process(sources: dict[str, str]) -> dict[str, tuple[float, int]]:
    """Return the CPU seconds and findings of each source, checked in a process of its own with little memory."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BOUNDED],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    taken: dict[str, tuple[float, int]] = json.loads(done.stdout)
    return taken


def test_no_source_crashes_it_or_holds_it_up() -> None:
    """Every bomb is refused within a second of CPU time, in 1 GiB of memory, without a word on stderr."""
    taken = in_a_process(BOMBS)
    assert taken.keys() == BOMBS.keys()
    for name, (seconds, findings) in taken.items():
        assert seconds < 1, name
        assert findings, name


def test_hostile_policies_are_judged_quickly_and_most_are_refused(shared: Path) -> None:
    sources = {
        file.name: file.read_bytes().decode("utf-8", "surrogatepass") for file in sorted((shared / "attacks").rglob("*.py"))
    }
    taken = in_a_process(sources)
    passed = {name for name, (_, findings) in taken.items() if not findings}
    assert len(taken) == 72
    assert max(seconds for seconds, _ in taken.values()) < 1
    # What these do shows only when they run: the sandbox's business.
    assert passed == {"fold_bomb.py", "import_crash.py", "nd_hash.py", "nd_id.py"}


def test_time_grows_with_the_source_and_no_faster() -> None:
    def seconds(times: int) -> float:
        source = PLAIN + "value = [item * 2 for item in range(10) if item]  # some words\n" * times
        best = float("inf")
        for _ in range(6):
            began = time.process_time()
            assert check(source) == ()
            best = min(best, time.process_time() - began)
        return best

    assert seconds(3000) < 25 * seconds(300)


@pytest.mark.parametrize("chain", ["x.a", "x()", "x + 1", "not x"])
def test_expression_of_many_operators_is_refused_before_it_is_parsed(chain: str) -> None:
    """The bound is far from what people write and far from what a parser cannot take."""
    first, last = chain[0], chain[1:]
    grown = {short: first + last * short if chain != "not x" else "not " * short + "x" for short in (100, OPERATORS + 1)}
    assert check(with_code(f"x = {grown[100]}")) == ()
    assert check(with_code(f"x = {grown[OPERATORS + 1]}"))[0].rule is CheckRule.TOO_DEEP

"""Sources that are the same code have the same shape, and no others."""

from __future__ import annotations

import pytest

from harness.propose.edits import same_code, shape

LONG = "f" * 9_000
PAIRS = [
    ("x = 1\n", "x  =  1 # one\n"),
    ("x = 1\n", "x = 2\n"),
    ("x = 1\n", "x = 1.0\n"),
    ("x = 1\n", "x = True\n"),
    ("f(a, [b])\n", "f([a, b])\n"),
    ("def f():\n    '''said'''\n    return 1\n", "def f():\n    return 1\n"),
    ("def f():\n    '''said'''\n", "def f():\n    pass\n"),
    ("x = 'a'\ny = 'b'\n", "x = 'ab'\ny = ''\n"),
    ("not python (", "not python (\n\n"),
    ("not python (", "not python ["),
    (f"x = 0x{LONG}\n", f"x = 0x{LONG}e\n"),
    (f"x = 0x{LONG}\n", f"x  = 0x{LONG}\n"),
    ("x = u'a'\n", "x = 'a'\n"),
    ("x = -0.0\n", "x = 0.0\n"),
    ("x = ()\n", "x = []\n"),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_sources_have_the_same_shape_where_they_are_the_same_code(one: str, other: str) -> None:
    assert (shape(one) == shape(other)) is same_code(one, other)

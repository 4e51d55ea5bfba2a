"""What holds of every answer: a block made from an edit is that edit, no text raises anything but a fault, time stays linear."""

from __future__ import annotations

import ast
import contextlib
import random
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from edit_answers import PARENTS, TEMPLATES, recorded
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.propose.edits import EditKind, FaultReason, ProposalFault, apply, same_code
from harness.propose.edits.base import ANSWER_CHARACTERS
from harness.propose.edits.fuzzy import merge, nearest
from harness.propose.edits.samecode import parsed

if TYPE_CHECKING:
    from types import FrameType

KINDS = list(EditKind)
BOTH = (PARENTS["greedy"], PARENTS["written"])
SOURCES = [PARENTS[name].source for name in ("greedy", "round_robin", "written")]
RECORDED = [answer.text for answer in recorded()]
LINES = st.text("abc =()#\"'\\.<>-+@`~é\t", max_size=20).filter(lambda line: not line.strip(" ").startswith(("`", "~")))
PIECES = st.sampled_from(
    [
        *("<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n", "```python\n", "```\n", "~~~\n", "<rationale>", "</rationale>\n"),
        *("<lesson>", "<think>", "</think>", "class Policy:\n", "    pass\n", '{"width": ', "14}", "[", "{", "\\n", "&lt;", "“"),
        *(
            "@@ -1 +1 @@\n",
            "--- a\n",
            "+++ b\n",
            "-x\n",
            "+y\n",
            " z\n",
            "WIDTH = 10\n",
            "\ufeff",
            "\r\n",
            "\0",
            "\ud800",
            "\u2028",
        ),
        *(
            '"""\n',
            "# ...\n",
            "policy.py\n",
            "template: greedy\n",
            "params = 0x",
            "9" * 300,
            "-" * 300,
            "(" * 300,
            "\t",
            " " * 300,
        ),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(PIECES, max_size=30).map("".join),
    st.tuples(st.sampled_from(RECORDED), st.integers(0), st.integers(0), PIECES).map(
        lambda drawn: _mutated(drawn[0], drawn[1], drawn[2], drawn[3])
    ),
)


def _mutated(text: str, first: int, second: int, piece: str) -> str:
    """Cut a part out of a recorded answer and put something in its place."""
    start, end = sorted((first % (len(text) + 1), second % (len(text) + 1)))
    return text[:start] + piece + text[end:]


@given(TEXTS, st.sampled_from(KINDS), st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_text_raises_anything_but_a_fault(text: str, kind: EditKind, cut: bool) -> None:
    with contextlib.suppress(ProposalFault):
        edited = apply(text, kind, BOTH, TEMPLATES, cut=cut)
        assert edited == apply(text, kind, BOTH, TEMPLATES, cut=cut)
        assert not same_code(edited.source, BOTH[0].source)


@given(st.sampled_from(SOURCES), st.data())
@settings(max_examples=200, deadline=None)
def test_block_made_from_an_edit_is_that_edit(source: str, data: st.DataObject) -> None:
    """Whatever lines a model copies exactly, from one place, give way to whatever it writes: to the last character."""
    lines = source.split("\n")
    first = data.draw(st.integers(0, len(lines) - 2))
    last = data.draw(st.integers(first + 1, min(len(lines) - 1, first + 12)))
    search = lines[first:last]
    new = data.draw(st.lists(LINES, max_size=5))
    assume(sum(lines[at : at + len(search)] == search for at in range(len(lines))) == 1)
    assume(any(line.strip() for line in search) and not any(set(line.strip()) == {"="} for line in search))
    expected = "\n".join([*lines[:first], *new, *lines[last:]])
    assume(not same_code(expected, source))
    parent = replace(PARENTS["written"], source=source)
    text = "\n".join(["<<<<<<< SEARCH", *search, "=======", *new, ">>>>>>> REPLACE"])

    edited = apply(text, EditKind.BLOCKS, (parent,))

    assert edited.source == expected
    assert not edited.fuzzy


@given(st.sampled_from(SOURCES), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_block_laid_out_otherwise_is_the_same_edit(source: str, seed: int) -> None:
    """Other depths of indentation, trailing spaces and blank lines: the source is as if the lines had been copied exactly."""
    rng = random.Random(seed)  # noqa: S311 - a test's choices
    lines = source.split("\n")
    first = rng.randrange(len(lines) - 6)
    search = lines[first : first + 6]
    assume(search[0].strip() and search[-1].strip() and not any(set(line.strip()) == {"="} for line in search))
    new = [*search[:3], f"{search[2][: len(search[2]) - len(search[2].lstrip())]}extra = 1", *search[3:]]
    expected = "\n".join([*lines[:first], *new, *lines[first + 6 :]])
    assume(sum(lines[at : at + 6] == search for at in range(len(lines))) == 1 and search[2].strip())
    unit = rng.choice([1, 2, 3, 4, 8])

    def otherwise(line: str) -> str:
        depth, text = len(line) - len(line.lstrip()), line.lstrip()
        return " " * (depth // 4 * unit + depth % 4) + text + " " * rng.randrange(3)

    assume(all((len(line) - len(line.lstrip())) % 4 == 0 for line in search))
    text = "\n".join(["<<<<<<< SEARCH", *map(otherwise, search), "=======", *map(otherwise, new), ">>>>>>> REPLACE"])
    edited = apply(text, EditKind.BLOCKS, (replace(PARENTS["written"], source=source),))

    assert [line.rstrip() for line in edited.source.split("\n")] == expected.split("\n")
    assert not edited.fuzzy


@given(st.sampled_from(SOURCES), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_block_with_one_line_wrong_is_the_edit_that_was_meant_or_none(source: str, seed: int) -> None:
    """A line that the block only shows is missing, invented or misremembered: no other line than the meant one changes."""
    rng = random.Random(seed)  # noqa: S311 - a test's choices
    lines = source.split("\n")
    size = rng.randrange(4, 12)
    first = rng.randrange(len(lines) - size)
    shown = lines[first : first + size]
    filled = [at for at, line in enumerate(shown) if line.strip()]
    assume(len(filled) > 3 and len({shown[at].strip() for at in filled}) == len(filled))
    meant, wrong = rng.sample(filled, 2)
    indent = shown[meant][: len(shown[meant]) - len(shown[meant].lstrip())]
    new = rng.choice([[f"{indent}changed = 1"], [shown[meant], f"{indent}added = 1"], []])
    odd = rng.choice([[], [f"{shown[wrong]}s"], [f"{shown[wrong]}  # a remark"], [shown[wrong], f"{indent}invented(view, root)"]])
    search = [line for at, text in enumerate(shown) for line in (odd if at == wrong else [text])]
    replaced = [line for at, text in enumerate(shown) for line in (odd if at == wrong else new if at == meant else [text])]
    expected = "\n".join([*lines[:first], *shown[:meant], *new, *shown[meant + 1 :], *lines[first + size :]])
    text = "\n".join(["<<<<<<< SEARCH", *search, "=======", *replaced, ">>>>>>> REPLACE"])
    with contextlib.suppress(ProposalFault):
        edited = apply(text, EditKind.BLOCKS, (replace(PARENTS["written"], source=source),))
        assert edited.source == expected


@pytest.mark.parametrize("source", SOURCES)
def test_same_code_sees_through_layout_comments_and_docstrings_alone(source: str) -> None:
    unparsed = ast.unparse(ast.parse(source))
    commented = source.replace("\n\n", "\n# a remark\n\n", 1)
    documented = source.replace('"""', '"""Say it otherwise: ', 1)

    for other in (source, unparsed, commented, documented, source.replace("\n", "\r\n")):
        assert same_code(source, other)
        assert same_code(other, source)
    assert not same_code(source, source.replace("return []", "return [0]", 1))
    assert not same_code(source, source.replace("True", "1", 1)) or "True" not in source
    assert same_code(unparsed, ast.unparse(ast.parse(unparsed)))


def test_same_code_stands_whatever_a_source_is() -> None:
    deep = "x = " + "(" * 5_000 + ")" * 5_000
    chain = "if a:\n    pass\n" + "elif a:\n    pass\n" * 300

    assert same_code(deep, deep + "  ")
    assert not same_code(deep, deep + "\ny = 1")
    assert parsed(chain) is not None
    assert same_code(chain, chain + "# end\n")
    assert not same_code(chain, chain + "else:\n    b\n")
    assert not same_code("x = (", "x = [")
    assert not same_code("x = 0.0", "x = -0.0")
    assert not same_code("x = 1", "x = True")


def test_two_places_that_nearly_match_are_no_match() -> None:
    """A block that is as near to one place as to another has no place."""
    half = "        total = weigh(first, second, third, fourth, {}) + weigh(fifth)\n        keep(total, first, second)\n"
    source = "class Policy:\n    def decide(self, view):\n" + half.format("left") + half.format("right")
    block = f"<<<<<<< SEARCH\n{half.format('middle')}=======\n        keep(0)\n>>>>>>> REPLACE\n"
    with pytest.raises(ProposalFault) as caught:
        apply(block, EditKind.BLOCKS, (replace(PARENTS["written"], source=source),))

    assert caught.value.reason is FaultReason.NO_MATCH


def test_fuzzy_edit_keeps_lines_whole() -> None:
    """Every line of the outcome is one of the policy or one of the model's, never a mixture."""
    lines = PARENTS["greedy"].source.split("\n")
    at = lines.index("        if not fresh and idle >= PATIENCE:")
    search = [*lines[at - 3 : at], "        if not fresh and idle > PATIENCE:", *lines[at + 1 : at + 4]]
    new = [*search[:4], "            self.done = True", *search[4:]]
    near = nearest(lines, search)
    merged = merge(lines, near, search, new)

    assert merged is not None
    result = [*lines[: merged.first], *merged.lines, *lines[merged.last :]]
    assert result == [*lines[: at + 1], "            self.done = True", *lines[at + 1 :]]


def _huge(size: int) -> dict[str, str]:
    """Return answers of about `size` characters, each made to hurt one way of reading it."""
    code = "class Policy:\n    def decide(self, view):\n        return [0]\n"
    pieces = {
        "spaces": " " * 8 + "\n",
        "one long line": "a",
        "backticks": "`",
        "fences": "```python\n",
        "fences and policies": f"```python\n{code}",
        "marks": "<<<<<<< SEARCH\n",
        "blocks": "<<<<<<< SEARCH\nx = 1\n=======\ny = 1\n>>>>>>> REPLACE\n",
        "dividers": "=======\n",
        "tags": "<rationale><lesson>",
        "thoughts": "<think></think",
        "braces": "{",
        "objects": '{"width": 1,',
        "brackets": "[",
        "entities": "&lt;&amp;lt;",
        "escapes": "\\n\\t",
        "quotes": "“'\"",
        "lines": "if idle >= PATIENCE:\n",
        "code": code.replace("Policy", "Other"),
        "starts": "import \n",
        "policies": f"{code}oh no\n",
        "hunks": "@@ -1 +1 @@\n-x\n+y\n",
        "parameters": "- width: 1\n",
        "carriage returns": "\r",
    }
    return {name: (piece * (size // len(piece) + 1))[:size] for name, piece in pieces.items()}


def _steps(text: str, kind: EditKind) -> int:
    """Count the lines of Python that run while an answer is applied."""
    count = 0

    def step(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        with contextlib.suppress(ProposalFault):
            apply(text, kind, BOTH, TEMPLATES)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("kind", [EditKind.BLOCKS, EditKind.TEMPLATE])
@pytest.mark.parametrize("name", list(_huge(0)))
def test_work_grows_no_faster_than_the_answer(name: str, kind: EditKind) -> None:
    """Four times the answer costs at most four times the steps, which are counted, not timed: no reading of it backtracks."""
    small, large = (_steps(_huge(size)[name], kind) for size in (5_000, 20_000))

    assert large <= 4.4 * small + 2_000


@pytest.mark.parametrize("name", list(_huge(0)))
def test_largest_answer_ends_in_an_edit_or_a_fault(name: str) -> None:
    with contextlib.suppress(ProposalFault):
        apply(_huge(ANSWER_CHARACTERS)[name], EditKind.BLOCKS, BOTH, TEMPLATES)


def test_block_far_larger_than_any_is_not_matched_nearly() -> None:
    """The fuzzy step compares at most so many lines; what is longer has to match."""
    lines = "\n".join(f"        value_{n} = view.nodes[{n}].score" for n in range(3_000))
    source = f"class Policy:\n    def decide(self, view):\n{lines}\n"
    block = f"<<<<<<< SEARCH\n{lines.replace('[1500]', '[15]')}\n=======\n        return []\n>>>>>>> REPLACE\n"
    with pytest.raises(ProposalFault) as caught:
        apply(block, EditKind.BLOCKS, (replace(PARENTS["written"], source=source),))

    assert caught.value.reason is FaultReason.NO_MATCH

"""The forms in which a model is asked to answer: said once, for prompts and for requests to repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.propose.edits import marks
from harness.propose.edits.base import EditKind

if TYPE_CHECKING:
    from collections.abc import Mapping

REASONS = (
    "<rationale>why this should gain, in a few sentences</rationale>\n<lesson>one line worth knowing next time, if any</lesson>\n"
)
"""What stands before the edit, whatever its kind."""

_FILE = "```python\nthe whole file, every line of it\n```"
_FORMS: Mapping[EditKind, str] = {
    EditKind.BLOCKS: (
        "one or more search/replace blocks. The lines to search are copied from the policy, character by character, and enough "
        "of them to fit one place:\n\n"
        f"{marks.SEARCH}\nlines of the policy\n{marks.DIVIDER}\nthe lines that take their place\n{marks.REPLACE}"
    ),
    EditKind.WHOLE: f"the whole file in one fence, nothing left out:\n\n{_FILE}",
    EditKind.CROSS: f"one whole file in a fence that takes something from each of the two parents, nothing left out:\n\n{_FILE}",
    EditKind.PARAMETERS: 'one JSON object with the parameters to change and their values:\n\n{"a parameter": 1}',
    EditKind.TEMPLATE: (
        "one JSON object with a template and its parameters; those left out keep their defaults:\n\n"
        '{"template": "its name", "params": {"a parameter": 1}}'
    ),
}


def answer_form(kind: EditKind) -> str:
    """Return the form of an answer in words and by example; it completes "Answer with …"."""
    return _FORMS[kind]

"""The records of an edit: what a model was asked for, what came of its answer, and why nothing did."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ANSWER_CHARACTERS = 400_000
"""Longer answers are refused before anything looks into them; a policy may have 256 KiB."""
RATIONALE_CHARACTERS = 2_000
LESSON_CHARACTERS = 400


class EditKind(StrEnum):
    """How a model is asked to change a policy."""

    BLOCKS = "blocks"
    WHOLE = "whole"
    PARAMETERS = "parameters"
    CROSS = "cross"
    TEMPLATE = "template"


class FaultReason(StrEnum):
    """Why an answer is no edit."""

    EMPTY = "empty"
    TOO_LARGE = "too-large"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    NO_EDIT = "no-edit"
    SEVERAL = "several"
    MALFORMED = "malformed"
    EMPTY_SEARCH = "empty-search"
    NO_MATCH = "no-match"
    AMBIGUOUS = "ambiguous"
    OVERLAP = "overlap"
    WRONG_FILE = "wrong-file"
    ELIDED = "elided"
    NO_POLICY = "no-policy"
    NO_CHANGE = "no-change"
    UNKNOWN_TEMPLATE = "unknown-template"
    UNKNOWN_PARAMETER = "unknown-parameter"
    BAD_VALUE = "bad-value"


class ProposalFault(Exception):  # noqa: N818 - "fault" is the untrusted side's, "error" is ours (style.md, section 3)
    """Raised where a model's answer cannot be applied; the message is for the model, which may repair it."""

    def __init__(self, reason: FaultReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Edited:
    """What an answer makes of its parents.

    `template` names the template from which `source` was rendered with `params`; where it is None a model wrote the code, and
    nothing but a sandbox may run it. `rationale` and `lesson` are the model's words; `fuzzy` says that a block only nearly
    matched. `kind` is what the answer turned out to be: a model that was asked for blocks may have sent the whole file.
    """

    source: str
    params: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None
    rationale: str = ""
    lesson: str = ""
    fuzzy: bool = False
    kind: EditKind = EditKind.WHOLE

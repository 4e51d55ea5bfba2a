"""Edits: what a model's answer makes of a policy, or why it makes nothing of it. No model is called, nothing is executed."""

from harness.propose.edits.applying import apply
from harness.propose.edits.base import Edited, EditKind, FaultReason, ProposalFault
from harness.propose.edits.forms import REASONS, answer_form
from harness.propose.edits.parameters import allowed_values
from harness.propose.edits.repair import advice, repairable
from harness.propose.edits.samecode import same_code, shape

__all__ = [
    "REASONS",
    "EditKind",
    "Edited",
    "FaultReason",
    "ProposalFault",
    "advice",
    "allowed_values",
    "answer_form",
    "apply",
    "repairable",
    "same_code",
    "shape",
]

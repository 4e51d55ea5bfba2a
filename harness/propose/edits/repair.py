"""What a model is told when its answer could not be applied, and whether telling it is worth a call."""

from __future__ import annotations

from harness.propose.edits.base import EditKind, FaultReason, ProposalFault

_FINAL = (FaultReason.REFUSED,)

_FORMS = {
    EditKind.BLOCKS: (
        "Send search/replace blocks again, all of them, each in this form:\n"
        "<<<<<<< SEARCH\nlines copied from the policy\n=======\nthe lines that take their place\n>>>>>>> REPLACE"
    ),
    EditKind.WHOLE: "Send the whole file again, in one fence: ```python … ```.",
    EditKind.CROSS: (
        "Send the whole file again, in one fence: ```python … ```. It has to take something from each of the two parents."
    ),
    EditKind.PARAMETERS: 'Send one JSON object again with the parameters to change and their values, such as {"width": 12}.',
    EditKind.TEMPLATE: 'Send one JSON object again: {"template": "its name", "params": {"a parameter": 1}}.',
}
_ADVICE = {
    FaultReason.TRUNCATED: "Keep it short: your answer has to fit into what you may write.",
    FaultReason.TOO_LARGE: "Keep it short: your answer has to fit into what you may write.",
    FaultReason.NO_MATCH: "If you cannot copy the lines, send the whole file instead, in one fence.",
    FaultReason.AMBIGUOUS: "If no more lines make it clear, send the whole file instead, in one fence.",
}


def repairable(fault: ProposalFault) -> bool:
    """Return whether it is worth asking again: a model that declined will decline again."""
    return fault.reason not in _FINAL


def repair_request(fault: ProposalFault, kind: EditKind) -> str:
    """Return what to tell the model: what was wrong, and in which form to answer."""
    advice = _ADVICE.get(fault.reason, "")
    told = f"Your answer could not be applied ({fault.reason}): {fault.message}\n\n{_FORMS[kind]}"
    return f"{told}\n{advice}" if advice and kind in (EditKind.BLOCKS, EditKind.WHOLE, EditKind.CROSS) else told

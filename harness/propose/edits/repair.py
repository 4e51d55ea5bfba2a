"""What a model is told when its answer could not be applied, and whether telling it is worth a call."""

from __future__ import annotations

from harness.propose.edits.base import EditKind, FaultReason, ProposalFault

_FINAL = (FaultReason.REFUSED,)
_CODE = (EditKind.BLOCKS, EditKind.WHOLE, EditKind.CROSS)
_SHORTER = "Keep it short: the answer has to fit into what you may write."
_ADVICE = {
    FaultReason.TRUNCATED: _SHORTER,
    FaultReason.TOO_LARGE: _SHORTER,
    FaultReason.NO_MATCH: "If you cannot copy the lines, send the whole file instead, in one fence.",
    FaultReason.AMBIGUOUS: "If no more lines make it clear, send the whole file instead, in one fence.",
}


def repairable(fault: ProposalFault) -> bool:
    """Return whether it is worth asking again: a model that declined will decline again."""
    return fault.reason not in _FINAL


def advice(fault: ProposalFault, kind: EditKind) -> str:
    """Return what may help to answer this kind of edit after all, nothing where the fault's message says enough."""
    return _ADVICE.get(fault.reason, "") if kind in _CODE else ""

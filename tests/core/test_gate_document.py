"""A verdict survives being written down, to the digit."""

from __future__ import annotations

import json

import pytest
from gates import evaluation, faulted, judged, result, valued

from harness.gate.document import document, verdict_from
from harness.gate.judge import refuse_same
from harness.gate.verdict import Bounds, Verdict
from harness.score import Normalize, Settings, Weights
from sandbox.api import Fault, FaultKind, Frontier, Limits

SETTINGS = Settings(Limits(7, 3, 9), Frontier.ANY, Weights(0.1, 0.2, Normalize.NONE), 5)
VERDICTS = {
    "passed": judged([1 / 3, 0.1 + 0.2, 0.7, 0.9, 1e-17, 0.3], groups=["a", "a", "b", "b", "c", "c"]),
    "cannot tell": judged([0.3, -0.2]),
    "left out": judged(valued([None, 0.5]), valued([None, 0.0], "incumbent")),
    "faulted": judged(evaluation([result(0, 0.1), faulted(1, Fault(FaultKind.EXITED, "gone"))]), [0.0, 0.0, 0.0]),
    "the same": refuse_same("d1" * 32, SETTINGS, Bounds(alpha=0.01), "local"),
}


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS)
def test_a_verdict_comes_back_as_it_was(verdict: Verdict) -> None:
    assert verdict_from(json.loads(json.dumps(document(verdict), allow_nan=False))) == verdict


def test_a_document_of_another_kind_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="expected 'verdict/1'"):
        verdict_from({"format": "manifest/1"})

"""Moves for the search agent: the families of starts and operators of `examples/search`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from search.autocorrelation_task import AutocorrelationTask

MOVES = AutocorrelationTask(signed=True)

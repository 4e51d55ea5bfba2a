"""Moves for the search agent: those of both inequalities, for functions that may be negative."""

from __future__ import annotations

from .autocorrelation import Autocorrelation

MOVES = Autocorrelation(signed=True)

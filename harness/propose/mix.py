"""Propose from templates and from models by turns, whose shares follow what each of them gained.

A model that says nothing usable costs its turn and nothing else: templates fill the place. Without a model there is no mix;
the search over templates is then all there is.
"""

from __future__ import annotations

import random
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.propose.bandit import Pull, choose
from harness.propose.model import gains

if TYPE_CHECKING:
    from harness.policy import Candidate
    from harness.propose.base import Brief, Proposer
    from harness.propose.model import ModelProposer


class Source(StrEnum):
    """Who writes a version."""

    TEMPLATES = "templates"
    MODEL = "model"


class Mix:
    """A proposer over two others."""

    def __init__(self, templates: Proposer, model: ModelProposer, seed: int) -> None:
        self._templates = templates
        self._model = model
        self._seed = seed

    @property
    def spent(self) -> str | None:
        """Return why no model is asked any more."""
        return self._model.spent

    def propose(self, brief: Brief) -> Candidate | None:
        """Return the next candidate, None when neither side has one."""
        asks = self._model.spent is None
        if asks and (self._model.to_repair(brief) is not None or self._turn(brief) is Source.MODEL):
            candidate = self._model.propose(brief, draws=1)
            if candidate is not None:
                return candidate
            asks = False
        candidate = self._templates.propose(brief)
        return self._model.propose(brief) if candidate is None and asks else candidate

    def _turn(self, brief: Brief) -> Source:
        made, gained = self._model.made(brief), gains(brief.history)
        failed = self._model.tried(brief) - made.keys()
        pulls = []
        for position in range(2, len(brief.history) + 1):
            if position in failed:
                pulls.append(Pull(Source.MODEL, 0.0, 1.0))
            source = Source.MODEL if position in made else Source.TEMPLATES
            pulls.append(Pull(source, gained[position - 1], 1.0))
        rng = random.Random(f"{self._seed}:turn:{len(brief.history)}")  # noqa: S311 - a search, no secret
        return choose(dict.fromkeys(Source, 1.0), pulls, rng)

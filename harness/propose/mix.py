"""Propose from templates and from models by turns, whose shares follow what each of them gained.

A model that says nothing usable costs its turn and nothing else: templates fill the place. Models that cannot be asked (a key
that is refused, a quota or budget that is used up, a server that is gone) are put aside for the rest of the run, and templates go
on alone. Without a model there is no mix; the search over templates is then all there is.
"""

from __future__ import annotations

import random
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.models.base import ModelError
from harness.models.journal import Because
from harness.propose.bandit import Pull, choose
from harness.propose.model import DRAWS, gains

if TYPE_CHECKING:
    from harness.models.journal import PutAside
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
    def aside(self) -> PutAside | None:
        """Return why models are asked no more, None while they are."""
        return self._model.aside

    def propose(self, brief: Brief) -> Candidate | None:
        """Return the next candidate, None when neither side has one."""
        asks = self._model.aside is None
        if asks and (self._model.to_repair(brief) is not None or self._turn(brief) is Source.MODEL):
            candidate = self._by_model(brief, 1)
            if candidate is not None:
                return candidate
            asks = False
        candidate = self._templates.propose(brief)
        return self._by_model(brief, DRAWS) if candidate is None and asks else candidate

    def _by_model(self, brief: Brief, draws: int) -> Candidate | None:
        try:
            return self._model.propose(brief, draws)
        except ModelError as error:
            self._model.put_aside(brief, Because.PROVIDER, str(error))
            return None

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

"""Prompts: what a model is shown of a run, and what it is asked for. No model is called here."""

from harness.propose.prompts.base import Ask, DevelopmentTrees, Foreign, Prompt, Repair
from harness.propose.prompts.building import build
from harness.propose.prompts.told import evidence

__all__ = ["Ask", "DevelopmentTrees", "Foreign", "Prompt", "Repair", "build", "evidence"]

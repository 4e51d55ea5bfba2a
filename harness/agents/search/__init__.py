"""The agent that needs no model: it proposes by small moves and local optimisation, in strategies that differ by branch."""

from harness.agents.search.agent import SearchAgent

__all__ = ["SearchAgent"]

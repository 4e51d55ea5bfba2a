"""Policies and a small tree to drive guests over; the attack table of the benchmarks drives them the same way."""

from __future__ import annotations

from benchmarks.hostile import QUICK, Driven, context, drive, small_tree

__all__ = ["GOOD", "QUICK", "Driven", "context", "drive", "small_tree"]

GOOD = """
class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        return [node for node in view.selectable if not view.nodes[node].closed]
"""

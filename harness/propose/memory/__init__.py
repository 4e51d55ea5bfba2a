"""What a run remembers: how its versions behave, which of them stand for each way of behaving, and what a model has learnt."""

from harness.propose.memory.archive import Archive, Inspiration, Purpose
from harness.propose.memory.behaviour import Behaviour, behaviour, fingerprint
from harness.propose.memory.scratchpad import Lesson, Scratchpad

__all__ = [
    "Archive",
    "Behaviour",
    "Inspiration",
    "Lesson",
    "Purpose",
    "Scratchpad",
    "behaviour",
    "fingerprint",
]

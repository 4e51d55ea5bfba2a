"""`harness sandbox`: build the image, probe what isolates, remove what a killed harness left."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from harness import wiring
from harness.cli.output import note, say, say_json
from harness.policy import Origin

if TYPE_CHECKING:
    from harness.config import Settings


def build(base: str | None, as_json: bool) -> int:
    """Build the sandbox image."""
    built = wiring.build_image(base, note)
    if as_json:
        say_json({"image": built.image, "tag": built.tag})
    else:
        say(f"{built.tag} is ready ({built.image})")
    return 0


def sweep(as_json: bool) -> int:
    """Remove what dead harnesses left behind."""
    removed = wiring.sweep()
    if as_json:
        say_json({"removed": removed})
    else:
        say(f"{removed} leftover containers removed")
    return 0

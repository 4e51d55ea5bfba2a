"""`harness sandbox`: build the image, probe what isolates, remove what a killed harness left."""

from __future__ import annotations

from harness import wiring
from harness.cli.output import note, say, say_json


def build(base: str | None, as_json: bool) -> int:
    """Build the sandbox image."""
    tag = wiring.build_image(base, note)
    if as_json:
        say_json({"image": tag})
    else:
        say(f"{tag} is ready")
    return 0


def sweep(as_json: bool) -> int:
    """Remove what dead harnesses left behind."""
    removed = wiring.sweep()
    if as_json:
        say_json({"removed": removed})
    else:
        say(f"{removed} leftover containers removed")
    return 0

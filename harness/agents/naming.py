"""What command agents are called: `command:PRESET`, or the TOML file of one."""

from __future__ import annotations

from pathlib import Path

from harness.agents.command import CommandAgent, read
from harness.errors import InputError

_PRESETS = Path(__file__).with_name("presets")


def parse(text: str) -> CommandAgent:
    """Return the agent of a name.

    Raises:
        InputError: there is none of this name; the message lists what there is.
    """
    if text.endswith(".toml"):
        return CommandAgent(f"command:{Path(text).stem}", read(Path(text)))
    known = sorted(file.stem for file in _PRESETS.glob("*.toml"))
    preset = text.removeprefix("command:")
    if not text.startswith("command:") or preset not in known:
        names = ", ".join(f"command:{name}" for name in known)
        raise InputError(f"agent {text!r} is not known; expected {names}, or a TOML file with its command")
    return CommandAgent(text, read(_PRESETS / f"{preset}.toml"))

"""What command agents are called: `command:PRESET`, the TOML file of one, or `command` for the one that a task brings along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.agents.command import CommandAgent, read
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.task.base import Task

_PRESETS = Path(__file__).with_name("presets")


def parse(text: str, task: Task | None = None) -> CommandAgent:
    """Return the agent of a name.

    Raises:
        InputError: there is none of this name; the message lists what there is.
    """
    if text.endswith(".toml"):
        return CommandAgent(f"command:{Path(text).stem}", read(Path(text)))
    if text == "command" and task is not None:
        if task.command is None:
            raise InputError(
                f"{task.folder / 'task.toml'}: has no table [agent.command]; write one, or name an agent with --agent"
            )
        return CommandAgent(text, task.command)
    known = sorted(file.stem for file in _PRESETS.glob("*.toml"))
    preset = text.removeprefix("command:")
    if not text.startswith("command:") or preset not in known:
        names = ", ".join(f"command:{name}" for name in known)
        raise InputError(f"agent {text!r} is not known; expected search, model:NAME, {names}, or a TOML file with its command")
    return CommandAgent(text, read(_PRESETS / f"{preset}.toml"))

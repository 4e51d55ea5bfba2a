"""What is said of a coding agent's command line: in a task's `[agent.command]`, or in a file of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.task.places import unknown_place, wish

if TYPE_CHECKING:
    from harness.task.table import Table

PLACES = ("workspace", "prompt_file", "files")
OUTPUT_BYTES = 2**20
_PROMPTS = ("stdin", "file")
_KEYS = ("command", "prompt", "timeout_s", "output_bytes", "env", "success", "usd", "tokens")


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """One command line. `env` names variables that it may see beside the usual ones; keys stay where they are.

    `prompt` is "stdin" or "file"; `success` are exit codes; `usd` and `tokens` are paths to figures of its JSON output.
    """

    command: tuple[str, ...]
    prompt: str = "stdin"
    timeout_s: float | None = None
    output_bytes: int = OUTPUT_BYTES
    env: tuple[str, ...] = ()
    success: tuple[int, ...] = (0,)
    usd: str = ""
    tokens: tuple[str, ...] = ()


def command_settings(table: Table) -> CommandSettings:
    """Return the settings that a table holds.

    Raises:
        InputError: they are none; the message names file, line, value and what was expected.
    """
    table.only(*_KEYS)
    values = table.values
    command = table.words("command")
    odd = unknown_place(command, PLACES)
    if odd is not None:
        table.refuse("command", wish(odd, PLACES))
    if any("{files}" in word.replace("{{files}}", "") and word != "{files}" for word in command):
        table.refuse("command", "{files} as a word of its own, since it stands for a word for each file")
    if values.get("prompt", "stdin") not in _PROMPTS:
        table.refuse("prompt", "'stdin' (on its standard input) or 'file' (in {prompt_file})")
    success = values.get("success", [0])
    if not isinstance(success, list) or not success or any(type(code) is not int for code in success):
        table.refuse("success", "a list of exit codes, such as [0]")
    return CommandSettings(
        command=command,
        prompt=values.get("prompt", "stdin"),
        timeout_s=table.number("timeout_s", above=0.0),
        output_bytes=table.count("output_bytes") or OUTPUT_BYTES,
        env=table.words("env") if values.get("env") else (),
        success=tuple(success),
        usd=table.word("usd") if values.get("usd") else "",
        tokens=table.words("tokens") if values.get("tokens") else (),
    )

"""Any coding agent's command line as an agent: the prompt on its standard input, the workspace as its working folder.

Its process group is ended whole when it ends, runs out of time, is cancelled or floods its output; what moves to a session of
its own escapes that. It runs as the user of the harness: nothing but its own sandbox keeps it inside the workspace.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness import tomlfile
from harness.agents.base import AgentError, AgentFault, Hypothesis, Work
from harness.agents.prompt import prompt
from harness.errors import InputError, reason_of
from harness.models.redaction import redacted
from harness.task.base import AGENT_FOLDER
from sandbox.api import Cost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.agents.base import Assignment

_LOOK_S = 0.02
_LOG_CHARACTERS = 4_000
_HYPOTHESIS_BYTES = 10_000
_PLAIN_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "USER")


class CommandSettings(BaseModel):
    """What is said of one command line. `env` names variables that it may see beside the usual ones; keys stay where they are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: tuple[str, ...] = Field(min_length=1)
    prompt: str = Field("stdin", pattern="^(stdin|file)$")
    timeout_s: float | None = Field(None, gt=0)
    output_bytes: int = Field(2**20, gt=0)
    env: tuple[str, ...] = ()
    success: tuple[int, ...] = (0,)
    usd: str = ""
    tokens: tuple[str, ...] = ()


def read(path: Path) -> CommandSettings:
    """Return the settings of a file.

    Raises:
        InputError: they are none; the message names file, line, value and what was expected.
    """
    file = tomlfile.read(path, "file of an agent's command", 'command = ["my-agent", "{prompt_file}"]')
    return settings_of(file.values, str(path), file.where)


def settings_of(values: Mapping[str, Any], name: str, where: Callable[[str], str] | None = None) -> CommandSettings:
    """Return the settings that a table holds; `name` is what messages call it, `where` gives the place of a key.

    Raises:
        InputError: they are none; the message names the place, value and what was expected.
    """
    try:
        return CommandSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        place = name if where is None else where(key)
        raise InputError(f"{place}: {key!r} is {values.get(key)!r}: {first['msg'].lower()}") from error


class CommandAgent:
    """Makes attempts with one command line. Called from several threads at once; nothing outlives an attempt."""

    def __init__(self, name: str, settings: CommandSettings) -> None:
        self._name = name
        self._settings = settings

    @property
    def name(self) -> str:
        """Return the agent's name."""
        return self._name

    def plan(self, assignment: Assignment) -> Hypothesis:
        """Return nothing: what it will try is known when it has said so."""
        del assignment
        return Hypothesis()

    def work(self, assignment: Assignment) -> Work:
        """Run the command and return what it said."""
        with tempfile.TemporaryDirectory(prefix="dream-harness-agent-") as folder:
            return self._run(assignment, Path(folder))

    def close(self) -> None:
        """Do nothing: no process outlives its attempt."""

    def _run(self, assignment: Assignment, folder: Path) -> Work:
        asked, said = folder / "prompt.md", folder / "output"
        asked.write_text(prompt(assignment))
        places = {"{workspace}": str(assignment.workspace), "{prompt_file}": str(asked)}
        began = time.monotonic()
        with asked.open("rb") as stdin, said.open("wb") as output:
            try:
                process = subprocess.Popen(  # noqa: S603 - the operator's command
                    [_placed(word, places) for word in self._settings.command],
                    cwd=assignment.workspace,
                    env={name: os.environ[name] for name in (*_PLAIN_VARIABLES, *self._settings.env) if name in os.environ},
                    stdin=stdin if self._settings.prompt == "stdin" else subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise AgentError(
                    f"agent {self._name}: {self._settings.command[0]!r} cannot be run: {reason_of(error)}"
                ) from error
            try:
                trouble = self._watched(process, assignment, said, began)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        with said.open("rb") as stream:
            raw = stream.read(self._settings.output_bytes).decode("utf-8", "replace")
        text = redacted(raw, also=self._settings.env)
        work = Work(_hypothesis(assignment.workspace), self._cost(raw, time.monotonic() - began), text, text[-_LOG_CHARACTERS:])
        if trouble:
            raise AgentFault(trouble, status="timeout" if "time" in trouble else "failed", work=work)
        if process.returncode not in self._settings.success:
            raise AgentFault(f"the agent ended with exit code {process.returncode}", work=work)
        return work

    def _watched(self, process: subprocess.Popen[bytes], assignment: Assignment, said: Path, began: float) -> str:
        """Wait for the end and return why it has to be ended, nothing where it ended by itself."""
        limit_s = min(assignment.timeout_s, self._settings.timeout_s or assignment.timeout_s)
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
                return ""
            if assignment.cancel.is_set():
                return "the attempt was cancelled"
            if time.monotonic() - began > limit_s:
                return f"the agent ran out of time: {limit_s:g} s"
            if said.stat().st_size > self._settings.output_bytes:
                return f"the agent wrote more than {self._settings.output_bytes} bytes"

    def _cost(self, output: str, seconds: float) -> Cost:
        answer = _last_object(output)
        counted = [_number(answer, path) for path in self._settings.tokens]
        tokens = sum(count for count in counted if count is not None) if counted and None not in counted else None
        return Cost(seconds, tokens, _number(answer, self._settings.usd))


def _placed(word: str, places: Mapping[str, str]) -> str:
    for place, path in places.items():
        word = word.replace(place, path)
    return word


def _last_object(output: str) -> Any:
    for text in (output, *reversed(output.splitlines()[-50:])):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return None


def _number(answer: Any, path: str) -> float | None:
    """Return the figure at a path such as `usage.input_tokens`, None where there is no finite one that is at least 0."""
    for key in path.split("."):
        answer = answer.get(key) if isinstance(answer, dict) else None
    fits = isinstance(answer, int | float) and not isinstance(answer, bool) and 0 <= answer < float("inf")
    return float(answer) if fits else None


def _hypothesis(workspace: Path) -> Hypothesis:
    """Return what the agent wrote down, nothing where it is none: no link is followed."""
    try:
        folder = os.open(workspace / AGENT_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            file = os.open("hypothesis.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(file, "rb") as stream:
            said = json.loads(stream.read(_HYPOTHESIS_BYTES))
    except (OSError, ValueError, RecursionError):
        return Hypothesis()
    if not isinstance(said, dict):
        return Hypothesis()
    parts = [redacted(said[key])[:500] if isinstance(said.get(key), str) else "" for key in ("component", "statement", "reason")]
    return Hypothesis(*parts)

"""Any coding agent's command line as an agent: the prompt on its standard input, the workspace as its working folder.

It is ended with all that it started when it ends, runs out of time, is cancelled or floods its output, and when the harness is
killed. It runs as the user of the harness: nothing but its own sandbox keeps it inside the workspace.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from harness import tomlfile
from harness.agents import hypotheses, processes
from harness.agents.base import LOG_CHARACTERS, OUTPUT_CHARACTERS, AgentError, AgentFault, Hypothesis, Work, told
from harness.agents.changeable import changeable
from harness.agents.prompt import prompt
from harness.errors import reason_of
from harness.models.redaction import redacted
from harness.task.base import AGENT_FOLDER
from harness.task.commandline import command_settings
from harness.task.places import filled
from harness.task.table import Table
from sandbox.api import Cost
from sandbox.owner import owned_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.agents.base import Assignment
    from harness.task.commandline import CommandSettings

_LOOK_S = 0.02
_HYPOTHESIS = "hypothesis.json"
_HYPOTHESIS_BYTES = 10_000
_FILES = 100
"""So many files are named to a command that takes their names."""
_LARGEST = 1e15
"""No figure of tokens or money is larger."""
_PLAIN_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "USER")


def read(path: Path) -> CommandSettings:
    """Return the settings of a file.

    Raises:
        InputError: they are none; the message names file, line, value and what was expected.
    """
    file = tomlfile.read(path, "file of an agent's command", 'command = ["my-agent", "{prompt_file}"]')
    return command_settings(Table(file, "", file.values, path.parent))


class CommandAgent:
    """Makes attempts with one command line. Called from several threads at once; nothing outlives an attempt."""

    def __init__(self, name: str, settings: CommandSettings) -> None:
        self._name = name
        self._settings = settings
        self._marks = processes.Watched()
        self._closed = False

    @property
    def name(self) -> str:
        """Return the agent's name."""
        return self._name

    def plan(self, assignment: Assignment) -> Hypothesis:
        """Return nothing: what it will try is known when it has said so."""
        del assignment
        return Hypothesis()

    def work(self, assignment: Assignment) -> Work:
        """Run the command and return what it said.

        Raises:
            AgentFault: it ended with another exit code than those of success, or was ended.
            AgentError: it cannot be run.
        """
        if self._closed:
            raise AgentError(f"agent {self._name} is closed")
        with owned_folder() as folder:
            return self._run(assignment, folder)

    def close(self) -> None:
        """Take no more attempts, and end those that are being made."""
        self._closed = True
        self._marks.close()

    def _run(self, assignment: Assignment, folder: Path) -> Work:
        asked, said = folder / "prompt.md", folder / "output"
        asked.write_text(prompt(assignment))
        _forget(assignment.workspace)
        command = _placed(self._settings.command, assignment, asked)
        seen = {name: os.environ[name] for name in (*_PLAIN_VARIABLES, *self._settings.env) if name in os.environ}
        began = time.monotonic()
        with asked.open("rb") as stdin, said.open("wb") as output:
            try:
                mark = self._marks.mark()
                process = subprocess.Popen(  # noqa: S603 - the operator's command
                    command,
                    cwd=assignment.workspace,
                    env=seen | {processes.VARIABLE: mark},
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
                processes.end(process, mark)
        with said.open("rb") as stream:
            raw = stream.read(self._settings.output_bytes).decode("utf-8", "replace")
        answer = _last_object(raw)
        cost = self._cost(answer, time.monotonic() - began)
        text = redacted(raw, also=self._settings.env)
        work = Work(
            self._hypothesis(assignment.workspace, raw, answer), cost, told(text, OUTPUT_CHARACTERS), told(text, LOG_CHARACTERS)
        )
        if trouble is not None:
            raise AgentFault(trouble.message, status=trouble.status, work=work)
        if process.returncode not in self._settings.success:
            raise AgentFault(f"the agent ended with exit code {process.returncode}", work=work)
        return work

    def _watched(self, process: subprocess.Popen[bytes], assignment: Assignment, said: Path, began: float) -> _Trouble | None:
        """Wait for the end and return why it has to be ended, nothing where it ended by itself."""
        limit_s = min(assignment.timeout_s, self._settings.timeout_s or assignment.timeout_s)
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
                return None
            if assignment.cancel.is_set():
                return _Trouble("the attempt was cancelled", "timeout")
            if time.monotonic() - began > limit_s:
                return _Trouble(f"the agent ran out of time: {limit_s:g} s", "timeout")
            if said.stat().st_size > self._settings.output_bytes:
                return _Trouble(f"the agent wrote more than {self._settings.output_bytes} bytes", "failed")

    def _hypothesis(self, workspace: Path, output: str, answer: Any) -> Hypothesis:
        """Return what the agent wrote down or said; of what it said the last counts, and its JSON answer before all else."""
        found = _written(workspace)
        texts = [text for text in answer.values() if isinstance(text, str)] if isinstance(answer, dict) else []
        for text in [*texts, output]:
            found = found or hypotheses.fenced(text)
        if found is None:
            return Hypothesis()
        return Hypothesis(*(redacted(part, also=self._settings.env) for part in (found.component, found.statement, found.reason)))

    def _cost(self, answer: Any, seconds: float) -> Cost:
        counted = [_number(answer, path) for path in self._settings.tokens]
        tokens = sum(count for count in counted if count is not None) if counted and None not in counted else None
        return Cost(seconds, tokens, _number(answer, self._settings.usd))


class _Trouble(NamedTuple):
    """Why a command was ended, and the status of its attempt."""

    message: str
    status: str


def _placed(command: Sequence[str], assignment: Assignment, asked: Path) -> list[str]:
    """Return a command with its places filled in; the word `{files}` becomes a word for each file that may be changed."""
    words: list[str] = []
    for word in command:
        if word == "{files}":
            words += [f"./{name}" for name in list(changeable(assignment))[:_FILES]]
        else:
            words.append(filled(word, {"workspace": str(assignment.workspace), "prompt_file": str(asked)}))
    return words


def _last_object(output: str) -> Any:
    """Return the object that an output is, or that its last line with one is; None where there is none."""
    for text in (output, *reversed(output.splitlines()[-50:])):
        with suppress(ValueError, RecursionError):
            said = json.loads(text)
            if isinstance(said, dict):
                return said
    return None


def _number(answer: Any, path: str) -> float | None:
    """Return the figure at a path such as `usage.input_tokens`, None where there is none that can be."""
    for key in path.split("."):
        answer = answer.get(key) if isinstance(answer, dict) else None
    fits = isinstance(answer, int | float) and not isinstance(answer, bool) and 0 <= answer <= _LARGEST
    return float(answer) if fits else None


def _own_folder(workspace: Path) -> int:
    """Open the agent's own folder, unless a link stands there."""
    return os.open(workspace / AGENT_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _forget(workspace: Path) -> None:
    """Remove what the parent's attempt set out to try, which this one would be taken to have written."""
    with suppress(OSError):
        folder = _own_folder(workspace)
        try:
            os.unlink(_HYPOTHESIS, dir_fd=folder)
        finally:
            os.close(folder)


def _written(workspace: Path) -> Hypothesis | None:
    """Return what the agent wrote down, nothing where it is none: no link is followed."""
    try:
        folder = _own_folder(workspace)
        try:
            file = os.open(_HYPOTHESIS, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(file, "rb") as stream:
            return hypotheses.read(stream.read(_HYPOTHESIS_BYTES))
    except OSError:
        return None

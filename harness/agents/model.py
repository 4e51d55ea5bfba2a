"""A chat model as an agent: it is shown the task's files and answers with edits, which are made for it.

An answer whose edits cannot be made goes back to it with the reason, twice at most. It has no tools and runs nothing.
"""

from __future__ import annotations

import contextvars
import re
import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.agents import hypotheses
from harness.agents.base import LOG_CHARACTERS, OUTPUT_CHARACTERS, AgentError, AgentFault, Hypothesis, Work, told
from harness.agents.changeable import changeable
from harness.agents.edits import edited
from harness.agents.prompt import prompt
from harness.models.base import ContextOverflow, Message, ModelError, ModelTimeout, Request, Role
from harness.models.budget import BudgetSpentError
from harness.propose.edits.base import ANSWER_CHARACTERS, ProposalFault
from harness.propose.prompts.base import Foreign
from harness.propose.prompts.rendering import fenced
from sandbox.api import Cost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.agents.base import Assignment
    from harness.models.base import Answer, Model

_REPAIRS = 2
_LOOK_S = 0.02
_GRACE_S = 1.0
"""For whoever asks to say by itself that there was no answer in time."""
_FILE_CHARACTERS = 60_000
"""Of all files that are shown together; those that do not fit are named alone."""
_SAID = re.compile(r"\{[^{}\n]*\}")


class ModelAgent:
    """Makes attempts with one model. Called from several threads at once."""

    def __init__(self, model: Model, *, temperature: float, max_output_tokens: int, timeout_s: float) -> None:
        self._model = model
        self._temperature = temperature
        self._max_output_tokens = max_output_tokens
        self._timeout_s = timeout_s
        self._closed = False

    @property
    def name(self) -> str:
        """Return the model's name, as an agent."""
        return f"model:{self._model.name}"

    def plan(self, assignment: Assignment) -> Hypothesis:
        """Return nothing: what it will try is known when it has said so."""
        del assignment
        return Hypothesis()

    def work(self, assignment: Assignment) -> Work:
        """Ask for edits and make them.

        Raises:
            AgentFault: no answer could be made an edit of, or none came in time.
            AgentError: the model is out of reach, or its budget is spent.
        """
        if self._closed:
            raise AgentError(f"agent {self.name} is closed")
        until = time.monotonic() + assignment.timeout_s
        files = _files(assignment)
        messages = [Message(Role.USER, _prompt(assignment, files))]
        answers: list[Answer] = []
        for _ in range(1 + _REPAIRS):
            answer = self._answered(assignment, tuple(messages), answers, until)
            answers.append(answer)
            try:
                changed = edited(answer.text, files, assignment.task.files)
            except ProposalFault as fault:
                again = f"That answer cannot be used: {fault.message}. Mend it and answer again, all of it."
                messages += [Message(Role.ASSISTANT, answer.text or "(empty)"), Message(Role.USER, again)]
                trouble = fault.message
                continue
            work = _work(answers)
            try:
                _write(assignment, changed)
            except AgentFault as fault:
                raise AgentFault(str(fault), work=work) from fault
            return work
        raise AgentFault(f"no answer was an edit: {trouble}", work=_work(answers))

    def close(self) -> None:
        """Take no more attempts; it starts no process."""
        self._closed = True

    def _answered(self, assignment: Assignment, messages: tuple[Message, ...], before: list[Answer], until: float) -> Answer:
        if assignment.cancel.is_set():
            raise AgentFault("the attempt was cancelled", status="timeout", work=_work(before))
        began = time.monotonic()
        timeout_s = min(self._timeout_s, until - began)
        if timeout_s <= 0:
            raise AgentFault(f"took longer than {assignment.timeout_s:g} s", status="timeout", work=_work(before))
        seed = assignment.seed % 2**31
        request = Request(messages, self._model.name, self._temperature, seed, self._max_output_tokens, timeout_s)
        answer = self._asked(request)
        while not answer.done():
            wait([answer], _LOOK_S)
            late = time.monotonic() > until + _GRACE_S
            if not answer.done() and (late or assignment.cancel.is_set()):
                message = f"took longer than {assignment.timeout_s:g} s" if late else "the attempt was cancelled"
                lost = _work(before, unknown=True, lost_s=time.monotonic() - began)
                raise AgentFault(message, status="timeout", work=lost)
        try:
            return replace(answer.result(), text=told(answer.result().text, ANSWER_CHARACTERS + 1))
        except (ModelTimeout, ContextOverflow) as error:
            status = "timeout" if isinstance(error, ModelTimeout) else "failed"
            lost = _work(before, unknown=error.billed, lost_s=time.monotonic() - began)
            raise AgentFault(str(error), status=status, work=lost) from error
        except (ModelError, BudgetSpentError) as error:
            raise AgentError(f"agent {self.name}: {error}") from error

    def _asked(self, request: Request) -> Future[Answer]:
        """Ask in a thread of its own: an attempt that is ended does not wait for an answer, which nobody can call back."""
        answer: Future[Answer] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._model.complete(request))
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                answer.set_exception(error)

        threading.Thread(target=contextvars.copy_context().run, args=(ask,), name="model", daemon=True).start()
        return answer


def _work(answers: list[Answer], *, unknown: bool = False, lost_s: float = 0.0) -> Work:
    """Return what was said and what it cost; a figure that one answer lacks is unknown. `lost_s` went into none."""
    tokens = [None if None in (one.usage.input_tokens, one.usage.output_tokens) else _tokens(one) for one in answers]
    usd = [one.cost_usd for one in answers]
    cost = Cost(
        sum(one.latency_s for one in answers) + lost_s,
        None if unknown or None in tokens else float(sum(filter(None, tokens))),
        None if unknown or None in usd else sum(filter(None, usd)),
    )
    text = answers[-1].text if answers else ""
    return Work(_hypothesis(text), cost, told(text, OUTPUT_CHARACTERS), told(text, LOG_CHARACTERS))


def _tokens(answer: Answer) -> int:
    return (answer.usage.input_tokens or 0) + (answer.usage.output_tokens or 0)


def _hypothesis(text: str) -> Hypothesis:
    """Return what an answer says that it sets out to try: the first line of JSON that says so, or a fence of JSON."""
    lines = (hypotheses.read(said) for said in _SAID.findall(text[:20_000]))
    return next((found for found in lines if found is not None), None) or hypotheses.fenced(text) or Hypothesis()


def _files(assignment: Assignment) -> dict[str, str]:
    """Return the text of the files that may be changed; what is no text is left out."""
    found = {}
    for name, path in changeable(assignment).items():
        with suppress(UnicodeDecodeError):
            found[name] = path.read_text()
    return found


def _write(assignment: Assignment, changed: Mapping[str, str]) -> None:
    """Write files, or none of them where something stands in the way of one."""
    for name in changed:
        path = assignment.workspace / name
        way = [
            parent for parent in path.parents if parent != assignment.workspace and parent.is_relative_to(assignment.workspace)
        ]
        if any(parent.is_symlink() for parent in way) or path.is_symlink():
            raise AgentFault(f"{name!r} lies behind a link, and nothing is written through one")
        if path.is_dir() or any(str(parent.relative_to(assignment.workspace)) in changed for parent in way):
            raise AgentFault(f"{name!r} cannot be a file and a folder")
        if any(parent.exists() and not parent.is_dir() for parent in way):
            raise AgentFault(f"{name!r} lies in what is no folder")
    for name, text in changed.items():
        path = assignment.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _prompt(assignment: Assignment, files: Mapping[str, str]) -> str:
    shown, left = {}, _FILE_CHARACTERS
    for name, text in sorted(files.items(), key=lambda pair: len(pair[1])):
        if len(text) <= left:
            shown[name], left = text, left - len(text)
    asked = prompt(assignment)
    return fenced(
        "attempt-edits",
        [asked, *shown.values()],
        attempt=asked,
        files=[{"name": _plain(name), "text": Foreign(text)} for name, text in sorted(shown.items())],
        left_out=sorted(_plain(name) for name in files.keys() - shown.keys()),
    )


def _plain(name: str) -> str:
    """Return a file's name as it may stand outside of a fence."""
    return "".join(character if character.isalnum() or character in "._-/" else "?" for character in name)[:200]

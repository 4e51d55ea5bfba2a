"""One candidate in one runner, whatever the backend: compile once, then a fresh process for every replay.

A runner that is lost in the middle of a replay is replaced once and the replay repeated, question by question. Lost a second
time under the same policy, it was the policy's doing, unless the backend knows better.
"""

from __future__ import annotations

import marshal
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

from sandbox.api import Fault, FaultKind, PolicyFault
from sandbox.base import SandboxError
from sandbox.guest import wire
from sandbox.process import Loss, Process, Runner, RunnerLostError, printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from sandbox.api import Context, Observation
    from sandbox.base import GuestLimits, Usage

SOURCE_BYTES = 256 * 1024


class RunnerSession:
    """A `Session` over runners that `launch` starts."""

    def __init__(self, launch: Callable[[], Runner], source: str, limits: GuestLimits) -> None:
        self._launch = launch
        self._source = source
        self._limits = limits
        self._runner: Runner | None = launch()
        self._code: bytes | None = None
        self._processes = 0
        self._replay: SandboxedReplay | None = None

    def start(self, context: Context) -> SandboxedReplay:
        """Start a fresh process for one replay and load the policy in it."""
        if context.limits.max_batch > wire.LONGEST_BATCH:
            raise SandboxError(
                f"max_batch is {context.limits.max_batch}; a sandboxed policy can answer at most {wire.LONGEST_BATCH}"
            )
        _admit(self._source)
        if self._replay is not None:
            with suppress(PolicyFault):  # which whoever asked nothing more of that replay does not want to know
                self._replay.finish()
        self._replay = SandboxedReplay(self, context)
        return self._replay

    def close(self) -> None:
        """Remove the runner and all that is in it. May be called again."""
        if self._replay is not None:
            self._replay.abandon()
            self._replay = None
        if self._runner is not None:
            runner, self._runner = self._runner, None
            runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def health(self) -> tuple[int, int, int]:
        """Return what no replay may change but the first: processes so far, open descriptors and nice value of the runner."""
        if self._replay is not None:
            self._replay.finish()
        control = self._running().control
        control.send(wire.PING_MARK)
        _, descriptors, nice = wire.PONG.unpack(control.recv(wire.MESSAGE_BYTES))
        return self._processes, descriptors, nice

    def begin(self, context: Context) -> Process:
        """Return a process with the policy loaded. For `SandboxedReplay`."""
        if self._code is None:
            process = self._fork(0, marshal.dumps((wire.COMPILE, self._source), wire.MARSHAL_VERSION))
            try:
                self._code = process.compile()
            finally:
                process.finish()
        limits = (context.limits.max_rounds, context.limits.max_batch, context.limits.max_attempts)
        program = (wire.LOAD, self._code, self._source, dict(context.params), context.seed, limits, str(context.frontier))
        process = self._fork(context.limits.max_batch, marshal.dumps(program, wire.MARSHAL_VERSION))
        try:
            process.load()
        except PolicyFault as broken:
            raise PolicyFault(broken.fault, printable(process.output_tail)) from None
        return process

    def drop_runner(self) -> Loss:
        """Give up a runner that is lost; the next replay gets another. Return what is known about its end."""
        if self._runner is None:
            return Loss()
        runner, self._runner = self._runner, None
        loss = runner.loss()
        runner.close()
        return loss

    def _fork(self, longest_batch: int, program: bytes) -> Process:
        self._processes += 1  # counted here, since the runner's memory is each child's
        return Process(self._running(), self._limits, longest_batch, program)

    def _running(self) -> Runner:
        if self._runner is None:
            self._runner = self._launch()
        return self._runner


class SandboxedReplay:
    """One policy process taken through one replay, strictly in lock step."""

    def __init__(self, session: RunnerSession, context: Context) -> None:
        self._session = session
        self._context = context
        self._questions: list[bytes] = []
        self._answers: list[list[int]] = []
        self._usage: Usage | None = None
        self._round: int | None = None
        try:
            self._process = session.begin(context)
        except RunnerLostError as lost:
            self._process = self._begin_again(lost)

    def decide(self, observation: Observation) -> list[int]:
        """Return the picks for this observation; their form is checked here, the rules of replay are not."""
        number = len(self._questions)
        seen: Any = (number, observation.round, observation.revealed, observation.closed, observation.pending)
        question = marshal.dumps(seen, wire.MARSHAL_VERSION)
        self._round = observation.round
        self._questions.append(question)
        try:
            try:
                answer = self._process.ask(number, question)
            except RunnerLostError as lost:
                answer = self._ask_again(lost)
        except PolicyFault as broken:
            raise PolicyFault(replace(broken.fault, round=observation.round)) from None
        self._answers.append(answer)
        return answer

    def finish(self) -> Usage:
        """End the process, wait until nothing of it is left, and return what it used. May be called again.

        Raises:
            PolicyFault: it had not waited for that; raised once.
        """
        if self._usage is None:
            try:
                self._usage = self._process.finish()
            except PolicyFault as broken:
                raise PolicyFault(replace(broken.fault, round=self._round)) from None
            except RunnerLostError:  # what was decided stands
                self._usage = self._process.abandon()
                self._session.drop_runner()
        return self._usage

    def abandon(self) -> None:
        """Let go of the process, which ends with its runner."""
        if self._usage is None:
            self._usage = self._process.abandon()

    @property
    def output(self) -> str:
        """Return the tail of what the policy printed, once its process has ended; nothing of it is to be believed."""
        return printable(self._process.output_tail)

    def _begin_again(self, lost: RunnerLostError) -> Process:
        loss = self._session.drop_runner()
        try:
            return self._session.begin(self._context)
        except RunnerLostError as again:
            self._give_up(lost, again, loss)

    def _ask_again(self, lost: RunnerLostError) -> list[int]:
        loss = self._session.drop_runner()
        answer: list[int] = []
        try:
            self._process = self._session.begin(self._context)
            for number, question in enumerate(self._questions):
                answer = self._process.ask(number, question)
                if number < len(self._answers) and answer != self._answers[number]:
                    self._process.finish()
                    message = f"asked the same question {number + 1} again, it answered {answer}, before {self._answers[number]}"
                    raise PolicyFault(Fault(FaultKind.NONDETERMINISTIC, message))
        except RunnerLostError as again:
            self._give_up(lost, again, loss)
        return answer

    def _give_up(self, lost: RunnerLostError, again: RunnerLostError, first: Loss) -> NoReturn:
        second = self._session.drop_runner()
        for loss in (second, first):
            if loss.ours:
                raise SandboxError(f"the sandbox was lost twice in one replay: {loss.words}") from again
        message = f"its runner was lost twice while this policy ran ({lost}; then {again}) {second.words or first.words}".strip()
        raise PolicyFault(Fault(FaultKind.EXITED, message)) from again


def _admit(source: str) -> None:
    """Refuse source that is not worth handing to a parser, even in a sandbox."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        message = f"the source cannot be encoded as UTF-8: {error.reason} at character {error.start}"
        raise PolicyFault(Fault(FaultKind.REFUSED_AT_CHECK, message)) from None
    if size > SOURCE_BYTES:
        message = f"the source has {size} bytes; the limit is {SOURCE_BYTES}"
        figures = {"source_bytes": size, "limit_source_bytes": SOURCE_BYTES}
        raise PolicyFault(Fault(FaultKind.REFUSED_AT_CHECK, message, figures=figures))

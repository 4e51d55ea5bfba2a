"""Score what an agent left: the candidate's own command in one job, the evaluator in another that nothing of the first can reach.

A score comes from one place alone, the evaluator's standard output. Whatever else happens is an attempt without a score whose
feedback says what happened; only trouble of our own side is raised.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from harness.errors import InputError
from harness.task import copying
from harness.task.answer import BadAnswer, parse
from harness.task.base import Assessment
from harness.task.places import filled
from sandbox.api import FEEDBACK_CHARACTERS
from sandbox.base import SandboxError
from sandbox.guest.archive import RefusedFault
from sandbox.job import JobFault, JobFaultKind
from sandbox.owner import owned_folder

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from harness.task.base import Task
    from sandbox.job import Input, JobResult, Jobs

_INPUTS = "../inputs"  # as a job's command sees them, with every backend
_TAIL_CHARACTERS = 4_000  # of each stream of the candidate's run, for the evaluator
_EVIDENCE_CHARACTERS = 600  # of each stream of the evaluator, for the feedback


class Evaluator:
    """Assesses workspaces of one task. May be used from several threads at once."""

    def __init__(self, task: Task, jobs: Jobs) -> None:
        self._task = task
        self._jobs = jobs

    def assess(self, workspace: Path, *, cancel: threading.Event | None = None) -> Assessment:
        """Return what a workspace is worth; the workspace itself stays as it is.

        Raises:
            JobCancelledError: `cancel` was set.
            SandboxError: our side failed.
        """
        began = time.monotonic()
        with owned_folder() as folder:
            copied = folder / "workspace"
            try:
                copying.copy(workspace, copied, self._task.scoring.run_limits or self._task.scoring.limits)
            except RefusedFault as refused:
                return _unscored("invalid", f"The workspace is refused: {refused.message}.", began)
            except OSError as error:
                raise SandboxError(f"cannot copy the workspace {workspace}: {error}") from error
            run: JobResult | None = None
            if self._task.scoring.run:
                try:
                    run = self._ran(copied, cancel)
                    copying.check_names(copied)
                except JobFault as fault:
                    return _unscored(_blame(fault), f"The run ended with {fault.kind}: {fault.message}.", began)
                except RefusedFault as refused:
                    return _unscored("invalid", f"What the run left is refused: {refused.message}.", began)
            return self._judged(copied, run, folder, cancel, began)

    def _ran(self, workspace: Path, cancel: threading.Event | None) -> JobResult:
        """Run the candidate's command, which changes the copy of the workspace."""
        scoring = self._task.scoring
        assert scoring.run_limits is not None  # noqa: S101 - a task that runs something says with which limits
        inputs: dict[str, Input] = {} if scoring.given is None else {"given": scoring.given}
        return self._jobs.run(_placed(scoring.run), workspace, scoring.run_limits, inputs, cancel=cancel)

    def _judged(
        self, workspace: Path, run: JobResult | None, folder: Path, cancel: threading.Event | None, began: float
    ) -> Assessment:
        scoring = self._task.scoring
        inputs: dict[str, Input] = {"evaluator": scoring.folder, "workspace": workspace, "run.json": _report(run)}
        if scoring.given is not None:
            inputs["given"] = scoring.given
        desk = folder / "desk"
        desk.mkdir()
        try:
            result = self._jobs.run(_placed(scoring.command), desk, scoring.limits, inputs, cancel=cancel)
        except JobFault as fault:
            if fault.kind is JobFaultKind.NOT_STARTED:
                raise InputError(f"{self._task.folder}/task.toml: 'evaluate.command': {fault.message}; mend it") from fault
            return _unscored("failed", f"The evaluator ended with {fault.kind}: {fault.message}.", began)
        trouble = _trouble(result, scoring.limits.output_bytes)
        if trouble is None:
            try:
                return parse(result.stdout, time.monotonic() - began)
            except BadAnswer as bad:
                trouble = f"gave no answer that can be read: {bad}"
        return _unscored("failed", f"The evaluator {trouble}.{_evidence(result)}", began)


def _placed(command: tuple[str, ...]) -> list[str]:
    """Return a command with its places filled in, as seen from the working directory of a job."""
    names = {"evaluator": "evaluator", "workspace": "workspace", "given": "given", "run": "run.json"}
    places = {place: f"{_INPUTS}/{name}" for place, name in names.items()}
    return [filled(word, places) for word in command]


def _report(run: JobResult | None) -> bytes:
    """Return how the candidate's run ended, as the evaluator reads it; `null` where nothing was run."""
    if run is None:
        return b"null\n"
    report = {
        "exit_code": run.exit_code,
        "timed_out": run.timed_out,
        "out_of_memory": run.out_of_memory,
        "cpu_s": run.usage.cpu_s,
        "wall_s": run.usage.wall_s,
        "memory_bytes": run.usage.memory_bytes,
        "stdout": run.stdout[-_TAIL_CHARACTERS:],
        "stderr": run.stderr[-_TAIL_CHARACTERS:],
    }
    return json.dumps(report).encode() + b"\n"


def _trouble(result: JobResult, output_bytes: int) -> str | None:
    """Return why an evaluator that has ended said nothing, None where it may have."""
    if result.timed_out is not None:
        return f"ran out of {result.timed_out} time"
    if result.out_of_memory:
        return "ran out of memory"
    if result.exit_code != 0:
        return f"ended with exit code {result.exit_code}"
    if result.usage.output_bytes > output_bytes:
        return f"wrote {result.usage.output_bytes} bytes; {output_bytes} are kept"
    return None


def _evidence(result: JobResult) -> str:
    parts = []
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        if tail := text.strip()[-_EVIDENCE_CHARACTERS:]:
            parts.append(f"\n{name}: {tail}")
    return "".join(parts)


def _blame(fault: JobFault) -> str:
    """Return the status of an attempt whose own run broke the contract of jobs."""
    return "invalid" if fault.kind not in {JobFaultKind.NOT_STARTED, JobFaultKind.OUT_OF_MEMORY} else "failed"


def _unscored(status: str, feedback: str, began: float) -> Assessment:
    return Assessment(None, status, feedback[:FEEDBACK_CHARACTERS], {}, False, time.monotonic() - began)

"""One replay's process: lock everything, then load the policy and answer questions until the host has enough.

What happens in here is the policy's to spoil. None of it is trusted: the host reads the frames strictly, and every limit
that matters is kept by the kernel or by the host.
"""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import linecache
import marshal
import os
import random
import resource
import signal
import sys
import traceback
import types
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from sandbox.api import Context, FaultKind, Limits, Observation, PolicyFault, View, batch_of
from sandbox.guest import kernel, wire
from sandbox.guest.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from sandbox.api import Outcome

_CHANNEL = 3
_FILE = "policy.py"
_STACK_BYTES = 8 * 2**20
_FRAMES_SHOWN = 20
_WARM_UP_CALLS = 20  # more than the interpreter waits before it adapts code
TELL_SIGNAL = signal.SIGUSR1
_LOST = 70  # exit status when the child cannot say what happened


@dataclass(frozen=True, slots=True)
class Layers:
    """What the runner prepares once for all its children. A layer of None is switched off, which only tests do."""

    null: int  # descriptor of /dev/null
    identity: kernel.Identity
    landlock: kernel.LandlockLock | None
    seccomp: kernel.SeccompLock | None
    watch: int | None  # descriptor that becomes readable when a child makes a hostile call; None where the kernel has none
    rlimits: bool
    own_address_space: int
    namespaces: bool
    reserve: list[bytes]  # given up when memory has run out, so that this can be reported
    notes: memoryview  # shared with the runner, and blank when a child starts
    pages: memoryview  # the whole pages that the notes lie in, which a child can reach as well


def settle() -> None:
    """Do in the runner, once, what each child would otherwise do again: let go of files and paths, and warm up.

    A child pays for each page of memory that it is the first to write. Letting go of the importers' caches writes many; so does
    the interpreter where it adapts code that is called for the first few times. What is called here is ours alone.
    """
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
    sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None  # type: ignore[misc]
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.argv[:] = [_FILE]
    outcome: Outcome = (0.0, "ok", {}, "", (None, None, None), "")
    for _ in range(_WARM_UP_CALLS):
        view = View("leaf")
        Context({}, 0, Limits(), "leaf")
        for asked in range(2):
            question = marshal.loads(marshal.dumps((asked, [(asked - 1, outcome)], [], []), wire.MARSHAL_VERSION))  # noqa: S302 - our own
            array("I", batch_of(view.update(Observation(*question)).selectable)).tobytes()


def serve(channel: int, layers: Layers, memory_bytes: int, cpu_s: int, output_bytes: int) -> NoReturn:
    """Be the child: never returns into the runner."""
    try:
        _confine(channel, layers, memory_bytes, cpu_s)
    except BaseException as error:
        os.dup2(channel, _CHANNEL)
        os.write(_CHANNEL, wire.FAILED_MARK + repr(error).encode()[: wire.MESSAGE_BYTES])
        os._exit(_LOST)
    try:
        _Child(layers, output_bytes).work()
    finally:
        os._exit(_LOST)


def _confine(channel: int, layers: Layers, memory_bytes: int, cpu_s: int) -> None:
    """Give up everything, in the order in which each step still finds what it needs."""
    kernel.die_with_parent(signal.SIGKILL)
    layers.identity.hide()
    for descriptor in (0, 1, 2):
        os.dup2(layers.null, descriptor)
    if layers.landlock is not None:
        layers.landlock.close()
    os.dup2(channel, _CHANNEL)
    os.closerange(_CHANNEL + 1, 64)
    if layers.rlimits:
        address_space = layers.own_address_space + memory_bytes
        for limit, soft, hard in (
            (resource.RLIMIT_AS, address_space, address_space),
            (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
            (resource.RLIMIT_STACK, _STACK_BYTES, _STACK_BYTES),
            (resource.RLIMIT_NOFILE, 8, 8),
            (resource.RLIMIT_NPROC, 0, 0),
            (resource.RLIMIT_FSIZE, 0, 0),
            (resource.RLIMIT_CORE, 0, 0),
            (resource.RLIMIT_MEMLOCK, 0, 0),
            (resource.RLIMIT_MSGQUEUE, 0, 0),
        ):
            resource.setrlimit(limit, (soft, hard))
    if layers.seccomp is not None:
        layers.seccomp.close()


class _Child:
    """Speaks with the host on behalf of the policy."""

    def __init__(self, layers: Layers, output_bytes: int) -> None:
        self._reserve = layers.reserve
        self._notes = layers.notes
        self._output_bytes = output_bytes
        self._sink = Sink(layers.notes, output_bytes, self._flooded)
        self._loading = True

    def work(self) -> NoReturn:
        signal.signal(TELL_SIGNAL, self._tell)
        os.write(_CHANNEL, wire.HELLO_MARK)
        work = marshal.loads(_receive())  # noqa: S302 - written by the host
        sys.stdout = sys.stderr = self._sink
        gc.enable()
        if work[0] == wire.COMPILE:
            self._compile(work[1])
        code, source, params, seed, limits, frontier = work[1:]
        _seed(seed)
        linecache.cache[_FILE] = (len(source), None, source.splitlines(keepends=True), _FILE)
        try:
            context = Context(params, seed, Limits(*limits), frontier)
            decide = _load(code, context)
            os.write(_CHANNEL, wire.READY_MARK)
            self._loading = False
            self._answer(decide, View(frontier), context.limits.max_batch)
        except BaseException as error:
            self._report(error)

    def _compile(self, source: str) -> NoReturn:
        """Compile and hand the code back, opaque; no policy code runs here, but its parser's bugs would."""
        try:
            code = marshal.dumps(compile(source, _FILE, "exec", dont_inherit=True))
            os.write(_CHANNEL, wire.CODE.pack(wire.CODE_MARK, len(code)))
            for start in range(0, len(code), wire.CHUNK_BYTES):
                os.write(_CHANNEL, code[start : start + wire.CHUNK_BYTES])
        except BaseException as error:
            self._fault(FaultKind.LOAD_FAULT, _message(error), _description(error))
        os._exit(0)

    def _answer(self, decide: Callable[[View], Any], view: View, max_batch: int) -> NoReturn:
        receive, loads, write, pack = _receive, marshal.loads, os.write, wire.ANSWER.pack
        ids_sent = min(max_batch + 1, wire.LONGEST_BATCH)
        while True:
            number, asked, revealed, closed, pending = loads(receive())
            batch = batch_of(decide(view.update(Observation(asked, revealed, closed, pending))))[:ids_sent]
            try:
                ids = array("I", batch)
            except OverflowError:
                ids = array("I", [pick if 0 <= pick < wire.NO_SUCH_ID else wire.NO_SUCH_ID for pick in batch])
            write(_CHANNEL, pack(wire.ANSWER_MARK, number) + ids.tobytes())

    def _report(self, error: BaseException) -> NoReturn:
        self._reserve.clear()
        kind = FaultKind.LOAD_FAULT if self._loading else FaultKind.EXCEPTION
        if isinstance(error, PolicyFault) and error.fault.kind is FaultKind.BAD_ANSWER:
            self._fault(error.fault.kind, error.fault.message, "")
        if isinstance(error, MemoryError):
            kind = FaultKind.OUT_OF_MEMORY
        elif isinstance(error, BlockingIOError) or (type(error) is RuntimeError and error.args == ("can't start new thread",)):
            kind = FaultKind.PROCESS_LIMIT
        self._fault(kind, _message(error), _policy_frames(error) + _description(error))

    def _flooded(self) -> NoReturn:
        # From inside print, since a policy that catches everything would go on printing.
        message = f"printed {self._sink.total} bytes; the limit is {self._output_bytes}"
        self._fault(FaultKind.OUTPUT_FLOOD, message, _own_stack(None))

    def _tell(self, _number: int, frame: FrameType | None) -> NoReturn:
        """Note where the policy stands and end: its time is up."""
        with contextlib.suppress(BaseException):
            self._reserve.clear()
            lines = _cut(_own_stack(frame))
            self._notes[-wire.TRACEBACK_BYTES :] = lines.ljust(wire.TRACEBACK_BYTES, b"\0")
        os._exit(_LOST)

    def _fault(self, kind: FaultKind, message: str, trace: str) -> NoReturn:
        text = message.encode("utf-8", "replace")[: wire.MESSAGE_BYTES]
        os.write(_CHANNEL, wire.FAULT.pack(wire.FAULT_MARK, wire.FAULTS.index(kind), len(text)) + text + _cut(trace))
        os._exit(0)


def _receive() -> bytes:
    """Return the next message; end the process when the host has closed the channel."""
    message = os.read(_CHANNEL, wire.CHUNK_BYTES)
    if not message:
        os._exit(0)
    if message[:1] != wire.LONG_MARK:
        return message
    left = wire.LONG.unpack(message)[1]
    chunks = []
    while left:
        chunk = os.read(_CHANNEL, wire.CHUNK_BYTES)
        if not chunk:
            os._exit(0)
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _seed(seed: int) -> None:
    """Seed `random`, and derive the seed of every generator that a policy makes without one.

    There is no entropy in here, and Python would fall back to the clock: the same policy would decide differently each time.
    """
    random.seed(seed)
    seeded = random.Random.seed
    unseeded = itertools.count()

    def seed_generator(self: random.Random, a: Any = None, version: int = 2) -> None:
        seeded(self, f"generator {next(unseeded)} of {seed}" if a is None else a, version)

    random.Random.seed = seed_generator  # type: ignore[method-assign]
    random.seed = types.MethodType(seed_generator, random._inst)  # noqa: SLF001 - was bound at import


def _load(code: bytes, context: Context) -> Callable[[View], Any]:
    module = types.ModuleType("policy")
    module.__file__ = _FILE
    sys.modules["policy"] = module
    exec(marshal.loads(code), module.__dict__)  # noqa: S102, S302 - this is what the locks are for
    policy = module.__dict__.get("Policy")
    if not isinstance(policy, type):
        message = "the source defines no `class Policy`"
        raise TypeError(message)
    decide: Callable[[View], Any] = policy(context).decide
    return decide


def _message(error: BaseException) -> str:
    with contextlib.suppress(BaseException):
        if isinstance(error, SyntaxError):
            return f"{type(error).__name__}: {error}"
    return _description(error)


def _description(error: BaseException) -> str:
    """Return the last lines of a traceback: the exception, and for a SyntaxError the line that it points at."""
    with contextlib.suppress(BaseException):
        return "".join(traceback.format_exception_only(type(error), error)).strip()
    return type(error).__name__


def _policy_frames(error: BaseException) -> str:
    with contextlib.suppress(BaseException):
        return _own(traceback.TracebackException(type(error), error, error.__traceback__, compact=True).stack)
    return ""


def _own(frames: Iterable[traceback.FrameSummary]) -> str:
    """Return the policy's own frames, as Python shows them."""
    own = [frame for frame in frames if frame.filename == _FILE][-_FRAMES_SHOWN:]
    heading = "Traceback (most recent call last, the policy's own lines):\n"
    return heading + "".join(traceback.format_list(own)) if own else ""


def _own_stack(frame: FrameType | None) -> str:
    """Return the policy's own frames of a running stack, the caller's where no frame is given."""
    return _own(reversed(traceback.StackSummary.extract(traceback.walk_stack(frame))))


def _cut(trace: str) -> bytes:
    lines = trace.encode("utf-8", "replace")
    if len(lines) > wire.TRACEBACK_BYTES:
        half = wire.TRACEBACK_BYTES // 2 - 4
        lines = lines[:half] + b"\n ...\n" + lines[-half:]
    return lines

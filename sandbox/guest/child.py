"""One replay's process: lock everything, then load the policy and answer questions until the host has enough.

What happens in here is the policy's to spoil. None of it is trusted: the host reads the frames strictly, and every limit
that matters is kept by the kernel or by the host.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations, which are spread over many pages
import contextlib
import functools
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

from sandbox.api import Context, FaultKind, Limits, PolicyFault, View, batch_of
from sandbox.guest import kernel, wire
from sandbox.guest.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from sandbox.api import Outcome

_CHANNEL = 3
_FILE, _MODULE = "policy.py", "policy"
_STACK_BYTES = 8 * 2**20
_FRAMES_SHOWN = 20
_WARM_UP_CALLS = 20  # more than the interpreter waits before it adapts code
TELL_SIGNAL = signal.SIGUSR1
_TELL_NUMBER = int(TELL_SIGNAL)  # a child pays for each page of memory that it touches: no enumeration
_TOY = "class Policy:\n    def __init__(self, context): pass\n    def decide(self, view): return [0]\n"
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
    """Do in the runner, once, what each child would otherwise do again: let go of files and paths.

    A child pays for each page of memory that it is the first to write, and letting go of the importers' caches writes many.
    """
    sys.stdin = io.StringIO()
    sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None  # type: ignore[misc]
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.argv[:] = sys.orig_argv[:] = [_FILE]
    # The same words in every sandbox and on every machine, where no path means anything any more.
    sys.executable = sys.prefix = sys.base_prefix = sys.exec_prefix = sys.base_exec_prefix = ""


def limit_for_good() -> None:
    """Take from this process, and so from all its children, what neither it nor they have any use for."""
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(limit, (0, 0))
    resource.setrlimit(resource.RLIMIT_STACK, (_STACK_BYTES, _STACK_BYTES))


class Child:
    """Confines its process, then speaks with the host on behalf of the policy.

    The runner makes it before it forks, with all that children have in common: only the process that calls `serve` is a child.
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._reserve = layers.reserve
        self._notes = layers.notes
        self._seeds = _Seeds()
        self._sink = Sink(layers.notes, self._flooded)
        self._on_tell = self._tell
        self._steps: tuple[kernel.Step, ...] = ()
        self._output_bytes = sys.maxsize
        self._write = functools.partial(os.write, _CHANNEL)
        self._source = ""
        self._loading = True
        sys.stdout = sys.stderr = self._sink
        # Its lines are made when somebody asks for them, in the way of modules that are loaded from an archive.
        linecache.cache[_FILE] = (lambda: self._source,)

    def prepare(self, channel: int, memory_bytes: int, cpu_s: int, output_bytes: int) -> None:
        """Lay out how the next child gives up everything, in the order in which each step still finds what it needs."""
        layers = self._layers
        address_space = layers.own_address_space + memory_bytes
        limits = (
            (resource.RLIMIT_AS, (address_space, address_space)),
            (resource.RLIMIT_CPU, (cpu_s, cpu_s + 1)),
            (resource.RLIMIT_NOFILE, (8, 8)),
            (resource.RLIMIT_NPROC, (0, 0)),
        )
        self._steps = (
            kernel.dying_with_parent(signal.SIGKILL),
            (layers.identity.hide, ()),
            *[(os.dup2, (layers.null, descriptor)) for descriptor in (0, 1, 2)],
            *([layers.landlock.step] if layers.landlock is not None else []),
            (os.dup2, (channel, _CHANNEL)),
            (os.closerange, (_CHANNEL + 1, 64)),
            *[(resource.setrlimit, limit) for limit in limits if layers.rlimits],
            *([layers.seccomp.step] if layers.seccomp is not None else []),
        )
        self._output_bytes = output_bytes

    def rehearse(self) -> None:
        """Do in the runner, over and over, what each child will do once, but for the locks.

        A child pays for each page of memory that it is the first to write, and the interpreter writes many where it adapts code
        that is called for the first few times, and where it remembers in which class it has found a name.
        """
        steps, self._steps = self._steps, ((os.getuid, ()),) * _WARM_UP_CALLS
        code = marshal.dumps(compile(_TOY, _FILE, "exec"))
        outcome: Outcome = (0.0, "ok", {"loss": 1.5}, "fine", (1.0, None, None), "wider")
        messages: list[Any] = [(wire.LOAD, code, _TOY, {}, 0, (1, 1, None), "leaf")]
        messages += [(number, number, [(number - 1, outcome)], [], []) for number in range(2)]
        said = [marshal.dumps(message, wire.MARSHAL_VERSION) for message in messages]
        reading, writing = os.pipe()
        for _ in range(_WARM_UP_CALLS):
            os.write(writing, said[0])
            _receive(reading)
            self._lock()
            self._work(iter([*said, b""]).__next__, len)
        os.close(reading)
        os.close(writing)
        self._steps, self._loading, self._source = steps, True, ""
        del sys.modules[_MODULE]
        gc.disable()
        signal.signal(TELL_SIGNAL, signal.SIG_IGN)

    def serve(self) -> NoReturn:
        """Be the child: never returns into the runner."""
        try:
            self._lock()
        except BaseException as error:
            try:
                reason = repr(error).encode("utf-8", "replace")[: wire.MESSAGE_BYTES]
                self._notes[-wire.TRACEBACK_BYTES :] = reason.ljust(wire.TRACEBACK_BYTES, b"\0")
                # A locked process has no call to die of this signal, so that no policy can claim to be one that was never locked.
                os.kill(os.getpid(), wire.UNLOCKED_SIGNAL)
            finally:
                os._exit(_LOST)
        try:
            self._work(_receive, self._write)
            os._exit(0)
        finally:
            os._exit(_LOST)

    def _lock(self) -> None:
        for step, arguments in self._steps:
            step(*arguments)

    def _work(self, receive: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
        """Do what the host asks for until it has enough."""
        _signal.signal(_TELL_NUMBER, self._on_tell)
        work = marshal.loads(receive())  # noqa: S302 - written by the host
        gc.enable()
        self._sink.limit = self._output_bytes
        if work[0] == wire.COMPILE:
            self._compile(work[1])
        _, code, self._source, params, seed, limits, frontier = work
        self._seeds.start(seed)
        try:
            context = Context(params, seed, Limits(*limits), frontier)
            decide = _load(code, context)
            write(wire.READY_MARK)
            self._loading = False
            self._answer(receive, write, decide, View(frontier), context.limits.max_batch)
        except BaseException as error:
            self._report(error)

    def _compile(self, source: str) -> NoReturn:
        """Compile and hand the code back, opaque; no policy code runs here, but its parser's bugs would."""
        try:
            code = marshal.dumps(compile(source, _FILE, "exec", dont_inherit=True))
            os.write(_CHANNEL, wire.CODE.pack(wire.CODE_MARK, len(code)))
            for start in range(0, len(code), wire.CHUNK_BYTES):
                os.write(_CHANNEL, code[start : start + wire.CHUNK_BYTES])
            os.read(_CHANNEL, 1)  # never returns: the host ends who has nothing more to say
        except BaseException as error:
            self._fault(FaultKind.LOAD_FAULT, _message(error), _description(error))
        os._exit(0)

    def _answer(
        self,
        receive: Callable[[], bytes],
        write: Callable[[bytes], object],
        decide: Callable[[View], Any],
        view: View,
        max_batch: int,
    ) -> None:
        loads, take, pack = marshal.loads, view.take, wire.ANSWER.pack
        ids_sent = min(max_batch + 1, wire.LONGEST_BATCH)
        while message := receive():
            number, asked, revealed, closed, pending = loads(message)
            batch = batch_of(decide(take(asked, revealed, closed, pending)))[:ids_sent]
            try:
                ids = array("I", batch)
            except OverflowError:
                ids = array("I", [pick if 0 <= pick < wire.NO_SUCH_ID else wire.NO_SUCH_ID for pick in batch])
            write(pack(wire.ANSWER_MARK, number) + ids.tobytes())

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
        message = f"printed {self._sink.total} bytes; the limit is {self._sink.limit}"
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


def _receive(channel: int = _CHANNEL) -> bytes:
    """Return the next message, an empty one when the host has closed the channel."""
    message = os.read(channel, wire.CHUNK_BYTES)
    if message[:1] != wire.LONG_MARK:
        return message
    left = wire.LONG.unpack(message)[1]
    chunks = []
    while left:
        chunk = os.read(channel, wire.CHUNK_BYTES)
        if not chunk:
            return chunk
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


class _Seeds:
    """Seeds `random`, and derives the seed of every generator that a policy makes without one.

    There is no entropy in here, and Python would fall back to the clock: the same policy would decide differently each time.
    """

    def __init__(self) -> None:
        seeded = random.Random.seed
        self._seed = 0
        self._unseeded = itertools.count()

        def seed_generator(generator: random.Random, a: Any = None, version: int = 2) -> None:
            seeded(generator, f"generator {next(self._unseeded)} of {self._seed}" if a is None else a, version)

        random.Random.seed = seed_generator  # type: ignore[assignment,method-assign]
        random.seed = types.MethodType(seed_generator, random._inst)  # noqa: SLF001 - was bound at import

    def start(self, seed: int) -> None:
        """Begin as every replay with this seed does."""
        self._seed = seed
        random.seed(seed)


def _load(code: bytes, context: Context) -> Callable[[View], Any]:
    module = types.ModuleType(_MODULE)
    module.__file__ = _FILE
    sys.modules[_MODULE] = module
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

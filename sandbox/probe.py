"""Try to get out: a dozen hostile policies, run against a backend through its ordinary sessions.

A probe attempts one thing. Refused, or ended by the limit that it is about, the sandbox has held; anything that the attempt
brings home is a hole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sandbox.api import Context, FaultKind, Limits, Observation, PolicyFault
from sandbox.base import GuestLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.base import Sandbox, Session

_LIMITS = GuestLimits(decision_cpu_s=0.5, replay_cpu_s=2.0, memory_bytes=64 * 2**20, output_bytes=100_000)
_CONTEXT = Context({}, 0, Limits(), "leaf")
_QUESTION = Observation(1, [(-1, (None, "ok", {}, "", (None, None, None), ""))])


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One attempt: whether the sandbox held, and what the attempt was answered with."""

    name: str
    held: bool
    detail: str


@dataclass(frozen=True, slots=True)
class _Probe:
    """`attempt` is the body of a function that returns what it got; `ended_by` are the limits that may end it instead."""

    name: str
    attempt: str
    ended_by: tuple[FaultKind, ...] = ()
    replays: int = 1


_TRY_EACH = """
    got = []
    for name, step in steps.items():
        try:
            got.append((name, step()))
        except OSError as error:
            refused = error
    return got or fail(refused)
"""

_PROBES = (
    # A connected datagram socket sends nothing, yet tells whether there is a way out.
    _Probe("network", "way = socket.socket(2, 2)\n    way.connect(('192.0.2.1', 9))\n    return way.getsockname()"),
    _Probe(
        "socket families",
        "steps = {f: (lambda f=f: socket.socket(f, k)) for f, k in ((1, 1), (2, 2), (10, 1), (16, 3), (17, 3), (38, 5), (40, 1))}"
        + _TRY_EACH,
    ),
    _Probe(
        "reading files",
        "steps = {p: (lambda p=p: len(os.listdir(p))) for p in ('/', '/proc', '/dev', '/etc')}\n"
        "    steps |= {p: (lambda p=p: os.open(p, 0)) for p in ('/etc/passwd', '/proc/1/environ', '/dev/urandom')}" + _TRY_EACH,
    ),
    _Probe(
        "writing files",
        "steps = {p: (lambda p=p: os.open(p + '/probe', 0o101)) for p in ('/', '/tmp', '/dev/shm', '/run', '/var/tmp')}"
        + _TRY_EACH,
    ),
    _Probe("starting a process", "child = os.fork()\n    return child or os._exit(0)"),
    _Probe("starting a thread", "return _thread.start_new_thread(int, ())"),
    _Probe("the runner's memory: trace", "return libc('ptrace', 16, os.getppid() or 1, 0, 0)"),
    _Probe("the runner's memory: file", "return os.open(f'/proc/{os.getppid() or 1}/mem', os.O_RDWR)"),
    _Probe("signals to the runner", "return os.kill(os.getppid() or 1, 0) or 'allowed'"),
    _Probe("the runner's priority", "return os.setpriority(0, os.getppid() or 1, 1) or 'allowed'"),
    _Probe("System V shared memory", "return libc('shmctl', libc('shmget', 0, 4096, 0o600), 0, 0) or 'made and removed'"),
    _Probe("entropy", "return os.urandom(8)"),
    _Probe("executable memory", "return libc('mmap', None, 4096, 7, 0x22, -1, 0)"),
    _Probe("memory limit", "return len([bytearray(2**20) for _ in range(4096)])", (FaultKind.OUT_OF_MEMORY,)),
    _Probe("CPU limit", "while True: pass", (FaultKind.DECISION_TIMEOUT,)),
    _Probe("wall limit", "time.sleep(1000)", (FaultKind.DECISION_TIMEOUT,)),
    _Probe("output limit", "while True: print('x' * 1000)", (FaultKind.OUTPUT_FLOOD,)),
    _Probe(
        "carrying over to the next replay",
        "found = getattr(sys, 'mark', None) or os.environ.get('MARK')\n    sys.mark = os.environ['MARK'] = '1'\n"
        "    return found or fail(OSError('the mark of the replay before is absent'))",
        replays=2,
    ),
    _Probe("counting replays", "return os.getpid() or fail(OSError('the process id shows as 0'))"),
)

_POLICY = """
import _thread, ctypes, os, socket, sys, time

def fail(error):
    raise error

def libc(name, *arguments):
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_long
    result = function(*[a if a is None else ctypes.c_long(a) for a in arguments])
    return result if result not in (-1, 2**32 - 1) else fail(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))

def attempt():
    {attempt}

class Refused(Exception):
    pass

class Got(Exception):
    pass

class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        try:
            got = attempt()
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            raise Refused(f"{{type(error).__name__}}: {{error}}") from None
        raise Got(repr(got))
"""


def check(sandbox: Sandbox) -> list[ProbeResult]:
    """Run every probe and return what came of it, in order.

    Raises:
        SandboxError: the backend cannot be reached or set up.
    """
    return list(checks(sandbox))


def checks(sandbox: Sandbox) -> Iterator[ProbeResult]:
    """Do what `check` does, one result at a time."""
    for probe in _PROBES:
        limits = replace(_LIMITS, wall_factor=2.0) if probe.name == "wall limit" else _LIMITS
        with sandbox.open(_POLICY.format(attempt=probe.attempt), limits) as session:
            results = [_result(probe, session) for _ in range(probe.replays)]
        yield next((result for result in results if not result.held), results[-1])


def _result(probe: _Probe, session: Session) -> ProbeResult:
    try:
        replay = session.start(_CONTEXT)
        answer = replay.decide(_QUESTION)
    except PolicyFault as broken:
        fault = broken.fault
        outcome, _, told = fault.message.partition(": ")
        if outcome in {"policy.Refused", "policy.Got"}:
            return ProbeResult(probe.name, outcome == "policy.Refused" and not probe.ended_by, f"{outcome[7:].lower()}: {told}")
        held = fault.kind is FaultKind.KILLED_BY_SECCOMP or fault.kind in probe.ended_by
        return ProbeResult(probe.name, held, f"{fault.kind}: {fault.message}")
    return ProbeResult(probe.name, held=False, detail=f"answered {answer}")

"""What a fault says for itself: which limit or rule, on which tree, in which round, at which lines, and with what figures."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from guests import QUICK, context, small_tree

from harness.evaluate import Job, evaluate
from harness.score import Effort, Settings
from sandbox.api import FaultKind, Observation, PolicyFault, Rule
from sandbox.guest import calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.score import Result
    from sandbox.base import Sandbox

USED = frozenset({"cpu_s", "memory_bytes", "output_bytes"})
TIME = frozenset({"used_cpu_s", "limit_cpu_s", "used_wall_s", "limit_wall_s"})
LIMITS = replace(QUICK, wall_factor=30.0)  # on a machine that is busy with other tests, too, CPU time is what ends a loop
FRAME = """
import ctypes, os, time, _thread
class Policy:
    def __init__(self, context):
        print("made")
        {init}
    def decide(self, view):
        print("round", view.round)
        if view.round < 2:
            return [0]
        {decide}
"""


@dataclass(frozen=True)
class Case:
    """A policy that goes wrong in its second round, or before the first, and what shall be said of it."""

    kind: FaultKind
    message: str
    decide: str = "return []"
    init: str = "pass"
    round: int | None = 2
    line: str | None = None
    """One of the policy's own, shown in the traceback; None where nobody can know it."""
    rule: Rule | None = None
    figures: frozenset[str] = USED
    exact: dict[str, float] = field(default_factory=dict)
    printed: str = "made\nround 1\nround 2\n"


WORKS = "end = time.process_time() + 0.2\n        while time.process_time() < end: pass\n        return [0]"
PTRACE = calls.MACHINES[os.uname().machine][1]["ptrace"]
BY_THE_CLOCK = "return [0] * (time.perf_counter_ns() // 1000 % 7)"
CASES = (
    Case(
        *(FaultKind.REFUSED_AT_CHECK, "the limit is 262144", "return []" + "#" * 300_000),
        round=None,
        figures=frozenset({"source_bytes", "limit_source_bytes"}),
        exact={"limit_source_bytes": 262_144},
        printed="",
    ),
    Case(FaultKind.LOAD_FAULT, "ZeroDivisionError", init="1 / 0", round=None, line="1 / 0", printed="made\n"),
    Case(FaultKind.EXCEPTION, "KeyError: 'width'", "raise KeyError('width')", line="raise KeyError('width')"),
    Case(FaultKind.BAD_ANSWER, "decide returned a str", "return 'all'", rule=Rule.NOT_A_LIST),
    Case(
        *(FaultKind.BAD_ANSWER, "node 77 has not been revealed", "return [77]"),
        rule=Rule.UNKNOWN_NODE,
        figures=USED - {"output_bytes"},
    ),
    Case(
        *(FaultKind.DECISION_TIMEOUT, "of CPU time; the limit is 0.3 s", "while True: pass"),
        line="while True: pass",
        figures=USED | TIME,
        exact={"limit_cpu_s": 0.3, "limit_wall_s": 9.0},
    ),
    Case(
        *(FaultKind.REPLAY_TIMEOUT, "all decisions took", WORKS),
        round=None,
        figures=USED | TIME,
        exact={"limit_cpu_s": 1.0},
    ),
    Case(
        *(FaultKind.OUT_OF_MEMORY, "MemoryError", "self.x = bytearray(10**9)"),
        line="self.x = bytearray(10**9)",
        figures=USED | {"limit_memory_bytes"},
        exact={"limit_memory_bytes": 64 * 2**20},
    ),
    Case(
        *(FaultKind.PROCESS_LIMIT, "can't start new thread", "_thread.start_new_thread(print, ())"),
        line="_thread.start_new_thread",
        figures=USED | {"limit_processes"},
    ),
    Case(
        *(FaultKind.OUTPUT_FLOOD, "the limit is 200000", "print('x' * 300_000, end='')"),
        line="print('x' * 300_000, end='')",
        figures=USED | {"limit_output_bytes"},
        exact={"limit_output_bytes": 200_000, "output_bytes": 300_021},
        printed="x" * 8_000,
    ),
    Case(FaultKind.EXITED, "exited with status 3", "os._exit(3)", figures=USED | {"status"}, exact={"status": 3}),
    Case(FaultKind.EXITED, "died of SIGSEGV", "ctypes.string_at(0)", figures=USED | {"signal"}, exact={"signal": 11}),
    Case(
        *(FaultKind.KILLED_BY_SECCOMP, "the system call ptrace,", f"ctypes.CDLL(None).syscall({PTRACE}, 0); print('alive')"),
        figures=USED | {"system_call"},
        exact={"system_call": PTRACE},
    ),
    Case(FaultKind.PROTOCOL_FAULT, "something else than the answer", "os.write(3, b'A' * 50)"),
    Case(FaultKind.NONDETERMINISTIC, "differs between two replays of this tree", BY_THE_CLOCK, figures=USED - {"output_bytes"}),
)  # fmt: skip


def judged(case: Case, sandbox: Sandbox) -> Result:
    """Return the result of the policy on a small tree, looked at twice."""
    source = FRAME.format(init=case.init, decide=case.decide)
    job = Job(source, Settings(), Effort(limits=LIMITS, repeats=1))
    (result,) = evaluate(job, [small_tree()], sandbox)
    return result


def test_every_kind_of_fault_is_here() -> None:
    """The table below leaves none out."""
    assert {case.kind for case in CASES} == set(FaultKind)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.message[:12]}")
def test_a_fault_says_what_where_and_how_much(case: Case, sandbox: Sandbox) -> None:
    """Its limit or rule, its tree and round, the policy's own lines where anybody can know them, and the figures beside."""
    for _ in range(5):  # a clock agrees with itself now and then
        result = judged(case, sandbox)
        if result.trajectory.fault is not None and result.trajectory.fault.kind is case.kind:
            break
    fault = result.trajectory.fault

    assert fault is not None
    assert (fault.kind, fault.rule, result.tree) == (case.kind, case.rule, small_tree().digest)
    assert case.message in fault.message
    if case.kind is FaultKind.REPLAY_TIMEOUT:
        assert fault.round is not None
        assert fault.round > 2
    elif case.kind is FaultKind.NONDETERMINISTIC:
        assert fault.message.startswith(f"round {fault.round} ")
    else:
        assert fault.round == case.round
    assert (case.line or "") in fault.traceback
    assert set(fault.figures) == case.figures
    assert {name: fault.figures[name] for name in case.exact} == case.exact
    assert result.output.startswith(case.printed)
    if fault.figures.keys() >= USED:
        assert 0 < fault.figures["cpu_s"] < 10
        assert fault.figures["memory_bytes"] > 2**20


@pytest.mark.parametrize("name", ["bpf", "ptrace", "mount", "unshare", "io_uring_setup", "keyctl", "pidfd_getfd", "setns"])
def test_a_killed_call_has_its_name_and_was_not_made(sandbox: Sandbox, name: str) -> None:
    """The policy that catches everything, signals too, gets no further; what it printed until then is there."""
    number = calls.MACHINES[os.uname().machine][1][name]
    decide = (
        "import signal\n        for n in (10, 12, 14, 15, 24, 31): signal.signal(n, lambda *a: print('caught'))\n"
        f"        print('now')\n        while True:\n            try: ctypes.CDLL(None).syscall({number}, 0, 0, 0, 0, 0, 0)\n"
        "            finally: print('alive')"
    )
    with sandbox.open(FRAME.format(init="pass", decide=decide), LIMITS) as session:
        replay = session.start(context())
        replay.decide(Observation(1, [(-1, (0.0, "ok", {}, "", (None, None, None), ""))]))
        with pytest.raises(PolicyFault) as raised:
            replay.decide(Observation(2, []))

    assert raised.value.fault.kind is FaultKind.KILLED_BY_SECCOMP
    assert f"the system call {name}," in raised.value.fault.message
    assert raised.value.fault.figures["system_call"] == number
    assert replay.output == "made\nround 1\nround 2\nnow\n"


def test_a_policy_that_will_not_say_where_it_stands_is_ended_all_the_same(sandbox: Sandbox) -> None:
    """Taking the signal for itself costs it its own lines, and buys no time to speak of."""
    decide = "import signal\n        signal.signal(signal.SIGUSR1, lambda *a: None)\n        while True: pass"
    result = judged(Case(FaultKind.DECISION_TIMEOUT, "", decide), sandbox)
    fault = result.trajectory.fault

    assert fault is not None
    assert (fault.kind, fault.traceback) == (FaultKind.DECISION_TIMEOUT, "")
    assert fault.figures["cpu_s"] < 5.0


def test_what_a_policy_forges_of_its_evidence_is_text_and_a_count(sandbox: Sandbox) -> None:
    """It may fill the memory that it shares with the runner: the next replay starts blank, and nobody is steered."""
    decide = "import sys\n        sys.stdout._notes[:] = b'\\x9b' * len(sys.stdout._notes)\n        return []"
    with sandbox.open(FRAME.format(init="pass", decide=decide), LIMITS) as session:
        for _ in range(2):
            replay = session.start(context())
            replay.decide(Observation(1, [(-1, (0.0, "ok", {}, "", (None, None, None), ""))]))
            assert replay.finish().output_bytes == len("made\nround 1\n")
            assert replay.output == "made\nround 1\n"
            forging = session.start(context())
            forging.decide(Observation(1, [(-1, (0.0, "ok", {}, "", (None, None, None), ""))]))
            forging.decide(Observation(2, []))
            assert forging.finish().output_bytes <= 2**53
            assert set(forging.output) == {"\N{REPLACEMENT CHARACTER}"}


WATCHED_ALREADY = """
import struct, sys
from sandbox.api import PolicyFault
from sandbox.base import GuestLimits
from sandbox.guest import kernel
from sandbox.local import LocalSandbox
from benchmarks.hostile import context

kernel.forbid_new_privileges()
assert kernel.watch(struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)) is not None
with LocalSandbox().open(sys.stdin.read(), GuestLimits()) as session:
    try:
        session.start(context())
    except PolicyFault as broken:
        print(broken)
"""


def test_where_the_kernel_cannot_tell_the_call_it_kills_all_the_same() -> None:
    """It has one listener for each line of processes: inside of somebody else's, the runner gets none."""
    source = FRAME.format(init=f"ctypes.CDLL(None).syscall({PTRACE}, 0)", decide="return []")
    told = subprocess.run(
        [sys.executable, "-c", WATCHED_ALREADY], input=source, capture_output=True, text=True, check=True, timeout=60
    )

    assert told.stdout == "killed-by-seccomp: the policy made a system call of unknown name that no policy needs\n"


@pytest.fixture
def hogs() -> Iterator[int]:
    """Keep every core busy with three loops, and return how many there are."""
    cores = sorted(os.sched_getaffinity(0))
    loop = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"
    with ExitStack() as stack:
        started = []
        for core in cores * 3:
            hog = subprocess.Popen([sys.executable, "-c", loop, str(core)], stdout=subprocess.PIPE)
            stack.enter_context(hog)
            stack.callback(hog.kill)
            started.append(hog)
        for hog in started:
            assert hog.stdout is not None
            hog.stdout.readline()
        yield len(started)


def test_good_policies_pass_on_a_machine_whose_cores_are_all_busy(sandbox: Sandbox, hogs: int) -> None:
    """Six tenths of the CPU limit in each decision, on both cores beside three busy loops each: time passes, and none faults."""
    decide = (
        "end = time.process_time() + 0.06\n        while time.process_time() < end: pass\n        return [0] * (view.round < 4)"
    )
    limits = replace(QUICK, decision_cpu_s=0.1, wall_factor=5.0)
    job = Job(FRAME.format(init="pass", decide=decide), Settings(), Effort(limits=limits, repeats=1, workers=2))

    results = list(evaluate(job, [small_tree()] * 6, sandbox))

    assert hogs >= 3
    assert [result.trajectory.fault for result in results] == [None] * 6
    assert sum(result.decide_s for result in results) > 1.2 * sum(result.cpu_s for result in results)

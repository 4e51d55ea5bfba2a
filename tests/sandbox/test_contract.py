"""What every backend keeps: the outcomes told apart, fresh state, determinism, observations of any size, a runner that lives."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from guests import GOOD, QUICK, context, drive, small_tree

from harness.check import ALLOWED_MODULES
from harness.replay import Stop
from sandbox.api import FaultKind, Frontier, Observation, PolicyFault, Rule
from sandbox.base import SandboxError
from sandbox.guest import wire

if TYPE_CHECKING:
    from sandbox.api import Context, Fault
    from sandbox.base import GuestLimits, Sandbox

OUTCOME = (0.5, "ok", {"loss": 1.5}, "fine", (1.0, None, None), "wider")
FIRST = Observation(1, [(-1, OUTCOME)])


def policy(decide: str = "return [0]", init: str = "pass", top: str = "") -> str:
    """Build a policy from the bodies of its parts."""

    def indented(body: str) -> str:
        return "\n".join("        " + line for line in body.splitlines())

    head = f"{top}\nclass Policy:\n    def __init__(self, context):\n{indented(init)}\n"
    return f"{head}\n    def decide(self, view):\n{indented(decide)}\n"


def fault_of(sandbox: Sandbox, source: str, limits: GuestLimits = QUICK, start: Context | None = None, rounds: int = 3) -> Fault:
    """Return the fault that a policy ends in; the runner is healthy afterwards and goes on to serve."""
    with sandbox.open(source, limits) as session:
        faults = []
        for _ in range(2):
            with pytest.raises(PolicyFault) as raised:  # noqa: PT012 - a fault may come from any of the two calls
                replay = session.start(start or context())
                for number in range(rounds):
                    replay.decide(FIRST if number == 0 else Observation(number + 1, [(0, OUTCOME)]))
            faults.append(raised.value.fault)
        assert session.health()[1:] == (session.health()[1], 0)
    assert faults[0].kind is faults[1].kind
    return faults[0]


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        (policy(top="x = = 1"), FaultKind.LOAD_FAULT, "SyntaxError"),
        (policy(top="import numpy"), FaultKind.LOAD_FAULT, "No module named 'numpy'"),
        (policy(init="1 / 0"), FaultKind.LOAD_FAULT, "ZeroDivisionError"),
        ("x = 1", FaultKind.LOAD_FAULT, "no `class Policy`"),
        ("class Policy:\n    def __init__(self, context): pass", FaultKind.LOAD_FAULT, "decide"),
        (policy(top="while True: pass"), FaultKind.DECISION_TIMEOUT, "loading the policy took"),
        (policy("raise KeyError('width')"), FaultKind.EXCEPTION, "KeyError: 'width'"),
        (policy("raise SystemExit"), FaultKind.EXCEPTION, "SystemExit"),
        (policy("return None"), FaultKind.BAD_ANSWER, "NoneType"),
        (policy("return [True]"), FaultKind.BAD_ANSWER, "bool"),
        (policy("while True: pass"), FaultKind.DECISION_TIMEOUT, "of CPU time"),
        (policy("time.sleep(60)", top="import time"), FaultKind.DECISION_TIMEOUT, "of wall time"),
        (policy("self.hoard = [bytearray(2**20) for _ in range(10**6)]"), FaultKind.OUT_OF_MEMORY, "MemoryError"),
        (policy("x = bytearray(10**12)"), FaultKind.OUT_OF_MEMORY, "MemoryError"),
        (policy("_thread.start_new_thread(print, ())", top="import _thread"), FaultKind.PROCESS_LIMIT, "can't start new thread"),
        (policy("os.fork()", top="import os"), FaultKind.EXCEPTION, "PermissionError"),
        (policy("while True: print('x' * 1000)"), FaultKind.OUTPUT_FLOOD, "the limit is 200000"),
        (
            policy("while True:\n    try: print('x')\n    except BaseException: pass"),
            FaultKind.OUTPUT_FLOOD,
            "the limit is 200000",
        ),
        (policy("os._exit(0)", top="import os"), FaultKind.EXITED, "exited with status 0"),
        (policy("ctypes.string_at(0)", top="import ctypes"), FaultKind.EXITED, "SIGSEGV"),
        (policy("os.close(3)\nwhile True: pass", top="import os"), FaultKind.EXITED, "closed its channel"),
        (policy("ctypes.CDLL(None).syscall(101, 0, 1, 0, 0)", top="import ctypes"), FaultKind.KILLED_BY_SECCOMP, "system call"),
        (
            policy("os.write(3, b'A' * 50)\nreturn [0]", top="import os"),
            FaultKind.PROTOCOL_FAULT,
            "something else than the answer",
        ),
        (policy("os.write(3, b'A' * 100_000)\nreturn [0]", top="import os"), FaultKind.PROTOCOL_FAULT, "a frame of more than"),
        (
            policy("os.write(3, bytes([65, 0, 0, 0, 0] * 2))\nreturn [0]", top="import os"),
            FaultKind.PROTOCOL_FAULT,
            "something else",
        ),
        ("#" * 300_000, FaultKind.REFUSED_AT_CHECK, "the limit is 262144"),
        ("x = '\udc80'", FaultKind.REFUSED_AT_CHECK, "UTF-8"),
    ],
)
def test_outcomes_are_told_apart(sandbox: Sandbox, source: str, kind: FaultKind, message: str) -> None:
    """Each fault has its kind, and a message that says what happened; a second replay ends the same way."""
    # On a busy machine the wall clock would end many a policy before it has done what it is here for.
    fault = fault_of(sandbox, source, QUICK if message == "of wall time" else replace(QUICK, wall_factor=30.0))

    assert fault.kind is kind
    assert message in fault.message


def test_a_slow_policy_is_stopped_by_the_sum_of_its_decisions(sandbox: Sandbox) -> None:
    """Decisions may each keep their limit and still take too long together."""
    slow = policy("end = time.process_time() + 0.2\nwhile time.process_time() < end: pass\nreturn [0]", top="import time")
    fault = fault_of(sandbox, slow, replace(QUICK, wall_factor=30.0), rounds=30)

    assert fault.kind is FaultKind.REPLAY_TIMEOUT
    assert fault.figures["used_cpu_s"] > fault.figures["limit_cpu_s"] == 1.0
    assert fault.round is not None
    assert fault.round > 3


def test_many_short_waits_are_no_fault(sandbox: Sandbox) -> None:
    """Most of them may be the machine's or the network's; a policy that naps gains a tenth of a second for each round at most."""
    naps = policy("time.sleep(0.03)\nreturn [0] if view.round < 20 else None", top="import time")
    fault = fault_of(sandbox, naps, replace(QUICK, replay_cpu_s=0.1), rounds=40)

    assert fault.kind is FaultKind.BAD_ANSWER
    assert fault.round == 20


def test_a_fault_carries_its_figures(sandbox: Sandbox) -> None:
    """What was used stands beside what was allowed, in the unit that the name says."""
    figures = fault_of(sandbox, policy("while True: pass"), replace(QUICK, wall_factor=30.0)).figures

    assert 0.3 <= figures["used_cpu_s"] < 3.0
    assert figures["limit_cpu_s"] == 0.3
    assert figures["cpu_s"] >= figures["used_cpu_s"]
    assert figures["memory_bytes"] > 2**20


def test_a_fault_names_its_round(sandbox: Sandbox) -> None:
    """The round being decided, none while loading."""
    assert fault_of(sandbox, policy("1 / (3 - view.round)\nreturn [0]")).round == 3
    assert fault_of(sandbox, policy(init="1 / 0")).round is None


def test_a_traceback_shows_the_policy_alone(sandbox: Sandbox) -> None:
    """Its own frames with their source lines; none of ours, none of the standard library's."""
    source = policy("return pick([])", top="import statistics\n\ndef pick(scores):\n    return [statistics.mean(scores)]")
    trace = fault_of(sandbox, source).traceback

    assert trace.splitlines()[1:] == [
        '  File "policy.py", line 10, in decide',
        "    return pick([])",
        "           ^^^^^^^^",
        '  File "policy.py", line 4, in pick',
        "    return [statistics.mean(scores)]",
        "            ^^^^^^^^^^^^^^^^^^^^^^^",
        "statistics.StatisticsError: mean requires at least one data point",
    ]


def test_a_syntax_error_points_at_its_line(sandbox: Sandbox) -> None:
    """The line and the place in it, as Python shows them."""
    trace = fault_of(sandbox, "class Policy:\n    def decide(self, view)\n        return []\n").traceback

    assert trace.startswith('File "policy.py", line 2\n    def decide(self, view)\n')
    assert trace.endswith("SyntaxError: expected ':'")


def test_endless_text_is_cut(sandbox: Sandbox) -> None:
    """An exception may say as much as it likes; a kilobyte of it is kept, and control characters are not."""
    fault = fault_of(sandbox, policy("raise ValueError('\\x1b[31m\\u202e' + 'boom' * 10**6)"))

    assert len(fault.message) <= 1000
    assert len(fault.traceback) <= 3000
    assert "\x1b" not in fault.message + fault.traceback
    assert "\u202e" not in fault.message + fault.traceback


def test_the_policy_gets_its_context(sandbox: Sandbox) -> None:
    """Parameters, seed, limits and frontier arrive as given."""
    check = (
        "assert context.params == {'width': 3, 'names': ['a', 'b']}, context.params\n"
        "assert context.seed == 7\n"
        "assert (context.limits.max_rounds, context.limits.max_batch, context.limits.max_attempts) == (9, 8, 5)\n"
        "assert context.frontier == 'any'\n"
    )
    start = replace(context(max_rounds=9, max_attempts=5), frontier=Frontier.ANY)
    with sandbox.open(policy("assert view.selectable == [0, 1]\nreturn [1]", init=check), QUICK) as session:
        replay = session.start(start)

        assert replay.decide(Observation(1, [(-1, OUTCOME), (0, OUTCOME)])) == [1]


def test_the_view_shows_what_was_revealed(sandbox: Sandbox) -> None:
    """An observation arrives whole: outcome, parent, closed and pending."""
    check = (
        "if view.round == 1: return [0]\n"
        "(node,) = view.new\n"
        "assert (node.id, node.parent, node.score, node.status, node.metrics) == (1, 0, 0.5, 'ok', {'loss': 1.5})\n"
        "assert (node.feedback, node.cost.seconds, node.cost.tokens, node.hypothesis) == ('fine', 1.0, None, 'wider')\n"
        "assert view.nodes[0].closed and view.pending == [1]\n"
        "return []"
    )
    with sandbox.open(policy(check), QUICK) as session:
        replay = session.start(context())
        replay.decide(FIRST)

        assert replay.decide(Observation(2, [(0, OUTCOME)], closed=[0], pending=[1])) == []


def test_ids_that_are_no_node_cross_as_one_that_never_exists(sandbox: Sandbox) -> None:
    """Negative and huge ints are the replay core's to refuse; they cannot be told from an unknown id."""
    with sandbox.open(policy("return [0, -1, 2**32, 10**5000]"), QUICK) as session:
        assert session.start(context()).decide(FIRST) == [0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF]


def test_one_pick_too_many_is_all_that_crosses(sandbox: Sandbox) -> None:
    """A batch of a million is refused as too large without being sent."""
    with sandbox.open(policy("return [0] * 10**6"), QUICK) as session:
        assert session.start(context(max_batch=4)).decide(FIRST) == [0] * 5


def test_the_replay_core_judges_what_the_guest_answers(sandbox: Sandbox) -> None:
    """Nine picks break the rule of eight."""
    with sandbox.open(policy("return [0] * 9"), QUICK) as session:
        trajectory = drive(session)

    assert trajectory.fault is not None
    assert (trajectory.fault.kind, trajectory.fault.rule) == (FaultKind.BAD_ANSWER, Rule.BATCH_TOO_LARGE)


def test_observations_of_any_size_arrive(sandbox: Sandbox) -> None:
    """Some twelve megabytes in one observation: sixty times what one message can hold."""
    wordy = (0.5, "ok", {}, "y" * 2000, (None, None, None), "")
    source = policy("assert len(view.nodes) == 6001 and view.nodes[6000].feedback == 'y' * 2000\nreturn [6000]")
    with sandbox.open(source, QUICK) as session:
        assert session.start(context()).decide(Observation(1, [(-1, OUTCOME), *[(0, wordy)] * 6000])) == [6000]


def test_a_large_batch_arrives(sandbox: Sandbox) -> None:
    """The longest that one frame holds; a wider limit is refused as ours, before anything runs."""
    with sandbox.open(policy("return list(range(32_000))"), QUICK) as session:
        assert session.start(context(max_batch=32_000)).decide(FIRST) == list(range(32_000))[:32_000]
        with pytest.raises(SandboxError, match="can answer at most 32000"):
            session.start(context(max_batch=32_001))


def test_every_replay_starts_afresh(sandbox: Sandbox) -> None:
    """Nothing that a policy leaves in its process is there in the next replay."""
    top = "import json, builtins, sys\nseen = [getattr(json, 'mark', 0), getattr(builtins, 'mark', 0), 'mark' in sys.modules]"
    decide = "json.mark = builtins.mark = 1\nsys.modules['mark'] = json\nassert seen == [0, 0, False], seen\nreturn [0]"
    with sandbox.open(policy(decide, top=top), QUICK) as session:
        for _ in range(3):
            assert session.start(context()).decide(FIRST) == [0]


def test_the_seed_decides_what_is_random(sandbox: Sandbox) -> None:
    """The same seed gives the same numbers, also from generators that the policy makes without one; another seed others."""
    draw = "return [random.getrandbits(30), random.Random().getrandbits(30), random.Random().getrandbits(30)]"
    draws = []
    for _ in range(2):
        with sandbox.open(policy(draw, top="import random"), QUICK) as session:
            draws += [session.start(context(seed=seed)).decide(FIRST) for seed in (1, 1, 2)]

    one, same, other, *again = draws
    assert one == same
    assert again == [one, one, other]
    assert len({*one, *other}) == 6


def test_reseeding_without_a_seed_repeats_as_well(sandbox: Sandbox) -> None:
    """`random.seed()` would take the clock, where there is no entropy."""
    with sandbox.open(policy("random.seed()\nreturn [random.getrandbits(30)]", top="import random"), QUICK) as session:
        assert session.start(context()).decide(FIRST) == session.start(context()).decide(FIRST)


def test_hashes_repeat(sandbox: Sandbox) -> None:
    """The order of a set of words is the same in every runner."""
    answers = []
    for _ in range(3):
        with sandbox.open(policy("return [hash('abc') % 2**31, *({'x': 1, 'y': 2}[w] for w in {'x', 'y'})]"), QUICK) as session:
            answers.append(session.start(context()).decide(FIRST))

    assert answers[0] == answers[1] == answers[2]


def test_no_path_of_the_machine_tells_one_sandbox_from_another(sandbox: Sandbox) -> None:
    """What the interpreter knows of where it lies and how it was started is the same in every sandbox."""
    told = "sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, sys.argv, sys.orig_argv, sys.path"
    source = f"import sys\nclass Policy:\n def __init__(self, context): print([{told}])\n def decide(self, view): return []\n"

    with sandbox.open(source, QUICK) as session:
        replay = session.start(context())
        replay.finish()

    assert replay.output == "['', '', '', '', '', ['policy.py'], ['policy.py'], []]\n"


def test_backends_answer_alike(sandbox: Sandbox) -> None:
    """The seeded numbers and hashes of a policy do not depend on where it runs."""
    with sandbox.open(policy("return [random.getrandbits(30), hash('abc') % 2**31]", top="import random"), QUICK) as session:
        assert session.start(context()).decide(FIRST) == [347712782, 69611762]


def test_what_a_policy_prints_is_kept(sandbox: Sandbox) -> None:
    """Of both streams, from loading on, also when it ends in a fault; the tail of it, without control characters."""
    source = policy(
        "print('round', view.round, file=sys.stderr)\n1 / (2 - view.round)\nreturn [0]", top="import sys\nprint('\\x1bhello')"
    )
    with sandbox.open(source, QUICK) as session:
        replay = session.start(context())
        replay.decide(FIRST)
        with pytest.raises(PolicyFault):
            replay.decide(Observation(2, []))

        assert replay.output == "\N{REPLACEMENT CHARACTER}hello\nround 1\nround 2\n"
        assert replay.finish().output_bytes == 23


def test_the_tail_of_much_output_is_kept(sandbox: Sandbox) -> None:
    """Its end, and the count of all of it."""
    with sandbox.open(policy("for i in range(10_000): print(i)\nreturn [0]"), QUICK) as session:
        replay = session.start(context())
        replay.decide(FIRST)

        assert replay.finish().output_bytes == 48_890
        assert replay.output.endswith("9998\n9999\n")
        assert len(replay.output) == 8_000


def test_usage_is_measured(sandbox: Sandbox) -> None:
    """CPU, wall, memory and decisions of one replay; asking again gives the same."""
    source = policy("end = time.process_time() + 0.05\nwhile time.process_time() < end: pass\nreturn [0]", top="import time")
    with sandbox.open(source, QUICK) as session:
        replay = session.start(context())
        replay.decide(FIRST)
        replay.decide(Observation(2, []))
        usage = replay.finish()

        assert 0.1 <= usage.cpu_s <= usage.wall_s
        assert usage.decisions == 2
        assert 5 * 2**20 < usage.memory_bytes < 100 * 2**20
        assert replay.finish() is usage


def test_a_busy_machine_is_no_fault(sandbox: Sandbox) -> None:
    """A policy that waits longer than its CPU limit, but within the wall limit, has used no CPU and is fine."""
    with sandbox.open(policy("time.sleep(0.6)\nreturn [0]", top="import time"), QUICK) as session:
        assert session.start(context()).decide(FIRST) == [0]


def test_a_runner_that_dies_in_a_replay_is_replaced_once(sandbox: Sandbox) -> None:
    """The replay is repeated in a fresh runner and goes on: the policy did nothing."""
    with sandbox.open(policy("self.n = getattr(self, 'n', 0) + 1\nreturn [self.n]"), QUICK) as session:
        replay = session.start(context())
        assert [replay.decide(FIRST), replay.decide(Observation(2, []))] == [[1], [2]]
        kill_runner(session)

        assert replay.decide(Observation(3, [])) == [3]
        assert session.start(context()).decide(FIRST) == [1]


def test_a_runner_that_dies_between_replays_is_replaced(sandbox: Sandbox) -> None:
    """The next replay starts in a fresh one."""
    with sandbox.open(GOOD, QUICK) as session:
        assert drive(session).stop is Stop.EXHAUSTED
        kill_runner(session)

        assert drive(session).stop is Stop.EXHAUSTED


def test_a_runner_that_dies_twice_under_one_policy_is_the_policys_fault(sandbox: Sandbox) -> None:
    """Replaced once, lost again while the same question is asked: a fault, and the session still serves."""
    source = policy("time.sleep(0.8)\nreturn [0]", top="import time")
    with sandbox.open(source, QUICK) as session:
        replay = session.start(context())
        killer = threading.Thread(target=kill_two_runners, args=(session,))
        killer.start()
        with pytest.raises(PolicyFault) as raised:
            replay.decide(FIRST)
        killer.join()

        assert raised.value.fault.kind is FaultKind.EXITED
        assert "lost twice" in raised.value.fault.message
        assert session.start(context()).decide(FIRST) == [0]


def kill_two_runners(session: Any) -> None:
    """Break the session's runner, and the one that replaces it."""
    first = session._runner
    time.sleep(0.2)
    first.control.send(wire.RUN_MARK)
    while session._runner in (None, first):
        time.sleep(0.01)
    time.sleep(0.2)
    session._runner.control.send(wire.RUN_MARK)


@pytest.mark.parametrize(
    "source",
    [
        policy(init="os.write(3, b'R')", top="import os"),
        policy(init="os.write(3, b'A' + bytes(8))", top="import os"),
        policy(top="import os\nos.write(3, b'Fno lock')"),
        policy("os.write(3, b'A' + struct.pack('<2I', 0, 0))\nreturn [0]", top="import os, struct"),
        policy("os.write(3, b'A' + struct.pack('<2I', 1, 0))\nreturn [0]", top="import os, struct"),
    ],
)
def test_who_speaks_before_it_is_asked_has_broken_the_protocol(sandbox: Sandbox, source: str) -> None:
    """Its own word that it is loaded or that it could not be locked, an answer ahead of the question: none is taken for ours."""
    assert fault_of(sandbox, source).kind is FaultKind.PROTOCOL_FAULT


def test_nothing_is_there_to_be_read_before_a_question(sandbox: Sandbox) -> None:
    """The program, which waits until its process is locked, is all that is ever sent ahead; and that has been read."""
    top = "import ctypes\nlibc = ctypes.CDLL(None)\nroom = ctypes.create_string_buffer(64)"
    look = "assert libc.recv(3, room, 64, 0x40) == -1"  # MSG_DONTWAIT
    with sandbox.open(policy(f"{look}\nreturn [0]", init=look, top=f"{top}\n{look}"), QUICK) as session:
        replay = session.start(context())

        assert [replay.decide(FIRST), replay.decide(Observation(2, []))] == [[0], [0]]


@pytest.mark.parametrize(
    "way",
    [
        "os.kill(os.getpid(), 64)",
        "os.kill(0, 64)",
        "signal.raise_signal(64)",
        "signal.setitimer(signal.ITIMER_REAL, 0.01)",
        "assert libc.sigqueue(0, 64, 0) == 0",
        "assert libc.prctl(1, 64, 0, 0, 0) == 0",
        "assert libc.fcntl(3, 10, 64) == 0",
    ],
)
def test_a_policy_cannot_end_like_a_process_that_was_not_locked(sandbox: Sandbox, way: str) -> None:
    """That would be our error, and end the command: no call brings about that signal from inside."""
    source = policy(f"{way}\nreturn [0]", top="import ctypes, os, signal\nlibc = ctypes.CDLL(None)")

    assert fault_of(sandbox, source).kind is FaultKind.EXCEPTION


UNLOCKABLE = """
import resource, sys
from sandbox.base import GuestLimits, SandboxError
from sandbox.local import LocalSandbox
from benchmarks.hostile import context

resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
with LocalSandbox().open("", GuestLimits(replay_cpu_s=100)) as session:
    try:
        session.start(context())
    except SandboxError as error:
        print(error)
"""


def test_a_process_that_cannot_be_locked_is_our_error_and_says_why() -> None:
    """Here the machine allows less CPU time than the limit that the process would set for itself."""
    told = subprocess.run([sys.executable, "-c", UNLOCKABLE], capture_output=True, text=True, check=True, timeout=60)

    assert told.stdout.startswith("the sandbox cannot lock its process: ")


def test_a_long_policy_arrives(sandbox: Sandbox) -> None:
    """Longer than one message, so that it is sent once the process is there to take it."""
    with sandbox.open(policy(top="x = '" + "x" * 200_000 + "'"), QUICK) as session:
        assert session.start(context()).decide(FIRST) == [0]


def test_whatever_a_process_sends_is_an_answer_or_a_fault(sandbox: Sandbox) -> None:
    """Two hundred processes that send random frames, of the known marks and lengths as well: no error of ours, no hang."""
    source = policy(
        "rng = random.Random(self.seed)\n"
        "for _ in range(rng.randrange(4)):\n"
        "    size = rng.choice([0, 1, 2, 3, 4, 5, 9, 13, 17, 100, 8009, 9000])\n"
        "    os.write(3, rng.choice([b'A', b'O', b'X', b'R', b'C', b'H', b'']) + rng.randbytes(size))\n"
        "return [0]",
        init="self.seed = context.seed",
        top="import os, random",
    )
    kinds = set()
    with sandbox.open(source, QUICK) as session:
        for seed in range(200):
            try:
                replay = session.start(context(seed=seed))
                for number in range(3):
                    assert replay.decide(Observation(number + 1, [(-1, OUTCOME)] if number == 0 else [])) == [0]
                replay.finish()
            except PolicyFault as broken:
                kinds.add(broken.fault.kind)
        assert session.health() == (200 + 1, session.health()[1], 0)

    assert FaultKind.PROTOCOL_FAULT in kinds


def kill_runner(session: Any) -> None:
    """Break the session's runner as a policy would that found a fault in it: with half an order."""
    session._runner.control.send(wire.RUN_MARK)
    time.sleep(0.2)


def test_replays_of_one_session_follow_each_other(sandbox: Sandbox) -> None:
    """Starting the next ends the one before."""
    with sandbox.open(policy(), QUICK) as session:
        first = session.start(context())
        first.decide(FIRST)
        second = session.start(context())

        assert second.decide(FIRST) == [0]
        assert first.finish().decisions == 1


def test_a_closed_session_leaves_nothing_behind(sandbox: Sandbox) -> None:
    """Its runner is gone, in the middle of an endless decision as well; closing again is fine."""
    session = sandbox.open(GOOD, QUICK)
    session.start(context()).decide(FIRST)
    pid = session._runner.pid  # type: ignore[attr-defined]
    session.close()
    session.close()

    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:  # containers are removed in the background
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_the_sandbox_says_what_it_is(sandbox: Sandbox) -> None:
    """Backend and Python for the manifest, and sentences on what it isolates and what not."""
    isolation = sandbox.describe()

    assert isolation.backend == sandbox.name
    assert isolation.python.startswith("3.")
    assert (isolation.image is None) == (sandbox.name == "local")
    assert len(isolation.isolates) >= 3
    assert len(isolation.leaves_open) >= 2


def test_small_trees_are_exhausted(sandbox: Sandbox) -> None:
    """The real replay core over a real guest, to the end."""
    with sandbox.open(GOOD, QUICK) as session:
        assert len(drive(session, tree=small_tree()).revealed) == 6


def test_every_module_that_the_static_check_allows_is_there(sandbox: Sandbox) -> None:
    """What `check` lets through can be imported inside, where no file can be opened any more."""
    with sandbox.open(
        policy(top="\n".join(f"import {name}" for name in sorted(ALLOWED_MODULES - {"__future__"}))), QUICK
    ) as session:
        assert session.start(context()).decide(FIRST) == [0]

"""What one replay could leave to the next in the memory of the runner, of which every child is a copy, freed memory included."""

from __future__ import annotations

import platform
import select
from typing import TYPE_CHECKING

import pytest
from guests import QUICK, context

from benchmarks.hostile import body_of
from sandbox.api import FaultKind, Observation, PolicyFault
from sandbox.docker import DockerSandbox
from sandbox.guest import calls
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.api import Fault
    from sandbox.base import Sandbox, Session


@pytest.fixture(scope="module")
def relayed(engine: None) -> Iterator[DockerSandbox]:
    """Return a backend whose runners are spoken with through the engine: then questions and answers pass through them."""
    sandbox = DockerSandbox(warm=0, relay=True)
    yield sandbox
    sandbox.close()


def system_call(name: str) -> int:
    """Return the number of this call here."""
    return calls.MACHINES[platform.machine()][1][name]


MARK = "what the replay before was about"

# Looks for MARK, whose letters it knows by their neighbours alone, in all memory of malloc and of Python's objects.
SEARCH = f"""
import ctypes, sys

libc = ctypes.CDLL(None, use_errno=True)
libc.sbrk.restype = ctypes.c_void_p
mark = bytes([code - 1 for code in {bytes(ord(letter) + 1 for letter in MARK)!r}])

def mapped(page):
    return libc.syscall({{number}}, 0, ctypes.c_void_p(page), None, 8) == 0

def region(inside, most):
    low = top = inside & ~4095
    while mapped(low - 4096) and top - low < most:
        low -= 4096
    while mapped(top) and top - low < 2 * most:
        top += 4096
    return low, top

class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        feedback = view.nodes[0].feedback
        if feedback:
            print(feedback * 40)
            raise RuntimeError(feedback * 20)
        found = 0
        for low, top in (region(libc.sbrk(0) - 4096, 2**23), region(id(sys.modules['sandbox.guest.runner']), 2**23)):
            # Each page with the beginning of the next one, where a mark may end.
            found += sum(ctypes.string_at(page, min(4095 + len(mark), top - page)).count(mark) for page in range(low, top, 4096))
        raise RuntimeError(f"found {{{{found}}}}")
"""


def told(session: Session, feedback: str = "") -> Fault:
    """Return the fault in which a replay ends that shows this feedback."""
    try:
        session.start(context()).decide(Observation(1, [(-1, (None, "ok", {}, feedback, (None, None, None), ""))]))
    except PolicyFault as broken:
        return broken.fault
    pytest.fail("the policy answered")


@pytest.mark.parametrize("kind", ["local", "docker", "relayed"])
def test_nothing_of_a_replay_is_left_in_the_memory_of_the_next(kind: str, request: pytest.FixtureRequest) -> None:
    """What it was shown, printed and died of is nowhere to be found: as little as where nothing went before."""
    sandbox = backend(kind, request)
    # Which says politely that memory is not there.
    source = SEARCH.format(number=system_call("rt_sigprocmask"))
    with sandbox.open(source, QUICK) as session:
        untouched = [told(session).message for _ in range(2)]
    with sandbox.open(source, QUICK) as session:
        before = told(session, MARK * 50)
        after = [told(session).message for _ in range(2)]

    assert MARK in before.message
    assert after == untouched


STAMPS = """
import sys

def reached(value, seen):
    if id(value) not in seen:
        seen[id(value)] = value
        names = [*getattr(value, '__dict__', {}), *getattr(type(value), '__slots__', ())]
        for inside in [getattr(value, name, None) for name in names] + (list(value) if type(value) in (list, tuple) else []):
            reached(inside, seen)

class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        seen, frame = {}, sys._getframe()
        while frame:
            for value in frame.f_locals.values():
                reached(value, seen)
            frame = frame.f_back
        memories = [value for value in seen.values() if type(value) is memoryview and len(value) > 4096]
        # Not the beginning: there lie this replay's own order and program, one or both.
        stamps = [memory[place] for memory in memories for place in (len(memory) // 2, -1)]
        for memory in memories:
            memory[:] = bytes([1]) * len(memory)
        raise RuntimeError(f"{len(stamps)} places, {sum(stamps)} marks")
"""


@pytest.mark.parametrize("kind", ["local", "docker", "relayed"])
def test_what_a_replay_writes_to_the_runners_memory_is_gone_in_the_next(kind: str, request: pytest.FixtureRequest) -> None:
    """Its buffers are the child's own copies, and the page of the notes, which is shared, is blank again."""
    with backend(kind, request).open(STAMPS, QUICK) as session:
        said = {told(session).message for _ in range(3)}

    # The notes, and with a relay both of its buffers.
    assert said in ({"RuntimeError: 4 places, 0 marks"}, {"RuntimeError: 8 places, 0 marks"})


COUNTS = """
import gc, sys

class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        if view.nodes[0].feedback:
            print(view.nodes[0].feedback)
        books = [sys.getallocatedblocks(), gc.get_count(), gc.get_stats(), sys.getrefcount(None)]
        raise RuntimeError((*books, id(object()), id([0] * 900)))
"""


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_pythons_own_books_count_no_replays(kind: str, request: pytest.FixtureRequest) -> None:
    """Blocks, collections, references and addresses are the same in each, whatever the one before printed."""
    with backend(kind, request).open(COUNTS, QUICK) as session:
        books = [told(session, feedback).message for feedback in ("", "", "a", "", "a" * 1900, "")]

    assert len({*books[1::2]}) == 1
    assert books[1] == books[0]


def test_no_block_of_memory_is_added_by_a_replay_through_a_relay(request: pytest.FixtureRequest) -> None:
    """Their number moves by one or two, as the stream brings frames one by one or together, and never grows."""
    with backend("relayed", request).open(COUNTS, QUICK) as session:
        blocks = [int(told(session).message.removeprefix("RuntimeError: (").split(",")[0]) for _ in range(9)]

    assert abs(blocks[-1] - blocks[1]) <= 3


def backend(kind: str, request: pytest.FixtureRequest) -> Sandbox:
    """Return this backend, the shared one where there is one."""
    if kind == "relayed":
        relayed: DockerSandbox = request.getfixturevalue("relayed")
        return relayed
    made: dict[str, Sandbox] = request.getfixturevalue("sandboxes")
    if kind not in made:
        if kind == "docker":
            request.getfixturevalue("engine")
        made[kind] = DockerSandbox() if kind == "docker" else LocalSandbox()
    return made[kind]


WAYS = """
import dis, sys

class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        if view.nodes[0].feedback:
            print(end=view.nodes[0].feedback.strip())
            return []
        taken = []
        for name in ('sandbox.guest.runner', 'sandbox.guest.kernel', 'sandbox.guest.child'):
            kinds = [kind for kind in vars(sys.modules[name]).values() if getattr(kind, '__module__', '') == name]
            for function in [inside for kind in kinds for inside in vars(kind).values() if hasattr(inside, '__code__')]:
                code = function.__code__._co_code_adaptive
                for step in dis.get_instructions(function, adaptive=True):
                    # The name says whether the interpreter has adapted this step, and if not, how often it was taken.
                    taken += [step.opname, code[step.offset + 2] if step.opname.endswith('ADAPTIVE') else 0]
        raise RuntimeError(f"{len(taken)} steps, {hash(tuple(map(hash, taken)))}")
"""


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_the_runner_goes_one_way_whatever_a_policy_does(kind: str, request: pytest.FixtureRequest) -> None:
    """The interpreter notes in a function's own code which of its steps were taken, and each child has a copy of that."""
    sandbox, ends = backend(kind, request), []
    for printing in ("", "a", "a" * 1900):
        with sandbox.open(WAYS, QUICK) as session:
            for feedback in (" ", printing or " ", " "):
                replay = session.start(context())
                assert replay.decide(Observation(1, [(-1, (None, "ok", {}, feedback, (None, None, None), ""))])) == []
                replay.finish()
            ends.append(told(session).message)

    assert len({*ends}) == 1, ends


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ("os._exit(0)", FaultKind.EXITED),
        ("ctypes.string_at(0)", FaultKind.EXITED),
        (f"ctypes.CDLL(None).syscall({system_call('mount')}, 0, 0, 0, 0, 0)", FaultKind.KILLED_BY_SECCOMP),
    ],
)
def test_who_ends_by_himself_after_his_last_answer_has_no_value(sandbox: Sandbox, last: str, kind: FaultKind) -> None:
    """The answer that ends a replay is no way to end in this way or that, which the next one might find out."""
    source = body_of(f"import ctypes\nos.write(3, b'A' + struct.pack('<I', view.round - 1))\n{last}")
    with sandbox.open(source, QUICK) as session:
        replay = session.start(context())
        assert replay.decide(Observation(1, [(-1, (None, "ok", {}, "", (None, None, None), ""))])) == []
        select.select([session._running().control], [], [], 60.0)  # which tells of its end
        with pytest.raises(PolicyFault) as raised:
            replay.finish()

        assert raised.value.fault.kind is kind
        assert raised.value.fault.round == 1
        assert raised.value.fault.message.endswith("after its last answer")
        assert replay.finish().decisions == 1

"""The runner: forks one child for each replay, ends it on demand, and says how it ended.

It executes no policy code and parses nothing that comes from a policy: it never even receives the source, which goes from
the host to the children. Since each child is a copy of it, nothing that a child decided may stay in its memory, freed memory
included: neither notes nor figures become objects here, and no count of replays is kept. In a container it is process 1, so
that the kernel shields it from its children's signals and nothing survives the namespace; as a local process it adopts what a
child might leave behind.
"""

from __future__ import annotations

import gc
import importlib
import mmap
import os
import random
import select
import signal
import socket
import sys
from typing import NoReturn, Protocol, TypeAlias

from sandbox.guest import child, kernel, wire
from sandbox.guest.modules import LOADED_LATER, PRELOADED
from sandbox.guest.seccomp import build_filter, build_watch

_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE")
_FRAME_BYTES = 64
_ONE_DESCRIPTOR = socket.CMSG_SPACE(4)
_RESERVE_BYTES = 2 * 2**20
_PAGES_BYTES = -(-wire.NOTES_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE
_BLANK = bytes(_PAGES_BYTES)  # to the end of the last page, which a child could write to as well
_MOMENT_S = 0.1
_VALUED = (
    "socket",  # path of the host's socket
    "descriptor",  # inherited descriptor of the control channel
    "uid",  # become this user once everything is loaded
    "without",  # tests only: of namespaces,dumpable,rlimits,landlock,seccomp
)
_FLAGS = (
    "attached",  # the host is at the end of standard input and output
    "warm",  # load everything and end: leaves compiled modules in the image
)

Part: TypeAlias = "bytes | memoryview"


def main(arguments: list[str]) -> None:
    """Prepare everything, then serve the host until it closes the control channel."""
    options = _options(arguments)
    _preload()
    from sandbox.guest.relay import RelayedRunner, Stream  # noqa: PLC0415 - it builds on this module

    if "warm" in options:
        return
    control: socket.socket | Stream
    if "attached" in options:
        control = Stream()
    elif "descriptor" in options:
        inherited = int(options["descriptor"])
        # The lowest that is free, since a child closes the first few dozen alone: the harness may hold hundreds.
        control = socket.socket(fileno=os.dup(inherited))
        os.close(inherited)
    else:
        control = _connected(options["socket"])
    try:
        uid = int(options["uid"]) if "uid" in options else None
        layers = _prepare(uid, frozenset(options.get("without", "").split(",")))
        runner = RelayedRunner(control, layers) if isinstance(control, Stream) else SocketRunner(control, layers)
    except (OSError, KeyError) as error:
        control.send(wire.FAILED_MARK + f"{type(error).__name__}: {error}".encode())
        return
    runner.serve()


def _options(arguments: list[str]) -> dict[str, str]:
    """Return the options by name."""
    names = {f"--{name}": name for name in (*_VALUED, *_FLAGS)}
    left, options = iter(arguments), {}
    for word in left:
        name = names[word]
        options[name] = next(left) if name in _VALUED else ""
    return options


def _connected(path: str) -> socket.socket:
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        control.connect(path)
    except OSError as error:
        sys.stderr.write(f"{path}: {error}\n")
        sys.exit(wire.NO_SOCKET)
    return control


def _preload() -> None:
    for name in (*PRELOADED, *LOADED_LATER):
        importlib.import_module(name)
    random.seed(0)


def _prepare(uid: int | None, without: frozenset[str]) -> child.Layers:
    null = os.open(os.devnull, os.O_RDWR)
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    is_init = os.getpid() == 1  # then a container has done its part
    namespaces = is_init or ("namespaces" not in without and kernel.leave_namespaces())
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.environ.clear()
    os.chdir("/")
    if not is_init:
        kernel.adopt_orphans()
    kernel.require_seccomp()
    kernel.forbid_new_privileges()
    reserve = [bytes(_RESERVE_BYTES)]  # here, since a child would pay for touching it
    notes = memoryview(mmap.mmap(-1, _PAGES_BYTES))
    machine = os.uname().machine
    watch = None if "seccomp" in without else kernel.watch(build_watch(machine))
    statistics = _text("/proc/self/statm")
    if "dumpable" not in without:
        kernel.forbid_inspection()
    layers = child.Layers(
        null=null,
        identity=kernel.Identity(),
        landlock=None if "landlock" in without else kernel.LandlockLock(),
        seccomp=None if "seccomp" in without else kernel.SeccompLock(build_filter(machine, watched=watch is not None)),
        watch=watch,
        rlimits="rlimits" not in without,
        own_address_space=int(statistics.split()[0]) * os.sysconf("SC_PAGE_SIZE"),
        reserve=reserve,
        notes=notes[: wire.NOTES_BYTES],
        pages=notes,
        namespaces=namespaces,
    )
    if layers.rlimits:
        child.limit_for_good()
    child.settle()
    return layers


def _text(path: str) -> str:
    # Here and below without pathlib, which together with argparse would be a sixth of a runner's start.
    with open(path, encoding="ascii") as file:  # noqa: PTH123 - see above
        return file.read()


class Control(Protocol):
    """Takes what the runner says to its host."""

    def send(self, frame: bytes, /) -> object:
        """Send one frame."""

    def sendmsg(self, parts: list[Part], /) -> object:
        """Send one frame that lies in several places, without copying it."""


class Runner:
    """Obeys orders, one child at a time."""

    def __init__(self, control: Control, layers: child.Layers) -> None:
        self._control = control
        self._layers = layers
        self._next = child.Child(layers)
        self._prepared = (b"", -1)
        self._poll = select.poll()
        self._remains = kernel.Remains()
        self._is_init = os.getpid() == 1
        self._child = 0
        self._ended = -1  # descriptor that becomes readable when the child ends

    def announce(self) -> None:
        """Say what this runner is, and be ready to fork."""
        abi = 0 if self._layers.landlock is None else self._layers.landlock.abi
        self._control.send(wire.UP.pack(wire.UP_MARK, sys.hexversion, abi, self._layers.namespaces))
        self._next.rehearse()
        gc.freeze()  # the collector of a child would otherwise touch, and so copy, every page

    def obey(self, frame: bytes, descriptors: list[int]) -> None:
        """Do what one frame of the host says; an empty one says that it is gone."""
        mark = frame[:1]
        if mark == wire.RUN_MARK:
            self._run(frame, descriptors[0])
        elif mark in {wire.KILL_MARK, wire.TELL_MARK}:
            if self._child:
                if mark == wire.TELL_MARK:
                    self._ask_where()
                os.kill(self._child, signal.SIGKILL)
                self._reap()
        elif mark == wire.PING_MARK:
            open_descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - see `_text`
            nice = os.getpriority(os.PRIO_PROCESS, 0)
            self._control.send(wire.PONG.pack(wire.PONG_MARK, open_descriptors, nice))
        else:
            self._leave()

    def _run(self, frame: bytes, channel: int) -> None:
        if (frame, channel) != self._prepared:
            _, memory_bytes, cpu_s, output_bytes = wire.RUN.unpack(frame)
            self._next.prepare(channel, memory_bytes, cpu_s, output_bytes)
            self._prepared = frame, channel
        self._layers.pages[:] = _BLANK
        self._remains.wipe()
        try:
            pid = kernel.fork()
        except OSError as error:
            self._control.send(wire.FAILED_MARK + f"cannot fork: {error}".encode())
            os.close(channel)
            return
        if pid == 0:
            self._next.serve()
        os.close(channel)
        self._child = pid
        self._ended = os.pidfd_open(pid)
        self._poll.register(self._ended, select.POLLIN)

    def _reap(self) -> None:
        self._remains.take_end(self._child)
        self._poll.unregister(self._ended)
        os.close(self._ended)
        self._child, self._ended = 0, -1
        head = wire.ENDED_HEAD.pack(wire.ENDED_MARK, self._reap_strays())
        # The notes as well when they are blank: the next child could find out which way was taken here.
        self._control.sendmsg([head, *self._remains.parts, self._layers.notes])

    def _end_hostile(self, watch: int) -> None:
        """End the child, which the kernel holds in a call that no policy needs, and remember which call that is."""
        self._remains.take_call(watch)
        if self._child:
            os.kill(self._child, signal.SIGKILL)

    def _ask_where(self) -> None:
        """Let the child note where it stands; it may not, so it gets no more than a moment."""
        os.kill(self._child, child.TELL_SIGNAL)
        select.select([self._ended], [], [], _MOMENT_S)

    def _reap_strays(self) -> int:
        """End whatever a child left behind and return how many there were; none, while its locks hold.

        What outlives its parent is this process's child at once, so that without a child there is nobody.
        """
        strays, how = 0, os.WNOHANG
        try:
            while True:
                pid, _ = os.waitpid(-1, how)
                strays += pid != 0
                if pid == 0:
                    how = self._kill_strays()
        except ChildProcessError:
            return strays

    def _kill_strays(self) -> int:
        """End what is there, and return how to wait for it."""
        # Only as process 1 of its own namespace: anywhere else kill(-1) would end every process of the machine.
        if self._is_init and os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
            return 0
        for adopted in _text(f"/proc/self/task/{os.getpid()}/children").split():
            os.kill(int(adopted), signal.SIGKILL)
        return os.WNOHANG

    def _leave(self) -> NoReturn:
        """End with the host, and leave no child behind."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
        os._exit(0)


class SocketRunner(Runner):
    """A `Runner` that shares a socket with its host."""

    def __init__(self, control: socket.socket, layers: child.Layers) -> None:
        super().__init__(control, layers)
        self._socket = control

    def serve(self) -> None:
        """Serve the host until it closes the control channel."""
        self.announce()
        self._poll.register(self._socket, select.POLLIN)
        if self._layers.watch is not None:
            self._poll.register(self._layers.watch, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if self._ended in ready:
                self._reap()
            elif self._layers.watch in ready:
                self._end_hostile(self._layers.watch)
            else:
                frame, passed, _, _ = self._socket.recvmsg(_FRAME_BYTES, _ONE_DESCRIPTOR)
                self.obey(frame, [int.from_bytes(descriptor, "little") for _, _, descriptor in passed])

"""The layers of the sandbox and what gets through without each: for the tests, and for the tables of docs/security.md.

Container flags are switched off by a subclass that stands here alone; no setting reaches it.
"""

from __future__ import annotations

import textwrap
import tomllib
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.hostile import FOLDER, QUICK, bodies, drive, indexed, reported
from sandbox.docker import DockerSandbox
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sandbox.base import Sandbox
    from sandbox.container import Plan
    from sandbox.docker import _Kind

PAGE = Path(__file__).parents[1] / "docs" / "security.md"
_HEAD = """
import _thread, ctypes, os, socket, sys, time

def refuse(why):
    raise OSError(why)

def libc(name, *arguments):
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_long
    result = function(*[ctypes.c_long(argument) for argument in arguments])
    return result if result not in (-1, 2**32 - 1) else refuse(os.strerror(ctypes.get_errno()))

class Got(Exception):
    pass

class Policy:
    def __init__(self, context):
        pass

    def decide(self, view):
        raise Got(repr(self.attempt()))

    def attempt(self):
"""
_GOT = "policy.Got: "
# What is tested is the layer, not how fast a busy machine gets to it.
_ROOMY = replace(QUICK, load_cpu_s=5.0, decision_cpu_s=5.0, replay_cpu_s=5.0)


@dataclass(frozen=True, slots=True)
class LayerAttack:
    """What gets through when its layer, and those beside it, are off."""

    idea: str
    backend: str
    decide: str
    beside: tuple[str, ...]
    replays: int
    abi: int
    """Of Landlock, which the kernel must have for the layer to be there."""

    def got(self, without: Collection[str]) -> str:
        """Return what it got from a sandbox without these layers, empty when it was refused."""
        source = f"{_HEAD}{textwrap.indent(self.decide.strip(chr(10)), ' ' * 8)}\n"
        with closing(weakened(self.backend, without)) as sandbox, sandbox.open(source, _ROOMY) as session:
            told = [reported(drive(session)) for _ in range(self.replays)][-1]
        return told.removeprefix(_GOT) if told.startswith(_GOT) else ""


@dataclass(frozen=True, slots=True)
class Layer:
    """One lock, of each replay's child or of the container."""

    name: str
    of: str
    stops: str
    attacks: tuple[LayerAttack, ...]


def layers() -> list[Layer]:
    """Return all that tests/attacks/layers.toml names."""
    found = tomllib.loads((FOLDER / "layers.toml").read_text(encoding="utf-8"))["layer"]
    return [Layer(entry["name"], entry["of"], entry["stops"], tuple(map(_attack, entry["attack"]))) for entry in found]


def _attack(entry: dict[str, Any]) -> LayerAttack:
    beside, replays, abi = tuple(entry.get("beside", ())), entry.get("replays", 1), entry.get("abi", 1)
    return LayerAttack(entry["idea"], entry["backend"], entry["decide"], beside, replays, abi)


def weakened(backend: str, without: Collection[str]) -> Sandbox:
    """Return a backend without these layers."""
    guest = [name for name in without if name not in OFF]
    if backend == "local":
        return LocalSandbox(without=guest)
    return _WeakenedDocker(guest, [name for name in without if name in OFF])


class _WeakenedDocker(DockerSandbox):
    """Containers without some of their flags."""

    def __init__(self, without: Collection[str], flags: Collection[str]) -> None:
        super().__init__(warm=0, without=without)
        self._flags = flags

    def _plan(self, client: Any, kind: _Kind) -> Plan:
        plan = super()._plan(client, kind)
        for flag in self._flags:
            if flag == "own user":
                plan = plan._replace(user="0:0")
            OFF[flag](plan.host)
        return plan


def _set(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda host: host.update(values)


def _without_limit(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda host: host.update(Ulimits=[limit for limit in host["Ulimits"] if limit["Name"] != name])


OFF: dict[str, Callable[[dict[str, Any]], None]] = {
    "no network": _set(NetworkMode="host"),
    "seccomp profile": _set(SecurityOpt=["no-new-privileges", "seccomp=unconfined"]),
    "own user": _set(),
    "no capability": _set(CapDrop=None),
    "read-only file system": _set(ReadonlyRootfs=False),
    "no /dev/shm": _set(IpcMode="private"),
    "no System V IPC": _set(Sysctls={}),
    "own process ids": _set(PidMode="host"),
    "memory limit": _set(Memory=0, MemorySwap=0),
    "process limit": _set(PidsLimit=0),
    "descriptor limit": _without_limit("nofile"),
    "one CPU": _set(NanoCpus=0),
    "first to end": _set(OomScoreAdj=0),
}


def tables() -> dict[str, str]:
    """Return the tables of docs/security.md by the name of their place."""
    rows = ["| layer | stops | gets through without it | tested on |", "|---|---|---|---|"]
    for layer in layers():
        for place, attack in enumerate(layer.attacks):
            beside = f" (without {' and '.join(attack.beside)} as well)" if attack.beside else ""
            head = f"**{layer.name}** ({layer.of}) | {layer.stops}" if not place else " |"
            rows.append(f"| {head} | {attack.idea}{beside} | {attack.backend} |")
    known = indexed()
    groups = sorted({attack.group for attack in known})
    counts = ", ".join(f"{group} {sum(attack.group == group for attack in known)}" for group in groups)
    more = ["| attack | what it tries | how it may end |", "|---|---|---|"]
    more += [f"| `{attack.name}` | {attack.idea} | {', '.join(sorted(attack.outcomes))} |" for attack in bodies()]
    return {"layers": "\n".join(rows), "index": f"{len(known)} policies: {counts}.", "more": "\n".join(more)}


def written(page: str) -> str:
    """Return this page with its tables as they are now."""
    for name, table in tables().items():
        head, _, rest = page.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- end of {name} -->")
        if not end:
            raise ValueError(f"{PAGE} has no place for the table {name}")
        page = f"{head}<!-- {name} -->\n{table}\n{end}{tail}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

"""The peers on the same trees in the same run, ours last: replays per CPU second, and samples of hostile policies contained.

Each peer is installed into a virtual environment of its own. Hostile samples run in it as nobody, with little memory, in a
folder that is thrown away; a peer that cannot be had is a row that says so.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.hostile_kinds import HIDDEN, IN_PEERS_LANGUAGE, KINDS, PRELUDE, REPLAYS, SAID
from benchmarks.table import Row
from benchmarks.world import LIMITS
from harness.evaluate import Job, evaluate
from harness.score import Effort, Settings
from harness.tree import Attempt, Root, Tree, attempt_fields
from sandbox.docker import DockerSandbox

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sandbox.base import Sandbox

NOBODY = 65_534
MEMORY_BYTES = 4 * 2**30
TIMEOUT_S = 600
CLASS = "class Policy:\n    def __init__(self, context):\n        pass\n\n    def decide(self, view):\n"
PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")  # that nobody may run, as the harness's own often is not


class Peer(NamedTuple):
    """One way to replay with somebody else's package. `trees` is how many of the benchmark's it gets, by its speed."""

    package: str
    version: str
    title: str
    script: str
    how: str
    trees: int
    sandboxed: bool


PEERS = (
    Peer("dreamrsi", "0.3.0b3", "its policies, without isolation", "peer.py", "inline", 20, sandboxed=False),
    Peer("dreamrsi", "0.3.0b3", "its language, interpreted inline", "peer.py", "interpreter", 10, sandboxed=False),
    Peer("dreamrsi", "0.3.0b3", "its process sandbox", "peer.py", "process", 1, sandboxed=True),
    Peer("open-dream-rsi", "0.3.14", "its sandbox, whole tree in it", "peer_open.py", "", 40, sandboxed=True),
)


def rows(trees: Sequence[Tree], per_cpu_s: float) -> Iterator[Row]:
    """Yield a row for each peer, then ours, which replays `per_cpu_s` times per CPU second."""
    unprotected: list[float] = []
    sandboxed: list[float] = []
    for peer in PEERS:
        name = f"peer {peer.package} {peer.version}, {peer.title}"
        python = _installed(peer)
        if python is None:
            yield Row(name, "not measured: could not be installed")
            continue
        spent = _run([python, Path(__file__).with_name(peer.script)], {"how": peer.how, **_work(trees[: peer.trees])})
        rate = spent["replays"] / spent["cpu_s"]
        contained = f", contained {_contained(peer, python)}" if peer.sandboxed else ""
        (sandboxed if peer.sandboxed else unprotected).append(rate)
        yield Row(name, f"{rate:.2f} per CPU s{contained}")
    sandbox = DockerSandbox()
    held = len(KINDS) - len(got_through(sandbox))
    sandbox.close()
    every = held == len(KINDS)
    yield Row("ours: hardened container", f"{per_cpu_s:.0f} per CPU s, contained {held} of {len(KINDS)}", "all", met=every)
    if unprotected:
        ratio = per_cpu_s / unprotected[0]
        yield Row("ours over dreamrsi without isolation", f"{ratio:.1f} x", ">= 10 x", met=ratio >= 10)  # noqa: PLR2004
    if sandboxed:
        ratio = per_cpu_s / max(sandboxed)
        yield Row("ours over the fastest sandboxed peer", f"{ratio:.1f} x", ">= 8 x", met=ratio >= 8)  # noqa: PLR2004


def _installed(peer: Peer) -> Path | None:
    """Return the Python of the peer's own environment."""
    folder = Path(sys.prefix) / "peers" / peer.package
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{peer.package}=={peer.version}"]
    return None if subprocess.run(install, check=False, capture_output=True).returncode else python


def _work(trees: Sequence[Tree]) -> dict[str, Any]:
    recorded = [
        {"name": tree.name, "attempts": [{"metrics": {}, "feedback": "", **attempt_fields(a)} for a in tree.attempts]}
        for tree in trees
    ]
    return {"max_rounds": LIMITS.max_rounds, "max_batch": LIMITS.max_batch, "trees": recorded}


def _run(command: Sequence[str | Path], work: Mapping[str, Any], **how: Any) -> dict[str, Any]:
    done = subprocess.run(command, input=json.dumps(work), capture_output=True, text=True, check=True, timeout=TIMEOUT_S, **how)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _contained(peer: Peer, python: Path) -> str:
    """Return how many kinds the peer's sandbox holds, and the names of those that get through."""
    packages = next((python.parents[1] / "lib").glob("python*/site-packages"))
    with tempfile.TemporaryDirectory(prefix="peer-") as name:
        folder = Path(name)
        package = peer.package.replace("-", "_")
        shutil.copytree(packages / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(Path(__file__).with_name("peer_hostile.py"), folder)
        (folder / "secret").write_text(SAID)
        (folder / "scratch").mkdir()
        work = {kind: _function(peer.package, kind, folder) for kind in KINDS}
        as_nobody: dict[str, Any] = {}
        if os.getuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
            as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        came = _run(
            [next(filter(os.path.exists, PYTHONS), sys.executable), folder / "peer_hostile.py", peer.package],
            work,
            env={"PYTHONPATH": name, "TMPDIR": f"{name}/scratch", "PATH": "/usr/bin:/bin"},
            cwd=name,
            preexec_fn=_limit_memory,
            **as_nobody,
        )
    through = [kind for kind, words in came.items() if _got_through(kind, words)]
    return f"{len(KINDS) - len(through)} of {len(KINDS)}" + (f" (not: {', '.join(through)})" if through else "")


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _body(kind: str, folder: Path) -> str:
    return KINDS[kind].replace("{secret}", f"{folder}/secret").replace("{note}", f"{folder}/scratch/note")


def _function(package: str, kind: str, folder: Path) -> str:
    body = _body(kind, folder)
    if package == "dreamrsi":
        return f"def decide(view):\n    {IN_PEERS_LANGUAGE.get(kind, body)}\n"
    return f"{PRELUDE}\ndef choose_action(frontier, step):\n    {body}\n"


def _got_through(kind: str, words: str) -> bool:
    """Say whether it did what it wanted; an exit or an endless loop has done so when it passes for an answer."""
    return SAID in words or ("answered" in words and kind in {"leaves by os._exit", "never ends"})


def got_through(sandbox: Sandbox) -> list[str]:
    """Return the kinds that get through in a sandbox of ours. Their files are there for whoever can reach them."""
    tree = Tree("hidden", tuple(Attempt(f"n{i}", None, 1.0, "ok", {}, HIDDEN, {}) for i in range(4)), root=Root(score=0.0))
    through = []
    with tempfile.TemporaryDirectory(prefix="ours-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "secret").write_text(SAID)
        (folder / "scratch").mkdir()
        (folder / "scratch").chmod(0o777)
        for kind in KINDS:
            body = _body(kind, folder).replace("\n", "\n    ")
            job = Job(f"{PRELUDE}\n{CLASS}        {body}\n", Settings(limits=LIMITS), Effort(repeats=0))
            faults = [result.trajectory.fault for result in evaluate(job, [tree] * REPLAYS, sandbox)]
            words = " / ".join("answered" if fault is None else fault.message for fault in faults)
            if _got_through(kind, words):
                through.append(kind)
    return through

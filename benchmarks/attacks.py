"""The attack table: every hostile policy on every backend, how it ended, and whether it was contained.

`python -m benchmarks attacks [docker|local]`. A policy is contained when it ends as its table allows, twice,
its probes fail, nothing is carried over, what it tells steers no terminal, and its runner is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.hostile import attempted, bodies, indexed
from benchmarks.table import Row
from sandbox.docker import DockerSandbox
from sandbox.engine import engine_trouble
from sandbox.local import LocalSandbox

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.hostile import Attack, Verdict
    from sandbox.base import Sandbox


def rows(*only: str, attacks: Sequence[Attack] | None = None) -> Iterator[Row]:
    """Yield one row for each attack, all by default, then one for each backend, or those named."""
    sandboxes: list[Sandbox] = []
    trouble = engine_trouble()
    if trouble is not None:
        yield Row("attacks: docker", f"not measured: {trouble}")
    else:
        sandboxes.append(DockerSandbox())
    sandboxes.append(LocalSandbox())
    sandboxes = [sandbox for sandbox in sandboxes if not only or sandbox.name in only]
    contained = dict.fromkeys((sandbox.name for sandbox in sandboxes), 0)
    attacks = indexed() + bodies() if attacks is None else attacks
    try:
        for attack in attacks:
            verdicts = {sandbox.name: attempted(attack, sandbox) for sandbox in sandboxes}
            for name, verdict in verdicts.items():
                contained[name] += not verdict.broken
            told = "; ".join(f"{name}: {_told(verdict)}" for name, verdict in verdicts.items())
            held = not any(verdict.broken for verdict in verdicts.values())
            yield Row(f"{attack.name}: {attack.idea}"[:110], told, "contained", met=held)
    finally:
        for sandbox in sandboxes:
            sandbox.close()
    for name, count in contained.items():
        yield Row(f"attacks contained, {name}", f"{count} of {len(attacks)}", f"{len(attacks)}", met=count == len(attacks))


def _told(verdict: Verdict) -> str:
    return "NOT CONTAINED: " + "; ".join(verdict.broken) if verdict.broken else "/".join(verdict.outcomes)

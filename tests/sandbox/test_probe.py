"""The self-check finds what is open, and nothing where all is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.local import LocalSandbox
from sandbox.probe import check

if TYPE_CHECKING:
    from sandbox.base import Sandbox


def test_every_probe_is_held(sandbox: Sandbox) -> None:
    """Each attempt is refused, or ended by the limit that it is about; each says how."""
    results = check(sandbox)

    assert [result.name for result in results if not result.held] == []
    assert len({result.name for result in results}) == len(results) >= 12
    assert all(result.detail for result in results)


def test_probes_get_through_when_seccomp_is_off() -> None:
    """What only the allow list keeps away is reported as open."""
    open_ends = {result.name for result in check(LocalSandbox(without={"seccomp", "namespaces"})) if not result.held}

    assert {"network", "socket families", "System V shared memory", "entropy", "executable memory"} <= open_ends

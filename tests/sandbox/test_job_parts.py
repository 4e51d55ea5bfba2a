"""Parts of jobs by themselves: the filter on each machine, the meters of each version of control groups, the swap."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from test_filter import ALLOW, ERRNO, KILL, verdict

from sandbox.base import SandboxError
from sandbox.guest import calls, jobcalls
from sandbox.guest.meter import CgroupMeter
from sandbox.owner import Owner
from sandbox.staging import Staging

if TYPE_CHECKING:
    from pathlib import Path

REFUSE = ERRNO | errno.EPERM
MACHINES = [("x86_64", 0), ("aarch64", 1)]


@pytest.mark.parametrize(("machine", "column"), MACHINES)
def test_the_filter_of_jobs_denies_what_it_lists_and_allows_the_rest(machine: str, column: int) -> None:
    """With the numbers of the replay filter's own tables, where both know a call."""
    architecture, numbers = calls.MACHINES[machine]
    program = jobcalls.build_filter(machine, unix_sockets=True, network=False, memory_files=True)
    stricter = jobcalls.build_filter(machine, unix_sockets=True, network=False, memory_files=False)
    denied = {name: both[column] for name, both in jobcalls._DENIED.items() if both[column] is not None}

    assert {verdict(program, number, architecture) for number in denied.values() if number is not None} == {REFUSE}
    assert {name: number for name, number in numbers.items() if name in denied} == {n: denied[n] for n in numbers if n in denied}
    assert set(calls.HOSTILE) <= set(jobcalls._DENIED)
    for name in ("read", "openat", "mmap", "futex", "exit_group"):
        assert verdict(program, numbers[name], architecture) == ALLOW
    in_memory = jobcalls._MEMFD[column]
    assert (verdict(program, in_memory, architecture), verdict(stricter, in_memory, architecture)) == (ALLOW, REFUSE)
    assert verdict(program, 0, architecture ^ 1) == KILL
    assert verdict(program, 0x40000000, architecture) == KILL


@pytest.mark.parametrize(("machine", "column"), MACHINES)
def test_the_filter_of_jobs_looks_at_socket_families_and_namespace_flags(machine: str, column: int) -> None:
    architecture = calls.MACHINES[machine][0]
    made = {
        (unix, network): jobcalls.build_filter(machine, unix_sockets=unix, network=network, memory_files=True)
        for unix in (True, False)
        for network in (True, False)
    }
    for (unix, network), program in made.items():
        allowed = ({1} if unix else set()) | ({2, 10} if network else set())
        families = {f for f in range(50) if verdict(program, jobcalls._SOCKET[column], architecture, f) == ALLOW}
        pairs = {f for f in range(50) if verdict(program, jobcalls._SOCKETPAIR[column], architecture, f) == ALLOW}

        assert (families, pairs) == (allowed, {1})
        assert verdict(program, jobcalls._CLONE[column], architecture, 0x01200011) == ALLOW, "a fork"
        assert verdict(program, jobcalls._CLONE[column], architecture, 0x003D0F00) == ALLOW, "a thread"
        for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
            assert verdict(program, jobcalls._CLONE[column], architecture, flag | 17) == REFUSE
        assert verdict(program, jobcalls._CLONE3[column], architecture) == ERRNO | errno.ENOSYS


def written(root: Path, files: dict[str, str]) -> None:
    """Write files as a control group shows them."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="ascii")


def test_control_groups_of_version_two_are_read(tmp_path: Path) -> None:
    """As Linux 6.1 writes them."""
    events = "low 0\nhigh 0\nmax {}\noom {}\noom_kill {}\noom_group_kill 0\n"
    written(
        tmp_path,
        {
            "cpu.stat": "usage_usec 250000\nuser_usec 200000\nsystem_usec 50000\nnr_periods 3\n",
            "memory.current": "20000000\n",
            "memory.peak": "21000000\n",
            "memory.events": events.format(0, 0, 0),
        },
    )
    meter = CgroupMeter(tmp_path)
    written(
        tmp_path,
        {
            "cpu.stat": "usage_usec 60250000\nuser_usec 60200000\nsystem_usec 50000\nnr_periods 3\n",
            "memory.current": "30000000\n",
            "memory.peak": "90000000\n",
            "memory.events": events.format(7, 1, 1),
        },
    )

    assert meter.cpu_s() == pytest.approx(60.0, abs=1.0), "less what this process used meanwhile"
    assert (meter.memory_bytes(), meter.peak_bytes(), meter.oom_kills()) == (10_000_000, 70_000_000, 1)


def test_control_groups_of_version_one_are_read(tmp_path: Path) -> None:
    """As Linux 5.10 and 6.18 write them."""
    control = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
    before = {"memory/memory.usage_in_bytes": "20000000\n", "memory/memory.max_usage_in_bytes": "21000000\n"}
    written(tmp_path, {"cpuacct/cpuacct.usage": "250000000\n", **before, "memory/memory.oom_control": control.format(0)})
    meter = CgroupMeter(tmp_path)
    written(tmp_path, {"cpuacct/cpuacct.usage": "60250000000\n", "memory/memory.oom_control": control.format(2)})

    assert meter.cpu_s() == pytest.approx(60.0, abs=1.0)
    assert (meter.memory_bytes(), meter.peak_bytes(), meter.oom_kills()) == (0, 0, 2), "a mark from before says nothing"


def test_where_there_is_no_control_group_there_is_no_meter_of_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cpuacct"):
        CgroupMeter(tmp_path)


def test_a_staged_folder_replaces_the_workspace_at_one_stroke(tmp_path: Path) -> None:
    """With the workspace's own permissions; of the old one nothing is left."""
    workspace = tmp_path / "w"
    workspace.mkdir(0o750)
    (workspace / "old").touch()
    with Staging(workspace) as staging:
        (staging.folder / "new").touch()
        staging.take()

    assert [path.name for path in tmp_path.iterdir()] == ["w"]
    assert [path.name for path in workspace.iterdir()] == ["new"]
    assert workspace.stat().st_mode & 0o777 == 0o750


def test_what_a_dead_harness_staged_is_removed_and_what_a_living_one_does_stays(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    me = Owner.this_process()
    living = tmp_path / (".w.job+" + str(me).replace("/", "+") + "+00")
    dead = tmp_path / (".w.job+" + str(Owner(me.boot, me.namespace, me.pid, "1")).replace("/", "+") + "+00")
    for folder in (dead, living):
        folder.mkdir()
    with Staging(workspace):
        pass

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([living.name, "w"])


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder to another user, which takes root")
def test_what_another_user_has_named_as_if_a_dead_harness_had_staged_it_stays(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    me = Owner.this_process()
    named = tmp_path / (".w.job+" + str(Owner(me.boot, me.namespace, me.pid, "1")).replace("/", "+") + "+00")
    named.mkdir()
    os.chown(named, 65_534, 65_534)
    with Staging(tmp_path / "w"):
        pass

    assert named.exists()


def test_a_workspace_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="is no folder"):
        Staging(tmp_path / "absent")

"""What every backend of jobs keeps: an untrusted command gets a copy of a workspace, and gives back plain files or nothing."""

from __future__ import annotations

import math
import os
import stat
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.base import SandboxError
from sandbox.dockerjob import DockerJobs
from sandbox.guest.archive import Refusal
from sandbox.job import JobCancelledError, JobFault, JobFaultKind, JobLimits, Jobs, TimeLimit
from sandbox.localjob import LocalJobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.job import JobResult

LIMITS = JobLimits(
    cpu_s=5.0,
    wall_s=20.0,
    memory_bytes=128 * 2**20,
    workspace_bytes=8 * 2**20,
    workspace_files=200,
    output_bytes=4_000,
    processes=16,
)


@pytest.fixture(scope="module", params=[pytest.param("docker", marks=pytest.mark.docker), "local"])
def backend(request: pytest.FixtureRequest) -> type[DockerJobs | LocalJobs]:
    """Return the class of one backend after the other."""
    if request.param == "docker":
        request.getfixturevalue("engine")
        return DockerJobs
    return LocalJobs


@pytest.fixture(scope="module")
def jobs(backend: type[DockerJobs | LocalJobs]) -> Iterator[Jobs]:
    """Return one backend after the other."""
    with backend() as made:
        yield made


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with one file, in a folder of its own."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it was", encoding="utf-8")
    return folder


def python(source: str) -> list[str]:
    """Return the command that runs this Python."""
    return ["python3", "-S", "-c", textwrap.dedent(source)]


def names(folder: Path) -> list[str]:
    """Return every path below the folder, and show that nothing lies beside it."""
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def content(folder: Path) -> dict[str, str]:
    """Return what a folder of texts holds."""
    return {name: (folder / name).read_text(encoding="utf-8") for name in names(folder) if (folder / name).is_file()}


def test_a_command_changes_its_workspace(jobs: Jobs, workspace: Path) -> None:
    """New, changed and removed files and folders come back, with their permissions, as the caller's own."""
    (workspace / "gone.txt").write_text("x", encoding="utf-8")
    workspace.chmod(0o750)
    result = jobs.run(
        python(
            """
            import os, sys
            os.remove("gone.txt")
            open("kept.txt", "a").write(", and more")
            os.makedirs("made/deeply")
            open("made/deeply/run.sh", "w").write("#!")
            os.chmod("made/deeply/run.sh", 0o777)
            open("secret", "w").write("s")
            os.chmod("secret", 0)
            os.mkdir("locked", 0o000)
            os.chmod(".", 0)
            print("out")
            print("err", file=sys.stderr)
            """
        ),
        workspace,
        LIMITS,
    )

    assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "err\n")
    assert (result.timed_out, result.out_of_memory) == (None, False)
    assert names(workspace) == ["kept.txt", "locked", "made", "made/deeply", "made/deeply/run.sh", "secret"]
    assert (workspace / "kept.txt").read_text(encoding="utf-8") == "as it was, and more"
    assert stat.S_IMODE((workspace / "made/deeply/run.sh").stat().st_mode) == 0o775, "never writable for everybody"
    assert stat.S_IMODE((workspace / "secret").stat().st_mode) == 0o600, "always readable for the caller"
    assert stat.S_IMODE(workspace.stat().st_mode) == 0o750
    for path in (workspace, *workspace.rglob("*")):
        assert (path.stat().st_uid, path.stat().st_gid) == (os.getuid(), os.getgid())
    assert result.usage.workspace_files == 6
    assert result.usage.workspace_bytes == len("as it was, and more#!s")
    assert result.usage.output_bytes == 8


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 15)", -15), ("os._exit(255)", 255)])
def test_an_exit_code_is_told_as_it_was(jobs: Jobs, workspace: Path, end: str, code: int) -> None:
    result = jobs.run(python(f"import os, sys\n{end}"), workspace, LIMITS)

    assert result.exit_code == code
    assert result.usage.wall_s < LIMITS.wall_s


def test_a_command_that_is_none_is_a_fault(jobs: Jobs, workspace: Path) -> None:
    with pytest.raises(JobFault, match="no-such-program: No such file") as caught:
        jobs.run(["no-such-program"], workspace, LIMITS)

    assert (caught.value.kind, caught.value.result) == (JobFaultKind.NOT_STARTED, None)
    assert content(workspace) == {"kept.txt": "as it was"}


def test_cpu_time_is_that_of_all_processes(jobs: Jobs, workspace: Path) -> None:
    """Two children that share the work do not have twice the time."""
    source = """
        import os
        open("partial", "w").write("work")
        os.fork()
        while True: pass
        """
    result = jobs.run(python(source), workspace, replace(LIMITS, cpu_s=0.4))

    assert result.timed_out is TimeLimit.CPU
    assert result.exit_code == -9
    assert 0.4 <= result.usage.cpu_s < 2.0
    assert names(workspace) == ["kept.txt", "partial"], "what was done until then is kept"


def test_wall_time_ends_a_sleeper(jobs: Jobs, workspace: Path) -> None:
    """It had printed, and ignored every signal that can be ignored."""
    source = """
        import signal, time
        for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
        print("before", flush=True)
        time.sleep(1000)
        """
    result = jobs.run(python(source), workspace, replace(LIMITS, wall_s=2.0))

    assert (result.timed_out, result.exit_code, result.stdout) == (TimeLimit.WALL, -9, "before\n")
    assert 2.0 <= result.usage.wall_s < 20.0
    assert result.usage.cpu_s < 2.0


def test_memory_is_limited_and_its_high_water_told(jobs: Jobs, workspace: Path) -> None:
    """What several processes hold counts together."""
    source = """
        import os, time
        for _ in range(3): os.fork()
        held = []
        for _ in range(60):
            held.append(bytearray(os.urandom(1) * 2**20))
            time.sleep(0.002)
        time.sleep(0.2)
        """
    result = jobs.run(python(source), workspace, LIMITS)

    assert result.out_of_memory
    assert LIMITS.memory_bytes * 0.7 < result.usage.memory_bytes < LIMITS.memory_bytes * 2


def test_a_flood_of_output_is_cut_to_its_end(jobs: Jobs, workspace: Path) -> None:
    source = """
        import os
        for number in range(1000): os.write(1, b"x" * 65536)
        os.write(1, b"the end")
        os.write(2, b"e" * 5000 + b"its end")
        """
    result = jobs.run(python(source), workspace, LIMITS)

    assert result.stdout == "x" * (LIMITS.output_bytes - 7) + "the end"
    assert result.stderr == "e" * (LIMITS.output_bytes - 7) + "its end"
    assert result.usage.output_bytes == 1000 * 65536 + 7 + 5007


def test_output_is_printable(jobs: Jobs, workspace: Path) -> None:
    """No byte of it reaches a terminal as a command."""
    result = jobs.run(python(r"import os; os.write(1, b'\x1b[2J\xff\x00\xe2\x80\xaeok\n')"), workspace, LIMITS)

    assert result.stdout == "\N{REPLACEMENT CHARACTER}[2J" + "\N{REPLACEMENT CHARACTER}" * 3 + "ok\n"


def test_a_workspace_cannot_outgrow_its_size(jobs: Jobs, workspace: Path) -> None:
    """The command meets a full disk; what fitted comes back."""
    source = """
        try:
            with open("big", "wb") as file:
                for _ in range(100): file.write(bytes(2**20))
        except OSError as error:
            print(error.errno)
        """
    result = jobs.run(python(source), workspace, LIMITS)

    assert result.stdout in {"28\n", "27\n"}, "no space, or file too large"
    assert result.usage.workspace_bytes <= LIMITS.workspace_bytes


def test_a_workspace_cannot_hold_too_many_files(jobs: Jobs, workspace: Path) -> None:
    source = """
        try:
            for number in range(1000): open(str(number), "w").close()
        except OSError as error:
            print(error.errno)
        """
    result = jobs.run(python(source), workspace, LIMITS)

    assert result.stdout == "28\n"
    assert len(names(workspace)) == result.usage.workspace_files == LIMITS.workspace_files


REFUSED = {
    "symbolic link to the host": ("os.symlink('/etc/passwd', 'evil')", JobFaultKind.SYMBOLIC_LINK),
    "symbolic link inside": ("os.symlink('kept.txt', 'evil')", JobFaultKind.SYMBOLIC_LINK),
    "symbolic link in place of a folder": ("os.mkdir('d'); os.symlink('/tmp', 'd/evil')", JobFaultKind.SYMBOLIC_LINK),
    "hard link": ("os.link('kept.txt', 'evil')", JobFaultKind.HARD_LINK),
    "FIFO": ("os.mkfifo('evil')", JobFaultKind.SPECIAL_FILE),
    "set-uid": ("os.chmod('kept.txt', 0o4755)", JobFaultKind.SPECIAL_MODE),
    "set-gid folder": ("os.mkdir('evil'); os.chmod('evil', 0o2755)", JobFaultKind.SPECIAL_MODE),
    "newline": (r"open('ev\nil', 'w')", JobFaultKind.BAD_NAME),
    "escape sequence": (r"open('ev\x1b[2Jil', 'w')", JobFaultKind.BAD_NAME),
    "bytes that are no text": (r"open(b'ev\xff', 'w')", JobFaultKind.BAD_NAME),
    "text that runs backwards": (r"open('ev\u202etxt', 'w')", JobFaultKind.BAD_NAME),
    "deep nesting": ("for _ in range(150): os.mkdir('d'); os.chdir('d')", JobFaultKind.TOO_DEEP),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_plain_is_refused_and_the_workspace_stays(jobs: Jobs, workspace: Path, name: str) -> None:
    """The fault says what it was, and how the command had ended; nothing is half written."""
    attack, kind = REFUSED[name]
    inode = workspace.stat().st_ino
    source = f"import os\nopen('kept.txt', 'w').write('changed')\nprint('done')\n{attack}"
    with pytest.raises(JobFault) as caught:
        jobs.run(python(source), workspace, LIMITS)

    assert caught.value.kind is kind
    assert caught.value.message.isprintable()
    assert caught.value.result is not None
    assert (caught.value.result.exit_code, caught.value.result.stdout) == (0, "done\n")
    assert content(workspace) == {"kept.txt": "as it was"}
    assert workspace.stat().st_ino == inode


def test_a_socket_left_behind_is_refused(jobs: Jobs, workspace: Path) -> None:
    """A local job cannot even make one: the file system of its host is in reach of Unix sockets."""
    source = "import socket\nsocket.socket(socket.AF_UNIX).bind('evil')"
    if jobs.name == "docker":
        with pytest.raises(JobFault, match="evil' is a socket"):
            jobs.run(python(source), workspace, LIMITS)
    else:
        assert "PermissionError" in jobs.run(python(source), workspace, LIMITS).stderr


def test_a_workspace_that_is_not_plain_is_not_even_sent(jobs: Jobs, workspace: Path) -> None:
    (workspace / "link").symlink_to("kept.txt")
    with pytest.raises(JobFault, match="given to the job is refused: 'link' is a symbolic link") as caught:
        jobs.run(python(""), workspace, LIMITS)

    assert (caught.value.kind, caught.value.result) == (JobFaultKind.SYMBOLIC_LINK, None)
    assert (workspace / "link").is_symlink()


def test_inputs_are_read_but_never_changed_nor_found_in_the_result(jobs: Jobs, workspace: Path, tmp_path_factory) -> None:  # noqa: ANN001
    """Bytes, files and folders; whatever the command tries on them is refused."""
    given = tmp_path_factory.mktemp("given")
    (given / "tests").mkdir()
    (given / "tests" / "t.txt").write_text("three", encoding="utf-8")
    (given / "two").write_text("two", encoding="utf-8")
    source = """
        import os
        base = os.environ["JOB_INPUTS"]
        print(open("../inputs/one").read(), open(base + "/deep/two").read(), open(base + "/all/tests/t.txt").read())
        tries = [
            lambda: open(base + "/one", "w"), lambda: os.remove(base + "/one"), lambda: os.rename(base + "/one", "one"),
            lambda: os.chmod(base + "/one", 0o777), lambda: os.link(base + "/one", "one"), lambda: open(base + "/new", "w"),
            lambda: os.rename(base, "mine"), lambda: os.truncate(base + "/one", 0), lambda: os.rmdir(base + "/deep"),
        ]
        for number, attempt in enumerate(tries):
            try:
                attempt()
                print("changed", number)
            except OSError:
                pass
        """
    inputs = {"one": b"one", "deep/two": given / "two", "all": given}
    result = jobs.run(python(source), workspace, LIMITS, inputs)

    assert (result.stdout, result.stderr) == ("one two three\n", "")
    assert content(workspace) == {"kept.txt": "as it was"}
    assert (given / "two").read_text(encoding="utf-8") == "two"


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a//b", "", "a/../b", "x\n"])
def test_an_input_has_a_name_inside(jobs: Jobs, workspace: Path, name: str) -> None:
    with pytest.raises(SandboxError, match="an input cannot be given under this name"):
        jobs.run(["true"], workspace, LIMITS, {name: b""})


def test_a_fork_bomb_meets_its_limit_and_ends_with_the_job(jobs: Jobs, workspace: Path) -> None:
    source = """
        import os, time
        made = 0
        try:
            while True:
                if os.fork() == 0:
                    os.setsid()
                    time.sleep(1000)
                made += 1
        except OSError as error:
            print(error.errno, 5 < made < 20)
        """
    result = jobs.run(python(source), workspace, LIMITS)

    assert result.stdout == "11 True\n"
    assert result.usage.wall_s < 5


def test_a_survivor_in_the_background_neither_holds_the_job_nor_outlives_it(jobs: Jobs, workspace: Path) -> None:
    """It left the session and keeps the output open: it would write after the end."""
    source = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    time.sleep(0.1)
                    open("late", "w").write("x")
            os._exit(0)
        os.wait()
        """
    started = time.monotonic()
    result = jobs.run(python(source), workspace, LIMITS)
    time.sleep(0.3)

    assert result.exit_code == 0
    assert time.monotonic() - started < LIMITS.wall_s / 2
    assert names(workspace) == ["kept.txt"]


def test_there_is_no_network_and_no_other_way_out(jobs: Jobs, workspace: Path) -> None:
    """Every socket family but Unix is refused, and so are the calls that have broken containers before."""
    source = """
        import ctypes, errno, socket
        made = []
        for family in (2, 10, 16, 17, 38, 40, 15, 44):
            for kind in (1, 2, 3, 5):
                try:
                    made.append((family, socket.socket(family, kind)))
                except OSError:
                    pass
        libc = ctypes.CDLL(None, use_errno=True)
        # ptrace, mount, unshare, bpf, keyctl, io_uring_setup, userfaultfd, setns, open_by_handle_at, perf_event_open
        for call in (101, 165, 272, 321, 250, 425, 323, 308, 304, 298) if ctypes.sizeof(ctypes.c_long) == 8 else ():
            ctypes.set_errno(0)
            if libc.syscall(call, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
                made.append((call, ctypes.get_errno()))
        print(made)
        """
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers of the calls are those of x86-64")
    result = jobs.run(python(source), workspace, LIMITS)

    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_the_hosts_files_and_secrets_are_out_of_reach(jobs: Jobs, workspace: Path, tmp_path_factory, monkeypatch) -> None:  # noqa: ANN001
    """Neither files of the machine, nor the harness's environment, nor the runner's memory; nothing else can be written."""
    secret = tmp_path_factory.mktemp("host") / "secret"
    secret.write_text("s3cret", encoding="utf-8")
    secret.chmod(0o644)
    monkeypatch.setenv("API_KEY", "s3cret")
    source = f"""
        import os
        got = [key for key in os.environ if key not in
               "PATH HOME TMPDIR JOB_INPUTS LANG LC_CTYPE TZ PYTHONHASHSEED PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS".split()]
        for path in ({str(secret)!r}, {str(Path(__file__).resolve())!r}, "/etc/shadow", f"/proc/{{os.getppid()}}/mem",
                     f"/proc/{{os.getppid()}}/environ", "/dev/mem", "/dev/kmsg", "/var/run/docker.sock"):
            try:
                got.append((path, open(path, "rb").read(16)))
            except OSError:
                pass
        for folder in "/ /tmp /dev /dev/shm /run /var/tmp /job .. ../inputs /proc/sys/kernel /etc /usr".split():
            try:
                open(folder + "/probe", "w")
                got.append(folder)
            except OSError:
                pass
        print(got, os.getuid() == {os.getuid()} == 0)
        """
    result = jobs.run(python(source), workspace, LIMITS)

    assert (result.stdout, result.stderr) == ("[] False\n", "")


def test_no_descriptor_is_left_open_to_the_command(jobs: Jobs, workspace: Path) -> None:
    """Who held the runner's channel could speak for the runner."""
    source = """
        import os
        for descriptor in range(3, 1024):
            try:
                print(descriptor, os.fstat(descriptor))
            except OSError:
                pass
        print(os.read(0, 10))
        """
    result = jobs.run(python(source), workspace, LIMITS)

    assert (result.stdout, result.stderr) == ("b''\n", "")


def test_scratch_is_a_second_place_that_does_not_come_back(jobs: Jobs, workspace: Path) -> None:
    source = """
        import os, tempfile
        open(os.environ["HOME"] + "/cache", "w").write("x")
        print(tempfile.mkdtemp().startswith(os.environ["TMPDIR"]), os.getcwd() != os.environ["HOME"])
        """
    result = jobs.run(python(source), workspace, replace(LIMITS, scratch_bytes=2**20))

    assert (result.stdout, result.stderr) == ("True True\n", "")
    assert names(workspace) == ["kept.txt"]


def test_jobs_run_side_by_side(jobs: Jobs, tmp_path: Path) -> None:
    """Each sees its own workspace and processes alone."""
    results: dict[int, JobResult] = {}

    def run(number: int) -> None:
        (tmp_path / str(number) / "w").mkdir(parents=True)
        source = f"""
            import os, time
            open("mine", "w").write("{number}")
            time.sleep(0.3)
            print(sum(name.isdigit() for name in os.listdir("/proc")))
            """
        results[number] = jobs.run(python(source), tmp_path / str(number) / "w", LIMITS)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [(results[n].exit_code, results[n].stdout) for n in range(3)] == [(0, "2\n")] * 3, "the runner and the command"
    assert [content(tmp_path / str(n) / "w") for n in range(3)] == [{"mine": str(n)} for n in range(3)]


def test_an_event_cancels_a_job(jobs: Jobs, workspace: Path) -> None:
    cancel = threading.Event()
    threading.Timer(0.6, cancel.set).start()
    started = time.monotonic()
    with pytest.raises(JobCancelledError):
        jobs.run(python("open('new', 'w'); import time; time.sleep(1000)"), workspace, LIMITS, cancel=cancel)

    assert time.monotonic() - started < 10
    assert content(workspace) == {"kept.txt": "as it was"}


def test_closing_the_backend_from_another_thread_ends_its_jobs(backend: type[DockerJobs | LocalJobs], workspace: Path) -> None:
    jobs = backend()
    threading.Timer(0.6, jobs.close).start()
    with pytest.raises(JobCancelledError):
        jobs.run(python("import time; time.sleep(1000)"), workspace, LIMITS)

    assert content(workspace) == {"kept.txt": "as it was"}


def test_each_backend_says_what_it_isolates_and_what_it_does_not(jobs: Jobs) -> None:
    told = jobs.describe()

    assert told.backend == jobs.name
    assert told.python.startswith("3.")
    assert told.isolates
    assert told.leaves_open


def test_limits_that_cannot_be_kept_are_refused() -> None:
    """The files of a job lie in its memory."""
    with pytest.raises(ValueError, match="memory_bytes must be at least as much"):
        JobLimits(memory_bytes=2**20, workspace_bytes=2**21)
    for wrong in ({"cpus": 0.0}, {"wall_s": math.inf}, {"cpu_s": math.nan}, {"processes": -1}):
        with pytest.raises(ValueError, match="must be a number above 0"):
            JobLimits(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["true", []])
def test_a_command_is_a_list_of_words(jobs: Jobs, workspace: Path, command: list[str]) -> None:
    with pytest.raises(ValueError, match="must be a list of a program and its arguments"):
        jobs.run(command, workspace, LIMITS)


def test_every_refusal_is_a_kind_of_fault() -> None:
    assert {str(kind) for kind in Refusal} <= {str(kind) for kind in JobFaultKind}

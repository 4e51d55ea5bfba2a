"""A score comes from the evaluator's own standard output or not at all, on both backends."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from taskfolders import TOML, written

from harness.errors import InputError
from harness.task.answer import BadAnswer, parse
from harness.task.evaluator import Evaluator
from harness.task.reading import read
from sandbox.job import JobCancelledError

if TYPE_CHECKING:
    from pathlib import Path

    from harness.task.base import Assessment
    from sandbox.job import Jobs

RUNS = TOML + 'run = ["python3", "main.py"]\nrun_limits = { cpu_s = 2, wall_s = 10, workspace_mib = 1 }\n'
REPORTS = """
    import json, os
    from pathlib import Path
    inputs = Path(os.environ["JOB_INPUTS"])
    run = json.loads((inputs / "run.json").read_text())
    files = sorted(p.relative_to(inputs / "workspace").as_posix() for p in (inputs / "workspace").rglob("*") if p.is_file())
    print(json.dumps({"score": None if run and run["exit_code"] else 1, "feedback": json.dumps([run, files])}))
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def assessed(tmp_path: Path, jobs: Jobs, workspace: Path, evaluator: str, toml: str = TOML, **files: str) -> Assessment:
    return Evaluator(read(written(tmp_path / "task", toml, evaluator, **files)), jobs).assess(workspace)


def test_evaluator_reads_the_workspace_and_its_answer_is_the_assessment(tmp_path: Path, jobs: Jobs) -> None:
    task = read(written(tmp_path / "task"))
    found = Evaluator(task, jobs).assess(task.start)

    assert (found.score, found.status, found.feedback, found.metrics) == (3.0, "ok", "read 3", {"characters": 1.0})
    assert found.terminal is False
    assert found.seconds > 0


def test_agents_own_folder_is_not_seen_and_the_workspace_stays(tmp_path: Path, workspace: Path, jobs: Jobs) -> None:
    (workspace / ".agent").mkdir()
    (workspace / ".agent" / "state").symlink_to("/etc")
    (workspace / "sub").mkdir()
    (workspace / "sub" / "a.txt").write_text("a")
    (workspace / "main.py").write_text("open('made.txt', 'w').write('1'); import os; os.remove('sub/a.txt')")
    found = assessed(tmp_path, jobs, workspace, REPORTS, RUNS)

    run, files = json.loads(found.feedback)
    assert (found.score, run["exit_code"], files) == (1.0, 0, ["made.txt", "main.py"])
    assert not (workspace / "made.txt").exists()
    assert (workspace / "sub" / "a.txt").read_text() == "a"
    assert (workspace / ".agent").is_dir()


def test_evaluator_is_told_how_the_candidates_run_ended(tmp_path: Path, workspace: Path, jobs: Jobs) -> None:
    (workspace / "main.py").write_text("import sys; print('out'); sys.stderr.write('err'); sys.exit(5)")
    found = assessed(tmp_path, jobs, workspace, REPORTS, RUNS)

    run, _ = json.loads(found.feedback)
    assert (found.status, run["exit_code"], run["stdout"], run["stderr"], run["timed_out"]) == ("failed", 5, "out\n", "err", None)


def test_candidates_run_neither_sees_nor_reaches_the_evaluator(tmp_path: Path, workspace: Path, jobs: Jobs) -> None:
    """It looks at its inputs, at the folder on the host, and leaves modules that the evaluator's imports could find."""
    task_folder = tmp_path / "task"
    (workspace / "main.py").write_text(
        f"""
import os
from pathlib import Path
seen = []
for place in [os.environ["JOB_INPUTS"], "..", {str(task_folder)!r}]:
    try:
        for base, _, names in os.walk(place):
            seen += [name for name in names if "evaluate" in name or "hidden" in name]
            for name in names:
                if "hidden" in name:
                    Path("stolen.txt").write_text(Path(base, name).read_text())
    except OSError:
        pass
for name in ("json", "pathlib", "os", "fractions", "sitecustomize", "usercustomize"):
    Path(name + ".py").write_text("print('{{\\"score\\": 1e9}}'); raise SystemExit")
try:
    Path(os.environ["JOB_INPUTS"], "evaluator").mkdir()
except OSError:
    pass
print('{{"score": 1e9}}')
Path("seen.txt").write_text(" ".join(seen))
"""
    )
    evaluator = """
    import fractions, json, os
    from pathlib import Path
    left = Path(os.environ["JOB_INPUTS"]) / "workspace"
    print(json.dumps({"score": 2, "feedback": (left / "seen.txt").read_text() + str((left / "stolen.txt").exists())}))
    """
    found = assessed(tmp_path, jobs, workspace, evaluator, RUNS, evaluator__hidden_txt="the seed")

    assert (found.score, found.feedback) == (2.0, "False")


def test_candidates_see_what_is_given_and_cannot_change_it(tmp_path: Path, workspace: Path, jobs: Jobs) -> None:
    (workspace / "main.py").write_text(
        "import os; from pathlib import Path; p = Path(os.environ['JOB_INPUTS']) / 'given' / 'data.txt'\n"
        "Path('copy.txt').write_text(p.read_text())\n"
        "try:\n    p.write_text('7')\nexcept OSError:\n    pass\n"
    )
    evaluator = """
    import json, sys
    from pathlib import Path
    print(json.dumps({"score": float(Path(sys.argv[1], "data.txt").read_text()), "feedback": Path(sys.argv[2], "copy.txt").read_text()}))
    """  # noqa: E501 - a program on one line
    toml = RUNS.replace('evaluate.py"]', 'evaluate.py", "{given}", "{workspace}"]') + 'given = "given"\n'
    found = assessed(tmp_path, jobs, workspace, evaluator, toml, given__data_txt="5")

    assert (found.score, found.feedback) == (5.0, "5")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os; os.symlink('/etc/passwd', 'answer.txt')", "symbolic-link"),
        ("import os; os.mkfifo('pipe')", "special-file"),
    ],
)
def test_what_no_job_may_leave_is_an_attempt_without_score(
    tmp_path: Path, workspace: Path, jobs: Jobs, program: str, words: str
) -> None:
    (workspace / "main.py").write_text(program)
    found = assessed(tmp_path, jobs, workspace, REPORTS, RUNS)

    assert (found.score, found.status) == (None, "invalid")
    assert words in found.feedback


def test_link_in_a_workspace_is_refused_before_anything_follows_it(tmp_path: Path, workspace: Path, local_jobs: Jobs) -> None:
    (workspace / "answer.txt").symlink_to(tmp_path / "task" / "evaluator" / "evaluate.py")
    found = assessed(tmp_path, local_jobs, workspace, REPORTS)

    assert (found.score, found.status) == (None, "invalid")
    assert "'answer.txt' is a symbolic link" in found.feedback


def test_workspace_larger_than_agreed_is_refused(tmp_path: Path, workspace: Path, local_jobs: Jobs) -> None:
    (workspace / "big").write_bytes(bytes(2 * 2**20))
    found = assessed(tmp_path, local_jobs, workspace, REPORTS, TOML + "limits = { workspace_mib = 1 }\n")

    assert (found.score, found.status) == (None, "invalid")
    assert "1048576 bytes" in found.feedback


@pytest.mark.parametrize(
    ("evaluator", "words"),
    [
        ("raise RuntimeError('a bug')", "ended with exit code 1.\nstderr: Traceback"),
        ("import os; os.kill(os.getpid(), 9)", "ended with exit code -9"),
        ("while True: pass", "ran out of cpu time"),
        ("print('x' * 100_000)", "are kept"),
        ("print('{\"score\": NaN}')", "gave no answer that can be read"),
        ("print('{\"score\": 1}'); raise SystemExit(3)", 'ended with exit code 3.\nstdout: {"score": 1}'),
        ("", "gave no answer that can be read: it printed nothing"),
    ],
)
def test_evaluator_that_fails_is_an_attempt_failed_with_the_evidence(
    tmp_path: Path, workspace: Path, jobs: Jobs, evaluator: str, words: str
) -> None:
    found = assessed(tmp_path, jobs, workspace, evaluator, TOML + "limits = { cpu_s = 1, wall_s = 10 }\n")

    assert (found.score, found.status) == (None, "failed")
    assert words in found.feedback


def test_evaluator_that_cannot_be_started_is_our_error(tmp_path: Path, workspace: Path, jobs: Jobs) -> None:
    with pytest.raises(InputError, match="cannot be started"):
        assessed(tmp_path, jobs, workspace, "", TOML.replace('"python3"', '"no-such-program"'))


def test_assessment_ends_when_it_is_cancelled(tmp_path: Path, workspace: Path, jobs: Jobs) -> None:
    task = read(written(tmp_path / "task", evaluator="import time; time.sleep(60)"))
    cancel = threading.Event()
    threading.Timer(0.5, cancel.set).start()

    with pytest.raises(JobCancelledError):
        Evaluator(task, jobs).assess(workspace, cancel=cancel)


def test_assessments_run_side_by_side(tmp_path: Path, local_jobs: Jobs) -> None:
    task = read(written(tmp_path / "task"))
    evaluator = Evaluator(task, local_jobs)
    scores: list[float | None] = []

    def one(number: int) -> None:
        folder = tmp_path / f"w{number}"
        shutil.copytree(task.start, folder)
        (folder / "answer.txt").write_text(str(number))
        scores.append(evaluator.assess(folder).score)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(score for score in scores if score is not None) == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it printed nothing"),
        ("fine\n", "not JSON"),
        ('{"score": 1}\n{"score": 2}', "JSON"),
        ("[1]", "expected a JSON object"),
        ('{"score": NaN}', "score is nan"),
        ('{"score": 1e400}', "score is inf"),
        ('{"score": 1' + "0" * 400 + "}", "range of a float"),
        ('{"score": true}', "'score' is True; expected a number"),
        ('{"score": "1"}', "'score' is '1'; expected a number"),
        ('{"score": 1, "score": 2}', "score"),
        ('{"metrics": {}}', "no 'score'"),
        ('{"score": null, "status": "ok"}', "expected a score with 'ok'"),
        ('{"score": 1, "status": "invalid"}', "expected a score with 'ok'"),
        ('{"score": null, "status": "great"}', "expected one of failed, invalid, ok, timeout"),
        ('{"score": null, "status": []}', "expected one of"),
        ('{"score": 1, "feedbak": ""}', "it holds 'feedbak'; expected score, metrics"),
        ('{"score": 1, "feedback": 1}', "'feedback' is 1; expected a string"),
        ('{"score": 1, "terminal": 1}', "'terminal' is 1; expected true or false"),
        ('{"score": 1, "metrics": []}', "'metrics' is []"),
        ('{"score": 1, "metrics": {"a": true}}', "'metrics.a' is True; expected a number"),
        ('{"score": 1, "metrics": {"": 1}}', "of a metric"),
        ('{"score": 1, "metrics": ' + "[" * 5000 + "]" * 5000 + "}", "nests"),
    ],
)
def test_answer_that_is_not_to_the_letter_is_none(text: str, words: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        parse(text, 0.0)
    assert words in str(caught.value)


def test_answer_may_stand_on_several_lines_and_feedback_is_cut() -> None:
    found = parse('{\n "score": null,\n "status": "invalid", "feedback": "' + "x" * 5000 + '", "terminal": true}\n', 1.5)

    assert (found.score, found.status, len(found.feedback), found.terminal, found.seconds) == (None, "invalid", 2000, True, 1.5)


@pytest.mark.parametrize("name", [b"new\nline", b"\xff\xfe", b"-", b"a" * 255])
def test_strange_name_in_a_workspace_is_no_error_of_ours(tmp_path: Path, workspace: Path, local_jobs: Jobs, name: bytes) -> None:
    with open(os.path.join(os.fsencode(workspace), name), "wb") as file:  # noqa: PTH118, PTH123 - a path of bytes
        file.write(b"1")
    found = assessed(tmp_path, local_jobs, workspace, REPORTS)

    assert found.status in {"ok", "invalid"}


def test_deep_workspace_is_refused(tmp_path: Path, workspace: Path, local_jobs: Jobs) -> None:
    workspace.joinpath(*["d"] * 40).mkdir(parents=True)
    found = assessed(tmp_path, local_jobs, workspace, REPORTS)

    assert (found.score, found.status) == (None, "invalid")
    assert "deeper than" in found.feedback


@pytest.mark.parametrize("path", ["d/" * 31 + "f", "/".join(["d" * 204] * 4 + ["f" * 203])])
def test_run_that_leaves_what_a_job_can_return_but_none_can_take_is_refused(
    tmp_path: Path, workspace: Path, jobs: Jobs, path: str
) -> None:
    """Depth and length are counted with the folder's own name: 32 deep, or 1,023 bytes, is too much as an input."""
    (workspace / "main.py").write_text(
        f"import os; p = {path!r}; os.makedirs(os.path.dirname(p)); open(p, 'w').write('1')", encoding="utf-8"
    )
    found = assessed(tmp_path, jobs, workspace, REPORTS, RUNS)

    assert (found.score, found.status) == (None, "invalid")
    assert "What the run left is refused" in found.feedback


COPIES = """
import os, sys
from pathlib import Path
from harness.task.copying import copy
from sandbox.guest.archive import RefusedFault
from sandbox.job import JobLimits
if os.getuid() == 0:  # who reads everything
    os.setgid(65_534)
    os.setuid(65_534)
for place in sys.argv[1:]:
    try:
        copy(Path(place), Path(place + "-copy"), JobLimits())
    except RefusedFault as refused:
        print(refused.message)
"""


def test_what_cannot_be_read_is_refused(everybodys: Path) -> None:
    """Whoever left it may keep it to themselves, and has no score; our search goes on."""
    everybodys.chmod(0o777)
    (everybodys / "file").mkdir()
    (everybodys / "file" / "answer.txt").touch(0)
    (everybodys / "folder" / "inner").mkdir(parents=True)
    (everybodys / "folder" / "inner").chmod(0)
    places = [str(everybodys / "file"), str(everybodys / "folder")]
    done = subprocess.run([sys.executable, "-c", COPIES, *places], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"{name} cannot be read; its owner may not" for name in ("'answer.txt'", "'inner/'")]


SAID = st.none() | st.booleans() | st.floats() | st.text() | st.lists(st.integers()) | st.dictionaries(st.text(), st.floats())
KEYS = st.sampled_from(["score", "status", "feedback", "metrics", "terminal"])


@given(st.text() | st.dictionaries(KEYS, SAID).map(json.dumps))
def test_any_output_is_an_assessment_or_a_bad_answer(text: str) -> None:
    try:
        found = parse(text, 0.0)
    except BadAnswer:
        return
    assert (found.score is None) == (found.status != "ok")
    assert found.score is None or math.isfinite(found.score)
    assert all(math.isfinite(figure) for figure in found.metrics.values())

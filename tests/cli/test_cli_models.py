"""`harness evolve --model`: over HTTP to a server that is told what to answer, and to a real small model."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from asking import answering, completion, serving
from builders import tree
from commands import environment, named, process

from harness import treefile
from harness.evolve import split_trees
from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from commands import Ended

STORE = "sqlite:///.harness/harness.db"
KEY = "sk-planted-0123456789abcdef"
MARK = "held-out-mark"
BASE = """class Policy:
    def __init__(self, context):
        self.width = 2

    def decide(self, view):
        if view.round > 3:
            return []
        return [node_id for node_id in view.selectable if not view.nodes[node_id].closed][: self.width]
"""


def code(width: int, rounds: int = 3) -> str:
    """Write an answer with a whole file."""
    source = BASE.replace("width = 2", f"width = {width}").replace("round > 3", f"round > {rounds}")
    return f"<rationale>a batch of {width}</rationale>\n```python\n{source}```\n"


class Server:
    """Answers each request with the next text; where there is none, with an error. `bodies` are what was sent."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)
        self.bodies: list[str] = []
        self.keys: set[str] = set()

    def __call__(self, handler: Any) -> None:
        """Answer one request."""
        self.bodies.append(handler.body.decode())
        self.keys.add(handler.headers.get("authorization", ""))
        if self.texts:
            answering(completion(self.texts.pop(0), usage=(100, 10)))(handler)
        else:
            said = json.dumps({"error": {"message": f"no more for {KEY}"}}).encode()
            answering(said, status=401)(handler)


@pytest.fixture
def searches(folder: Path) -> Path:
    """Return a folder of eight trees, of which those that are held out carry marks wherever a tree has words."""
    made = []
    for number in range(8):
        edges = [f"root>{branch}0" for branch in "abc"] + [f"{b}{d}>{b}{d + 1}" for d in range(3) for b in "abc"]
        scores = {f"{b}{d}": ((number * 7 + i * 5 + d * 3) % 11) / 11 + d * 0.1 for i, b in enumerate("abc") for d in range(4)}
        made.append(named(tree(*edges, scores=scores), f"{MARK}-{number}"))
    inside = folder / "searches"
    inside.mkdir()
    for number, one in enumerate(made):
        treefile.write(one, inside / f"{number}.jsonl")
    return inside


@pytest.fixture
def base(folder: Path) -> Path:
    """Return the file of the policy to start from."""
    file = folder / "base.py"
    file.write_text(BASE)
    return file


@pytest.fixture
def evolve(command: Callable[..., Ended], searches: Path, base: Path) -> Callable[..., Ended]:
    """Return a function that begins a run with models in the local sandbox."""

    def run(url: str, *args: object) -> Ended:
        model = f"openai-compatible:m@{url}#PLANTED_KEY"
        start = ("--trees", searches, "--incumbent", base, "--sandbox", "local")
        return command("evolve", *start, "--model", model, "--edits", "blocks", "whole", "cross", *args)

    return run


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a key in the environment."""
    monkeypatch.setenv("PLANTED_KEY", KEY)


def held_out_names(folder: Path) -> set[str]:
    """Return the names of the trees that were held out."""
    with Store.open(STORE) as store:
        rows = {row.digest: row.name for row in store.tree_rows()}
        return {rows[digest] for digest in store.run(1).plan.held_out}


def test_a_model_over_http_develops_versions_that_can_be_followed_back(
    evolve: Callable[..., Ended], command: Callable[..., Ended], folder: Path
) -> None:
    server = Server([code(3), "I have no idea.", code(4), code(4, 5).replace("```python", "```python\nimport os")])
    server.texts.append(code(4, 5))
    with serving(server) as url:
        ended = evolve(url, "--proposer", "model", "--versions", 4, "--json")

    assert ended.code == 0, ended.err
    models = ended.json["models"]
    assert (models["calls"], models["versions"], models["cost_usd"], models["input_tokens"]) == (5, 3, None, 500)
    assert models["faults"] == {"no-edit": 1, "refused-at-check": 1}
    assert [line["origin"] for line in ended.json["versions"]] == ["file", "model", "model", "model"]
    shown = command("show", "v3").out
    assert "written by openai-compatible:m@" in shown
    assert "came to nothing: no-edit" in shown
    assert "cost unknown" in shown
    assert command("show", "v3", "--answer").out == code(4)
    assert "What to answer" in command("show", "v3", "--prompt").out
    assert "+        self.width = 4" in command("show", "v3", "--diff").out
    assert command("show", "v3", "--json").json["written"]["kind"] in {"blocks", "whole", "cross"}
    assert command("show", "v1", "--prompt").code == 2
    command("export", "v3", "out")
    origin = json.loads((folder / "out" / "manifest.json").read_bytes())["written"]
    assert (origin["position"], origin["cost_usd"]) == (3, None)
    assert command("doctor").out.count("all whole") == 1


def test_the_report_names_versions_of_a_model_that_faulted_in_the_sandbox_or_did_nothing_new(
    evolve: Callable[..., Ended],
) -> None:
    wrong = code(3).replace("return [node_id", "return [9_999] if view.round == 2 else [node_id")
    server = Server([code(8), wrong, code(9)])
    with serving(server) as url:
        told = evolve(url, "--proposer", "model", "--versions", 4)

    assert told.code == 0, told.err
    assert "unknown_node" in server.bodies[2]
    assert "faulted in the sandbox: v3 bad-answer" in told.out
    assert "behaved on every development tree as an earlier version: v4 as v2" in told.out


def test_no_key_and_no_held_out_tree_is_sent_stored_or_shown(
    evolve: Callable[..., Ended], command: Callable[..., Ended], folder: Path
) -> None:
    server = Server([code(3), f"The key is {KEY}.", code(4)])
    with serving(server) as url:
        ended = evolve(url, "--proposer", "model", "--versions", 4)

    names = held_out_names(folder)
    sent = "\n".join(server.bodies)
    told = ended.out + ended.err + command("history").out + command("show", "v3", "--json").out
    assert server.keys == {f"Bearer {KEY}"}
    assert ended.code == 3
    assert names
    assert not any(name in sent for name in names)
    assert KEY not in sent + told
    assert not any(KEY.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_a_run_whose_model_went_away_is_taken_up_and_made_again_from_the_store(
    evolve: Callable[..., Ended], command: Callable[..., Ended], searches: Path, base: Path
) -> None:
    server = Server([code(3), code(4)])
    with serving(server) as url:
        stopped = evolve(url, "--proposer", "model", "--versions", 4)
        server.texts.append(code(5))
        resumed = command("evolve", "--resume", "--json")

    assert (stopped.code, resumed.code) == (3, 0), resumed.err
    assert "harness evolve --resume 1" in stopped.err
    assert len(server.bodies) == 4  # the third was refused, and is the one that is asked again
    start = ("--trees", searches, "--incumbent", base, "--sandbox", "local", "--versions", 4)
    again = command("evolve", *start, "--model", "replay:1", "--proposer", "model", "--json")
    assert again.code == 0, again.err
    values = [[(line["digest"], line["value"]) for line in ended.json["versions"]] for ended in (resumed, again)]
    assert values[0] == values[1]
    more = command("evolve", *start[:-1], 5, "--model", "replay:1", "--proposer", "model")
    assert more.code == 3
    assert "no stored answer" in more.err


def test_a_budget_ends_the_models_share_and_the_report_says_so(evolve: Callable[..., Ended]) -> None:
    server = Server([code(3)] * 20)
    with serving(server) as url:
        ended = evolve(url, "--versions", 14, "--budget-calls", 1)

    assert ended.code == 0, ended.err
    assert len(server.bodies) == 1
    assert "models: " in ended.out
    assert "the budget ended the models' share" in ended.out


def test_a_run_that_ends_before_its_versions_says_so_and_why(evolve: Callable[..., Ended]) -> None:
    said = json.dumps({"error": {"message": "too long", "code": "context_length_exceeded"}}).encode()
    with serving(answering(said, 400)) as url:
        ended = evolve(url, "--proposer", "model", "--versions", 3)

    assert ended.code == 1, ended.err
    assert "run 1: 1 version of 3 in " in ended.out
    assert "8 without an answer (context-overflow 8)" in ended.out
    assert "the models wrote no more: nothing came of what they were asked for version 2" in ended.out


def test_several_models_are_asked_by_what_is_expected_of_them(command: Callable[..., Ended], searches: Path, base: Path) -> None:
    server = Server([code(width, rounds) for width in range(3, 9) for rounds in (2, 3, 4)])
    with serving(server) as url:
        names = [f"openai-compatible:{name}@{url}#PLANTED_KEY" for name in ("one", "two")]
        start = ("--trees", searches, "--incumbent", base, "--sandbox", "local", "--proposer", "model", "--edits", "whole")
        weights = ("--model-weight", f"{names[0]}=9", f"{names[1]}=1")
        ended = command("evolve", *start, "--versions", 13, "--model", *names, *weights, "--json")

    assert ended.code == 0, ended.err
    asked = ended.json["models"]["by_model"]
    assert asked[f"openai-compatible:one@{url}"] > asked.get(f"openai-compatible:two@{url}", 0)


def test_a_run_that_began_without_models_goes_on_without_them(
    command: Callable[..., Ended], searches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = command("evolve", "--trees", searches, "--sandbox", "local", "--versions", 3, "--json")
    with Store.open(STORE) as store:
        run = store.begin_run(store.run(1).plan)
    monkeypatch.setenv("HARNESS_MODEL", "openai-compatible:m@http://127.0.0.1:9/v1")

    resumed = command("evolve", "--resume", str(run.number), "--json")

    assert resumed.code == 0, resumed.err
    assert "models" not in resumed.json
    assert [line["digest"] for line in resumed.json["versions"]] == [line["digest"] for line in plain.json["versions"]]


def test_what_cannot_begin_leaves_everything_as_it_was(
    evolve: Callable[..., Ended], command: Callable[..., Ended], folder: Path, searches: Path
) -> None:
    refused = {
        "no model is named": command("evolve", "--trees", searches, "--proposer", "model"),
        "price of openai-compatible:m@http://127.0.0.1:9/v1 is unknown": evolve("http://127.0.0.1:9/v1", "--budget-usd", "1"),
        "edits names 'poem'": command(
            "evolve", "--trees", searches, "--model", "openai-compatible:m@http://127.0.0.1:9", "--edits", "poem"
        ),
        "no weight": evolve("http://127.0.0.1:9/v1", "--model-weight", "openai:x=none"),
        "there is no store yet": command("evolve", "--trees", searches, "--model", "replay:1"),
    }

    assert {said: said in ended.err for said, ended in refused.items()} == dict.fromkeys(refused, True)
    assert {ended.code for ended in refused.values()} == {2}
    assert not (folder / ".harness").exists()


def test_models_need_a_real_sandbox_unless_the_local_one_is_asked_for(folder: Path, searches: Path) -> None:
    variables = {"DOCKER_HOST": "unix:///nowhere.sock", "PLANTED_KEY": KEY}
    model = ("--model", "openai-compatible:m@http://127.0.0.1:9/v1")

    ended = process("evolve", "--trees", searches, *model, cwd=folder, variables=variables)

    assert ended.code == 3
    assert "--sandbox local" in ended.err
    assert not (folder / ".harness").exists()


def test_nothing_of_the_model_path_is_loaded_without_a_model(folder: Path, searches: Path) -> None:
    probe = (
        "import sys; from harness.cli.app import run; "
        f"code = run(['evolve', '--trees', {str(searches)!r}, '--sandbox', 'local', '--versions', '2']); "
        "loaded = [name for name in sys.modules if name.startswith(('pydantic_ai', 'openai', 'anthropic', 'genai_prices', "
        "'harness.propose.model', 'harness.propose.mix', 'harness.propose.prompts', 'harness.models.client'))]; "
        "sys.exit(f'{code} {loaded}' if code or loaded else 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_the_split_of_the_test_holds_some_trees_out(searches: Path) -> None:
    read = [treefile.read(file) for file in treefile.find([searches])]
    assert all(split_trees({on.digest: on.luck for on in read}, 0.25).values())

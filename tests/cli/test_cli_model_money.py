"""Caps hold whatever fails, dies or is taken up again; and nothing is said to be free that nobody knows the cost of."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from asking import answering, completion, serving
from builders import broom
from commands import environment

from harness import treefile
from harness.models.tries import Charge
from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended

    Reply = Callable[[Any], None]

STORE = "sqlite:///.harness/harness.db"
CODE = """class Policy:
    def __init__(self, context):
        self.width = 2

    def decide(self, view):
        if view.round > 3:
            return []
        return [node_id for node_id in view.selectable if not view.nodes[node_id].closed][: self.width]
"""
USAGE = (100, 10)


def code(width: int) -> bytes:
    """Return an answer with a policy of this width."""
    source = CODE.replace("width = 2", f"width = {width}")
    return completion(f"<rationale>a batch of {width}</rationale>\n```python\n{source}```\n", usage=USAGE)


def failing(status: int, **headers: str) -> Reply:
    """Return a reply that turns a request down."""
    return answering(json.dumps({"error": {"message": "not now"}}).encode(), status, **headers)


def cut_off(handler: Any) -> None:
    """Break the connection in the middle of an answer."""
    handler.send_response(200)
    handler.send_header("content-length", "5000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


class Server:
    """Replies as told, one for each request, the last one to all that follow; `asked` counts requests."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked = 0

    def __call__(self, handler: Any) -> None:
        """Reply to one request."""
        self.asked += 1
        (self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])(handler)


@pytest.fixture
def start(folder: Path) -> list[object]:
    """Return the flags of a run over a few trees in the local sandbox."""
    inside = folder / "searches"
    inside.mkdir()
    for seed in range(4):
        treefile.write(broom(seed, chains=3, depth=4), inside / f"{seed}.jsonl")
    (folder / "base.py").write_text(CODE)
    return ["--trees", inside, "--incumbent", folder / "base.py", "--sandbox", "local", "--holdout", "0", "--edits", "whole"]


@pytest.fixture
def evolve(command: Callable[..., Ended], start: list[object]) -> Callable[..., Ended]:
    """Return a function that begins a run with a model."""
    return lambda url, *args: command("evolve", *start, "--model", f"openai-compatible:m@{url}", *args)


def charged() -> Charge:
    """Return what the tries of the first run count as."""
    with Store.open(STORE) as store:
        return sum((one.charge for one in store.tries(store.run(1))), Charge())


def killed_in_mid_call(folder: Path, *args: object, reached: threading.Event) -> None:
    """Run a command until the server holds its request, and kill it there."""
    arguments = [sys.executable, "-m", "harness", *map(str, args)]
    with subprocess.Popen(
        arguments, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert reached.wait(60)
        finally:
            os.kill(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("cap", ["calls", "tokens", "usd"])
def test_a_call_that_was_under_way_at_a_kill_counts_as_what_it_may_have_cost(
    command: Callable[..., Ended], folder: Path, start: list[object], cap: str
) -> None:
    """Room for two calls: one answered, one cut down by `kill -9`. Whoever takes the run up asks nothing more."""
    reached, go = threading.Event(), threading.Event()

    def held(handler: Any) -> None:
        reached.set()
        go.wait(60)
        handler.close_connection = True

    server = Server(answering(code(3)), held, answering(code(4)))
    with serving(server) as url:
        name = f"openai-compatible:m@{url}"
        small = ("--prompt-chars", 12_000, "--max-output-tokens", 500, "--model-price", f"{name}=1/1")
        # A prompt of some 12,000 characters and its answer are at most 13,000 tokens, of which the one that is answered uses 110.
        room = {"calls": ("--budget-calls", 2), "tokens": ("--budget-tokens", 18_000), "usd": ("--budget-usd", 0.018)}[cap]
        asks = ("--model", name, "--proposer", "model", "--versions", 6, *small, *room)
        killed_in_mid_call(folder, "evolve", *start, *asks, reached=reached)
        before = server.asked
        with Store.open(STORE) as store:
            tries = store.tries(store.run(1))
        go.set()
        resumed = command("evolve", "--resume", "--json")

    assert resumed.code == 0, resumed.err
    assert [one.paid is None for one in tries] == [False, True]
    assert (before, server.asked) == (2, 2)
    total = charged()
    assert total.usd is not None
    assert {"calls": total.calls, "tokens": total.tokens, "usd": total.usd}[cap] <= float(room[1])
    assert (resumed.json["ended"], len(resumed.json["versions"])) == ("budget", 2)
    assert resumed.json["models"]["cost_usd"] is None
    assert resumed.json["models"]["cost_usd_at_least"] == pytest.approx(110e-6)
    assert resumed.json["models"]["tries_of_unknown_cost"] == 1


def test_failed_tries_count_whoever_takes_the_run_up(evolve: Callable[..., Ended], command: Callable[..., Ended]) -> None:
    """Of seven calls five fail with 500 and stop the run; two are left, and not seven."""
    server = Server(*[failing(500)] * 5, answering(code(3)), answering(code(4)))
    with serving(server) as url:
        stopped = evolve(url, "--proposer", "model", "--versions", 9, "--budget-calls", 7)
        resumed = command("evolve", "--resume", "--json")

    assert (stopped.code, resumed.code) == (3, 0), resumed.err
    assert server.asked == 7
    assert charged().calls == 7
    assert (resumed.json["ended"], len(resumed.json["versions"])) == ("budget", 3)
    assert resumed.json["models"]["tries"] == 7


@pytest.mark.parametrize("trouble", ["broken", "late", "unreadable"])
def test_what_may_have_been_paid_for_is_never_told_as_no_cost(
    evolve: Callable[..., Ended], command: Callable[..., Ended], trouble: str
) -> None:
    free = threading.Event()
    reply: dict[str, Reply] = {
        "broken": cut_off, "late": lambda handler: bool(free.wait(5)) and cut_off(handler), "unreadable": answering(b"<html>"),
    }  # fmt: skip
    server = Server(reply[trouble], answering(code(3)))
    with serving(server) as url:
        price = ("--model-price", f"openai-compatible:m@{url}=1/1")
        limits = ("--versions", 2, "--model-timeout-s", 1, "--proposer", "model")
        ended = evolve(url, *limits, *price)
        free.set()
        shown = command("show", "v2")
        document = command("show", "v2", "--json").json["written"]["in_all"]

    assert ended.code == 0, ended.err
    assert "at least 0.000110 USD, 1 of 2 tries of unknown cost" in ended.out
    assert "at least 100 tokens in, at least 10 out" in ended.out
    assert "at least 0.000110 USD" in shown.out
    assert (document["cost_usd"], document["tries_of_unknown_cost"]) == (None, 1)


def test_a_run_whose_every_call_broke_has_an_unknown_cost(evolve: Callable[..., Ended]) -> None:
    with serving(Server(cut_off)) as url:
        ended = evolve(url, "--versions", 6, "--budget-calls", 2)
        told = evolve(url, "--versions", 6, "--budget-calls", 2, "--json").json["models"]

    assert ended.code == 0, ended.err
    assert "unknown tokens, cost unknown" in ended.out
    assert "no cost" not in ended.out
    assert (told["cost_usd"], told["input_tokens"], told["cost_usd_at_least"]) == (None, None, 0)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "the provider answered 401"),
        (402, "the provider answered 402"),
        pytest.param(500, "the provider answered 500", marks=pytest.mark.slow),
    ],
)
def test_a_provider_that_fails_for_good_is_put_aside_and_templates_go_on(
    evolve: Callable[..., Ended], status: int, said: str
) -> None:
    server = Server(failing(status))
    with serving(server) as url:
        ended = evolve(url, "--versions", 7, "--json")
        asked = server.asked

    assert ended.code == 0, ended.err
    assert len(ended.json["versions"]) == 7
    assert asked == (5 if status == 500 else 1)
    put = ended.json["models"]["put_aside"]
    assert put["because"] == "provider"
    assert said in put["reason"]
    told = [line for line in ended.err.splitlines() if "the models were put aside" in line]
    assert len(told) == 1
    assert said in told[0]
    assert "templates go on" in told[0]
    assert ended.json["ended"] == "versions"


def test_a_provider_that_fails_is_an_error_where_nobody_else_writes(evolve: Callable[..., Ended]) -> None:
    with serving(Server(failing(401))) as url:
        ended = evolve(url, "--proposer", "model", "--versions", 3)

    assert ended.code == 3
    assert "--resume 1" in ended.err


def test_a_run_with_models_put_aside_is_made_again_from_the_store(
    evolve: Callable[..., Ended], start: list[object], command: Callable[..., Ended]
) -> None:
    with serving(Server(answering(code(3)), failing(401))) as url:
        ended = evolve(url, "--versions", 8, "--json")
    again = command("evolve", *start, "--model", "replay:1", "--versions", 8, "--json")

    assert again.code == 0, again.err
    digests = [[line["digest"] for line in of.json["versions"]] for of in (ended, again)]
    assert digests[0] == digests[1]
    assert again.json["models"]["put_aside"] == ended.json["models"]["put_aside"]


def test_a_budget_that_was_spent_on_failures_ends_a_run_made_again_at_the_same_place(
    evolve: Callable[..., Ended], start: list[object], command: Callable[..., Ended]
) -> None:
    """The store has one exchange where five tries went: a replay that counted by itself would ask for more."""
    with serving(Server(failing(500), failing(500), answering(code(3)), answering(code(4)))) as url:
        ended = evolve(url, "--proposer", "model", "--versions", 9, "--budget-calls", 3, "--json")
    again = command("evolve", *start, "--model", "replay:1", "--proposer", "model", "--versions", 9, "--json")

    assert (ended.code, again.code) == (0, 0), again.err
    assert [(of.json["ended"], len(of.json["versions"])) for of in (ended, again)] == [("budget", 2)] * 2


def test_how_a_run_ended_is_a_word_for_programs_and_a_line_for_people(evolve: Callable[..., Ended]) -> None:
    with serving(Server(answering(code(3)), answering(completion("no idea", usage=USAGE)))) as url:
        model = ("--proposer", "model", "--versions", 5)
        whole = evolve(url, "--proposer", "model", "--versions", 2, "--json")
        unusable = evolve(url, *model)
        spent = evolve(url, *model, "--budget-calls", 0)

    assert (whole.code, whole.json["ended"], whole.json["ended_because"]) == (0, "versions", None)
    assert unusable.code == 1
    assert "the run ended after 1 of 5 versions: the models wrote no more" in unusable.out
    assert spent.code == 1
    assert "the run ended after 1 of 5 versions: the next call could pass the budget of 0 calls" in spent.out


def test_history_lists_answers_that_became_no_version(evolve: Callable[..., Ended], command: Callable[..., Ended]) -> None:
    with serving(Server(answering(completion("no idea", usage=USAGE)), answering(code(3)))) as url:
        evolve(url, "--proposer", "model", "--versions", 2)

    lines = command("history").out.splitlines()
    (fault,) = [line for line in lines if "proposal_fault" in line]
    assert "no-edit" in fault
    assert lines.index(fault) < next(place for place, line in enumerate(lines) if "v2" in line)
    (told,) = command("history", "--kind", "proposal-fault", "--json").json["proposal_faults"]
    assert (told["run"], told["position"], told["number"], told["reason"]) == (1, 2, 1, "no-edit")
    assert command("history", "--kind", "selected", "--json").json["proposal_faults"] == []
    assert command("history", "--version", "v2", "--json").json["proposal_faults"] == []
    assert "proposal_fault" not in command("history", "--limit", 1).out
    assert command("history", "--limit", 99).out == command("history").out


def test_a_provider_that_asks_for_an_hour_is_told_with_its_hour(evolve: Callable[..., Ended]) -> None:
    with serving(Server(failing(429, retry_after="3600"))) as url:
        ended = evolve(url, "--proposer", "model", "--versions", 3)

    assert ended.code == 3
    assert "it asks to wait for 1 h" in ended.err

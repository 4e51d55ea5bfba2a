"""Asking a model over the network: what is sent, what comes back, and whose fault it is when nothing does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from asking import answering, asked, completion, error_of, serving
from structlog.testing import capture_logs

from harness.models import naming
from harness.models.base import ContextOverflow, Finish, Message, ModelTimeout, Role, Usage
from harness.models.client import Client
from harness.models.prices import Price
from harness.models.retried import Retried

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from llmock.pytest_plugin import LLMock

PROJECT = Path(__file__).parents[2]


def client(url: str, price: Price | None = None) -> Client:
    """Return a client of whatever answers there."""
    return Client(naming.parse(f"openai-compatible:m@{url}"), price)


def test_everything_that_the_request_says_is_sent(llmock: LLMock) -> None:
    request = asked(temperature=0.7, seed=9, max_output_tokens=33)
    request = replace(request, messages=(Message(Role.SYSTEM, "Be brief."), *request.messages, Message(Role.ASSISTANT, "so")))

    client(llmock.base_url()).complete(request)

    sent = llmock.requests[-1].body
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say yes."},
        {"role": "assistant", "content": "so"},
    ]
    assert (sent["model"], sent["temperature"], sent["seed"], sent["max_tokens"]) == ("m", 0.7, 9, 33)
    assert not sent["stream"]


def test_hosted_models_speak_their_own_protocol_and_have_a_price(llmock: LLMock) -> None:
    costs = []
    for name in ("openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"):
        model = Client(naming.parse(name))
        costs.append(model.complete(asked(model=name)).cost_usd)

    assert [record.path for record in llmock.requests] == ["/v1/chat/completions", "/anthropic/v1/messages"]
    assert all(cost is not None and 0 < cost < 0.01 for cost in costs)


def test_a_price_that_nobody_knows_is_unknown_and_not_nothing() -> None:
    with serving(answering(completion("yes", usage=(200, 100)))) as url:
        assert client(url).complete(asked()).cost_usd is None
        assert client(url, Price(1.0, 10.0)).complete(asked()).cost_usd == pytest.approx(0.0012)
        assert client(url, Price(0.0, 0.0)).complete(asked()).cost_usd == 0.0


def test_a_server_that_counts_no_tokens_leaves_usage_and_cost_unknown() -> None:
    with serving(answering(completion("yes", usage=None))) as url:
        answer = client(url, Price(1.0, 1.0)).complete(asked())

    assert (answer.usage, answer.cost_usd) == (Usage(None, None), None)


@pytest.mark.parametrize(
    ("body", "text", "finish"),
    [
        (completion("yes"), "yes", Finish.STOP),
        (completion("def f(", finish="length"), "def f(", Finish.LENGTH),
        (completion("", finish="content_filter"), "", Finish.REFUSED),
        (completion(None), "", Finish.STOP),
        (completion("half", finish="abort"), "half", Finish.OTHER),
        (
            completion(
                None,
                finish="tool_calls",
                tool_calls=[{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{"}}],
            ),
            "",
            Finish.OTHER,
        ),
        (completion("a\r\n\tb\u2028🌳"), "a\r\n\tb\u2028🌳", Finish.STOP),
    ],
    ids=["whole", "cut at its limit", "refused", "nothing", "some other end", "a call of a tool", "odd characters"],
)
def test_an_answer_says_why_it_ends(body: bytes, text: str, finish: Finish) -> None:
    with serving(answering(body)) as url:
        answer = client(url).complete(asked())

    assert (answer.text, answer.finish) == (text, finish)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"<html>busy</html>", b'{"choices": []}', b"null"])
def test_what_is_no_answer_at_all_is_an_error(body: bytes) -> None:
    with serving(answering(body)) as url:
        error = error_of(client(url), asked())

    assert str(error).startswith(f"openai-compatible:m@{url}: ")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_request_that_is_turned_down_is_not_sent_again(status: int, llmock: LLMock) -> None:
    llmock.fail(status, times=None, message="no such thing")

    error = error_of(Retried(client(llmock.base_url()), sleep=lambda _: None), asked())

    assert not error.again
    assert f"{status}: no such thing" in str(error)
    assert len(llmock.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_a_provider_that_is_busy_is_asked_again(status: int, llmock: LLMock) -> None:
    llmock.reply("at last").fail(status, times=2, retry_after=0.2)

    with capture_logs() as logged:
        answer = Retried(client(llmock.base_url()), first_wait_s=0.05).complete(asked())

    (told, *_) = logged
    assert (told["event"], told["log_level"]) == ("model.held_off", "warning")
    assert str(status) in told["reason"]
    assert told["wait_s"] >= 0.0

    assert answer.text
    assert answer.latency_s > 0.4
    assert len(llmock.requests) == 3
    llmock.assert_resilient()


def test_nobody_is_asked_who_wants_to_be_left_alone_for_an_hour(llmock: LLMock) -> None:
    llmock.rate_limit(times=None, retry_after=3600)
    waited: list[float] = []

    error = error_of(Retried(client(llmock.base_url()), sleep=waited.append), asked())

    assert error.wait_s == 3600
    assert waited == []


def test_a_connection_that_breaks_is_tried_again_and_may_have_cost_something() -> None:
    tried = []

    def reply(handler: Any) -> None:
        tried.append(handler.path)
        if len(tried) > 1:
            answering(completion("whole"))(handler)
            return
        handler.send_response(200)
        handler.send_header("content-length", "5000")
        handler.end_headers()
        handler.wfile.write(b'{"choices": [')
        handler.close_connection = True

    with serving(reply) as url:
        error = error_of(client(url), asked())
        answer = Retried(client(url), sleep=lambda _: None).complete(asked())

    assert (error.again, error.billed) == (True, True)
    assert answer.text == "whole"


def test_an_address_where_nobody_answers_says_so() -> None:
    with serving(answering(b"")) as url:
        pass

    error = error_of(client(url), asked())

    assert (error.again, error.billed) == (True, False)
    assert f"is a server running at {url}?" in str(error)


def test_a_slow_model_is_not_waited_for_nor_asked_again(llmock: LLMock) -> None:
    """It may have been paid for already."""
    llmock.delay(30, times=None)
    began = time.monotonic()

    error = error_of(Retried(client(llmock.base_url())), asked(timeout_s=0.4))

    assert isinstance(error, ModelTimeout)
    assert error.billed
    assert "no answer in 0.4 s" in str(error)
    assert time.monotonic() - began < 20


def test_a_server_that_drips_is_timed_out_as_a_whole() -> None:
    def drip(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        for _ in range(40):
            try:
                handler.wfile.write(b" ")
                handler.wfile.flush()
            except OSError:
                return
            time.sleep(0.1)

    with serving(drip) as url:
        assert isinstance(error_of(client(url), asked(timeout_s=0.5)), ModelTimeout)


def test_a_missing_key_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("MY_KEY", raising=False)

    assert "OPENAI_API_KEY" in str(error_of(Client(naming.parse("openai:gpt-5-mini")), asked()))
    assert "MY_KEY" in str(error_of(Client(naming.parse("openai-compatible:m@http://127.0.0.1:9/v1#MY_KEY")), asked()))


def test_a_provider_whose_client_is_not_installed_names_what_to_install() -> None:
    assert "pydantic-ai-slim[groq]" in str(error_of(Client(naming.parse("groq:llama")), asked()))


def test_ctrl_c_ends_a_call_that_is_under_way() -> None:
    """In a process of its own: the signal is for the whole program."""
    began, ended = threading.Event(), threading.Event()

    def hang(handler: Any) -> None:
        began.set()
        ended.wait(60)

    program = (
        "import sys; from asking import asked; from harness.models import client, naming, retried\n"
        "model = retried.Retried(client.Client(naming.parse(sys.argv[1])))\n"
        "try: model.complete(asked(timeout_s=60.0))\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    with serving(hang) as url:
        command = [sys.executable, "-c", program, f"openai-compatible:m@{url}"]
        path = os.pathsep.join((str(PROJECT), str(PROJECT / "tests")))
        with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True) as process:
            while not began.wait(0.05) and process.poll() is None:
                pass
            process.send_signal(signal.SIGINT)
            told, _ = process.communicate(timeout=30)
        ended.set()

    assert told == "interrupted\n"


@pytest.mark.slow
def test_a_language_model_counts_its_tokens_and_stops_at_its_limit(llama: str) -> None:
    answer = client(llama).complete(asked("Tell me a long story.", max_output_tokens=8))

    assert answer.finish is Finish.LENGTH
    assert answer.usage.output_tokens == 8
    assert 8 < (answer.usage.input_tokens or 0) < 100
    assert answer.cost_usd is None


@pytest.mark.slow
def test_a_language_model_says_the_same_at_the_same_seed(llama: str) -> None:
    request = asked("Name a tree.", temperature=0.9, seed=7)

    assert client(llama).complete(request).text == client(llama).complete(request).text


@pytest.mark.slow
def test_a_language_model_that_is_too_slow_is_timed_out_and_free_again(llama: str) -> None:
    error = error_of(client(llama), asked("Count to a thousand.", max_output_tokens=900, timeout_s=0.5))

    assert isinstance(error, ModelTimeout)
    assert client(llama).complete(asked()).text


@pytest.mark.slow
def test_a_prompt_beyond_a_language_models_context_is_refused_by_its_server(llama: str) -> None:
    assert isinstance(error_of(client(llama), asked("word " * 3000)), ContextOverflow)


@pytest.mark.slow
def test_a_server_that_is_killed_in_mid_answer_ends_in_an_error_that_can_be_resumed(
    llama_of_its_own: Callable[[], AbstractContextManager[tuple[str, subprocess.Popen[str]]]],
) -> None:
    with llama_of_its_own() as (url, process):
        model = client(url)
        assert model.complete(asked()).text
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {process.pid}"])

        error = error_of(Retried(model, tries=2, sleep=lambda _: None), asked("Count.", max_output_tokens=900, seed=2))
        killer.wait()

    assert error.again
    assert not isinstance(error, ModelTimeout)


def test_the_body_of_a_provider_that_sends_no_json_is_cut() -> None:
    with serving(answering(b"x" * 100_000, 500)) as url:
        assert len(str(error_of(client(url), asked()))) < 1000


@pytest.mark.parametrize(
    "body", [b"", b'{"choices": [', b"[]", b"null", json.dumps(json.loads(completion("yes")) | {"choices": []}).encode()]
)
def test_an_answer_that_cannot_be_read_is_asked_for_again_and_may_have_cost_something(body: bytes) -> None:
    with serving(answering(body)) as url:
        error = error_of(client(url), asked())

    assert "what came back is no answer" in str(error)
    assert (error.again, error.billed) == (True, True)


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_not_read_to_its_end(packed: bool) -> None:
    sent = [0]

    def flood(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(10**12))
        if packed:
            handler.send_header("content-encoding", "gzip")
        handler.end_headers()
        for _ in range(1000):
            try:
                handler.wfile.write(b" " * 2**20)
            except OSError:
                return
            sent[0] += 1

    with serving(flood) as url:
        error = error_of(client(url), asked())

    assert not error.again
    assert error.billed
    assert ("packed" if packed else "longer than 16 MiB") in str(error)
    assert sent[0] < 100


def test_what_is_sent_is_json_that_others_read_too() -> None:
    got: list[dict[str, Any]] = []

    def keep(handler: Any) -> None:
        got.append(json.loads(handler.body))
        answering(completion("yes"))(handler)

    with serving(keep) as url:
        client(url).complete(asked("Grüße 🌳\r\n\ttab"))

    assert got[0]["messages"][0]["content"] == "Grüße 🌳\r\n\ttab"


def test_every_recorded_shape_of_answer_comes_over_the_network_to_its_last_character() -> None:
    """Fences, odd line ends, attacks, answers that forge a protocol: the client makes nothing of what a model says."""
    files = sorted((PROJECT / "tests" / "propose" / "answers").glob("*.answer"))
    texts = [file.read_bytes().partition(b"\n%%%\n")[2].decode() for file in files]
    texts += [
        "\0",
        "\x1b[2J",
        "\u202e",
        "x" * 2**20,
        '{"choices": []}',
        "data: [DONE]\n\n",
        "<think>\n",
        "</think>so",
        "<|im_end|>",
        " \n",
    ]

    def reply(handler: Any) -> None:
        number = int(json.loads(handler.body)["messages"][0]["content"])
        answering(completion(texts[number]))(handler)

    with serving(reply) as url:
        model = client(url)
        got = [model.complete(asked(str(number))).text for number in range(len(texts))]

    assert len(texts) > 60
    assert [number for number, text in enumerate(texts) if got[number] != text] == []

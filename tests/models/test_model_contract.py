"""What every model keeps, whether it is asked over the network, answers from a store, or stands before another one."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from asking import Scripted, answering, asked, completion, error_of, said, serving

from harness.models import naming
from harness.models.base import ContextOverflow, ErrorKind, Exchange, Finish
from harness.models.budget import Budget, Budgeted
from harness.models.client import Client
from harness.models.replayed import Replayed
from harness.models.retried import Retried

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.models.base import Model, Request

AT = "2026-11-30T20:00:00Z"
TOO_LONG = "word " * 1500
"""More than the small model's server was started for."""


def script(request: Request) -> Scripted:
    """Return a model that answers the first request and finds the second too long."""
    return Scripted([said(), ContextOverflow("too long")], request.model)


def replayed(request: Request) -> Replayed:
    """Return the same from stored exchanges."""
    too_long = asked(TOO_LONG, request.model)
    stored = [Exchange(request, said(), None, AT), Exchange(too_long, None, "too long", AT, ErrorKind.OVERFLOW)]
    return Replayed(request.model, stored)


BEFORE_ANOTHER = {
    "replayed": replayed,
    "retried": lambda request: Retried(script(request)),
    "budgeted": lambda request: Budgeted(script(request), Budget(tokens=10**6), lambda _: None),
}


OVER_THE_NETWORK = ["client with a scripted server", "client with Anthropic's protocol", "client with a language model"]


@dataclass(frozen=True)
class Case:
    """A model, and what makes the next request too long for it, where its length alone does not."""

    model: Model
    overflow: Callable[[], object] = lambda: None


@pytest.fixture(params=[*OVER_THE_NETWORK, *BEFORE_ANOTHER])
def case(request: pytest.FixtureRequest) -> Case:
    """Return one model after the other, which answers one request and cannot read a second."""
    if request.param in BEFORE_ANOTHER:
        return Case(BEFORE_ANOTHER[request.param](asked()))
    if request.param == "client with a language model":
        return Case(Client(naming.parse(f"openai-compatible:smollm2@{request.getfixturevalue('llama')}")))
    llmock = request.getfixturevalue("llmock")
    name = "anthropic:claude-haiku-4-5" if "Anthropic" in request.param else f"openai-compatible:m@{llmock.url}/v1"
    return Case(Client(naming.parse(name)), llmock.context_overflow)


def test_an_answer_is_whole_and_says_what_it_took(case: Case) -> None:
    answer = case.model.complete(asked(model=case.model.name))

    assert answer.text
    assert answer.finish in {Finish.STOP, Finish.LENGTH}
    assert (answer.usage.input_tokens or 0) > 0
    assert (answer.usage.output_tokens or 0) > 0
    assert answer.latency_s > 0
    assert answer.model
    assert answer.cost_usd is None or answer.cost_usd > 0


def test_a_prompt_that_is_too_long_is_told_from_every_other_trouble(case: Case) -> None:
    """Its caller shortens it once."""
    case.model.complete(asked(model=case.model.name))
    case.overflow()

    error = error_of(case.model, asked(TOO_LONG, case.model.name))

    assert isinstance(error, ContextOverflow)
    assert not error.again


def test_several_threads_may_ask_at_once() -> None:
    def echo(handler: Any) -> None:
        prompt = json.loads(handler.body)["messages"][0]["content"]
        time.sleep(0.1)
        answering(completion(prompt))(handler)

    prompts = [f"number {n}" for n in range(6)]
    with serving(echo) as url, ThreadPoolExecutor(6) as threads:
        model = Client(naming.parse(f"openai-compatible:m@{url}"))
        answers = list(threads.map(model.complete, [asked(prompt, model.name) for prompt in prompts]))

    assert [answer.text for answer in answers] == prompts

"""The joint between whoever asks a language model and whatever answers.

A model is asked once and answers whole, or raises an error that says whose it is. It keeps no conversation: everything it may
know stands in the request. What a model says is a stranger's text, whatever it claims to be.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from harness.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Role(StrEnum):
    """Whose words a message holds."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of what a model is shown."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that is sent for one answer. `model` is the `name` of the model it is for."""

    messages: tuple[Message, ...]
    model: str
    temperature: float
    seed: int | None
    max_output_tokens: int
    timeout_s: float
    """Seconds until a try counts as failed."""

    @property
    def digest(self) -> str:
        """Return the key under which an answer is found again: SHA-256 in hex of everything that an answer depends on.

        The time-out is left out: a run that is replayed or resumed with more patience asks nothing anew.
        """
        fields = request_fields(self)
        del fields["timeout_s"]
        canonical = json.dumps(["request/1", fields], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; None where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None


class Finish(StrEnum):
    """Why an answer ends where it does. LENGTH was cut, by its own limit or on the way: it may lack its end."""

    STOP = "stop"
    LENGTH = "length"
    REFUSED = "refused"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model said, and what it cost."""

    text: str
    usage: Usage
    cost_usd: float | None
    """None is unknown, which is not nothing: 0.0 stands only where a price of zero is known."""
    finish: Finish
    latency_s: float
    """Seconds from the first try to the whole answer, waiting between tries included."""
    model: str
    """As the provider calls what answered; may be more exact than what was asked for."""


class ErrorKind(StrEnum):
    """What kept a model from answering."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    OVERFLOW = "context-overflow"


class ModelError(HarnessError):
    """A model gave no answer: provider out of reach, key refused, request turned down. Exit code 3; a run can be resumed.

    `again` says that the same request may be answered later, after `wait_s` where the provider named a time. `billed` says
    that the provider may have worked on it, and may charge for that.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.UNREACHABLE

    def __init__(self, message: str, *, again: bool = False, wait_s: float | None = None, billed: bool = False) -> None:
        super().__init__(message)
        self.again = again
        self.wait_s = wait_s
        self.billed = billed


class ModelTimeout(ModelError):  # noqa: N818 - a time-out is what everybody calls it
    """A model did not answer in time, however often it was asked."""

    kind = ErrorKind.TIMEOUT


class ContextOverflow(ModelError):  # noqa: N818 - the word for it, as above
    """The request is longer than the model can read; a shorter one may do."""

    kind = ErrorKind.OVERFLOW


_ERRORS = {error.kind: error for error in (ModelError, ModelTimeout, ContextOverflow)}


class Model(Protocol):
    """Answers requests. The same one may be asked from several threads at once."""

    @property
    def name(self) -> str:
        """Return what settings, stores and people call it, such as `openai:gpt-5-mini`."""

    def complete(self, request: Request) -> Answer:
        """Return the whole answer.

        Raises:
            ModelError: there is none, for a reason that the message names without a key in it.
            ModelTimeout: there was none in time.
            ContextOverflow: the request is too long for this model.
        """


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call as it is stored: the request, and the answer or the error. Exactly one of the two is there."""

    request: Request
    answer: Answer | None
    error: str | None
    at: str
    """When it ended: ISO 8601, UTC."""
    kind: ErrorKind | None = None
    """Of the error."""

    def outcome(self) -> Answer:
        """Return the answer once more.

        Raises:
            ModelError: that was the outcome; of the class that it was.
        """
        if self.answer is None:
            error = _ERRORS[self.kind or ErrorKind.UNREACHABLE]
            raise error(self.error or "no answer was recorded", billed=self.kind is ErrorKind.TIMEOUT)
        return self.answer


def request_fields(request: Request) -> dict[str, Any]:
    """Return a request as JSON has it."""
    return {
        "messages": [{"role": message.role.value, "text": message.text} for message in request.messages],
        "model": request.model,
        "temperature": float(request.temperature),
        "seed": request.seed,
        "max_output_tokens": request.max_output_tokens,
        "timeout_s": request.timeout_s,
    }


def answer_fields(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON has it."""
    return {
        "text": answer.text,
        "usage": {"input_tokens": answer.usage.input_tokens, "output_tokens": answer.usage.output_tokens},
        "cost_usd": answer.cost_usd,
        "finish": answer.finish.value,
        "latency_s": answer.latency_s,
        "model": answer.model,
    }


def exchange_fields(exchange: Exchange) -> dict[str, Any]:
    """Return an exchange as JSON has it."""
    return {
        "request": request_fields(exchange.request),
        "answer": None if exchange.answer is None else answer_fields(exchange.answer),
        "error": exchange.error,
        "kind": None if exchange.kind is None else exchange.kind.value,
        "at": exchange.at,
    }


def request_of(fields: Mapping[str, Any]) -> Request:
    """Build a request from its fields; the reverse of `request_fields`."""
    messages = tuple(Message(Role(message["role"]), message["text"]) for message in fields["messages"])
    return Request(**{**fields, "messages": messages})


def answer_of(fields: Mapping[str, Any]) -> Answer:
    """Build an answer from its fields; the reverse of `answer_fields`."""
    return Answer(**{**fields, "usage": Usage(**fields["usage"]), "finish": Finish(fields["finish"])})


def exchange_of(fields: Mapping[str, Any]) -> Exchange:
    """Build an exchange from its fields; the reverse of `exchange_fields`."""
    answer, kind = fields["answer"], fields["kind"]
    return Exchange(
        request=request_of(fields["request"]),
        answer=None if answer is None else answer_of(answer),
        error=fields["error"],
        at=fields["at"],
        kind=None if kind is None else ErrorKind(kind),
    )

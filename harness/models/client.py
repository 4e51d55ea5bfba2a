"""Asks a model over the network, once: through pydantic-ai, which knows the providers and their prices.

The client is an optional extra and is loaded by the first call. It neither retries (`retried` does, under the budget) nor
streams: an answer is whole, or says that it was cut. Keys are read from the environment by the client; whatever comes back
is searched for them before it is shown, stored or raised.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import time
from typing import TYPE_CHECKING, Any

from harness.models import naming
from harness.models.base import Answer, ContextOverflow, Finish, ModelError, ModelTimeout, Role, Usage
from harness.models.redaction import redacted

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as AskedModel

    from harness.models.base import Request
    from harness.models.naming import Named
    from harness.models.prices import Price

INSTALL = 'pip install "dream-harness[llm]"'
KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    naming.COMPATIBLE: "OPENAI_COMPATIBLE_API_KEY",
}
"""Where the key of a provider is looked for first; the client knows of others."""

_FINISHES = {"stop": Finish.STOP, "length": Finish.LENGTH, "content_filter": Finish.REFUSED}
_LONGEST_MESSAGE = 600
_OVERFLOWS = ("context_length_exceeded", "exceed_context_size", "maximum context length", "context window", "context size")


class Client:
    """A model of some provider. Every call has a connection and an event loop of its own, so that threads share nothing."""

    def __init__(self, named: Named, price: Price | None = None) -> None:
        self._named = named
        self._price = price

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._named.name

    def require(self) -> None:
        """Find out before a run what would keep every call of it from being made.

        Raises:
            ModelError: the client is not installed, or there is no key.
        """
        if importlib.util.find_spec("pydantic_ai") is None:
            raise ModelError(f"{self.name}: language models need a client that is not installed; {INSTALL}")
        variable = self._named.key_variable or KEY_VARIABLES.get(self._named.provider)
        optional = self._named.provider == naming.COMPATIBLE and self._named.key_variable is None
        if variable is not None and not optional and not os.environ.get(variable, "").strip():
            raise ModelError(f"{self.name}: no key; put it into the environment variable {variable}")

    def complete(self, request: Request) -> Answer:
        """Ask once and return the whole answer."""
        self.require()
        import pydantic_ai.direct  # noqa: F401, PLC0415 - takes a second, which is nobody's latency

        try:
            model = self._model()
            began = time.monotonic()
            response = asyncio.run(_asked(model, request))
        except Exception as error:  # noqa: BLE001 - the client's edge: whatever it raises is translated once, keys taken out
            # From None: the causes hold headers and bodies.
            raise self._translated(error, request) from None
        return self._answer(response, time.monotonic() - began)

    def _model(self) -> AskedModel:
        """Return a model of the client's, for one call."""
        from pydantic_ai.models import infer_model  # noqa: PLC0415 - as above

        if self._named.provider == naming.COMPATIBLE:
            return self._compatible()
        # Chat Completions takes a seed, and is what most servers speak; `openai-responses:` asks for the other one.
        provider = "openai-chat" if self._named.provider == "openai" else self._named.provider
        return infer_model(f"{provider}:{self._named.model}")

    def _compatible(self) -> AskedModel:
        from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 - as above
        from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

        key = os.environ.get(self._named.key_variable or KEY_VARIABLES[naming.COMPATIBLE], "").strip() or None
        provider = OpenAICompatibleProvider(
            naming.COMPATIBLE,
            base_url=self._named.url or "",
            api_key=key,
            # Every server knows `max_tokens`; the newer word for it is ignored by some, which then never stop.
            profile=OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False),
        )
        return OpenAIChatModel(self._named.model, provider=provider)

    def _answer(self, response: ModelResponse, latency_s: float) -> Answer:
        counted = response.usage
        measured = not counted.unmeasured_requests and (counted.input_tokens or counted.output_tokens)
        usage = Usage(counted.input_tokens, counted.output_tokens) if measured else Usage()
        return Answer(
            text=self._clean(response.text or ""),
            usage=usage,
            cost_usd=self._cost(response, usage),
            finish=_FINISHES.get(response.finish_reason or "", Finish.OTHER),
            latency_s=latency_s,
            model=self._clean(response.model_name or self._named.model),
        )

    def _cost(self, response: ModelResponse, usage: Usage) -> float | None:
        if self._price is not None:
            return self._price.of(usage)
        if usage.input_tokens is None or not response.model_name:
            return None
        try:
            return float(response.cost().total_price)
        except (LookupError, ValueError):
            return None

    def _clean(self, text: str) -> str:
        return redacted(text, also=() if self._named.key_variable is None else (self._named.key_variable,))

    def _translated(self, error: Exception, request: Request) -> ModelError:
        from pydantic_ai import exceptions as theirs  # noqa: PLC0415 - as above

        said = self._said(error)
        if isinstance(error, theirs.ModelContextWindowExceededError) or _is_overflow(error, said):
            return ContextOverflow(f"{self.name}: the prompt is longer than the model can read: {said}")
        unsent = isinstance(error, theirs.ModelConnectionError) and error.phase in {"pool", "connect"}
        timeouts = (theirs.ModelRequestTimeout, theirs.ModelTimeoutError)
        if isinstance(error, timeouts) and not unsent:
            return ModelTimeout(
                f"{self.name}: no answer in {request.timeout_s:g} s; give it more with model_timeout_s", billed=True
            )
        if isinstance(error, ImportError):
            return ModelError(f"{self.name}: the client for this provider is not installed: {said}")
        if isinstance(error, theirs.ModelAPIError):
            waiting_helps = (theirs.ModelRateLimitError, theirs.ModelUnavailableError, theirs.ModelServerError)
            again = isinstance(error, (*waiting_helps, theirs.ModelConnectionError)) and _may_retry(error)
            billed = isinstance(error, theirs.ModelConnectionError) and not unsent
            helps = _helps(error, self._named)
            return ModelError(f"{self.name}: {said}{helps}", again=again, wait_s=error.retry_after, billed=billed)
        if isinstance(error, theirs.UnexpectedModelBehavior):
            return ModelError(f"{self.name}: what came back is no answer: {said}", again=True, billed=True)
        return ModelError(f"{self.name}: {said}")

    def _said(self, error: Exception) -> str:
        """Return an error's words on one line, without keys, cut after that."""
        words = self._clean(" ".join(_words(error).split()))
        return words.rstrip(".") if len(words) <= _LONGEST_MESSAGE else words[: _LONGEST_MESSAGE - 1] + "…"


async def _asked(model: AskedModel, request: Request) -> ModelResponse:
    from pydantic_ai.direct import model_request  # noqa: PLC0415 - as in `complete`
    from pydantic_ai.settings import ModelSettings  # noqa: PLC0415

    settings = ModelSettings(
        max_tokens=request.max_output_tokens,
        temperature=request.temperature,
        timeout=request.timeout_s,
        request_timeout=request.timeout_s,
        max_retries=0,
    )
    if request.seed is not None:
        settings["seed"] = request.seed
    async with model:
        return await model_request(model, _messages(request), model_settings=settings, instrument=False)


def _messages(request: Request) -> list[ModelMessage]:
    from pydantic_ai import messages as theirs  # noqa: PLC0415 - as in `complete`

    turns: list[ModelMessage] = []
    for message in request.messages:
        if message.role is Role.ASSISTANT:
            turns.append(theirs.ModelResponse(parts=[theirs.TextPart(message.text)]))
        elif message.role is Role.SYSTEM:
            turns.append(theirs.ModelRequest(parts=[theirs.SystemPromptPart(message.text)]))
        else:
            turns.append(theirs.ModelRequest(parts=[theirs.UserPromptPart(message.text)]))
    return turns


def _words(error: Any) -> str:
    """Return what a provider says about an error, else what the client does."""
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    if status is None:
        return str(error) or type(error).__name__
    told = body.get("error", body) if isinstance(body, dict) else body
    message = told.get("message", told) if isinstance(told, dict) else told
    return f"the provider answered {status}: {message}" if message else f"the provider answered {status}"


def _is_overflow(error: Any, said: str) -> bool:
    """Tell an overflow that the client does not know as one: local servers have words of their own for it."""
    return getattr(error, "status_code", None) in {400, 413, 422, 500} and any(word in said.lower() for word in _OVERFLOWS)


def _may_retry(error: Any) -> bool:
    return getattr(error, "provider_retry_hint", None) is not False


def _helps(error: Exception, named: Named) -> str:
    from pydantic_ai import exceptions as theirs  # noqa: PLC0415 - as in `complete`

    if isinstance(error, theirs.ModelAuthenticationError):
        variable = named.key_variable or KEY_VARIABLES.get(named.provider)
        return "; look at the key" + (f" in {variable}" if variable is not None else "")
    if isinstance(error, theirs.ModelNotFoundError):
        return "; look at the model's name" + (" and its URL" if named.url is not None else "")
    if isinstance(error, theirs.ModelConnectionError) and named.url is not None:
        return f"; is a server running at {named.url}?"
    return ""

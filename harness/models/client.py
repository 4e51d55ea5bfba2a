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
from harness.models.base import Answer, Finish, ModelError, Role, Usage
from harness.models.redaction import redacted
from harness.models.translation import translated

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as AskedModel
    from pydantic_ai.providers import Provider

    from harness.models.base import Request
    from harness.models.naming import Named
    from harness.models.prices import Price

INSTALL = 'pip install "dream-harness[llm]"'
_NO_TAGS = ("\0 no such tag", "\0 nor its end")
_FINISHES = {"stop": Finish.STOP, "length": Finish.LENGTH, "content_filter": Finish.REFUSED}


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
        variable = self._named.key_is_in
        optional = self._named.provider == naming.COMPATIBLE and self._named.key_variable is None
        if variable is not None and not optional and not os.environ.get(variable, "").strip():
            raise ModelError(f"{self.name}: no key; put it into the environment variable {variable}")

    def complete(self, request: Request) -> Answer:
        """Ask once and return the whole answer."""
        self.require()
        from harness.models.bounded import bounded_client  # noqa: PLC0415 - takes a second, which is nobody's latency

        try:
            http = bounded_client()
            model = self._model(http)
            began = time.monotonic()
            response = asyncio.run(_asked(model, http, request))
        except Exception as error:  # noqa: BLE001 - the client's edge: whatever it raises is translated once, keys taken out
            # From None: the causes hold headers and bodies.
            raise translated(error, self._named, request, self._clean) from None
        return self._answer(response, time.monotonic() - began)

    def _model(self, http: AsyncClient) -> AskedModel:
        """Return a model of the client's, for one call."""
        from pydantic_ai.models import infer_model  # noqa: PLC0415 - as above
        from pydantic_ai.providers import infer_provider  # noqa: PLC0415

        if self._named.provider == naming.COMPATIBLE:
            return self._compatible(http)

        def provider_of(name: str) -> Provider[Any]:
            if name.startswith("openai"):
                from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

                return OpenAIProvider(http_client=http)
            if name == "anthropic":
                from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

                return AnthropicProvider(http_client=http)
            return infer_provider(name)

        # Chat Completions takes a seed, and is what most servers speak; `openai-responses:` asks for the other one.
        provider = "openai-chat" if self._named.provider == "openai" else self._named.provider
        return infer_model(f"{provider}:{self._named.model}", provider_of)

    def _compatible(self, http: AsyncClient) -> AskedModel:
        from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 - as above
        from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415

        key = os.environ.get(self._named.key_is_in or "", "").strip() or None
        provider = OpenAICompatibleProvider(
            naming.COMPATIBLE,
            base_url=self._named.url or "",
            api_key=key,
            http_client=http,
            # Every server knows `max_tokens`; the newer word for it is ignored by some, which then never stop. What a model
            # thinks aloud stays in its text: whoever reads that tells an answer from thoughts that were cut.
            profile=OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False, thinking_tags=_NO_TAGS),
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


async def _asked(model: AskedModel, http: AsyncClient, request: Request) -> ModelResponse:
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
    async with http, model:
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

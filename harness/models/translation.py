"""What goes wrong between us and a provider, as errors of ours: whose it is, whether waiting helps, what it may have cost."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from harness.models.base import ContextOverflow, ModelError, ModelTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai.exceptions import ModelAPIError

    from harness.models.base import Request
    from harness.models.naming import Named

_LONGEST_MESSAGE = 600
_LATE = {504, 524}
_SHAPELESS = (AttributeError, IndexError, TypeError)
"""What the client stumbles over in an answer that is JSON and no completion."""
_OVERFLOWS = ("context_length_exceeded", "exceed_context_size", "maximum context length", "context window", "context size")


def translated(error: Exception, named: Named, request: Request, clean: Callable[[str], str]) -> ModelError:
    """Return an error of theirs as one of ours; `clean` takes the keys out of what it says."""
    from pydantic_ai import exceptions as theirs  # noqa: PLC0415 - the client is loaded by the first call

    said, too_long = _said(error, clean), _too_long(error)
    if too_long is not None:
        return ModelError(f"{named.name}: {too_long}", billed=True)
    if isinstance(error, (theirs.UnexpectedModelBehavior, *_SHAPELESS)) or isinstance(error.__cause__, json.JSONDecodeError):
        return ModelError(f"{named.name}: what came back is no answer: {said}", again=True, billed=True)
    if isinstance(error, theirs.ModelAPIError):
        return _of_the_provider(error, said, named, request)
    if isinstance(error, ImportError):
        return ModelError(f"{named.name}: the client for this provider is not installed: {said}")
    return ModelError(f"{named.name}: {said}")


def _of_the_provider(error: ModelAPIError, said: str, named: Named, request: Request) -> ModelError:
    from pydantic_ai import exceptions as theirs  # noqa: PLC0415 - as above

    broken = isinstance(error, theirs.ModelConnectionError)
    sent = not (isinstance(error, theirs.ModelConnectionError) and error.phase in {"pool", "connect"})
    if isinstance(error, theirs.ModelContextWindowExceededError) or _is_overflow(error, said):
        return ContextOverflow(f"{named.name}: the prompt is longer than the model can read: {said}")
    if isinstance(error, (theirs.ModelRequestTimeout, theirs.ModelTimeoutError)) and sent:
        words = f"no answer in {request.timeout_s:g} s; give it more with model_timeout_s"
        return ModelTimeout(f"{named.name}: {words}", billed=True)
    waiting_helps = (theirs.ModelRateLimitError, theirs.ModelUnavailableError, theirs.ModelServerError)
    again = (broken or isinstance(error, waiting_helps)) and _may_retry(error)
    message = f"{named.name}: {said}{_asks_to_wait(error.retry_after)}{_helps(error, named)}"
    # A gateway that ran out of patience says nothing about the server behind it, which may have worked on.
    late = getattr(error, "status_code", None) in _LATE
    return ModelError(message, again=again, wait_s=error.retry_after, billed=(broken and sent) or late)


def _asks_to_wait(seconds: float | None) -> str:
    """Return how long a provider wants to be left alone, where it says so."""
    if not seconds or not math.isfinite(seconds) or seconds < 0:
        return ""
    for unit, noun in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"; it asks to wait for {seconds / unit:.3g} {noun}"
    return f"; it asks to wait for {seconds:.3g} s"


def _said(error: Exception, clean: Callable[[str], str]) -> str:
    """Return an error's words on one line, without keys, cut after that."""
    words = " ".join(clean(_words(error)).split())
    return words.rstrip(".") if len(words) <= _LONGEST_MESSAGE else words[: _LONGEST_MESSAGE - 1] + "…"


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


def _too_long(error: BaseException | None) -> str | None:
    """Return why an answer was not read to its end, where that is why there is none."""
    from harness.models.bounded import TooLongError  # noqa: PLC0415 - as above

    while error is not None:
        if isinstance(error, TooLongError):
            return str(error)
        error = error.__cause__ or error.__context__
    return None


def _may_retry(error: Any) -> bool:
    return getattr(error, "provider_retry_hint", None) is not False


def _helps(error: Exception, named: Named) -> str:
    from pydantic_ai import exceptions as theirs  # noqa: PLC0415 - as above

    if isinstance(error, theirs.ModelAuthenticationError):
        variable = named.key_is_in
        return "; look at the key" + (f" in {variable}" if variable is not None else "")
    if isinstance(error, theirs.ModelNotFoundError):
        return "; look at the model's name" + (" and its URL" if named.url is not None else "")
    if isinstance(error, theirs.ModelConnectionError) and named.url is not None:
        return f"; is a server running at {named.url}?"
    return ""

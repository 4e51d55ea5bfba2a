"""What a model costs: what its operator says, else the client's price data. Unknown stays unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import InputError
from harness.models import naming
from harness.models.budget import most_input_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from harness.models.base import Request, Usage
    from harness.models.naming import Named

_MILLION = 10**6
_WISH = "expected NAME=INPUT/OUTPUT in USD for a million tokens each, such as openai:gpt-5-mini=0.25/2"


@dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens of each kind."""

    input_usd: float
    output_usd: float

    def of(self, usage: Usage) -> float | None:
        """Return what this usage costs; None where it was not counted."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return (usage.input_tokens * self.input_usd + usage.output_tokens * self.output_usd) / _MILLION


def parse(texts: Iterable[str]) -> dict[str, Price]:
    """Return prices by the name of the model.

    Raises:
        InputError: a text is no price.
    """
    prices = {}
    for text in texts:
        name, _, figures = text.rpartition("=")
        try:
            given, asked = (float(figure) for figure in figures.split("/"))
        except ValueError:
            raise InputError(f"model_price {text!r} is no price; {_WISH}") from None
        if not all(math.isfinite(figure) and figure >= 0 for figure in (given, asked)):
            raise InputError(f"model_price {text!r} is no price; {_WISH}")
        prices[naming.parse(name).name] = Price(given, asked)
    return prices


def most_usd(named: Named, prices: Mapping[str, Price]) -> Callable[[Request], float | None]:
    """Return a function that says what a request to this model costs at most; None where its price is unknown."""

    def most(request: Request) -> float | None:
        price = prices.get(named.name)
        given, asked = most_input_tokens(request), request.max_output_tokens
        if price is not None:
            return (given * price.input_usd + asked * price.output_usd) / _MILLION
        return _from_client(named, given, asked)

    return most


def known(named: Named, prices: Mapping[str, Price]) -> Price | None:
    """Return what short requests to this model cost; None where that is unknown."""
    if named.name in prices:
        return prices[named.name]
    given, asked = _from_client(named, 1000, 0), _from_client(named, 0, 1000)
    return None if given is None or asked is None else Price(given * 1000, asked * 1000)


def _from_client(named: Named, input_tokens: int, output_tokens: int) -> float | None:
    from genai_prices import Usage, calc_price  # noqa: PLC0415 - nothing of the client is loaded without a model

    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    try:
        if named.url is not None:
            price = calc_price(usage, named.model, provider_api_url=named.url)
        else:
            price = calc_price(usage, named.model, provider_id=named.provider)
    except LookupError:
        return None
    return float(price.total_price)

"""`harness models check`: ask each configured model for one word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cli.exits import Exit
from harness.cli.output import note, say, say_json, table
from harness.errors import InputError
from harness.models import naming, prices
from harness.models.base import Message, ModelError, Request, Role
from harness.models.client import Client
from harness.models.retried import Retried

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.config import Settings
    from harness.models.base import Answer
    from harness.models.prices import Price

_PROMPT = "Answer with the one word: ready"
_LONGEST_ANSWER = 64
_TRIES = 2


@dataclass(frozen=True, slots=True)
class Checked:
    """One model: its answer, or why there is none; its price where that is known."""

    name: str
    answer: Answer | None
    error: str | None
    price: Price | None


def check(settings: Settings, as_json: bool) -> int:
    """Ask every model; the exit code is 3 when one gives no answer.

    Raises:
        InputError: no model is configured, or a name or price is none.
    """
    if not settings.model:
        raise InputError("no model is configured; give --model NAME, or set model in a settings file or HARNESS_MODEL")
    given = prices.parse(settings.model_price or ())
    models = [naming.parse(name) for name in settings.model]
    stored = [named.name for named in models if named.provider == naming.REPLAY]
    if stored:
        raise InputError(f"model {stored[0]}: is answered from the store; there is nothing to ask it")
    checked = [_checked(named, given, settings) for named in models]
    if as_json:
        say_json({"reachable": all(c.answer is not None for c in checked), "models": [_fields(c) for c in checked]})
    else:
        head = ("model", "answered", "seconds", "tokens in", "out", "USD", "USD per million tokens")
        say(table(head, map(_row, checked), left=("model", "answered")))
        for error in filter(None, (c.error for c in checked)):
            note(error)
    return Exit.DONE if all(c.answer is not None for c in checked) else Exit.OUT_OF_REACH


def _checked(named: naming.Named, given: Mapping[str, Price], settings: Settings) -> Checked:
    client = Client(named, given.get(named.name))
    request = Request(
        messages=(Message(Role.USER, _PROMPT),),
        model=named.name,
        temperature=settings.temperature,
        seed=settings.seed,
        max_output_tokens=min(_LONGEST_ANSWER, settings.max_output_tokens),
        timeout_s=settings.model_timeout_s,
    )
    try:
        answer = Retried(client, _TRIES).complete(request)
    except ModelError as error:
        return Checked(named.name, None, str(error), None)
    return Checked(named.name, answer, None, prices.known(named, given))


def _fields(checked: Checked) -> dict[str, Any]:
    answer, price = checked.answer, checked.price
    return {
        "model": checked.name,
        "reachable": answer is not None,
        "error": checked.error,
        "answered_by": None if answer is None else answer.model,
        "finish": None if answer is None else answer.finish.value,
        "latency_s": None if answer is None else round(answer.latency_s, 3),
        "input_tokens": None if answer is None else answer.usage.input_tokens,
        "output_tokens": None if answer is None else answer.usage.output_tokens,
        "cost_usd": None if answer is None else answer.cost_usd,
        "usd_per_million": None if price is None else {"input": price.input_usd, "output": price.output_usd},
    }


def _row(checked: Checked) -> list[str]:
    answer, price = checked.answer, checked.price
    if answer is None:
        return [checked.name, "no", "-", "-", "-", "-", "-"]
    counts = [_known(count) for count in (answer.usage.input_tokens, answer.usage.output_tokens)]
    cost = _known(answer.cost_usd, ".6f")
    rate = "unknown" if price is None else f"{price.input_usd:g} in, {price.output_usd:g} out"
    return [checked.name, "yes", f"{answer.latency_s:.2f}", *counts, cost, rate]


def _known(figure: float | None, form: str = "") -> str:
    return "unknown" if figure is None else format(figure, form)

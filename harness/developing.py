"""Who writes the next versions of a run: templates, language models, or both, as its settings say.

Without a model this is the search over templates and nothing else; nothing of the model path is loaded then.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from harness import wiring
from harness.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.config import Settings
    from harness.models.base import Exchange, Model, Request
    from harness.models.journal import Asked, Call, Outcome, PutAside
    from harness.models.tries import Charge, Paid, Try
    from harness.propose.base import Proposer
    from harness.propose.edits import EditKind
    from harness.propose.model import ModelProposer
    from harness.store import Run, Store

SAMPLED = ("temperature", "max_output_tokens", "model_timeout_s", "prompt_chars", "model_weight", "edits")
"""Settings that a replayed run takes from the recorded one: the questions have to be the same."""
CAPPED = ("model_price", "budget_usd", "budget_tokens", "budget_calls")
OPTIONS = ("proposer", "model", *SAMPLED, *CAPPED)
"""Settings that a run with models keeps from its beginning to its end."""
_REPLAY = "replay:"


def asks_models(settings: Settings) -> bool:
    """Return whether models write versions, which makes every sandbox but a real one something to ask for."""
    return bool(settings.model) and settings.proposer != "templates"


def agreed(settings: Settings) -> Settings:
    """Return the settings that a run can begin with: all that models need is there, and a replay has those of its run.

    Raises:
        InputError: no model is named where one is needed, a name is none, or a cap cannot be kept.
        ModelError: a model cannot be asked.
    """
    if settings.proposer == "model" and not settings.model:
        raise InputError("proposer is model, and no model is named; give --model NAME, or set model or HARNESS_MODEL")
    if not asks_models(settings):
        return settings
    number = _replayed(settings.model or ())
    if number is not None:
        with wiring.open_store(settings) as store:
            recorded = store.run(number)
        if "model" not in recorded.plan.options:
            raise InputError(f"model {_REPLAY}{number}: run {number} asked no model; there is nothing to answer from")
        kept = {name: value for name, value in recorded.plan.options.items() if name in (*SAMPLED, *CAPPED)}
        return settings.model_copy(update=kept)
    _require(settings)
    return settings


def _require(settings: Settings) -> None:
    from harness.models import naming, prices  # noqa: PLC0415 - nothing of the model path is loaded without a model

    given = prices.parse(settings.model_price or ())
    _weights(settings)
    _kinds(settings)
    for name in settings.model or ():
        wiring.require_model(name)
        named = naming.parse(name)
        if settings.budget_usd is not None and prices.known(named, given) is None:
            raise InputError(
                f"budget_usd caps money, but the price of {named.name} is unknown; give it with model_price, or cap tokens or "
                "calls"
            )


def proposer(run: Run, settings: Settings, store: Store) -> Proposer:
    """Return who writes the versions of a run; what its models answered before is not asked again."""
    search = wiring.proposer(run.plan.seed)
    if not asks_models(settings):
        return search
    from harness.propose.mix import Mix  # noqa: PLC0415 - as above

    model = _by_models(run, settings, store)
    return model if settings.proposer == "model" else Mix(search, model, run.plan.seed)


def aside(proposer: Proposer) -> PutAside | None:
    """Return why the models of a run are asked no more, None while they are or where there are none."""
    from harness.propose.mix import Mix  # noqa: PLC0415 - as above
    from harness.propose.model import ModelProposer  # noqa: PLC0415

    return proposer.aside if isinstance(proposer, Mix | ModelProposer) else None


def _by_models(run: Run, settings: Settings, store: Store) -> ModelProposer:
    from harness.propose import templates  # noqa: PLC0415 - as above
    from harness.propose.model import Means, ModelProposer, Sampling  # noqa: PLC0415
    from harness.propose.prompts import DevelopmentTrees  # noqa: PLC0415

    journal = StoredJournal(store, run)
    models, ended = _models(run, settings, store)
    given = _weights(settings)
    sampling = Sampling(settings.temperature, settings.max_output_tokens, settings.model_timeout_s, settings.prompt_chars)
    means = Means(
        models,
        {model.name: given.get(model.name, 1.0) for model in models},
        tuple(templates.load()),
        DevelopmentTrees(run.plan.development, store.tree),
        journal,
        wiring.refusal,
        sampling,
        ended,
        _kinds(settings),
    )
    return ModelProposer(means, run.plan.seed)


class StoredJournal:
    """The calls of a run, kept in its store."""

    def __init__(self, store: Store, run: Run) -> None:
        self._store = store
        self._run = run
        self._aside: PutAside | None = None

    def calls(self) -> Sequence[Call]:
        """Return every call of the run, by position and number."""
        return self._store.calls(self._run)

    def exchanged(self, asked: Asked, number: int, exchange: Exchange) -> None:
        """Keep an exchange."""
        self._store.exchanged(self._run, asked, number, exchange)

    def ended(self, asked: Asked, number: int, outcome: Outcome) -> None:
        """Keep what came of an answer."""
        self._store.ended(self._run, asked, number, outcome)

    def aside(self) -> PutAside | None:
        """Return why models are asked no more."""
        if self._aside is None:
            self._aside = self._store.aside(self._run)
        return self._aside

    def put_aside(self, aside: PutAside) -> None:
        """Keep why models are asked no more."""
        self._store.put_aside(self._run, aside)


class StoredTries:
    """The tries of a run to reach models, kept in its store before they leave.

    `known` of them are counted in the budget. Whoever adds one that this process does not know of has taken the run on.
    """

    def __init__(self, store: Store, run: Run, known: int) -> None:
        self._store = store
        self._run = run
        self._known = known

    def reserved(self, request: Request, bound: Charge) -> int:
        """Keep what a try costs at most."""
        self._known = self._store.reserve(self._run, request, bound, self._known)
        return self._known

    def paid(self, number: int, paid: Paid) -> None:
        """Keep what a try did cost."""
        self._store.charge(self._run, number, paid)


class _Models(NamedTuple):
    """Who is asked; of a run that is made again, why the first one asked no more."""

    models: Sequence[Model]
    ended: PutAside | None


def _models(run: Run, settings: Settings, store: Store) -> _Models:
    """Return the models of a run, within what its tries have left of its budget."""
    from harness.models import naming, prices  # noqa: PLC0415 - as above
    from harness.models.budget import Budget, Budgeted  # noqa: PLC0415
    from harness.models.replayed import Replayed  # noqa: PLC0415

    number = _replayed(settings.model or ())
    recorded = None if number is None else _recorded(store, number)
    given = prices.parse(settings.model_price or ())

    def most(name: str) -> Callable[[Request], float | None]:
        # Without a cap on money nobody asks for prices, and a replay needs no client installed to know them.
        is_free = recorded is not None and settings.budget_usd is None
        return _unknown if is_free else prices.most_usd(naming.parse(name), given)

    names = list(settings.model or ()) if recorded is None else list(recorded.names)
    made = store.tries(run)
    spent = _spent(made, store.calls(run), {naming.parse(name).name: most(name) for name in names})
    budget = Budget(settings.budget_usd, settings.budget_tokens, settings.budget_calls, spent)
    tries = StoredTries(store, run, len(made))
    if recorded is None:
        return _Models([wiring.language_model(name, settings, budget, tries=tries) for name in names], None)
    full = [naming.parse(name).name for name in names]
    of = {name: [one for one in recorded.exchanges if one.request.model == name] for name in full}
    return _Models([Budgeted(Replayed(name, of[name]), budget, most(name), tries) for name in full], recorded.ended)


def _spent(made: Iterable[Try], calls: Iterable[Call], most_usd: Mapping[str, Callable[[Request], float | None]]) -> Charge:
    """Return what all tries of a run come to; those that nobody saw the end of, at what they may have cost."""
    from harness.models.tries import Charge  # noqa: PLC0415 - as above

    total, requests = Charge(), {call.exchange.request.digest: call.exchange.request for call in calls}
    for one in made:
        charge = one.charge
        request, most = requests.get(one.request), most_usd.get(one.model)
        if charge.usd is None and request is not None and most is not None:
            # Tries of before prices were kept with them: what is asked for is still known.
            charge = replace(charge, usd=most(request))
        total += charge
    return total


class _Recorded(NamedTuple):
    """What a recorded run asked: its models by name, and all exchanges."""

    names: Sequence[str]
    exchanges: Sequence[Exchange]
    ended: PutAside | None


def _recorded(store: Store, number: int) -> _Recorded:
    run = store.run(number)
    names: Iterable[str] = run.plan.options["model"]
    again = _replayed(names)
    asked = tuple(names) if again is None else _recorded(store, again).names
    return _Recorded(asked, [call.exchange for call in store.calls(run)], store.aside(run))


def _replayed(names: Iterable[str]) -> int | None:
    """Return the run that answers, None where models do."""
    stored = [name for name in names if name.startswith(_REPLAY)]
    if not stored:
        return None
    text = stored[0].removeprefix(_REPLAY)
    if len(list(names)) > 1:
        raise InputError(f"model {stored[0]} stands beside others; a run is answered from the store, or by models")
    if not (text.isascii() and text.isdecimal()):
        raise InputError(f"model {stored[0]!r}: run is {text!r}; expected the number of a run, such as {_REPLAY}3")
    return int(text)


def _weights(settings: Settings) -> Mapping[str, float]:
    """Return what is expected of each model before anything is known, by its full name.

    Raises:
        InputError: a text is no weight.
    """
    from harness.models import naming  # noqa: PLC0415 - as above

    weights = {}
    for text in settings.model_weight or ():
        name, _, figure = text.rpartition("=")
        try:
            weight = float(figure)
        except ValueError:
            weight = math.nan
        if not (math.isfinite(weight) and weight > 0):
            raise InputError(f"model_weight {text!r} is no weight; expected NAME=NUMBER above 0, such as openai:gpt-5-mini=2")
        weights[naming.parse(name).name] = weight
    return weights


def _kinds(settings: Settings) -> dict[EditKind, float]:
    """Return what is expected of each kind of edit that is to be asked for.

    Raises:
        InputError: one is no kind.
    """
    from harness.propose.model import KINDS  # noqa: PLC0415 - as above

    wanted = settings.edits or tuple(KINDS)
    for name in wanted:
        if name not in set(KINDS):
            raise InputError(f"edits names {name!r}; expected some of {', '.join(KINDS)}")
    return {kind: weight for kind, weight in KINDS.items() if kind in wanted}


def _unknown(_: Request) -> float | None:
    return None

"""Propose versions from templates: every template at its defaults first, then a search over templates and their parameters.

Two ways of searching take turns: Optuna's TPE over the whole space, and a small change to the parameters of the best version
so far, which is what finds the last bit. Both are seeded, and both follow from the history alone: a proposer that is made
anew for a resumed run asks what the first one asked and goes on where it stopped.
"""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any, cast

import optuna

from harness.policy import Candidate, Origin
from harness.propose.templates import Kind, defaults, render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.distributions import BaseDistribution

    from harness.propose.base import Brief, Judged
    from harness.propose.templates import Parameter, Template, Value

_TRIES = 200
"""Proposals that render to code already seen, in a row, before the space counts as used up."""
_STEP = 0.15
"""How far a small change goes, as a share of the parameter's range."""


class TemplateSearch:
    """A proposer over templates and their parameters."""

    def __init__(self, templates: Sequence[Template], seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._templates = {template.name: template for template in templates}
        self._seed = seed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=len(templates), multivariate=True, group=True)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._asked: dict[str, optuna.trial.Trial] = {}
        self._told = 0

    def propose(self, brief: Brief) -> Candidate | None:
        """Return the next candidate, None when the whole space has been tried."""
        while self._told < len(brief.history):
            self._learn(brief, brief.history[self._told])
        return self._next(brief.history, brief.best)

    def _learn(self, brief: Brief, judged: Judged) -> None:
        """Take in one judged version, after asking for it where this proposer did not (it is resuming)."""
        digest = judged.version.candidate.digest
        before = brief.history[: self._told]
        if digest not in self._asked and before:
            asked = self._next(before, _best(before))
            if asked is not None and asked.digest != digest:
                # Not proposed after all: another proposer had this turn. Should it be proposed later, it is asked for then.
                del self._asked[asked.digest]
        trial = self._asked.pop(digest, None)
        if trial is None:
            self._learn_foreign(judged)
        elif judged.value is None:
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(trial, judged.value)
        self._told += 1

    def _learn_foreign(self, judged: Judged) -> None:
        """Learn from a version that this search did not propose, where it was rendered from a known template."""
        candidate = judged.version.candidate
        template = self._template_of(candidate)
        if template is None or judged.value is None:
            return
        params = {"template": template.name} | _scoped(template, candidate.params)
        choice: BaseDistribution = optuna.distributions.CategoricalDistribution(tuple(self._templates))
        spaces = {"template": choice} | {
            f"{template.name}.{parameter.name}": self._space(parameter) for parameter in template.parameters
        }
        self._study.add_trial(optuna.create_trial(params=params, distributions=spaces, value=judged.value))

    def _next(self, history: Sequence[Judged], best: Judged) -> Candidate | None:
        known = {judged.version.candidate.digest: judged for judged in history}
        rng = random.Random(f"{self._seed}:{len(history)}")  # noqa: S311 - a search, no secret
        built_on = self._template_of(best.version.candidate)
        defaults_left = [t for t in self._templates.values() if render(t, defaults(t)) not in _sources(history)]
        for attempt in range(_TRIES):
            template, params, why = None, None, "a point that the search expects to be good"
            if defaults_left and not attempt:
                template, params, why = defaults_left[0], defaults(defaults_left[0]), "the template as it comes"
            elif len(history) % 2 == 0 and built_on is not None:
                template = built_on
                params = _changed(template, best.version.candidate.params, rng)
                why = f"a small change to version {best.version.number}"
            if template is not None and params is not None:
                self._study.enqueue_trial({"template": template.name} | _scoped(template, params))
            trial = self._study.ask()
            candidate = self._candidate(trial, why, best)
            if candidate.digest not in known:
                self._asked[candidate.digest] = trial
                return candidate
            value = known[candidate.digest].value
            if value is None:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                self._study.tell(trial, value)
        return None

    def _template_of(self, candidate: Candidate) -> Template | None:
        """Return the template that a candidate can be rendered from today; it may have had other parameters once."""
        template = self._templates.get(candidate.template or "")
        known = {} if template is None else {parameter.name: parameter for parameter in template.parameters}
        fits = known.keys() == candidate.params.keys() and all(
            known[name].allows(value) for name, value in candidate.params.items()
        )
        return template if fits else None

    def _candidate(self, trial: optuna.trial.Trial, why: str, best: Judged) -> Candidate:
        template = self._templates[trial.suggest_categorical("template", tuple(self._templates))]
        params = {
            parameter.name: _suggested(trial, f"{template.name}.{parameter.name}", parameter) for parameter in template.parameters
        }
        said = ", ".join(f"{name} = {value}" for name, value in params.items())
        return Candidate(
            render(template, params),
            Origin.TEMPLATE,
            f"{template.name}: {why} ({said})",
            template.name,
            params,
            best.version.number,
        )

    def _space(self, parameter: Parameter) -> BaseDistribution:
        distributions = optuna.distributions
        if parameter.choices:
            return distributions.CategoricalDistribution(parameter.choices)
        low, high = _bounds(parameter)
        if parameter.kind is Kind.INT:
            return distributions.IntDistribution(int(low), int(high), log=parameter.log)
        return distributions.FloatDistribution(low, high, log=parameter.log)


def _suggested(trial: optuna.trial.Trial, name: str, parameter: Parameter) -> Value:
    if parameter.choices:
        return cast("Value", trial.suggest_categorical(name, parameter.choices))
    low, high = _bounds(parameter)
    if parameter.kind is Kind.INT:
        return trial.suggest_int(name, int(low), int(high), log=parameter.log)
    return _rounded(trial.suggest_float(name, low, high, log=parameter.log), low, high)


def _bounds(parameter: Parameter) -> tuple[float, float]:
    if parameter.low is None or parameter.high is None:
        raise ValueError(f"parameter {parameter.name!r} has no range")
    return float(parameter.low), float(parameter.high)


def _best(history: Sequence[Judged]) -> Judged:
    """Return the version with the highest value, the earliest where several have it."""
    return max(history, key=lambda judged: float("-inf") if judged.value is None else judged.value)


def _sources(history: Sequence[Judged]) -> set[str]:
    return {judged.version.candidate.source for judged in history}


def _scoped(template: Template, params: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{template.name}.{name}": value for name, value in params.items()}


def _changed(template: Template, params: Mapping[str, Any], rng: random.Random) -> dict[str, Value]:
    """Return the parameters with one or two of them changed."""
    changed = dict(params)
    count = min(len(template.parameters), rng.choice((1, 1, 2)))
    for parameter in rng.sample(template.parameters, count):
        changed[parameter.name] = _moved(parameter, changed[parameter.name], rng)
    return changed


def _moved(parameter: Parameter, value: Any, rng: random.Random) -> Value:
    if parameter.choices:
        others = [choice for choice in parameter.choices if choice != value]
        return rng.choice(others) if others else parameter.default
    low, high = _bounds(parameter)
    step = rng.gauss(0, _STEP)
    moved: float = value * (high / low) ** step if parameter.log else value + (high - low) * step
    if parameter.kind is Kind.INT:
        # A step too small for a whole number still is a step.
        moved = round(moved) if round(moved) != value else value + (1 if step > 0 else -1)
        return int(min(high, max(low, moved)))
    return _rounded(moved, low, high)


def _rounded(value: float, low: float, high: float) -> float:
    """Keep three digits: more say nothing about a policy, and make its code hard to read."""
    return min(high, max(low, float(f"{value:.3g}")))

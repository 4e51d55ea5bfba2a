"""Settings: built-in values, one TOML file, `HARNESS_*` variables, flags; later ones win.

Every value remembers where it came from, so that a wrong one is named by its file and line, variable or flag, and so that
`harness config` can show it. The built-in values are those of the core's own records; no number stands here a second time.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from harness import tomlfile
from harness.errors import InputError
from harness.gate.verdict import Bounds
from harness.score import Effort, GroupBy, Normalize, Objective, Weight, Weights
from harness.score import Settings as JudgedBy
from harness.search import Mode, SiblingContext
from sandbox.api import (
    Frontier,
    Limits,
)
from sandbox.base import GuestLimits
from sandbox.guest.wire import LONGEST_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.tomlfile import TomlFile

FILE = Path("harness.toml")
PREFIX = "HARNESS_"

_LIMITS, _WEIGHTS, _GUEST, _EFFORT, _BOUNDS = Limits(), Weights(), GuestLimits(), Effort(), Bounds()
_JUDGED_BY = JudgedBy()
_SEED_BITS = 32
"""A seed also seeds the search, whose generator takes 32 bits."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a setting must hold, in words for a message."""

    words: str


def _exact(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a boolean is no number")  # noqa: TRY004 - pydantic turns ValueError alone into its own error
    return value


def _none(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _several(value: Any) -> Any:
    """Take one text apart at spaces and commas, as a variable or a line of a file has them."""
    if isinstance(value, str):
        return None if value.strip().lower() == "none" else tuple(re.split(r"[\s,]+", value.strip(" ,\t\n")))
    return value


_Number = BeforeValidator(_exact)
_Optional = BeforeValidator(_none)
_Count = Annotated[int, _Number, Field(ge=0), Wish("a whole number of at least 0")]
_Positive = Annotated[int, _Number, Field(ge=1), Wish("a whole number of at least 1")]
# Far below the largest float, so that a value stays finite.
_Weight = Annotated[float, _Number, Field(ge=-1e100, le=1e100, allow_inf_nan=False), Wish("a finite number, 1e100 at most")]
_Margin = Annotated[float, _Number, Field(ge=0, le=1e100, allow_inf_nan=False), Wish("a number of at least 0, 1e100 at most")]
_Share = Annotated[float, _Number, Field(ge=0, le=1, allow_inf_nan=False), Wish("a share from 0 to 1")]
_Chance = Annotated[float, _Number, Field(gt=0, lt=1, allow_inf_nan=False), Wish("a chance above 0 and below 1")]
_Seconds = Annotated[float, _Number, Field(gt=0, allow_inf_nan=False), Wish("a number of seconds above 0")]
_Text = Annotated[str, Field(min_length=1), Wish("text that is not empty")]
_Amount = Annotated[float, _Number, Field(ge=0, allow_inf_nan=False)]
_Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...] | None, NoDecode, BeforeValidator(_several)]


class Settings(BaseSettings):
    """Everything that can be set. The description of a field is its help."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True)

    store: _Text = Field(
        "sqlite:///.harness/harness.db", description="Where versions, trees and results are recorded: a database URL."
    )
    sandbox: Annotated[Literal["auto", "docker", "local"], Wish("auto, docker or local")] = Field(
        "auto", description="What isolates policies."
    )
    runtime: Annotated[str | None, _Optional, Wish("the name of a Docker runtime, or none")] = Field(
        None, description="Docker runtime for sandbox containers; none takes the engine's own."
    )
    image: Annotated[str | None, _Optional, Wish("the name of an image, or none")] = Field(
        None, description="Docker image for sandbox containers; none takes the one that `harness sandbox build` makes."
    )
    beta1: _Weight = Field(_WEIGHTS.beta1, description="What each revealed attempt costs in the value.")
    beta2: _Weight = Field(_WEIGHTS.beta2, description="What attempts per round add to the value.")
    normalize: Annotated[Normalize, Wish("tree or none")] = Field(
        _WEIGHTS.normalize, description="Quality as a share of each tree's span, or as the plain score."
    )
    objective: Annotated[Objective, Wish(" or ".join(Objective))] = Field(
        _JUDGED_BY.objective, description="What a replay is judged by: its value, or the area under best-so-far."
    )
    weight: Annotated[Weight, Wish("tree or group")] = Field(
        _JUDGED_BY.weight, description="What counts the same in a mean: every tree, or every group of trees."
    )
    group_by: Annotated[GroupBy, Wish("auto, task or source")] = Field(
        _JUDGED_BY.group_by, description="What groups trees; auto is the source system where there are several, else the task."
    )
    max_batch: Annotated[int, _Number, Field(ge=0, le=LONGEST_BATCH), Wish(f"a whole number from 0 to {LONGEST_BATCH}")] = Field(
        _LIMITS.max_batch, description="Most picks in one round."
    )
    max_rounds: _Count = Field(_LIMITS.max_rounds, description="Most rounds in one replay.")
    max_attempts: Annotated[_Count | None, _Optional, Wish("a whole number of at least 0, or none")] = Field(
        _LIMITS.max_attempts, description="Most revealed attempts in one replay; none is no limit."
    )
    frontier: Annotated[Frontier | None, _Optional, Wish("leaf, any or none")] = Field(
        None, description="Which nodes may be picked; none takes each tree's own rule."
    )
    seed: Annotated[int, _Number, Field(ge=0, lt=2**_SEED_BITS), Wish(f"a whole number from 0 to {2**_SEED_BITS - 1}")] = Field(
        0, description="Seed of policies and of the search for them."
    )
    holdout: Annotated[float, _Number, Field(ge=0, lt=1, allow_inf_nan=False), Wish("a share from 0 up to but not 1")] = Field(
        0.25, description="Share of the trees that only judge the end of a run."
    )
    versions: _Positive = Field(20, description="Policy versions in one run, the incumbent included.")
    alpha: _Chance = Field(
        _BOUNDS.alpha, description="Chance of a false promotion that the gate accepts, over all looks at one tree."
    )
    min_gain: _Weight = Field(_BOUNDS.min_gain, description="Gain in value that a candidate must show to be above.")
    quality_margin: _Margin = Field(
        _BOUNDS.quality_margin, description="Loss in quality that a candidate must show to stay within."
    )
    group_margin: _Margin = Field(_BOUNDS.group_margin, description="Largest mean loss in value of any group of trees.")
    max_off_support: _Share = Field(
        _BOUNDS.max_off_support, description="Largest share of a candidate's picks that the records could not answer."
    )
    max_decision_cpu_s: _Seconds = Field(
        _BOUNDS.max_decision_cpu_s, description="CPU seconds that a candidate may take for one decision, on average."
    )
    allow_local: Annotated[bool, Wish("true or false")] = Field(
        _BOUNDS.allow_local, description="Whether the gate takes results of the local sandbox, which is no boundary."
    )
    resamples: Annotated[int, _Number, Field(ge=1000, le=10**6), Wish("a whole number from 1000 to 1000000")] = Field(
        _BOUNDS.resamples, description="Draws behind the gate's bounds, at least; small levels take more."
    )
    power: _Chance = Field(
        _BOUNDS.power, description="Chance of showing a true gain for which the gate says how many trees it takes."
    )
    rollback_margin: _Margin = Field(
        0.05, description="How far live results may fall below those of the incumbent's predecessor before that returns."
    )
    repeats: _Count = Field(_EFFORT.repeats, description="Trees replayed a second time, to find policies that do not repeat.")
    workers: _Count = Field(0, description="Containers side by side; 0 is one per core where there are many trees or policies.")
    warm: _Count = Field(2, description="Containers kept ready for candidates to come; 0 keeps none.")
    load_cpu_s: _Seconds = Field(_GUEST.load_cpu_s, description="CPU seconds a policy may take to load.")
    decision_cpu_s: _Seconds = Field(_GUEST.decision_cpu_s, description="CPU seconds a policy may take for one decision.")
    replay_cpu_s: _Seconds = Field(_GUEST.replay_cpu_s, description="CPU seconds a policy may take for one replay.")
    wall_factor: Annotated[float, _Number, Field(ge=1, allow_inf_nan=False), Wish("a number of at least 1")] = Field(
        _GUEST.wall_factor, description="Wall seconds allowed for each CPU second allowed."
    )
    memory_mib: _Positive = Field(_GUEST.memory_bytes // 2**20, description="Memory a policy may use, in MiB.")
    output_kib: _Count = Field(_GUEST.output_bytes // 2**10, description="Text a policy may print in one replay, in KiB.")
    model: Annotated[_Names, Wish("names of models, or none")] = Field(
        None, description="Language models that write versions, such as openai:gpt-5-mini; none is templates alone."
    )
    model_price: Annotated[_Names, Wish("prices such as openai:gpt-5-mini=0.25/2, or none")] = Field(
        None, description="What models cost: USD for a million tokens in and out, where that is not known or is another."
    )
    model_weight: Annotated[_Names, Wish("weights such as openai:gpt-5-mini=2, or none")] = Field(
        None, description="How much is expected of each model before anything is known; none is the same of all."
    )
    proposer: Annotated[Literal["mix", "templates", "model"], Wish("mix, templates or model")] = Field(
        "mix", description="Who writes versions: templates and models by turns, or one of them; without a model, templates."
    )
    edits: Annotated[_Names, Wish("some of blocks, whole, cross, parameters, template, or none")] = Field(
        None, description="Kinds of edit that models are asked for; none is all of them."
    )
    prompt_chars: Annotated[int, _Number, Field(ge=4000), Wish("a whole number of at least 4000")] = Field(
        60_000, description="Longest prompt of a model, in characters; what matters least is left out."
    )
    model_timeout_s: _Seconds = Field(180.0, description="Seconds until a call of a model counts as failed.")
    temperature: Annotated[float, _Number, Field(ge=0, le=2, allow_inf_nan=False), Wish("a number from 0 to 2")] = Field(
        0.8, description="How freely models write."
    )
    max_output_tokens: _Positive = Field(8192, description="Longest answer of a model, in tokens; what it thinks counts as well.")
    budget_usd: Annotated[_Amount | None, _Optional, Wish("a number of at least 0, or none")] = Field(
        None, description="What a run may spend on models, in USD; none is no cap."
    )
    budget_tokens: Annotated[_Count | None, _Optional, Wish("a whole number of at least 0, or none")] = Field(
        None, description="Tokens that a run may take of models, in and out; none is no cap."
    )
    budget_calls: Annotated[_Count | None, _Optional, Wish("a whole number of at least 0, or none")] = Field(
        None, description="Calls of models that a run may make; none is no cap."
    )
    agent: _Text = Field(
        "search", description="Who makes the attempts of a live search: search, command:PRESET, a TOML file, or model:NAME."
    )
    live_mode: Annotated[Mode, Wish("rounds or async")] = Field(
        Mode.ROUNDS, description="When a live search asks its policy: after a whole batch, or whenever a slot is free."
    )
    slots: _Positive = Field(2, description="Attempts of a live search side by side.")
    attempts: Annotated[_Positive | None, _Optional, Wish("a whole number of at least 1, or none")] = Field(
        None, description="Attempts of one live search; none takes the task's allowance, else 60."
    )
    live_rounds: Annotated[_Positive | None, _Optional, Wish("a whole number of at least 1, or none")] = Field(
        None, description="Rounds of one live search; none takes the task's allowance, else max_rounds."
    )
    live_wall_s: Annotated[_Seconds | None, _Optional, Wish("a number of seconds above 0, or none")] = Field(
        None, description="Seconds that one live search may take; none takes the task's allowance."
    )
    live_tokens: Annotated[_Count | None, _Optional, Wish("a whole number of at least 0, or none")] = Field(
        None, description="Tokens that the attempts of one live search may use; none takes the task's allowance."
    )
    live_usd: Annotated[_Amount | None, _Optional, Wish("a number of at least 0, or none")] = Field(
        None, description="What the attempts of one live search may cost, in USD; none takes the task's allowance."
    )
    close_terminal: Annotated[bool, Wish("true or false")] = Field(
        False, description="A live leaf whose attempt says that its branch is done is picked no more."
    )
    sibling_context: Annotated[SiblingContext, Wish(" or ".join(SiblingContext))] = Field(
        SiblingContext.NEW_BRANCH, description="When an attempt is told what other branches are trying."
    )
    sibling_count: _Positive = Field(8, description="Most siblings that an attempt is told of.")
    sibling_chars: _Positive = Field(4_000, description="Most characters of what siblings say that an attempt is told.")
    rollouts: _Positive = Field(1, description="Independent tries at each pick, of which one is kept.")
    rollout_selector: _Text = Field(
        "best_score", description="Which try is kept: best_score, first_successful, longest_output, shortest_output or judge."
    )
    rollout_strategies: Annotated[tuple[str, ...] | None, Wish("a list of texts, or none")] = Field(
        None, description="What each try is told before the task; none is correctness, smallest change, edge cases."
    )
    rollout_parallel: _Count = Field(0, description="Tries at one pick side by side; 0 is all of them.")
    rollout_escalate: _Count = Field(0, description="Tries to begin with, one more while none succeeds; 0 begins with all.")
    rollout_early_stop: Annotated[bool, Wish("true or false")] = Field(
        False, description="Whether the first try that succeeds ends the others."
    )
    rollout_deadline_s: Annotated[_Seconds | None, _Optional, Wish("a number of seconds above 0, or none")] = Field(
        None, description="Seconds for all tries at one pick; what has ended by then is chosen from."
    )
    rollout_keep: Annotated[Literal["winner", "all"], Wish("winner or all")] = Field(
        "winner", description="Whose workspaces are kept: that of the try that was kept, or of all."
    )
    workspaces: Annotated[str | None, _Optional, Wish("a folder, or none")] = Field(
        None, description="Where workspaces of attempts are kept; none is beside the store's file."
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Wish("debug, info, warning or error")] = Field(
        "warning", description="Which log lines are written to standard error."
    )
    log_format: Annotated[Literal["console", "json"], Wish("console or json")] = Field(
        "console", description="Log lines for people, or one JSON object a line."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from `load` alone, which must know where each came from."""
        return (init_settings,)


FIELDS = tuple(Settings.model_fields)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings that hold, and for each where it came from: `default`, `harness.toml:3`, `HARNESS_SEED`, `--seed`."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None

    def given(self, names: Iterable[str]) -> list[str]:
        """Return those of these settings that a flag has set."""
        return [name for name in names if self.origins[name] == flag(name)]


def load(flags: Mapping[str, Any], file: Path | None = None) -> Loaded:
    """Return the settings that hold.

    `flags` are those given, by field. `file` of None takes `HARNESS_CONFIG`, else `harness.toml` where there is one.

    Raises:
        InputError: the file cannot be read, or a value is wrong; the message names where it stands and what was expected.
    """
    toml = _toml(file)
    values: dict[str, Any] = {}
    origins = dict.fromkeys(FIELDS, "default")
    if toml is not None:
        values |= toml.values
        origins |= {name: toml.where(name) for name in toml.values}
    variables = EnvSettingsSource(Settings)()
    values |= variables
    origins |= {name: variable(name) for name in variables}
    values |= flags
    origins |= {name: flag(name) for name in flags}
    return Loaded(_settings(values, origins), origins, None if toml is None else Path(toml.name))


def pinned(loaded: Loaded, values: Mapping[str, Any], origins: Mapping[str, str]) -> Loaded:
    """Return settings in which these values hold, whatever a settings file or a variable says.

    Raises:
        InputError: a value is wrong, or a flag says otherwise.
    """
    held = _settings(loaded.settings.model_dump() | dict(values), {**loaded.origins, **origins})
    for name in values:
        said = loaded.origins[name]
        if said == flag(name) and getattr(held, name) != getattr(loaded.settings, name):
            wish = f"leave {said} out, or change it there"
            raise InputError(f"{origins[name]}: {name} is pinned to {getattr(held, name)}; {wish}")
    return Loaded(held, {**loaded.origins, **origins}, loaded.file)


def _settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        return Settings(**values)
    except ValidationError as error:
        name = str(error.errors(include_url=False)[0]["loc"][0])
        raise InputError(f"{origins[name]}: {name} is {without_password(repr(values[name]))}; expected {wish(name)}") from None


def flag(name: str) -> str:
    """Return the flag of a setting."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


_PASSWORDS = (
    re.compile(r"(://[^:/@\s]*:)[^\s]*(?=@)"),  # to the last @, since a password may hold one
    re.compile(
        r"(://[^:/@\s]*:)(?!\d*(?:[/?#]|$)|\*\*\*@)[^/?#\s]+"
    ),  # a port that is no number may be a password without its host
    re.compile(r"(?i)([?&](?:(?:ssl)?password|(?:api[_-]?)?key|token|secret)=)[^&#\s]*"),
)


def without_password(text: str) -> str:
    """Return a text as people may see it: without the passwords and keys of URLs in it, however these are written."""
    for password in _PASSWORDS:
        text = password.sub(r"\1***", text)
    return text


def wish(name: str) -> str:
    """Return in words what a setting must hold."""
    return next(part.words for part in Settings.model_fields[name].metadata if isinstance(part, Wish))


def near(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" where a known name is close, else nothing."""
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def idle_variables() -> list[str]:
    """Return a sentence for each `HARNESS_*` variable that is nearly the name of a setting, and so sets nothing."""
    known = {variable(name) for name in (*FIELDS, "config", "shared")}
    odd = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    return [f"{name} sets nothing{near(name, known)}" for name in odd if near(name, known)]


def _toml(given: Path | None) -> TomlFile | None:
    """Return the settings file: the one given, the one of `HARNESS_CONFIG`, or `harness.toml` where it is."""
    named = os.environ.get(PREFIX + "CONFIG", "") if given is None else str(given)
    path = Path(named or FILE)
    if not named and not path.exists():
        return None
    toml = tomlfile.read(path, "settings file", "max_batch = 8")
    for name, value in toml.values.items():
        if name not in FIELDS:
            hint = near(name, FIELDS) or f"; expected one of {', '.join(FIELDS)}"
            raise InputError(f"{toml.where(name)}: {name} (value {without_password(repr(value))}) is no setting{hint}")
    return toml

"""Options that several commands share, each with its sentence of help. Those named as a setting override that setting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Config: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings file; default $HARNESS_CONFIG, else harness.toml.")
]
Trees: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--trees", metavar="PATH…", help="Tree files, and folders that are searched for *.jsonl; several may follow."),
]
Manifest: TypeAlias = Annotated[
    Path | None,
    typer.Option("--manifest", metavar="FILE", help="Write everything that fixes the result there, for `harness verify`."),
]
Param: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=JSON…", help="Parameters that the policy reads as context.params."),
]
Store: TypeAlias = Annotated[str | None, typer.Option("--store", metavar="URL", help="Store to use, as a database URL.")]
Sandbox: TypeAlias = Annotated[
    str | None, typer.Option("--sandbox", metavar="auto|docker|local", help="What isolates policies; auto prefers Docker.")
]
Runtime: TypeAlias = Annotated[str | None, typer.Option("--runtime", metavar="NAME", help="Docker runtime, such as runsc.")]
Image: TypeAlias = Annotated[str | None, typer.Option("--image", metavar="NAME", help="Docker image of the sandbox.")]
Beta1: TypeAlias = Annotated[
    str | None, typer.Option("--beta1", metavar="F", help="What each revealed attempt costs in the value.")
]
Beta2: TypeAlias = Annotated[str | None, typer.Option("--beta2", metavar="F", help="What attempts per round add to the value.")]
Normalize: TypeAlias = Annotated[
    str | None,
    typer.Option("--normalize", metavar="tree|none", help="Quality as a share of the tree's span, or the plain score."),
]
Objective: TypeAlias = Annotated[
    str | None, typer.Option("--objective", metavar="value|attainment", help="What a replay is judged by.")
]
Weight: TypeAlias = Annotated[
    str | None, typer.Option("--weight", metavar="tree|group", help="Means over trees, or over groups of trees.")
]
GroupBy: TypeAlias = Annotated[
    str | None, typer.Option("--group-by", metavar="auto|task|source", help="What groups trees; auto prefers the source system.")
]
MaxBatch: TypeAlias = Annotated[str | None, typer.Option("--max-batch", metavar="N", help="Most picks in one round.")]
MaxRounds: TypeAlias = Annotated[str | None, typer.Option("--max-rounds", metavar="N", help="Most rounds in one replay.")]
MaxAttempts: TypeAlias = Annotated[
    str | None, typer.Option("--max-attempts", metavar="N", help="Most revealed attempts in one replay, or none for no limit.")
]
Frontier: TypeAlias = Annotated[
    str | None, typer.Option("--frontier", metavar="leaf|any", help="Which nodes may be picked; default each tree's own rule.")
]
Seed: TypeAlias = Annotated[str | None, typer.Option("--seed", metavar="N", help="Seed of policies and of the search.")]
Workers: TypeAlias = Annotated[
    str | None,
    typer.Option("--workers", metavar="N", help="Containers side by side; 0: one per core for many trees or policies."),
]
Repeats: TypeAlias = Annotated[
    str | None, typer.Option("--repeats", metavar="N", help="Trees replayed twice, to find policies that do not repeat.")
]
Alpha: TypeAlias = Annotated[
    str | None, typer.Option("--alpha", metavar="F", help="Chance of a false promotion, over all looks at one tree.")
]
MinGain: TypeAlias = Annotated[str | None, typer.Option("--min-gain", metavar="F", help="Gain in value to be above.")]
QualityMargin: TypeAlias = Annotated[
    str | None, typer.Option("--quality-margin", metavar="F", help="Loss in quality to stay within.")
]
GroupMargin: TypeAlias = Annotated[
    str | None, typer.Option("--group-margin", metavar="F", help="Largest mean loss in value of any group of trees.")
]
MaxOffSupport: TypeAlias = Annotated[
    str | None, typer.Option("--max-off-support", metavar="F", help="Largest share of picks that the records cannot answer.")
]
MaxDecision: TypeAlias = Annotated[
    str | None, typer.Option("--max-decision-cpu-s", metavar="F", help="CPU seconds for one decision, on average.")
]
Resamples: TypeAlias = Annotated[
    str | None, typer.Option("--resamples", metavar="N", help="Draws behind the bounds, at least; small levels take more.")
]
Power: TypeAlias = Annotated[
    str | None, typer.Option("--power", metavar="F", help="Chance of showing the gain, for the number of trees it would take.")
]
AllowLocal: TypeAlias = Annotated[
    bool | None,
    typer.Option("--allow-local", help="Take results of the local sandbox, no boundary.", show_default=False),
]
Reason: TypeAlias = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, in a sentence; it is recorded.")]
By: TypeAlias = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who does this; default the CI job, else the user of this machine.")
]
IfIncumbent: TypeAlias = Annotated[
    str | None,
    typer.Option("--if-incumbent", metavar="VERSION|none", help="Refuse when another version is the incumbent by now."),
]
Model: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--model", metavar="NAME…", help="Language models, such as openai:gpt-5-mini or openai-compatible:NAME@URL."),
]
ModelPrice: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--model-price", metavar="NAME=IN/OUT…", help="USD for a million tokens in and out, where that is not known."),
]
ModelWeight: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--model-weight", metavar="NAME=F…", help="How much is expected of each model before anything is known."),
]
Proposer: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--proposer", metavar="mix|templates|model", help="Who writes versions; a mix goes on with templates where models fail."
    ),
]
Edits: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--edits", metavar="KIND…", help="Edits to ask for: blocks, whole, cross, parameters, template."),
]
PromptChars: TypeAlias = Annotated[
    str | None, typer.Option("--prompt-chars", metavar="N", help="Longest prompt of a model, in characters.")
]
ModelTimeout: TypeAlias = Annotated[
    str | None, typer.Option("--model-timeout-s", metavar="S", help="Seconds until a call of a model counts as failed.")
]
Temperature: TypeAlias = Annotated[
    str | None, typer.Option("--temperature", metavar="F", help="How freely models write, from 0 to 2.")
]
MaxOutputTokens: TypeAlias = Annotated[
    str | None, typer.Option("--max-output-tokens", metavar="N", help="Longest answer of a model, in tokens.")
]
BudgetUsd: TypeAlias = Annotated[
    str | None, typer.Option("--budget-usd", metavar="F", help="What the run may spend on models, in USD, resumed or not.")
]
BudgetTokens: TypeAlias = Annotated[
    str | None,
    typer.Option("--budget-tokens", metavar="N", help="Tokens that the run may take of models, in and out, resumed or not."),
]
BudgetCalls: TypeAlias = Annotated[
    str | None, typer.Option("--budget-calls", metavar="N", help="Calls of models that the run may make, failed tries included.")
]

Agent: TypeAlias = Annotated[
    str | None,
    typer.Option("--agent", metavar="NAME", help="Who makes attempts: search, command:PRESET, a TOML file, or model:NAME."),
]
Attempts: TypeAlias = Annotated[
    str | None, typer.Option("--attempts", metavar="N", help="Attempts of one search; default what the task allows, else 60.")
]
Rounds: TypeAlias = Annotated[
    str | None, typer.Option("--rounds", metavar="N", help="Rounds of one search; default what the task allows.")
]
WallS: TypeAlias = Annotated[str | None, typer.Option("--wall-s", metavar="S", help="Seconds that one search may take.")]
LiveTokens: TypeAlias = Annotated[
    str | None, typer.Option("--tokens", metavar="N", help="Tokens that the attempts of one search may use.")
]
LiveUsd: TypeAlias = Annotated[
    str | None, typer.Option("--usd", metavar="F", help="What the attempts of one search may cost, in USD.")
]
Slots: TypeAlias = Annotated[str | None, typer.Option("--slots", metavar="N", help="Attempts side by side.")]
LiveMode: TypeAlias = Annotated[
    str | None,
    typer.Option("--mode", metavar="rounds|async", help="Ask the policy after a whole batch, or whenever a slot is free."),
]
SiblingContext: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sibling-context", metavar="off|new_branch|until_success|always", help="When attempts are told of other branches."
    ),
]
RolloutCount: TypeAlias = Annotated[
    str | None, typer.Option("--rollouts", metavar="N", help="Independent tries at each pick, of which one is kept.")
]
RolloutSelector: TypeAlias = Annotated[
    str | None, typer.Option("--rollout-selector", metavar="NAME", help="Which try is kept; default best_score.")
]


_SHORTER = {
    "live_rounds": "--rounds",
    "live_wall_s": "--wall-s",
    "live_tokens": "--tokens",
    "live_usd": "--usd",
    "live_mode": "--mode",
}


def options(names: Iterable[str]) -> list[str]:
    """Return the options that set these settings, as people write them."""
    return [_SHORTER.get(name, "--" + name.replace("_", "-")) for name in names]

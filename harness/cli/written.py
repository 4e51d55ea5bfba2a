"""Which model wrote a version, from the store: the prompt that was sent, the answer, what it cost, and the diff to its parent."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cli.costs import Outlay, tries_of
from harness.cli.output import clean, one_line, say
from harness.errors import InputError
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.models.journal import Call
    from harness.models.tries import Try
    from harness.policy import Version
    from harness.store import Run, Store


@dataclass(frozen=True, slots=True)
class Written:
    """How a model wrote a version: all calls for its position in a run, the last one being the one that made it; their tries."""

    run: Run
    calls: Sequence[Call]
    tries: Sequence[Try]

    @property
    def made(self) -> Call:
        """Return the call whose answer became the version."""
        return self.calls[-1]


def written(store: Store, version: Version) -> Written | None:
    """Return how a model wrote a version, in the first run in which one did; None where none did."""
    for run in store.runs():
        if "model" not in run.plan.options:
            continue
        positions = [place for place, one in enumerate(store.run_versions(run), start=1) if one.number == version.number]
        calls = store.calls(run) if positions else []
        for made in calls:
            if made.asked.position in positions and made.outcome is not None and made.outcome.reason is None:
                before = [call for call in calls if call.asked.position == made.asked.position and call.number <= made.number]
                return Written(run, before, tries_of(store.tries(run), [call.exchange.request.digest for call in before]))
    return None


def required(store: Store, version: Version) -> Written:
    """Return how a model wrote a version.

    Raises:
        InputError: none did.
    """
    found = written(store, version)
    if found is None:
        raise InputError(f"v{version.number}: no model wrote it; `harness show v{version.number}` says where it comes from")
    return found


def prompt(found: Written) -> str:
    """Return what was sent, message by message."""
    return "\n".join(f"[{message.role}]\n{message.text.rstrip()}\n" for message in found.made.exchange.request.messages)


def answer(found: Written) -> str:
    """Return what was answered."""
    said = found.made.exchange.answer
    return "" if said is None else said.text


def diff(version: Version, parent: Version | None) -> str:
    """Return what a version changed in its parent, as a unified diff.

    Raises:
        InputError: it has no parent.
    """
    if parent is None:
        raise InputError(f"v{version.number}: is based on no version; `harness show v{version.number} --source` prints its code")
    sides = parent.candidate.source.splitlines(), version.candidate.source.splitlines()
    return "\n".join(difflib.unified_diff(*sides, f"v{parent.number}", f"v{version.number}", lineterm=""))


def show(found: Written, version: Version) -> None:
    """Print who wrote a version, and what that took."""
    made, answers = found.made, [call.exchange.answer for call in found.calls if call.exchange.answer is not None]
    say(f"\nwritten by {one_line(clean(made.exchange.request.model))}, asked for {made.asked.kind}, in run {found.run.number}")
    say(f"  {counted(len(found.calls), 'call')}, {sum(said.latency_s for said in answers):.1f} s, {Outlay.of(found.tries).words}")
    for call in found.calls[:-1]:
        refused = call.outcome
        why = call.exchange.error if refused is None else f"{refused.reason}: {refused.message}"
        say(f"  call {call.number} came to nothing: {one_line(why or '')}")
    say(f"  `harness show v{version.number}` with --prompt, --answer or --diff shows what was sent, answered and changed")


def brief_document(found: Written) -> dict[str, Any]:
    """Return what a file that travels says: who wrote it, what that cost, and the digest under which the prompt is found."""
    whole = document(found)
    named = ("run", "position", "model", "kind", "parents", "request", "input_tokens", "output_tokens", "cost_usd", "at")
    return {name: whole[name] for name in named}


def document(found: Written) -> dict[str, Any]:
    """Return the same for programs, prompt and answer included."""
    made = found.made
    said = made.exchange.answer
    request = made.exchange.request
    return {
        "run": found.run.number,
        "position": made.asked.position,
        "model": request.model,
        "kind": made.asked.kind,
        "parents": list(made.asked.parents),
        "request": request.digest,
        "temperature": request.temperature,
        "seed": request.seed,
        "max_output_tokens": request.max_output_tokens,
        "messages": [{"role": message.role.value, "text": message.text} for message in request.messages],
        "answer": None if said is None else said.text,
        "input_tokens": None if said is None else said.usage.input_tokens,
        "output_tokens": None if said is None else said.usage.output_tokens,
        "cost_usd": None if said is None else said.cost_usd,
        "in_all": Outlay.of(found.tries).document,
        "latency_s": None if said is None else said.latency_s,
        "at": made.exchange.at,
        "calls": [
            {
                "number": call.number,
                "error": call.exchange.error,
                "reason": None if call.outcome is None else call.outcome.reason,
                "message": None if call.outcome is None else call.outcome.message,
            }
            for call in found.calls
        ],
    }

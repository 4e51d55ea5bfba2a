"""`harness sandbox`: build the image, probe what isolates, remove what a killed harness left."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from harness import wiring
from harness.cli.exits import Exit
from harness.cli.output import note, say, say_json, short, table
from harness.cli.progress import steps
from harness.policy import Origin
from harness.words import counted
from sandbox.probe import checks

if TYPE_CHECKING:
    from harness.config import Settings


def build(base: str | None, if_engine: bool, as_json: bool) -> int:
    """Build the sandbox image; with `if_engine`, a machine without a Docker engine is no error."""
    trouble = wiring.engine_trouble() if if_engine else None
    if trouble is not None:
        note(f"no image is built: {trouble}")
        if as_json:
            say_json({"image": None})
        return 0
    tag = wiring.build_image(base, note)
    if as_json:
        say_json({"image": tag})
    else:
        say(f"{tag} is ready")
    return 0


def check(settings: Settings, as_json: bool) -> int:
    """Try to get out of the sandbox; 0 when every attempt was held, 1 when one got out."""
    with wiring.sandbox(settings, Origin.TEMPLATE, note) as sandbox, steps() as progress:
        isolation = sandbox.describe()
        results = []
        progress.begin(f"probing the {sandbox.name} sandbox", None)
        for result in checks(sandbox):
            results.append(result)
            progress.step()
    holes = [result for result in results if not result.held]
    if as_json:
        probes = [asdict(result) for result in results]
        say_json({"isolation": asdict(isolation), "probes": probes, "held": not holes})
        return Exit.NO if holes else Exit.DONE
    where = ", ".join(word for word in (isolation.image, isolation.runtime) if word)
    say(f"{isolation.backend} sandbox, Python {isolation.python}{f' ({where})' if where else ''}")
    for words, sentences in (("isolates", isolation.isolates), ("leaves open", isolation.leaves_open)):
        say(f"\n{words}")
        for sentence in sentences:
            say(f"  - {sentence}")
    rows = [[result.name, "held" if result.held else "HOLE", short(result.detail, 90)] for result in results]
    say("\n" + table(("attempt", "outcome", "answered with"), rows, left=("attempt", "outcome", "answered with")))
    say(f"\n{len(results) - len(holes)} of {counted(len(results), 'attempt')} to get out were held")
    return Exit.NO if holes else Exit.DONE


def sweep(as_json: bool) -> int:
    """Remove what dead harnesses left behind."""
    removed = wiring.sweep()
    if as_json:
        say_json({"removed": removed})
    else:
        say(f"{removed} leftover containers removed")
    return 0

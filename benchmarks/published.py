"""The benchmark over the example trees, published: every template at its defaults, in a manifest for `harness verify`.

Write it anew when templates or example trees change: `python -m benchmarks published`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import Row
from harness import config, manifest, rerun, treefile, wiring
from harness.policy import Origin, digest_of
from harness.propose import templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.manifest import Manifest, Policy

FILE = Path(__file__).parent / "manifests" / "examples.json"
TREES = Path(__file__).parents[1] / "examples" / "trees"


def policies() -> list[Policy]:
    """Return every template at its defaults."""
    found = []
    for template in templates.load():
        params = templates.defaults(template)
        source = templates.render(template, params)
        name = template.name
        found.append(manifest.Policy(name, digest_of(source), Origin.TEMPLATE, name, params, source))
    return found


def measured(settings: config.Settings, beside: Path) -> Manifest:
    """Judge all templates over the example trees."""
    files = {treefile.read(file).digest: file for file in treefile.find([TREES])}
    judged_by = wiring.judged_by(settings)
    with wiring.sandbox(settings, Origin.TEMPLATE, _tell) as sandbox:
        bench = rerun.Bench(
            sandbox=sandbox,
            trees=lambda digests: wiring.FoundTrees(digests, files, None),
            effort=lambda trees: wiring.effort(settings, trees),
            refusal=wiring.refusal,
            step=lambda: None,
        )
        entries = [rerun.entry(policy, judged_by, list(files), bench) for policy in policies()]
        how = manifest.How(wiring.guest_limits(settings), settings.repeats, sandbox.describe())
    places = {digest: treefile.path_of(file) for digest, file in files.items()}
    return manifest.make(manifest.Kind.BENCH, entries, how, files=places, beside=beside)


def rows() -> Iterator[Row]:
    """Write the manifest and yield the mean of each template."""
    made = measured(config.Settings.model_validate({}), FILE.parent)
    FILE.parent.mkdir(exist_ok=True)
    manifest.write(made, FILE)
    for judged in made.judged:
        yield Row(f"{judged.policy}: mean value over {len(judged.replays)} example trees", f"{judged.value:.6f}")


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")

"""Manifests: everything that fixes a result, and the result, so that anyone can make it again and compare it digit for digit.

    made = manifest.make(Kind.REPLAY, entries, how, files=…, beside=path.parent)
    manifest.write(made, path)
    comparison = manifest.compare(manifest.read(path), made_again)

All but the environment is a pure function of policies, trees and settings: the file is the same whoever makes it, wherever,
with however many workers. Times and memory are measured and never stand in a manifest's figures.
"""

from harness.manifest.compare import Comparison, Difference, compare
from harness.manifest.document import plain, read, write
from harness.manifest.make import Entry, How, make
from harness.manifest.records import FORMAT, Environment, Judged, Kind, Manifest, Place, Policy, Replay

__all__ = [
    "FORMAT",
    "Comparison",
    "Difference",
    "Entry",
    "Environment",
    "How",
    "Judged",
    "Kind",
    "Manifest",
    "Place",
    "Policy",
    "Replay",
    "compare",
    "make",
    "plain",
    "read",
    "write",
]

"""Who is judged against whom: a file, a version or a template each, or one policy's file now and at another commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import config, gitfile, wiring
from harness.cli import policies, policyfolder
from harness.cli.policies import Named
from harness.errors import InputError
from harness.policy import Candidate, Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.cli.policyfolder import PolicyFolder
    from harness.config import Loaded, Settings


@dataclass(frozen=True, slots=True)
class Sides:
    """Both policies, and what a reader should know about how they were found."""

    candidate: Named
    incumbent: Named
    notes: Sequence[str] = ()

    @property
    def origin(self) -> Origin:
        """Return the origin that decides about the sandbox: TEMPLATE where both are rendered from our own templates."""
        origins = {self.candidate.candidate.origin, self.incumbent.candidate.origin}
        return next(iter(origins - {Origin.TEMPLATE}), Origin.TEMPLATE)


def sides(candidate: str | None, against: str | None, base: str | None, folder: PolicyFolder | None, loaded: Loaded) -> Sides:
    """Return both policies.

    Raises:
        InputError: one is not named, or there is no such policy.
    """
    settings = loaded.settings
    if folder is None:
        if candidate is None:
            raise InputError("no candidate given; write harness gate CANDIDATE, or harness gate --policy-dir DIR")
        if base is not None:
            raise InputError(f"--base: {base!r} is a commit to read a policy's folder at; expected --policy-dir DIR beside it")
        return Sides(policies.policy(candidate, settings), _incumbent(against, settings))
    if candidate is not None:
        raise InputError(f"candidate {candidate!r}: --policy-dir {folder.folder} names the candidate already; leave one out")
    judged = policies.policy(f"{folder.folder}/{policyfolder.POLICY}", settings)
    if base is None:
        return Sides(judged, _incumbent(against, settings))
    notes = [f"{folder.rules.name} differs from {base}: {line}" for line in policyfolder.changed_rules(folder, base)]
    notes += [f"{config.FILE} differs from {base}: {line}" for line in policyfolder.changed_settings(loaded.file, base)]
    before = gitfile.read_at(base, folder.policy)
    if before is not None:
        label = f"{folder.policy} at {base}"
        return Sides(judged, Named(label, Candidate(policies.decoded(before), Origin.FILE, f"from {label}")), notes)
    if against is None:
        raise InputError(f"{folder.policy}: is new, {base} has no such file; name what it must beat with --against")
    notes.append(f"{folder.policy} is new: {base} has no such file, it is compared with {against}")
    return Sides(judged, _incumbent(against, settings), notes)


def _incumbent(against: str | None, settings: Settings) -> Named:
    if against is not None:
        return policies.policy(against, settings)
    file = wiring.sqlite_file(settings.store)
    if file is None or file.exists():
        with wiring.open_store(settings) as store:
            found = store.incumbent()
        if found is not None:
            return Named(f"v{found.number}", found.candidate, found.number)
    raise InputError("there is no incumbent yet: no version was promoted; name what the candidate must beat with --against")

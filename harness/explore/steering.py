"""The policy that steers a live search, in its sandbox; when it breaks its contract another version takes its place."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sandbox.api import Context, Fault, FaultKind, PolicyFault

if TYPE_CHECKING:
    from contextlib import ExitStack

    from harness.explore.live import LiveTree
    from harness.policy import Version
    from harness.search import Decision, SearchPlan
    from sandbox.base import GuestLimits, GuestReplay, Sandbox

_PICKS_SHOWN = 20


class Steering:
    """One policy process at a time. `stack` ends what is opened."""

    def __init__(self, plan: SearchPlan, sandbox: Sandbox, guest: GuestLimits, version: Version, stack: ExitStack) -> None:
        self.version = version
        self._plan = plan
        self._sandbox = sandbox
        self._guest = guest
        self._stack = stack
        self._policy: GuestReplay | None = None
        self._has_seen = False

    def decide(self, tree: LiveTree, number: int, pending: tuple[int, ...]) -> tuple[int, ...]:
        """Return the picks for this round.

        Raises:
            PolicyFault: the policy broke its contract, be it by a batch against the rules.
            SandboxError: our side failed.
        """
        if self._policy is None:
            candidate = self.version.candidate
            context = Context(dict(candidate.params), self._plan.seed, self._plan.limits, self._plan.frontier)
            session = self._stack.enter_context(self._sandbox.open(candidate.source, self._guest))
            self._policy = session.start(context)
        observation = tree.observe(number, pending) if self._has_seen else tree.observe_all(number, pending)
        self._has_seen = True
        picks = self._policy.decide(observation)
        tree.admit(picks)
        return tuple(picks)

    def differs(self, tree: LiveTree, decision: Decision) -> Fault | None:
        """Ask for a decision that is on record once more, and return a fault where it is another one now."""
        try:
            picks = self.decide(tree, decision.round, decision.pending)
        except PolicyFault as broken:
            return broken.fault
        if picks == decision.picks:
            return None
        now, then = list(picks[:_PICKS_SHOWN]), list(decision.picks[:_PICKS_SHOWN])
        message = f"shown the same again, it answers {now} in round {decision.round}; before, it answered {then}"
        return Fault(FaultKind.NONDETERMINISTIC, message, round=decision.round)

    def take_over(self, version: Version) -> None:
        """Let another version decide from here on; it will be shown everything at once."""
        if self._policy is not None:
            with suppress(PolicyFault):  # what it does after its last answer decides nothing any more
                self._policy.finish()
        self.version, self._policy, self._has_seen = version, None, False

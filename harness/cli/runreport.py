"""What a campaign came to: the best of each cycle and what it took, beside the control arm where there is one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from harness import campaign as campaigns
from harness import wholefile
from harness.cli.boards import plots
from harness.cli.explore import figure
from harness.cli.output import say, say_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.campaign import CycleReport
    from harness.store import Store
    from harness.store.records import Campaign


@dataclass(frozen=True, slots=True)
class RunReport:
    """A campaign, the other arm of the same task, seeds and size, and what the cycles of both came to."""

    campaign: Campaign
    cycles: Sequence[CycleReport]
    other: Campaign | None
    other_cycles: Sequence[CycleReport]
    incumbent: int | None


def of(store: Store, campaign: Campaign) -> RunReport:
    """Return what a campaign came to, and the latest other arm that is comparable."""
    campaign = store.campaign(campaign.number)
    other = next((one for one in reversed(store.campaigns()) if _comparable(one, campaign)), None)
    incumbent = store.incumbent()
    theirs = () if other is None else tuple(campaigns.reports(store, other))
    return RunReport(campaign, campaigns.reports(store, campaign), other, theirs, None if incumbent is None else incumbent.number)


def _comparable(one: Campaign, campaign: Campaign) -> bool:
    mine, theirs = campaign.plan, one.plan
    same = ("task_digest", "cycles", "searches", "seed")
    budget = ("attempts", "live_rounds", "live_wall_s", "live_tokens", "live_usd", "agent")
    return (
        one.number != campaign.number
        and theirs.fixed != mine.fixed
        and all(getattr(theirs, name) == getattr(mine, name) for name in same)
        and all(theirs.settings.get(name) == mine.settings.get(name) for name in budget)
    )


def show(report: RunReport, as_json: bool) -> None:
    """Print the report."""
    if as_json:
        say_json(document(report))
        return
    arms = [(report.campaign, report.cycles)] + ([] if report.other is None else [(report.other, report.other_cycles)])
    for campaign, cycles in arms:
        arm = "fixed policy" if campaign.plan.fixed else "policy developed"
        say(f"campaign {campaign.number}: {campaign.plan.task}, {arm}")
        head = ("cycle", "policy", "best", "mean best", "attempts", "seconds", "then")
        rows = [
            [
                str(one.number),
                f"v{one.version}",
                figure(one.best),
                figure(one.mean_best),
                str(one.attempts),
                "-" if one.seconds is None else f"{one.seconds:.0f}",
                one.outcome,
            ]
            for one in cycles
        ]
        say(table(head, rows, left=("policy", "then")))
        say()
    say("there is no incumbent yet" if report.incumbent is None else f"the incumbent is v{report.incumbent}")


def document(report: RunReport) -> dict[str, Any]:
    """Return the report as JSON has it."""
    return {
        "campaign": report.campaign.number,
        "task": report.campaign.plan.task,
        "fixed": report.campaign.plan.fixed,
        "finished": report.campaign.finished_at is not None,
        "incumbent": report.incumbent,
        "cycles": [asdict(one) for one in report.cycles],
        "other_arm": None
        if report.other is None
        else {
            "campaign": report.other.number,
            "fixed": report.other.plan.fixed,
            "cycles": [asdict(one) for one in report.other_cycles],
        },
    }


def refuse_no_place(folder: Path) -> None:
    """Refuse before anything runs what could not be written at the end.

    Raises:
        InputError: the folder cannot be written to, or what draws is not installed.
    """
    plots.require_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("campaign.png", "campaign.svg"):
        wholefile.refuse_no_place(folder / name)


def write(report: RunReport, folder: Path) -> None:
    """Draw best so far over attempts, cycle by cycle and both arms, as PNG and SVG."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra, and a second of import

    mpl.use("agg")
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    with mpl.rc_context({"svg.hashsalt": "dream-harness", "text.parse_math": False}):
        drawn = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = drawn.add_subplot()
        arms = [(report.campaign, report.cycles, "-")]
        arms += [] if report.other is None else [(report.other, report.other_cycles, ":")]
        for campaign, cycles, line in arms:
            arm = "fixed" if campaign.plan.fixed else "developed"
            for one in cycles:
                places = [place for place, _ in one.curve]
                label = f"cycle {one.number}, {arm}, v{one.version}"
                axes.plot(places, [score for _, score in one.curve], line, color=f"C{one.number - 1}", label=label)
        axes.set_xlabel("attempts")
        axes.set_ylabel("mean best score so far")
        axes.set_title(report.campaign.plan.task, parse_math=False)
        if report.cycles:
            axes.legend(fontsize=8, frameon=False)
        for form, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            stream = BytesIO()
            drawn.savefig(stream, format=form, metadata=metadata)
            wholefile.write(folder / f"campaign.{form}", [stream.getvalue()], "a picture")

"""Leaderboards as pictures, PNG and SVG: best-so-far curves, values by group, and cost against quality.

matplotlib is an extra of the package and imported here alone. The same leaderboard gives the same bytes under one version of
it: no dates, no random ids, no style of the user's. Names are untrusted and drawn as they are, never read as formulas.
"""

from __future__ import annotations

import math
import re
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from harness import wholefile
from harness.cli import rules
from harness.cli.output import one_line, short
from harness.errors import InputError
from harness.leaderboard import CONFIDENCE
from harness.pareto import SWEEP
from harness.score import Normalize, Weight
from harness.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from harness.leaderboard import Curve, Interval, Leaderboard, Standing

INSTALL = "pip install 'dream-harness[plots]'"
_MOST = 12
"""Policies in one picture: more are not told apart."""
_MOST_GROUPS = 12
_NAME = 26
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C6D31")
"""Okabe and Ito's, which the colour-blind tell apart; yellow, too light for lines on white, is left out for a brown."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_GREY = "#C8C8C8"
_TEXT = "#444444"
_HEADER = 0.62
"""Inches above the panels, for a title and what the marks mean."""
_NARROWEST = 0.004
"""Of a value axis; what differs by less is alike."""
_EARLY = 0.1
"""Share of the attempts in which all climb alike: the axis of a best-so-far begins where the last of them then is."""
_STYLE: Any = {
    "svg.hashsalt": "dream-harness",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#EBEBEB",
    "axes.axisbelow": True,
    "savefig.dpi": 100,
}


class _Look(NamedTuple):
    """How a policy is drawn, the same in every picture."""

    colour: str
    marker: str


class Picture(NamedTuple):
    """One picture: the end of its file's name, what it shows, and who draws it."""

    name: str
    words: str
    draw: Callable[[Leaderboard, dict[str, _Look]], Figure]


def require_matplotlib() -> None:
    """Refuse early where pictures are asked for and cannot be drawn.

    Raises:
        InputError: matplotlib is missing; the message says how to install it.
    """
    if find_spec("matplotlib") is None:
        raise InputError(f"--plots: matplotlib is not installed; {INSTALL}, or leave --plots out")


def draw(board: Leaderboard, folder: Path) -> list[tuple[str, str]]:
    """Draw the pictures of a leaderboard into a folder, each as PNG and SVG; return what each shows, and the name of its PNG.

    A leaderboard on which every policy faulted has none.
    """
    drawn: list[tuple[str, str]] = []
    looks = {
        standing.name: _Look(colour, marker)
        for standing, colour, marker in zip(board.standings, cycle(_COLOURS), cycle(_MARKERS), strict=False)
    }
    if not board.curves:
        return drawn
    for picture in PICTURES:
        stem = f"{_file_name(board)}-{picture.name}"
        with _style():
            figure = picture.draw(board, looks)
            wholefile.write(folder / f"{stem}.png", [_saved(figure, "png", {"Software": None})], "a picture")
            wholefile.write(folder / f"{stem}.svg", [_saved(figure, "svg", {"Date": None, "Creator": None})], "a picture")
        drawn.append((picture.words, f"{stem}.png"))
    return drawn


def _saved(figure: Figure, form: str, metadata: dict[str, None]) -> bytes:
    stream = BytesIO()
    figure.savefig(stream, format=form, metadata=metadata)
    return stream.getvalue()


def _file_name(board: Leaderboard) -> str:
    """Return the name of a set as part of a file's name; one that had to be changed for it is told apart by its digest."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", board.name).strip("-")[:60]
    return plain if plain == board.name else f"{plain or 'set'}-{board.digest[:8]}"


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib as mpl  # noqa: PLC0415 - an extra, and a second of import

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a name in a script that the font lacks
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def _figure(width: float, height: float, board: Leaderboard, title: str, words: str) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    layout = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - _HEADER / height), h_pad=0.06, w_pad=0.06)
    figure = Figure(figsize=(width, height), layout=layout)
    scope = f"{_label(board.name)}, {counted(board.trees, 'tree')}{rules.words(board.settings)}"
    figure.text(0.01, 1 - 0.1 / height, f"{title}: {scope}", fontweight="bold", fontsize=12, va="top")
    figure.text(0.01, 1 - 0.38 / height, words, color=_TEXT, fontsize=9, va="top")
    return figure


def _panels(figure: Figure, count: int, columns: int, *, shared: bool) -> list[Axes]:
    rows = math.ceil(count / columns)
    made = figure.subplots(rows, columns, sharex=shared, sharey=True, squeeze=False)
    panels = [axes for row in made for axes in row]
    for axes in panels[count:]:
        axes.set_visible(False)
    for place, axes in enumerate(panels[:count]):
        axes.tick_params(labelbottom=not shared or place + columns >= count)
    return panels[:count]


def _label(name: str) -> str:
    return short(one_line(name), _NAME)


def _some(shown: int, of: int) -> str:
    return f" The best {shown} of {of} policies." if shown < of else ""


def _best_so_far(board: Leaderboard, looks: dict[str, _Look]) -> Figure:
    curves = board.curves[:_MOST]
    columns = min(4, len(curves))
    words = (
        f"Mean over {'groups' if board.settings.weight is Weight.GROUP else 'trees'}, with its {CONFIDENCE:.0%} interval. "
        f"Dot: where the policy stops on average. Grey: the others.{_some(len(curves), len(board.curves))}"
    )
    rows = math.ceil(len(curves) / columns)
    figure = _figure(max(6.8, 2.7 * columns + 0.6), 2.3 * rows + 1.1, board, "Best so far", words)
    for curve, axes in zip(curves, _panels(figure, len(curves), columns, shared=True), strict=True):
        for other in curves:
            if other is not curve:
                axes.plot(*_line(other), color=_GREY, linewidth=0.8, drawstyle="steps-post")
        at, shares = _line(curve)
        colour = looks[curve.name].colour
        low = [point.interval.low if point.interval else point.share for point in curve.points]
        high = [point.interval.high if point.interval else point.share for point in curve.points]
        axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0, step="post")
        axes.plot(at, shares, color=colour, linewidth=1.8, drawstyle="steps-post")
        stop = max((point for point in curve.points if point.attempts <= curve.attempts), key=lambda point: point.attempts)
        axes.plot([curve.attempts], [stop.share], "o", color=colour, markersize=6, markeredgecolor="white", zorder=5)
        axes.set_title(_label(curve.name), loc="left")
        axes.set_ylim(_begin(curves), 1.01)
    figure.supxlabel("attempts revealed (count)", fontsize=10)
    figure.supylabel("share of the tree's span reached (0 to 1)", fontsize=10)
    return figure


def _begin(curves: Sequence[Curve]) -> float:
    """Return where the axis begins: lower, all climb alike, and what tells them apart would be a hair's breadth."""
    longest = curves[0].points[-1].attempts
    lowest = min(
        point.interval.low if point.interval else point.share
        for curve in curves
        for point in curve.points
        if point.attempts >= _EARLY * longest
    )
    return max(0.0, math.floor(min(lowest, 0.95) * 20) / 20)


def _line(curve: Curve) -> tuple[list[int], list[float]]:
    return [point.attempts for point in curve.points], [point.share for point in curve.points]


def _by_group(board: Leaderboard, looks: dict[str, _Look]) -> Figure:
    standings = [standing for standing in board.standings if standing.rank is not None][:_MOST]
    groups = board.groups[:_MOST_GROUPS] if len(board.groups) > 1 else ()
    columns = min(4, 1 + len(groups))
    more = f" The first {len(groups)} of {len(board.groups)} groups." if groups and len(groups) < len(board.groups) else ""
    words = (
        f"Mean with its {CONFIDENCE:.0%} interval, best policy on top; every panel has a scale of its own."
        f"{_some(len(standings), len(board.standings))}{more}"
    )
    rows = math.ceil((1 + len(groups)) / columns)
    height = (0.28 * len(standings) + 0.6) * rows + 1.1
    figure = _figure(max(6.8, 2.45 * columns + 1.6), height, board, f"Mean {board.settings.objective} by group", words)
    places = list(range(len(standings)))[::-1]
    panels = _panels(figure, 1 + len(groups), columns, shared=False)
    for panel, axes in enumerate(panels):
        axes.set_title("all" if panel == 0 else _label(groups[panel - 1]), loc="left")
        axes.set_yticks(places, [_label(standing.name) for standing in standings])
        axes.grid(visible=False, axis="x")
        axes.locator_params(axis="x", nbins=4)
        axes.ticklabel_format(axis="x", useOffset=False)
        for place, standing in zip(places, standings, strict=True):
            of = standing if panel == 0 else standing.groups[panel - 1]
            if of.value is not None:
                look = looks[standing.name]
                axes.errorbar([of.value], [place], xerr=_arms(of.value, of.interval), **_point(look))
        _widen(axes)
    figure.supxlabel(f"mean {_unit(board)}", fontsize=10)
    return figure


def _widen(axes: Axes) -> None:
    """Keep an axis on which all lie in one place from being magnified until rounding shows."""
    low, high = axes.get_xlim()
    if high - low < _NARROWEST:
        middle = (low + high) / 2
        axes.set_xlim(middle - _NARROWEST / 2, middle + _NARROWEST / 2)


def _cost(board: Leaderboard, looks: dict[str, _Look]) -> Figure:
    standings = {standing.name: standing for standing in board.standings if standing.rank is not None}
    shown = list(standings)[:_MOST]
    words = (
        f"Left: means with {CONFIDENCE:.0%} intervals; the line joins policies that no other beats on both counts. Right: the "
        f"best policy at a price lies on 0.{_some(len(shown), len(standings))}"
    )
    figure = _figure(10.8, 5.6, board, "Cost against quality", words)
    left, right = figure.subplots(1, 2)
    points = [point for point in board.prices if point.name in shown]
    front = [point for point in points if not point.dominated_by]
    left.plot([point.attempts for point in front], [point.quality for point in front], color="#888888", linewidth=1, zorder=1)
    for name in shown:
        _cross(left, standings[name], looks[name])
    left.set_xlabel("attempts revealed (mean count per tree)")
    plain = board.settings.weights.normalize is Normalize.NONE
    left.set_ylabel("quality (mean score)" if plain else "quality (mean share of the span, 0 to 1)")
    left.set_title("what is found, and for how many attempts", loc="left")
    _draw_prices(right, board, shown, looks)
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(shown)), frameon=False, fontsize=9
    )
    return figure


def _cross(axes: Axes, standing: Standing, look: _Look) -> None:
    attempts, quality = standing.attempts or 0.0, standing.quality or 0.0
    sideways = _arms(attempts, standing.attempts_interval)
    axes.errorbar(
        [attempts],
        [quality],
        xerr=sideways,
        yerr=_arms(quality, standing.quality_interval),
        label=_label(standing.name),
        **_point(look),
    )


def _draw_prices(axes: Axes, board: Leaderboard, shown: Sequence[str], looks: dict[str, _Look]) -> None:
    """Draw how far each policy is behind the best, at each price: the values themselves fall too far to tell any apart."""
    best = [max(point.values[place] for point in board.prices) for place in range(len(SWEEP))]
    for point in board.prices:
        if point.name in shown:
            behind = [value - top for value, top in zip(point.values, best, strict=True)]
            look = looks[point.name]
            axes.plot(range(len(SWEEP)), behind, color=look.colour, marker=look.marker, markersize=5, linewidth=1.4)
    axes.set_yscale("symlog", linthresh=0.01)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xticks(range(len(SWEEP)), [f"{beta1:g}" for beta1 in SWEEP])
    axes.set_xlabel("price of an attempt, beta1 (value per attempt)")
    axes.set_ylabel("value behind the best at this price (symlog)")
    axes.set_title("who is best at which price", loc="left")


def _point(look: _Look) -> dict[str, Any]:
    return {"fmt": look.marker, "color": look.colour, "markersize": 6, "elinewidth": 1.2, "capsize": 2}


def _arms(value: float, between: Interval | None) -> list[list[float]] | None:
    """Return how far an interval reaches to both sides; never negative, as a resampled bound may lie on the other side."""
    return None if between is None else [[max(0.0, value - between.low)], [max(0.0, between.high - value)]]


def _unit(board: Leaderboard) -> str:
    if board.settings.objective.value != "value":
        return f"{board.settings.objective} (share of the area, 0 to 1)"
    return (
        "value (quality less cost; 1 is all that a tree holds)"
        if board.settings.weights.normalize is Normalize.TREE
        else "value (in units of the score)"
    )


PICTURES = (
    Picture("best-so-far", "Best-so-far curves", _best_so_far),
    Picture("value-by-group", "Mean by group", _by_group),
    Picture("cost-quality", "Cost against quality", _cost),
)

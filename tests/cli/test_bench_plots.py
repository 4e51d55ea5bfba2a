"""The pictures of a benchmark: real files that open, with titles, units and every policy in them, the same bytes each time."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from builders import broom, judged_in_process
from PIL import Image

from harness.cli.boards import plots
from harness.errors import InputError
from harness.leaderboard import leaderboard
from harness.policy import Candidate, Origin
from harness.propose import templates
from harness.score import best_so_far

if TYPE_CHECKING:
    from pathlib import Path

    from harness.leaderboard import Leaderboard

TREES = [broom(seed, 12, 9) for seed in range(8)]
KINDS = ("best-so-far", "value-by-group", "cost-quality")
UNITS = {
    "best-so-far": ("attempts revealed (count)", "share of the tree's span reached (0 to 1)"),
    "value-by-group": ("mean value (quality less cost; 1 is all that a tree holds)",),
    "cost-quality": (
        "attempts revealed (mean count per tree)",
        "quality (mean share of the span, 0 to 1)",
        "price of an attempt, beta1 (value per attempt)",
        "value behind the best at this price (symlog)",
    ),
}


def board_of(names: dict[str, str], set_name: str = "brooms") -> Leaderboard:
    """Return the leaderboard of templates, each under the name given."""
    known = {template.name: template for template in templates.load()}
    evaluations = {
        name: judged_in_process(
            Candidate(templates.render(known[template], templates.defaults(known[template])), Origin.TEMPLATE), TREES
        )
        for name, template in names.items()
    }
    climbs = {
        name: {result.tree: best_so_far(result.trajectory, on) for result, on in zip(judged.results, TREES, strict=True)}
        for name, judged in evaluations.items()
    }
    return leaderboard(set_name, evaluations, climbs, resamples=1000, seed=0)


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    """Return a leaderboard of three policies over two groups."""
    return board_of({name: name for name in ("greedy", "parallel_refine", "round_robin")})


def words_of(svg: Path) -> set[str]:
    """Return every text of a picture."""
    return {"".join(text.itertext()).strip() for text in ET.parse(svg).iter("{http://www.w3.org/2000/svg}text")}  # noqa: S314 - our own


def test_every_picture_is_a_png_that_opens_and_an_svg_that_parses(board: Leaderboard, tmp_path: Path) -> None:
    drawn = plots.draw(board, tmp_path)

    assert [file for _, file in drawn] == [f"brooms-{kind}.png" for kind in KINDS]
    for kind in KINDS:
        with Image.open(tmp_path / f"brooms-{kind}.png") as image:
            image.load()
            assert min(image.size) >= 250
            assert len(image.convert("RGB").getcolors(10**6) or []) > 10
        assert ET.parse(tmp_path / f"brooms-{kind}.svg").getroot().tag.endswith("svg")  # noqa: S314


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_names_its_set_its_axes_with_their_units_and_every_policy(
    board: Leaderboard, tmp_path: Path, kind: str
) -> None:
    plots.draw(board, tmp_path)

    words = words_of(tmp_path / f"brooms-{kind}.svg")

    assert any("brooms, 8 trees" in one for one in words)
    assert {*UNITS[kind], "greedy", "parallel_refine", "round_robin"} <= words


def test_the_same_leaderboard_gives_the_same_bytes(board: Leaderboard, tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        plots.draw(board, tmp_path / place)

    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes(), file.name


def test_a_legend_does_not_lie_over_data(board: Leaderboard) -> None:
    """What the figure's legend covers is outside of every panel."""
    looks = {one.name: plots._Look("#000000", "o") for one in board.standings}
    with plots._style():
        figure = plots._cost(board, looks)
        figure.draw_without_rendering()
        (legend,) = figure.legends
        covered = legend.get_window_extent()
        assert not any(covered.overlaps(axes.get_window_extent()) for axes in figure.axes)


def test_names_are_drawn_as_they_are_and_make_no_paths(tmp_path: Path) -> None:
    odd = board_of(
        {"$\\frac$ <b>&": "greedy", "名前 with a very long tail that nobody would ever read": "round_robin"}, "../../up $x$"
    )

    drawn = plots.draw(odd, tmp_path)

    assert min(file.name for file in tmp_path.iterdir()) == f"up-x-{odd.digest[:8]}-best-so-far.png"
    assert len(drawn) == 3
    assert {"$\\frac$ <b>&", "名前 with a very long tail …"} <= words_of(tmp_path / f"up-x-{odd.digest[:8]}-cost-quality.svg")


def test_many_policies_are_drawn_as_far_as_they_can_be_told_apart(tmp_path: Path) -> None:
    many = board_of({f"policy-{place:02d}": "greedy" for place in range(15)})

    plots.draw(many, tmp_path)

    words = words_of(tmp_path / "brooms-best-so-far.svg")
    assert any("The best 12 of 15 policies." in one for one in words)
    assert "policy-12" not in words


def test_without_matplotlib_the_command_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an environment without the extra answers is found by a finder that knows no matplotlib."""
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    importlib.invalidate_caches()

    with pytest.raises(InputError, match=r"matplotlib is not installed; pip install 'dream-harness\[plots\]'"):
        plots.require_matplotlib()

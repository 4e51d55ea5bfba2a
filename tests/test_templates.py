"""Policy templates: what they declare, what they render to, and what the rendered policies do on any tree."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from builders import tree
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.check import ALLOWED_MODULES, check
from harness.errors import InputError
from harness.propose.templates import Kind, Parameter, Template, defaults, load, render
from harness.replay import InProcess, Stop, Trajectory, replay
from harness.score import Settings, figures, mean
from harness.tree import Attempt, Root, Tree
from harness.treefile import read
from sandbox.api import Context, Frontier, Limits, Node, View
from sandbox.guest.modules import PRELOADED

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[1]
INTERFACE = (PROJECT / "policy_templates" / "interface.md").read_text()
README = (PROJECT / "policy_templates" / "README.md").read_text()
TEMPLATES = {template.name: template for template in load()}
NAMES = sorted(TEMPLATES)

TREES = {
    "empty": tree(),
    "all failed": tree("root>a", "root>b", "a>c", "c>d", scores=dict.fromkeys("abcd"), root=None),
    "one chain": tree("root>a", "a>b", "b>c", "c>d", "d>e", scores={"a": -5.0, "b": None, "c": -7e9, "d": -1.0, "e": -1.0}),
    "wide": tree(*(f"root>n{i}" for i in range(40)), scores={f"n{i}": float(i * 7 % 40) for i in range(40)}, root=None),
    "broom": tree(
        *(f"{f'c{chain}d{depth - 1}' if depth else 'root'}>c{chain}d{depth}" for depth in range(9) for chain in range(9)),
        scores={f"c{chain}d{depth}": 1e-9 * chain * depth for depth in range(9) for chain in range(9)},
    ),
    "bushy": tree(
        *(f"{'root' if i < 3 else f'n{(i - 1) // 3}'}>n{i}" for i in range(45)),
        scores={f"n{i}": None if i % 5 == 0 else 1e6 * (i * 11 % 45) for i in range(45)},
    ),
}


def policy(source: str) -> Any:
    """Load a rendered policy."""
    names: dict[str, Any] = {}
    exec(compile(source, "policy.py", "exec"), names)  # noqa: S102 - rendered from our own templates
    return names["Policy"]


def run(source: str, on: Tree, limits: Limits, frontier: str = "leaf", seed: int = 0) -> Trajectory:
    """Replay a rendered policy in this process."""
    decider = InProcess(policy(source), Context({}, seed, limits, frontier))
    return replay(on, decider, limits, Frontier(frontier))


def corners(template: Template) -> Iterator[dict[str, Any]]:
    """Yield the defaults and every corner of a template's space."""
    yield defaults(template)
    extremes = [parameter.choices or (parameter.low, parameter.high) for parameter in template.parameters]
    for values in itertools.product(*extremes):
        yield dict(zip((parameter.name for parameter in template.parameters), values, strict=True))


def brooms(count: int, seed: int) -> list[Tree]:
    """Make brooms of ten chains whose first scores say something about their last ones."""
    chance = random.Random(seed)  # noqa: S311 - repeatable chance is what is wanted
    made = []
    for number in range(count):
        reached = [chance.gauss(0.0, 1.0) for _ in range(10)]
        slope = [abs(chance.gauss(0.0, 0.4)) for _ in range(10)]
        attempts = []
        for depth in range(8):
            for chain in range(10):
                reached[chain] += slope[chain] * chance.random() * 0.8**depth
                attempts.append(Attempt(f"{chain}.{depth}", f"{chain}.{depth - 1}" if depth else None, reached[chain]))
        made.append(Tree(f"broom {number}", tuple(attempts), frontier=Frontier.LEAF))
    return made


def mean_value(name: str, trees: list[Tree]) -> float:
    """Return a template's mean value with its defaults, every tree on its own frontier."""
    source = render(TEMPLATES[name], defaults(TEMPLATES[name]))
    runs = ((run(source, one, Limits(), one.frontier.value), one) for one in trees)
    value = mean(figures(trajectory, one, Settings()).value for trajectory, one in runs)
    assert value is not None
    return value


# --- what the rendered policies do ---


@pytest.mark.parametrize("name", NAMES)
def test_every_corner_of_every_template_keeps_the_rules_and_stops(name: str) -> None:
    """On trees of all shapes, on both frontiers, in batches of one and of eight."""
    for params in corners(TEMPLATES[name]):
        source = render(TEMPLATES[name], params)
        for (shape, on), frontier, max_batch in itertools.product(TREES.items(), Frontier, (1, 8)):
            trajectory = run(source, on, Limits(max_rounds=500, max_batch=max_batch), frontier.value)

            assert trajectory.stop in (Stop.EXHAUSTED, Stop.POLICY_STOPPED), (params, shape, frontier, trajectory.fault)


@pytest.mark.parametrize("name", [name for name in NAMES if "width" in defaults(TEMPLATES[name])])
def test_a_search_starts_with_as_many_branches_as_width_says(name: str) -> None:
    source = render(TEMPLATES[name], defaults(TEMPLATES[name]) | {"width": 3})

    assert run(source, TREES["broom"], Limits()).rounds[0].picks == (0, 0, 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_limit_of_zero_is_answered_with_an_empty_batch(name: str) -> None:
    trajectory = run(render(TEMPLATES[name], defaults(TEMPLATES[name])), TREES["broom"], Limits(max_batch=0))

    assert trajectory.stop is Stop.POLICY_STOPPED


SCORES = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def any_tree(draw: st.DrawFn) -> Tree:
    """Draw a tree of any shape with scores of any size."""
    attempts: list[Attempt] = []
    for number in range(draw(st.integers(0, 30))):
        parent = draw(st.integers(-1, number - 1))
        attempts.append(Attempt(f"n{number}", None if parent < 0 else f"n{parent}", draw(SCORES)))
    return Tree("drawn", tuple(attempts), root=Root(score=draw(SCORES)))


@given(st.data(), any_tree(), st.sampled_from(Frontier), st.integers(1, 9), st.integers(0, 20) | st.none())
@settings(max_examples=150, deadline=None)
def test_every_template_keeps_the_rules_on_any_tree_with_any_parameters(
    data: st.DataObject, on: Tree, frontier: Frontier, max_batch: int, max_attempts: int | None
) -> None:
    template = TEMPLATES[data.draw(st.sampled_from(NAMES))]
    params = {parameter.name: data.draw(values_of(parameter), parameter.name) for parameter in template.parameters}
    source, limits = render(template, params), Limits(500, max_batch, max_attempts)

    trajectory = run(source, on, limits, frontier.value, seed=3)

    assert trajectory.stop in (Stop.EXHAUSTED, Stop.POLICY_STOPPED, Stop.MAX_ATTEMPTS), trajectory.fault
    assert run(source, on, limits, frontier.value, seed=3) == trajectory


def values_of(parameter: Parameter) -> st.SearchStrategy[Any]:
    """Draw from a parameter's range."""
    if parameter.choices:
        return st.sampled_from(parameter.choices)
    return (st.integers if parameter.kind is Kind.INT else st.floats)(parameter.low, parameter.high)


@pytest.mark.parametrize("name", NAMES)
def test_picks_depend_on_the_order_of_scores_and_not_on_their_scale(name: str) -> None:
    """Multiplying every score by a power of two and moving none of them past another changes nothing."""
    source = render(TEMPLATES[name], defaults(TEMPLATES[name]))
    for one in brooms(3, seed=5):
        scaled = Tree(one.name, tuple(Attempt(a.id, a.parent, (a.score or 0.0) * 2.0**20) for a in one.attempts))

        assert run(source, one, Limits()).rounds == run(source, scaled, Limits()).rounds


def test_a_seed_decides_what_is_left_to_chance() -> None:
    template = TEMPLATES["epsilon_greedy"]
    source = render(template, defaults(template) | {"epsilon": 1.0})
    first, again, other = (run(source, TREES["broom"], Limits(), seed=seed).rounds for seed in (1, 1, 2))

    assert first == again
    assert first != other


def test_a_branch_that_stopped_improving_makes_room_for_a_new_one() -> None:
    """The first branch is flat: after two idle attempts the second is opened, and nothing more goes to the first."""
    on = tree("root>a", "root>b", "a>a1", "a1>a2", "a2>a3", "b>b1", scores={"b": 1.0, "b1": 2.0})
    source = render(TEMPLATES["plateau_restart"], {"width": 1, "plateau": 2, "restarts": 1, "patience": 64})

    assert on.ids(run(source, on, Limits()).revealed) == ("a", "a1", "a2", "b", "b1")


def test_halving_continues_the_better_half_after_each_rung() -> None:
    on = tree("root>a", "root>b", "a>a1", "b>b1", "a1>a2", "b1>b2", scores={"a": 1.0, "b": 2.0, "a1": 5.0, "b1": 3.0})
    source = render(TEMPLATES["successive_halving"], {"width": 2, "rung": 1, "keep": 0.5})

    assert on.ids(run(source, on, Limits()).revealed) == ("a", "b", "a1", "b1", "a2")


def test_a_stopper_spends_its_budget_and_not_one_attempt_more() -> None:
    template = TEMPLATES["budgeted_stopper"]
    source = render(template, defaults(template) | {"inner": "parallel_refine", "budget": 13, "grace": 64, "price": 0.0})
    trajectory = run(source, TREES["broom"], Limits())

    assert len(trajectory.revealed) == 13
    assert trajectory.stop is Stop.POLICY_STOPPED


def test_a_stopper_ends_a_search_that_no_longer_gains() -> None:
    """All scores are equal: after the grace nothing has paid."""
    template = TEMPLATES["budgeted_stopper"]
    flat = tree(*(f"root>n{i}" for i in range(60)), root=None)
    source = render(template, defaults(template) | {"inner": "round_robin", "width": 32, "grace": 16})

    assert len(run(source, flat, Limits()).revealed) == 24


def test_some_template_beats_the_first_incumbent_on_brooms() -> None:
    """The first incumbent is parallel_refine; a search for better policies has to have something to find."""
    trees = brooms(30, seed=11)
    values = {name: mean_value(name, trees) for name in NAMES}

    assert max(values, key=values.__getitem__) != "parallel_refine", values
    assert values["budgeted_stopper"] > values["parallel_refine"] + 0.01, values


@pytest.mark.slow
def test_some_template_beats_the_first_incumbent_on_recorded_searches(shared: Path) -> None:
    trees = [read(file) for file in sorted((shared / "trees").rglob("*.jsonl"))]

    assert mean_value("budgeted_stopper", trees) > mean_value("parallel_refine", trees) + 0.02


# --- what they render to ---


def test_rendered_policies_pass_ruff_and_are_formatted(tmp_path: Path) -> None:
    """In the project's own settings, chance from `random` allowed; in the line lengths of this project and of ruff itself."""
    for name, template in TEMPLATES.items():
        for number, params in enumerate(corners(template)):
            (tmp_path / f"{name}_{number}.py").write_text(render(template, params))
    (tmp_path / "newest_first.py").write_text(render(documented(tmp_path), defaults(documented(tmp_path))))

    project = ["--no-cache", "--config", str(PROJECT / "pyproject.toml")]
    ruff("check", *project, "--extend-ignore", "S311,INP001", str(tmp_path))
    ruff("format", "--check", *project, str(tmp_path))
    ruff("format", "--check", "--no-cache", "--isolated", str(tmp_path))


def ruff(*arguments: str) -> None:
    """Run ruff and show what it found."""
    done = subprocess.run([sys.executable, "-m", "ruff", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_rendered_policies_pass_the_check(name: str) -> None:
    for params in corners(TEMPLATES[name]):
        assert check(render(TEMPLATES[name], params)) == ()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_templating_is_left(name: str) -> None:
    source = render(TEMPLATES[name], defaults(TEMPLATES[name]))

    assert source.startswith(f'"""{TEMPLATES[name].summary}."""\n')
    assert source.endswith("\n")
    assert not re.search(r"\{[{%#]|[}%#]\}|parameters\.|\n\n\n\n", source)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_constants_with_the_values_given(name: str) -> None:
    template = TEMPLATES[name]
    own = {parameter.name for parameter in template.parameters} - {template.wraps}
    for params in corners(template):
        names: dict[str, Any] = {}
        exec(compile(render(template, params), "policy.py", "exec"), names)  # noqa: S102 - rendered from our own templates

        assert {key: names[key.upper()] for key in own} == {key: params[key] for key in own}


def test_a_stopper_renders_the_policy_it_follows_with_that_policys_defaults() -> None:
    template = TEMPLATES["budgeted_stopper"]
    source = render(template, defaults(template) | {"inner": "ucb", "width": 3})

    assert "WIDTH = 3 " in source
    assert f"EXPLORATION = {defaults(TEMPLATES['ucb'])['exploration']} " in source
    assert policy(source).__doc__ != policy(render(TEMPLATES["ucb"], defaults(TEMPLATES["ucb"]))).__doc__


@given(st.text())
@settings(deadline=None)
def test_no_text_becomes_code(text: str) -> None:
    """Whatever a value holds, it arrives as that value."""
    choice = Parameter("word", Kind.CHOICE, "any text", text, choices=(text,))
    template = Template("words", "Say a word", (choice,), "WORD = {{ word | literal }}\n")
    names: dict[str, Any] = {}
    exec(compile(render(template, {"word": text}), "policy.py", "exec"), names)  # noqa: S102 - one literal of our own

    assert names["WORD"] == text


# --- what is refused ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "template greedy: parameter 'width' is 0; expected an int from 1 to 32"),
        ({"width": 33}, "template greedy: parameter 'width' is 33; expected an int from 1 to 32"),
        ({"width": True}, "template greedy: parameter 'width' is True; expected an int from 1 to 32"),
        ({"width": 8.0}, "template greedy: parameter 'width' is 8.0; expected an int from 1 to 32"),
        ({"width": "8"}, "template greedy: parameter 'width' is '8'; expected an int from 1 to 32"),
        ({"momentum": float("nan")}, "template greedy: parameter 'momentum' is nan; expected a number from 0.0 to 4.0"),
        ({"speed": 3}, "template greedy: no parameter 'speed' (value 3); it has width, beam, momentum, patience"),
    ],
)
def test_a_wrong_value_is_named_with_its_range(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        render(TEMPLATES["greedy"], defaults(TEMPLATES["greedy"]) | change)

    assert str(caught.value) == message


def test_a_missing_value_is_named_with_its_range() -> None:
    with pytest.raises(InputError, match=r"template greedy: parameter 'beam' is missing; expected an int from 1 to 32"):
        render(TEMPLATES["greedy"], {"width": 8})


def test_a_choice_outside_the_list_is_refused() -> None:
    template = TEMPLATES["budgeted_stopper"]

    with pytest.raises(InputError, match=r"parameter 'inner' is 'budgeted_stopper'; expected one of 'parallel_refine', "):
        render(template, defaults(template) | {"inner": "budgeted_stopper"})


WIDTH = '[parameters.width]\ntype = "int"\nlow = 1\nhigh = 8\ndefault = 4\nhelp = "branches"\n'


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("", "name is None; expected 'mine', as the file is called"),
        ('name = "other"\nsummary = "Do"', "name is 'other'; expected 'mine'"),
        ('name = "mine"', "summary is None; expected one line of text"),
        ('name = "mine"\nsummary = "Do"\ncolour = 3', "field 'colour' is not known"),
        ('name = mine\nsummary = "Do"', "its declaration is no TOML"),
        ('name = "mine"\nsummary = "Do"\nwraps = "inner"', "wraps is 'inner'; expected the name of one of its choice"),
        (WIDTH.replace('"int"', '"integer"'), "parameter 'width': type is 'integer'; expected one of int, float, choice, bool"),
        (WIDTH.replace("default = 4", "default = 9"), "parameter 'width': default is 9; expected an int from 1 to 8"),
        (WIDTH.replace("low = 1", "low = 9"), "parameter 'width': low 9, high 8, log False; expected low <= high"),
        (WIDTH.replace("low = 1", 'low = "1"'), "parameter 'width': low is '1'; expected an int"),
        (WIDTH.replace("low = 1", "low = 0\nlog = true"), "low > 0 where log is true"),
        (WIDTH.replace("high = 8\n", ""), "parameter 'width': high is None; expected an int"),
        (WIDTH.replace("help", "hint"), "parameter 'width': field 'hint' is not known"),
        (WIDTH.replace("width", "Width"), "parameter 'Width': not a name for a parameter"),
        (WIDTH.replace("width", "depth"), "'width' is used and not declared; add [parameters.width]"),
    ],
)
def test_a_faulty_declaration_is_named(tmp_path: Path, declaration: str, message: str) -> None:
    if declaration.startswith("["):
        declaration = f'name = "mine"\nsummary = "Do"\n{declaration}'
    (tmp_path / "mine.py.j2").write_text(f"{{#\n{declaration}\n#}}\nWIDTH = {{{{ width | literal }}}}\n")

    with pytest.raises(InputError) as caught:
        load(tmp_path)

    assert str(caught.value).startswith("template mine: ")
    assert message in str(caught.value)


def test_a_file_without_declaration_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py.j2").write_text("class Policy: ...\n")

    with pytest.raises(InputError, match="template mine: it has no declaration"):
        load(tmp_path)


def test_a_file_that_is_no_text_is_named_with_the_byte(tmp_path: Path) -> None:
    (tmp_path / "mine.py.j2").write_bytes(b"{#\xff#}")

    with pytest.raises(InputError, match="template mine: not UTF-8 text: invalid start byte at byte 2"):
        load(tmp_path)


def test_a_broken_template_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py.j2").write_text('{#\nname = "mine"\nsummary = "Do"\n#}\n{% if %}\n')

    with pytest.raises(InputError, match="template mine: line 5: "):
        load(tmp_path)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no templates can be read: No such file or directory"):
        load(tmp_path / "nowhere")


def test_a_template_of_ones_own_may_wrap_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "mine.py.j2").write_text(
        '{#\nname = "mine"\nsummary = "Do as greedy does"\nwraps = "inner"\n[parameters.inner]\ntype = "choice"\n'
        'choices = ["greedy"]\ndefault = "greedy"\nhelp = "policy"\n#}\n{% include inner ~ ".py.j2" %}\n'
    )
    (mine,) = load(tmp_path)

    assert "class Policy:" in render(mine, defaults(mine))


def test_a_template_cannot_wrap_one_that_wraps(tmp_path: Path) -> None:
    (tmp_path / "mine.py.j2").write_text(
        '{#\nname = "mine"\nsummary = "Go round"\nwraps = "inner"\n[parameters.inner]\ntype = "choice"\n'
        'choices = ["mine"]\ndefault = "mine"\nhelp = "policy"\n#}\n{% include inner ~ ".py.j2" %}\n'
    )

    with pytest.raises(
        InputError, match=r"parameter 'inner' offers 'mine'; expected templates that wrap none: epsilon_greedy, greedy"
    ):
        load(tmp_path)


# --- what the documents say ---


def documented(folder: Path) -> Template:
    """Load the template that the README shows."""
    text = re.search(r"```jinja\n(.*?)```", README, re.DOTALL)
    assert text
    own = folder / "own"
    own.mkdir(exist_ok=True)
    (own / "newest_first.py.j2").write_text(text[1])
    (template,) = load(own)
    return template


def test_the_template_of_the_readme_works(tmp_path: Path) -> None:
    template = documented(tmp_path)
    for params in corners(template):
        for on, frontier, max_batch in itertools.product(TREES.values(), Frontier, (1, 8)):
            trajectory = run(render(template, params), on, Limits(max_rounds=500, max_batch=max_batch), frontier.value)

            assert trajectory.stop in (Stop.EXHAUSTED, Stop.POLICY_STOPPED), (params, trajectory.fault)


def test_the_readme_lists_every_template_with_its_summary() -> None:
    for template in TEMPLATES.values():
        assert f"| `{template.name}` | {template.summary}" in README


def test_the_policy_of_the_interface_document_works() -> None:
    example = re.search(r"```python\n(.*?)```", INTERFACE, re.DOTALL)
    assert example
    assert check(example[1]) == ()
    for on, frontier, max_batch in itertools.product(TREES.values(), Frontier, (1, 8)):
        trajectory = run(example[1], on, Limits(max_rounds=500, max_batch=max_batch), frontier.value)

        assert trajectory.stop in (Stop.EXHAUSTED, Stop.POLICY_STOPPED)


def test_the_interface_document_names_everything_that_can_be_seen() -> None:
    """Every public attribute of a view, a node, a context and its limits stands in a table."""
    attributes = [name for kind in (View, Node, Context) for name in dir(kind) if not name.startswith("_")]
    for name in set(attributes) - {"update", "take", "limits"}:
        assert f"| `{name}` |" in INTERFACE, name
    for name in Limits.__slots__:
        assert f"| `limits.{name}` |" in INTERFACE, name


def test_the_interface_document_lists_the_modules_that_pass_the_check() -> None:
    """And the sandbox holds all of them."""
    section = INTERFACE.split("## What a policy may use")[1].split("There is no numpy")[0]
    listed = set(re.findall(r"`(\w+)`", section))

    assert listed == {name.split(".")[0] for name in ALLOWED_MODULES}
    assert listed <= set(PRELOADED)


def test_the_command_of_the_guide_prints_a_policy() -> None:
    guide = (PROJECT / "docs" / "writing-policies.md").read_text()
    command = re.search(r'python -c "(.*)" > greedy.py', guide)
    assert command

    printed = subprocess.run([sys.executable, "-c", command[1]], cwd=PROJECT, capture_output=True, text=True, check=True)

    assert printed.stdout == render(TEMPLATES["greedy"], defaults(TEMPLATES["greedy"]))

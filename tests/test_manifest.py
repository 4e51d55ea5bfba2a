"""Manifests: what fixes a result and the result, made, written, read strictly and compared digit for digit."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from builders import broom, judged_in_process

from harness import manifest
from harness.errors import InputError
from harness.gate.document import document
from harness.gate.judge import judge
from harness.gate.verdict import Bounds, Look
from harness.manifest import Entry, How, Kind, Manifest
from harness.manifest.environment import PACKAGES
from harness.policy import Candidate, Origin
from harness.propose import templates
from harness.replay import Round, Stop, Trajectory
from harness.score import Evaluation, Objective, Settings, groups_of
from sandbox.api import Fault, FaultKind
from sandbox.base import GuestLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.tree import Tree

TREES = [broom(seed, 4, 4) for seed in range(4)]
HOW = How(GuestLimits(), 1, None)


def template(name: str) -> Candidate:
    """Return a template's policy at its defaults."""
    found = next(one for one in templates.load() if one.name == name)
    params = templates.defaults(found)
    return Candidate(templates.render(found, params), Origin.TEMPLATE, "", name, params)


def entry(name: str, trees: Sequence[Tree] = TREES, settings: Settings | None = None) -> Entry:
    """Judge a template in this process."""
    candidate = template(name)
    return Entry(name, candidate, judged_in_process(candidate, trees, settings), candidate.params)


def made(*entries: Entry, folder: Path = Path("results"), **given: Any) -> Manifest:
    files = {tree.digest: folder / "trees" / f"{number}.jsonl" for number, tree in enumerate(TREES)}
    return manifest.make(Kind.REPLAY, entries or (entry("greedy"),), HOW, files=files, beside=folder, **given)


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    fault = Fault(FaultKind.EXCEPTION, "boom", round=2)
    whole = entry("ucb")
    broken = replace(
        whole.evaluation.results[0],
        trajectory=replace(whole.evaluation.results[0].trajectory, stop=Stop.POLICY_ERROR, fault=fault),
    )
    faulted = replace(whole, evaluation=replace(whole.evaluation, results=(broken, *whole.evaluation.results[1:])))
    said = made(entry("greedy"), faulted)

    manifest.write(said, tmp_path / "m.json")

    assert manifest.read(tmp_path / "m.json") == said
    assert [place.file for place in said.trees] == [f"trees/{number}.jsonl" for number in range(4)]
    assert said.judged[1].value is None
    assert said.judged[1].replays[0].fault is not None


def test_a_manifest_is_the_same_in_whatever_order_the_trees_came(tmp_path: Path) -> None:
    for name, trees in (("forth", TREES), ("back", TREES[::-1])):
        manifest.write(made(entry("greedy", trees), entry("ucb", trees)), tmp_path / name)

    assert (tmp_path / "forth").read_bytes() == (tmp_path / "back").read_bytes()


def test_no_measured_figure_stands_in_a_manifest(tmp_path: Path) -> None:
    timed = entry("greedy")
    slow = tuple(replace(one, decide_s=9.0, cpu_s=9.0, memory_bytes=99, output="late") for one in timed.evaluation.results)

    assert made(timed) == made(replace(timed, evaluation=replace(timed.evaluation, results=slow)))


def test_a_place_that_cannot_be_written_is_named_and_nothing_is_left_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or directory; expected a place where a manifest can be written"):
        manifest.write(made(), tmp_path / "nowhere" / "m.json")
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="taken: is a directory"):
        manifest.write(made(), tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_figures_of_different_objectives_do_not_share_a_manifest() -> None:
    with pytest.raises(InputError, match="objective is value on one side and attainment on the other"):
        made(entry("greedy"), entry("ucb", settings=Settings(objective=Objective.ATTAINMENT)))


def test_a_name_stands_for_one_policy() -> None:
    with pytest.raises(InputError, match="greedy: stands for two policies"):
        made(entry("greedy"), replace(entry("ucb"), name="greedy"))


def test_a_source_that_no_file_can_hold_is_refused_by_name() -> None:
    odd = replace(entry("greedy"), candidate=Candidate("x = '\udc80'", Origin.FILE))
    with pytest.raises(InputError, match="greedy: the source is not UTF-8"):
        made(odd)


def test_the_libraries_that_are_named_are_those_the_harness_is_built_on() -> None:
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[>=<\[]", line)[0] for line in project["dependencies"]}
    assert wanted == set(PACKAGES)
    assert "missing" not in made().environment.packages.values()


def without(name: str) -> Callable[[dict[str, Any]], None]:
    def change(said: dict[str, Any]) -> None:
        del said[name]

    return change


def put(value: Any, *path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(said: Any) -> None:
        for part in path[:-1]:
            said = said[part]
        said[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("harness-manifest/9", "format"), "m.json: format is 'harness-manifest/9'; expected 'harness-manifest/1'"),
        (put("gates", "kind"), r"m.json: kind is 'gates'; expected 'replay', 'gate', 'bench' or 'export'"),
        (without("guest"), "m.json: guest is missing"),
        (put(1, "mood"), "m.json: mood is no field of the format"),
        (put(1, "judged", 0, "replays", 1, "mood"), r"judged\[0\].replays\[1\].mood is no field of the format"),
        (
            put("a lot", "judged", 0, "replays", 1, "figures", "value"),
            r"replays\[1\].figures.value is 'a lot'; expected",
        ),
        (put("12", "settings", "seed"), "settings.seed is '12'; expected a valid integer"),
        (put("worth", "settings", "objective"), "settings.objective is 'worth'; expected 'value' or 'attainment'"),
        (put("pass", "policies", 0, "source"), r"policies\[0\].digest is '[0-9a-f]{64}'; expected that of its source, "),
        (put("abc", "trees", 0, "digest"), r"trees\[0\].digest is 'abc'; expected 64 hex digits"),
        (
            put("0" * 64, "judged", 0, "replays", 2, "tree"),
            r"replays\[2\].tree is '0{10}.*; expected a digest among trees",
        ),
        (put("ucb", "judged", 0, "policy"), r"judged\[0\].policy is 'ucb'; expected a name among policies"),
        (put([], "judged"), r"judged is \[\]; expected at least one policy"),
        (put({"format": "verdict/0"}, "verdict"), "verdict is none that a gate writes: format is 'verdict/0'"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_what_was_expected(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    path = tmp_path / "m.json"
    manifest.write(made(), path)
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))

    with pytest.raises(InputError, match=words):
        manifest.read(path)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "m.json: not JSON"),
        (b"[]", r"m.json: format is \[\]; expected 'harness-manifest/1'"),
        (b"\xff", "m.json: byte 1 is not UTF-8"),
        (b'{"format": 1, "format": 2}', "field 'format' stands twice"),
        (b'{"format": "harness-manifest/1", "kind": NaN}', "m.json: not JSON: NaN is no finite number"),
        (b"[" * 100_000, "m.json: nests too deep"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path, raw: bytes, words: str) -> None:
    (tmp_path / "m.json").write_bytes(raw)
    with pytest.raises(InputError, match=words):
        manifest.read(tmp_path / "m.json")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"m.json: no such file or directory; expected a readable manifest"):
        manifest.read(tmp_path / "m.json")


# Comparing


def changed(said: Manifest, place: int, trajectory: Trajectory) -> Manifest:
    """Return the manifest in which one replay took another way."""
    first = entry("greedy")
    results = sorted(first.evaluation.results, key=lambda result: (result.name, result.tree))
    results[place] = replace(results[place], trajectory=trajectory)
    return made(replace(first, evaluation=replace(first.evaluation, results=tuple(results))))


def test_the_same_policies_over_the_same_trees_are_the_same() -> None:
    comparison = manifest.compare(made(), made())
    assert (comparison.same, comparison.replays, comparison.differences, comparison.environment) == (True, 4, (), ())


def test_a_difference_names_the_first_tree_and_round() -> None:
    said = made()
    name = said.trees[2].name
    results = entry("greedy").evaluation.results
    trajectory = next(result.trajectory for result in results if result.name == name)
    rounds = list(trajectory.rounds)
    rounds[1] = Round((0,), rounds[1].revealed[:1], 0)

    comparison = manifest.compare(said, changed(said, 2, replace(trajectory, rounds=tuple(rounds))))

    first = comparison.differences[0]
    assert (first.policy, first.tree, first.digest, first.round) == ("greedy", name, said.trees[2].digest, 2)
    assert re.match(r"picked \[0\], revealed \[\d+\] where the manifest has: picked \[[\d ]+\]", first.words)
    assert not comparison.same


def test_another_end_after_the_same_rounds_is_a_difference() -> None:
    said = made()
    name = said.trees[0].name
    trajectory = next(result.trajectory for result in entry("greedy").evaluation.results if result.name == name)

    found = changed(said, 0, replace(trajectory, stop=Stop.MAX_ROUNDS))

    (first, *_) = manifest.compare(said, found).differences
    assert first.round == len(trajectory.rounds) + 1
    assert first.words == f"ended by max_rounds where the manifest has: ended by {trajectory.stop}"


def test_the_last_digit_of_a_figure_counts() -> None:
    said = made()
    replay = said.judged[0].replays[1]
    value = replay.figures.value
    assert value is not None
    nudged = replace(replay, figures=replace(replay.figures, value=value + value * 2.3e-16))
    judged = replace(said.judged[0], replays=(said.judged[0].replays[0], nudged, *said.judged[0].replays[2:]))

    (difference,) = manifest.compare(replace(said, judged=(judged,)), said).differences

    assert difference.tree == said.trees[1].name
    assert difference.round is None
    assert difference.words == f"value is {value!r} where the manifest has {nudged.figures.value!r}"


def test_a_mean_that_is_not_that_of_its_replays_is_a_difference() -> None:
    said = made()
    (difference,) = manifest.compare(replace(said, judged=(replace(said.judged[0], quality=0.5),)), said).differences
    assert (difference.tree, difference.words) == (
        None,
        f"the mean quality over trees is {said.judged[0].quality!r} where the manifest has 0.5",
    )


def test_the_environment_is_told_and_decides_nothing() -> None:
    said = made()
    other = replace(said.environment, python="3.12.0", packages={**said.environment.packages, "numpy": "1.0"})
    comparison = manifest.compare(replace(said, environment=other), said)
    assert comparison.same
    assert comparison.environment == (
        f"python is {said.environment.python}, in the manifest 3.12.0",
        f"numpy is {said.environment.packages['numpy']}, in the manifest 1.0",
    )


def test_what_repeats_of_a_trajectory_is_in_its_digest() -> None:
    fault = Fault(FaultKind.EXCEPTION, "after 0.31 s", round=2, figures={"cpu_s": 0.31})
    plain = Trajectory("t", (Round((0, 0), (1, 2), 0),), Stop.EXHAUSTED)
    others = [
        replace(plain, tree="u"),
        replace(plain, rounds=(Round((0, 0), (1, 2), 1),)),
        replace(plain, stop=Stop.MAX_ROUNDS),
        replace(plain, stop=Stop.POLICY_ERROR, fault=fault),
        replace(plain, stop=Stop.POLICY_ERROR, fault=replace(fault, round=3)),
    ]
    slower = replace(plain, stop=Stop.POLICY_ERROR, fault=replace(fault, message="after 0.44 s", figures={}))

    assert len({one.digest for one in [plain, *others]}) == 6
    assert slower.digest == others[3].digest


# Verdicts


def verdict_of(candidate: Evaluation, incumbent: Evaluation) -> Any:
    groups = groups_of(incumbent.results, incumbent.settings.group_by)
    return judge(candidate, incumbent, groups, Bounds(allow_local=True), Look(1, 0.03, 0.0, 0.02))


def test_a_verdict_is_compared_part_by_part_and_never_by_decision_time() -> None:
    one, other = entry("successive_halving"), entry("greedy")
    said = made(one, other, verdict=verdict_of(one.evaluation, other.evaluation))
    slow = tuple(replace(result, cpu_s=500.0) for result in one.evaluation.results)
    slower = replace(one, evaluation=replace(one.evaluation, results=slow))
    late = made(slower, other, verdict=verdict_of(slower.evaluation, other.evaluation))
    nudged = json.loads(json.dumps(said.verdict))
    part = next(part for part in nudged["parts"] if part["name"] == "gain")
    part["words"] = "was larger"

    assert said.verdict == document(verdict_of(one.evaluation, other.evaluation))
    assert said.verdict != late.verdict
    assert manifest.compare(said, late).same
    (difference,) = manifest.compare(replace(said, verdict=nudged), said).differences
    assert difference.words.startswith("part gain: ")
    assert difference.words.endswith("where the manifest has: was larger")


def test_a_verdict_whose_reason_was_rewritten_is_a_difference() -> None:
    one, other = entry("successive_halving"), entry("greedy")
    said = made(one, other, verdict=verdict_of(one.evaluation, other.evaluation))
    boasted = dict(said.verdict or {}, reason="better by miles")

    (difference,) = manifest.compare(replace(said, verdict=boasted), said).differences

    assert difference.words.startswith("the verdict's reason is ")
    assert difference.words.endswith("where the manifest has better by miles")


def test_a_part_with_a_field_that_no_part_has_is_refused(tmp_path: Path) -> None:
    one, other = entry("successive_halving"), entry("greedy")
    manifest.write(made(one, other, verdict=verdict_of(one.evaluation, other.evaluation)), tmp_path / "m.json")
    said = json.loads((tmp_path / "m.json").read_text())
    said["verdict"]["parts"][0]["mood"] = "merry"
    (tmp_path / "m.json").write_text(json.dumps(said))

    with pytest.raises(InputError, match=r"m.json: verdict is none that a gate writes: .*mood") as refused:
        manifest.read(tmp_path / "m.json")

    assert len(str(refused.value)) < 400

"""Settings: default, file, variable, flag; later ones win, and each value remembers where it came from."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from commands import environment, process

from harness import config, wiring
from harness.cli import options
from harness.errors import InputError
from harness.gate.verdict import Bounds
from harness.score import Effort, GroupBy, Objective, Weight
from harness.score import Settings as JudgedBy
from sandbox.base import GuestLimits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from commands import Ended


def setting(ended: Ended, name: str) -> tuple[Any, str]:
    """Return a setting's value and where it came from."""
    told = ended.json["settings"][name]
    return told["value"], told["from"]


def test_the_later_source_wins(command: Callable[..., Ended], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = [setting(command("config", "--json"), "max_batch")]
    (folder / "harness.toml").write_text("seed = 3\n\nmax_batch = 5\n")
    told.append(setting(command("config", "--json"), "max_batch"))
    monkeypatch.setenv("HARNESS_MAX_BATCH", "6")
    told.append(setting(command("config", "--json"), "max_batch"))
    told.append(setting(command("config", "--json", "--max-batch", "7"), "max_batch"))

    assert told == [(8, "default"), (5, "harness.toml:3"), (6, "HARNESS_MAX_BATCH"), (7, "--max-batch")]


def test_the_settings_file_is_named_by_flag_before_variable(
    command: Callable[..., Ended], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seed in (("harness.toml", 1), ("by-variable.toml", 2), ("by-flag.toml", 3)):
        (folder / name).write_text(f"seed = {seed}\n")

    monkeypatch.setenv("HARNESS_CONFIG", "by-variable.toml")

    assert setting(command("config", "--json"), "seed") == (2, "by-variable.toml:1")
    assert setting(command("config", "--json", "--config", "by-flag.toml"), "seed") == (3, "by-flag.toml:1")


def test_without_any_source_the_values_are_those_of_the_core(folder: Path) -> None:
    settings = config.load({}).settings

    assert wiring.judged_by(settings) == JudgedBy()
    assert wiring.guest_limits(settings) == GuestLimits()
    assert wiring.bounds(settings) == Bounds()
    assert wiring.effort(settings, 1).repeats == Effort().repeats


def test_every_limit_of_a_guest_can_be_set(folder: Path) -> None:
    given = {"load_cpu_s": 3, "decision_cpu_s": 4, "replay_cpu_s": 6, "wall_factor": 2, "memory_mib": 7, "output_kib": 8}

    limits = wiring.guest_limits(config.load(given).settings)

    assert limits == GuestLimits(3.0, 4.0, 6.0, 2.0, 7 * 2**20, 8 * 2**10)
    assert len(given) == len(fields(GuestLimits))


def test_every_bound_of_the_gate_can_be_set(folder: Path) -> None:
    given = {"alpha": 0.1, "min_gain": 0.2, "quality_margin": 0.3, "group_margin": 0.4, "max_off_support": 0.5}
    given |= {"max_decision_cpu_s": 0.6, "allow_local": True, "resamples": 20_000, "power": 0.7, "seed": 8}

    assert wiring.bounds(config.load(given).settings) == Bounds(**given)
    assert len(given) == len(fields(Bounds))


def test_none_lifts_a_limit_that_a_file_has_set(command: Callable[..., Ended], folder: Path) -> None:
    (folder / "harness.toml").write_text('max_attempts = 9\nfrontier = "any"\n')

    ended = command("config", "--json", "--max-attempts", "none", "--frontier", "none")

    assert setting(ended, "max_attempts") == (None, "--max-attempts")
    assert setting(ended, "frontier") == (None, "--frontier")


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("max_bach = 3\n", ("harness.toml:1: max_bach (value 3) is no setting", "did you mean max_batch?")),
        ("\n[limits]\nx = 1\n", ("limits", "is no setting", "expected one of store")),
        ("seed = 1\nbeta1 = true\n", ("harness.toml:2: beta1 is True", "expected a finite number")),
        ("max_rounds = 1.5\n", ("harness.toml:1: max_rounds is 1.5", "expected a whole number of at least 0")),
        ("memory_mib = 0\n", ("harness.toml:1: memory_mib is 0", "at least 1")),
        ("wall_factor = 0.5\n", ("wall_factor is 0.5", "a number of at least 1")),
        ("alpha = 0.0\n", ("harness.toml:1: alpha is 0.0", "a chance above 0 and below 1")),
        ("quality_margin = -0.1\n", ("quality_margin is -0.1", "a number of at least 0")),
        ("max_off_support = 1.5\n", ("max_off_support is 1.5", "a share from 0 to 1")),
        ("resamples = 10\n", ("resamples is 10", "from 1000 to 1000000")),
        ("decision_cpu_s = 0\n", ("decision_cpu_s is 0", "seconds above 0")),
        ('store = ""\n', ("store is ''", "text that is not empty")),
        ("sandbox = [1]\n", ("sandbox is [1]", "auto, docker or local")),
        ('log_level = "loud"\n', ("log_level is 'loud'", "debug, info, warning or error")),
        ("seed = \n", ("harness.toml: not TOML", "line 1")),
        ("seed = 1\nseed = 2\n", ("harness.toml: not TOML", "line 2")),
    ],
)
def test_a_wrong_file_names_line_field_value_and_wish(
    command: Callable[..., Ended], folder: Path, text: str, fragments: tuple[str, ...]
) -> None:
    (folder / "harness.toml").write_text(text)

    ended = command("config")

    assert (ended.code, ended.out) == (2, "")
    for fragment in fragments:
        assert fragment in ended.err


def test_a_file_that_is_no_text_is_refused(command: Callable[..., Ended], folder: Path) -> None:
    (folder / "harness.toml").write_bytes(b"seed = \xff")

    ended = command("config")

    assert ended.code == 2
    assert "harness.toml: byte 8 is not UTF-8" in ended.err


def test_a_wrong_variable_is_named(command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HOLDOUT", "half")

    ended = command("config")

    assert ended.code == 2
    assert "HARNESS_HOLDOUT: holdout is 'half'; expected a share from 0 up to but not 1" in ended.err


def test_a_variable_that_sets_nothing_is_pointed_out(command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_MAX_BACH", "3")

    assert "HARNESS_MAX_BACH sets nothing; did you mean HARNESS_MAX_BATCH?" in command("config").err


def test_the_folder_of_a_suite_is_no_setting_that_was_misspelt(
    command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_SHARED", "elsewhere")

    assert command("config").err == ""


def test_every_setting_has_its_wish_and_its_help() -> None:
    for name in config.FIELDS:
        assert config.wish(name)
        assert str(config.Settings.model_fields[name].description).endswith(".")


def test_help_lists_every_objective_weight_and_grouping() -> None:
    """The options are written out, since `--help` imports none of the core."""
    for option, choices in ((options.Objective, Objective), (options.Weight, Weight), (options.GroupBy, GroupBy)):
        assert option.__metadata__[0].metavar == "|".join(choices)


def test_a_password_is_never_shown(command: Callable[..., Ended]) -> None:
    told = [command("config", *form, "--store", "postgresql://me:secret@host/db").out for form in ((), ("--json",))]

    assert all("secret" not in text and "me:***@host" in text for text in told)


def test_settings_do_not_change(folder: Path) -> None:
    settings = config.load({}).settings

    with pytest.raises(ValueError, match="frozen"):
        settings.seed = 3  # type: ignore[misc]


def test_unknown_flags_of_a_caller_are_no_settings(folder: Path) -> None:
    with pytest.raises(InputError, match="--seed: seed is -1"):
        config.load({"seed": -1})


def test_logs_are_lines_of_json_where_asked_for(folder: Path) -> None:
    """On standard error: standard output is for answers."""
    program = "import structlog\nfrom harness import log\nlog.configure('info', 'json')\nlogger = structlog.get_logger()\n"
    program += "logger.debug('tree.read')\nlogger.info('version.judged', promoted=False, gain=-0.012)\n"
    (folder / "logs.py").write_text(program)
    ended = subprocess.run([sys.executable, "logs.py"], cwd=folder, env=environment(), capture_output=True, text=True, check=True)

    (line,) = ended.stderr.splitlines()
    told = json.loads(line)
    assert ended.stdout == ""
    assert (told["event"], told["level"], told["promoted"], told["gain"]) == ("version.judged", "info", False, -0.012)


def test_the_settings_of_a_process_come_from_its_environment(folder: Path) -> None:
    ended = process("config", "--json", cwd=folder, variables={"HARNESS_SEED": "11"})

    assert setting(ended, "seed") == (11, "HARNESS_SEED")

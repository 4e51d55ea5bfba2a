"""A policy under version control: its rules are read strictly, hold against other sources, and are compared with a commit's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import config, gitfile
from harness.cli import policyfolder
from harness.errors import InputError

DIGEST = "0" * 64
RULES = f"""format = "policy/1"
description = "halves"

[trees]
paths = ["../../trees"]
digest = "{DIGEST}"

[limits]
max_batch = 4

[value]
beta1 = 0.002

[gate]
alpha = 0.01
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a policy's folder in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    made = Path("policies", "halving")
    made.mkdir(parents=True)
    (made / "policy.py").write_text("class Policy: ...\n")
    (made / "policy.toml").write_text(RULES)
    return made


def git(*args: str) -> str:
    """Run git as somebody."""
    done = subprocess.run(
        ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", *args], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def committed(folder: Path) -> Path:
    """Return the folder in a repository with one commit, tagged `base`."""
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    git("tag", "base")
    return folder


def test_what_a_folder_pins_holds_against_file_and_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("harness.toml").write_text("alpha = 0.5\nmax_batch = 16\n")
    monkeypatch.setenv("HARNESS_BETA1", "0.5")

    loaded = policyfolder.read(folder).pinned(config.load({}))

    assert (loaded.settings.alpha, loaded.settings.max_batch, loaded.settings.beta1) == (0.01, 4, 0.002)
    assert loaded.origins["alpha"] == "policies/halving/policy.toml:15"
    assert loaded.origins["beta2"] == "default"


def test_a_flag_that_says_otherwise_is_refused_and_one_that_agrees_is_not(folder: Path) -> None:
    pins = policyfolder.read(folder)

    assert pins.pinned(config.load({"alpha": "0.01"})).settings.alpha == 0.01
    with pytest.raises(InputError, match=r"policy.toml:15: alpha is pinned to 0.01; leave --alpha out"):
        pins.pinned(config.load({"alpha": "0.5"}))


def test_paths_of_trees_are_seen_from_the_folder(folder: Path) -> None:
    assert policyfolder.read(folder).trees == (folder / "../../trees",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("alpha = 0.01", "alhpa = 0.01", r"policy.toml:15: alhpa is not known in \[gate\]; did you mean alpha"),
        ("alpha = 0.01", "max_batch = 3", r"policy.toml:15: max_batch is not known in \[gate\]; expected one of alpha"),
        ("alpha = 0.01", "allow_local = true", r"policy.toml:15: allow_local is not known"),
        ("[gate]", "[gaet]", r"policy.toml:14: gaet is not known here; did you mean gate"),
        ('description = "halves"', "description = 3", r"policy.toml:2: description is 3; expected text"),
        ('"policy/1"', '"policy/2"', r"policy.toml:1: format is 'policy/2'; expected 'policy/1'"),
        ('format = "policy/1"', "", r"policy.toml: format is None"),
        ('["../../trees"]', '"trees"', r"policy.toml:5: paths is 'trees'; expected a list"),
        (DIGEST, "abc", r"policy.toml:6: digest is 'abc'; expected the digest of the set, which `harness trees list"),
        (
            f'digest = "{DIGEST}"',
            "",
            r"policy.toml: \[trees\] has no digest; expected that of the set, which `harness trees list",
        ),
        ("[trees]", "[limits.trees]", r"policy.toml"),
        ("max_batch = 4", "max_batch = ", r"policy.toml: not TOML: .*line 9"),
    ],
)
def test_a_wrong_rule_is_named_by_line_key_and_wish(folder: Path, old: str, new: str, message: str) -> None:
    (folder / "policy.toml").write_text(RULES.replace(old, new))

    with pytest.raises(InputError, match=message):
        policyfolder.read(folder)


def test_a_wrong_value_is_named_by_line_value_and_wish(folder: Path) -> None:
    (folder / "policy.toml").write_text(RULES.replace("alpha = 0.01", "alpha = 1.5"))

    with pytest.raises(InputError, match=r"policy.toml:15: alpha is 1.5; expected a chance above 0 and below 1"):
        policyfolder.read(folder).pinned(config.load({}))


@pytest.mark.parametrize("missing", ["policy.py", "policy.toml"])
def test_a_folder_has_both_files(folder: Path, missing: str) -> None:
    (folder / missing).unlink()

    with pytest.raises(InputError, match=missing):
        policyfolder.read(folder)


@pytest.mark.parametrize("name", ["policy.py", "policy.toml"])
def test_a_link_in_a_folder_is_refused_whatever_it_leads_to(folder: Path, name: str) -> None:
    """What lands is the link: its target would change without a gate, and its words would stand in a log."""
    (folder / name).rename(folder.parent / f"elsewhere-{name}")
    (folder / name).symlink_to((folder.parent / f"elsewhere-{name}").resolve())

    with pytest.raises(InputError, match=rf"{name}: is a symbolic link; expected a regular file"):
        policyfolder.read(folder)


def test_other_trees_are_refused_by_both_digests(folder: Path) -> None:
    read = policyfolder.read(folder)

    read.refuse_other_trees([], DIGEST)
    with pytest.raises(InputError, match=rf"policy.toml:6: digest is {DIGEST}, and the trees of here have 1"):
        read.refuse_other_trees([Path("here")], "1" * 64)


def test_a_file_is_read_as_it_stands_at_another_commit(committed: Path) -> None:
    (committed / "policy.py").write_text("class Policy: 1\n")
    git("commit", "-q", "-am", "second")

    assert gitfile.read_at("base", committed / "policy.py") == b"class Policy: ...\n"
    assert gitfile.read_at("HEAD", committed / "policy.py") == b"class Policy: 1\n"
    assert gitfile.read_at("base", committed / "other.py") is None


def test_a_commit_that_is_not_here_is_named_with_what_helps(committed: Path) -> None:
    for ref in ("gone", "--all", ""):
        with pytest.raises(InputError, match=r"is not known in .*fetch-depth: 0"):
            gitfile.read_at(ref, committed / "policy.py")


def test_a_link_is_no_policy(committed: Path) -> None:
    """What it leads to at that commit nobody can say."""
    (committed / "policy.py").unlink()
    (committed / "policy.py").symlink_to("/etc/hostname")
    git("commit", "-q", "-am", "a link")

    with pytest.raises(InputError, match="mode 120000; expected a regular file"):
        gitfile.read_at("HEAD", committed / "policy.py")


def test_a_folder_outside_of_any_repository_is_told_so(folder: Path) -> None:
    with pytest.raises(InputError, match=r"git rev-parse in policies/halving: .*not a git repository"):
        gitfile.read_at("base", folder / "policy.py")


def test_rules_that_a_change_loosens_are_told(committed: Path) -> None:
    assert policyfolder.changed_rules(policyfolder.read(committed), "base") == []

    (committed / "policy.toml").write_text(RULES.replace("alpha = 0.01", "alpha = 0.5\nmin_gain = -1.0"))
    changed = policyfolder.changed_rules(policyfolder.read(committed), "base")

    assert changed == ["gate.alpha 0.01 -> 0.5", "gate.min_gain (default) -> -1.0"]


def test_settings_that_a_change_brings_or_takes_away_are_told_as_rules_are(committed: Path) -> None:
    """What `policy.toml` does not pin, a settings file in the same change would decide with nobody noticing."""
    assert policyfolder.changed_settings(None, "base") == []

    config.FILE.write_text("min_gain = -1.0\nstore = 'postgresql://me:secret@host/db'\n")
    told = policyfolder.changed_settings(config.load({}).file, "base")
    assert told[0] == "min_gain (default) -> -1.0"
    assert told[1].startswith("store (default) -> ")
    assert "secret" not in told[1]

    git("add", str(config.FILE))
    git("commit", "-q", "-m", "settings")
    assert policyfolder.changed_settings(config.FILE, "HEAD") == []
    config.FILE.unlink()
    assert policyfolder.changed_settings(None, "HEAD")[0] == "min_gain -1.0 -> (default)"
    assert policyfolder.changed_settings(committed / "policy.toml", "HEAD") == [], "a file named otherwise is the operator's"


def test_outside_of_a_repository_no_settings_have_changed(folder: Path) -> None:
    config.FILE.write_text("min_gain = -1.0\n")

    assert policyfolder.changed_settings(config.FILE, "base") == []

"""An agent is named by a preset or by a file of a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.agents.naming import parse
from harness.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["command:claude", "command:codex"])
def test_presets_can_be_read(name: str) -> None:
    assert parse(name).name == name


def test_one_line_is_an_agent(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('command = ["my-agent"]\n')
    assert parse(str(tmp_path / "mine.toml")).name == "command:mine"


@pytest.mark.parametrize("name", ["command:../x", "nobody", ""])
def test_an_unknown_name_lists_what_there_is(name: str) -> None:
    with pytest.raises(InputError, match="command:claude"):
        parse(name)

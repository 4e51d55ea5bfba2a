"""Counts in messages, whoever writes them."""

from __future__ import annotations

import pytest

from harness.words import counted


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (1, "tree", "1 tree"),
        (0, "tree", "0 trees"),
        (2000, "tree", "2,000 trees"),
        (1, "try", "1 try"),
        (3, "try", "3 tries"),
        (2, "policy", "2 policies"),
        (2, "play", "2 plays"),
        (4, "search", "4 searches"),
        (2, "process", "2 processes"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, noun: str, words: str) -> None:
    assert counted(count, noun) == words

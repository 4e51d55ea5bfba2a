"""What models are called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic_ai.providers import infer_provider_class

from harness.errors import InputError
from harness.models.naming import COMPATIBLE, REPLAY, Named, parse


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("openai:gpt-5-mini", Named("openai", "gpt-5-mini")),
        ("anthropic:claude-haiku-4-5", Named("anthropic", "claude-haiku-4-5")),
        ("openrouter:qwen/qwen3:free", Named("openrouter", "qwen/qwen3:free")),
        ("replay:3", Named("replay", "3")),
        ("openai-compatible:q@http://localhost:11434/v1/", Named("openai-compatible", "q", "http://localhost:11434/v1")),
        ("openai-compatible:a@b@https://[::1]:80/v1", Named("openai-compatible", "a@b", "https://[::1]:80/v1")),
        ("openai-compatible:q@https://h/v1#MY_KEY", Named("openai-compatible", "q", "https://h/v1", "MY_KEY")),
    ],
)
def test_a_name_says_provider_model_and_where(text: str, named: Named) -> None:
    assert parse(text) == named


def test_where_a_key_is_found_is_no_part_of_the_name() -> None:
    """A stored answer is found under the name, whatever the variable is called today."""
    assert parse("openai-compatible:q@https://h/v1#A").name == parse("openai-compatible:q@https://h/v1#B").name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpt-5",
        ":gpt-5",
        "openai:",
        "openai-compatible:q",
        "openai-compatible:q@",
        "openai-compatible:@http://h",
        "openai-compatible:q@http://",
        "openai-compatible:q@http://h:port/v1",
        "openai:a\nb",
    ],
)
def test_what_is_no_name_says_what_is(text: str) -> None:
    with pytest.raises(InputError, match="expected"):
        parse(text)


@pytest.mark.parametrize("url", ["https://me:sk-planted-0123456789@h/v1", "https://h/v1?key=sk-planted-0123456789"])
def test_a_key_in_a_name_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InputError, match="environment") as raised:
        parse(f"openai-compatible:q@{url}")

    assert "planted" not in str(raised.value)


def test_every_provider_that_the_page_names_is_known_to_the_client() -> None:
    """Or the client names the package that it lacks, as the page says."""
    page = Path(__file__).parents[2].joinpath("docs", "models.md").read_text()
    mentioned = set(re.findall(r"`([a-z-]+):[A-Za-z…]", page)) - {COMPATIBLE, REPLAY, "http"}
    lacking = {}
    for provider in mentioned:
        try:
            infer_provider_class(provider)
        except ImportError as error:
            lacking[provider] = str(error)

    assert {"openai", "anthropic", "openrouter", "deepseek", "fireworks", "together", "azure", "google"} <= mentioned
    assert all("pydantic-ai-slim[" in message for message in lacking.values())
    assert set(lacking) <= {"google", "mistral", "groq", "cohere", "bedrock"}


def test_every_address_that_the_page_shows_is_a_name() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "models.md").read_text()
    shown = re.findall(r"`(openai-compatible:[^`]+@http[^`]+)`", page)

    assert len(shown) >= 5
    assert all(parse(name).url for name in shown)

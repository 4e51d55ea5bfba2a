"""What reads the templates of prompts, and fences in what others wrote."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.propose.prompts.fence import Fence, KeyTakenError

if TYPE_CHECKING:
    from collections.abc import Sequence


@cache
def environment() -> Environment:
    """Return what reads the prompts' templates: nothing undefined is passed over, nothing is escaped."""
    return Environment(  # noqa: S701 - the product is text for a model; escaping for HTML would break it
        loader=PackageLoader("policy_templates", "prompts"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def fenced(name: str, foreign: Sequence[str], **said: Any) -> str:
    """Return a template filled in, `data` being a fence whose key stands in none of the foreign texts."""
    attempt = 0
    while True:
        try:
            return environment().get_template(f"{name}.md.j2").render(data=Fence(foreign, attempt).data, **said)
        except KeyTakenError:
            attempt += 1

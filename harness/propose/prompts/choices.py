"""Tell what may be chosen: the parameters of a policy, and templates with theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.propose.edits import EditKind, allowed_values
from harness.propose.prompts.fence import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.policy import Candidate
    from harness.propose.prompts.base import Ask
    from harness.propose.templates import Template

PARAMETERS = 30
VALUE = 120


def choices_told(ask: Ask) -> list[str]:
    """Return what may be chosen for the kind of edit that is asked for, a line each; nothing where code is written."""
    if ask.kind is EditKind.PARAMETERS:
        return list(_parameters(ask.parents[0].version.candidate, ask.templates))
    if ask.kind is EditKind.TEMPLATE:
        return list(_templates(ask.templates))
    return []


def _parameters(candidate: Candidate, templates: tuple[Template, ...]) -> Iterator[str]:
    template = next((template for template in templates if template.name == candidate.template), None)
    words = {} if template is None else {parameter.name: parameter.help for parameter in template.parameters}
    for name, allowed in list(allowed_values(candidate, templates).items())[:PARAMETERS]:
        now = f"; now {quoted(repr(candidate.params[name]), VALUE)}" if name in candidate.params else ""
        yield f"{name}: {quoted(allowed, VALUE)}{now}" + (f"; {words[name]}" if name in words else "")


def _templates(templates: tuple[Template, ...]) -> Iterator[str]:
    for template in templates:
        yield f"{template.name}: {template.summary}"
        for parameter in template.parameters:
            yield f"    {parameter.name}: {parameter.range}, default {parameter.default!r}; {parameter.help}"

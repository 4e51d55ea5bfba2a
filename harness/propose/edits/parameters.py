"""Edits that set values and write no code: parameters of the parent, or another template with its parameters.

Values are checked against the template's declaration; where the parent was not rendered from a template, against what its code
lets be set. They enter the code as literals and in no other way.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple

from harness.errors import InputError
from harness.propose.edits.base import Edited, EditKind, FaultReason, ProposalFault
from harness.propose.edits.declared import Settable, rewritten, settable
from harness.propose.edits.marks import plain_ends
from harness.propose.edits.objects import Object, objects, read_object, scalar
from harness.propose.templates import Kind, Parameter, Template, Value, defaults, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.policy import Candidate
    from harness.propose.edits.answer import Answer

_ENVELOPES = ("arguments", "parameters", "params", "input", "args", "function", "tool_calls", "values", "settings")
_SELF = ("template", "rationale", "lesson", "explanation", "name", "type", "id", "tool", "version")
_TEXT_CHARACTERS = 200
_LISTED = 30


class Choice(NamedTuple):
    """What an answer chooses: a template, where it names one, and values by name; its words where they stand in the object."""

    template: str | None
    values: Object
    rationale: str = ""
    lesson: str = ""


def set_parameters(answer: Answer, parents: Sequence[Candidate], templates: Sequence[Template]) -> Edited:
    """Return the parent with other values of its parameters.

    Raises:
        ProposalFault: the answer holds no object, or one with values that are not allowed.
    """
    parent = parents[0]
    template = template_of(parent, templates)
    allowed = _allowed(parent, template)
    choice = _choice(answer, allowed, templates, dict.fromkeys(list(allowed)[:2], 1))
    if choice.template is not None and choice.template != (template.name if template else None):
        told = f"the answer names the template {choice.template!r}; only parameters can be set here: {_listed(allowed)}"
        raise ProposalFault(FaultReason.UNKNOWN_TEMPLATE, told)
    if template is not None:
        values = dict(parent.params) | _checked(choice.values, template)
        return _rendered(template, values, choice, EditKind.PARAMETERS)
    known = settable(plain_ends(parent.source), parent.params)
    written: dict[Settable, Value] = {known[name]: value for name, value in _set(choice.values, known).items()}
    params = {name: value for name, value in parent.params.items() if name not in choice.values}
    source = rewritten(plain_ends(parent.source), written)
    return Edited(source, params, None, choice.rationale, choice.lesson, kind=EditKind.PARAMETERS)


def choose_template(answer: Answer, parents: Sequence[Candidate], templates: Sequence[Template]) -> Edited:
    """Return a template's code with the values that the answer gives; the others are its defaults.

    Raises:
        ProposalFault: the answer names no template, one that is not known, or values that are not allowed.
    """
    del parents
    every = {parameter.name for template in templates for parameter in template.parameters}
    known = {template.name: template for template in templates}
    choice = _choice(answer, dict.fromkeys(every, ""), templates, {"template": next(iter(known), "")})
    if choice.template is None:
        raise ProposalFault(FaultReason.NO_EDIT, f"the answer names no template; expected one of {', '.join(known)}")
    template = known.get(choice.template.strip().removesuffix(".j2").removesuffix(".py"))
    if template is None:
        told = f"there is no template {_short(choice.template)}; expected one of {', '.join(known)}"
        raise ProposalFault(FaultReason.UNKNOWN_TEMPLATE, told)
    return _rendered(template, defaults(template) | _checked(choice.values, template), choice, EditKind.TEMPLATE)


def template_of(candidate: Candidate, templates: Sequence[Template]) -> Template | None:
    """Return the template that a candidate can be rendered from today, None where there is none."""
    template = next((template for template in templates if template.name == candidate.template), None)
    if template is None or {parameter.name for parameter in template.parameters} != candidate.params.keys():
        return None
    return template


def allowed_values(parent: Candidate, templates: Sequence[Template]) -> dict[str, str]:
    """Return what may be set in a parent, and in words to which values."""
    return _allowed(parent, template_of(parent, templates))


def _allowed(parent: Candidate, template: Template | None) -> dict[str, str]:
    if template is not None:
        return {parameter.name: parameter.range for parameter in template.parameters}
    known = settable(plain_ends(parent.source), parent.params)
    return {name: f"{_kind(entry.value)}, now {entry.value!r}" for name, entry in known.items()}


def _rendered(template: Template, values: Mapping[str, object], choice: Choice, kind: EditKind) -> Edited:
    try:
        source = render(template, values)
    except InputError as error:
        raise ProposalFault(FaultReason.BAD_VALUE, str(error)) from error
    return Edited(source, dict(values), template.name, choice.rationale, choice.lesson, kind=kind)


def _choice(answer: Answer, allowed: Mapping[str, str], templates: Sequence[Template], example: Mapping[str, object]) -> Choice:
    found = objects(answer.lines, {*allowed, "template"})
    choices = [_opened(entry, allowed) for entry in found]
    choices = [choice for choice in choices if choice.template is not None or choice.values]
    if not choices:
        named = [template.name for template in templates if template.name == answer.text.strip("`*\"' .\n")]
        if not named:
            told = f"the answer holds no object with values; expected JSON such as {json.dumps(example)}"
            raise ProposalFault(FaultReason.TRUNCATED if answer.cut or _open(answer) else FaultReason.NO_EDIT, told)
        choices = [Choice(named[0], {})]
    if any(choice[:2] != choices[0][:2] for choice in choices):
        raise ProposalFault(FaultReason.SEVERAL, f"the answer holds {len(choices)} different objects; send the one that is meant")
    return choices[0]


def _opened(entry: Object, allowed: Mapping[str, str]) -> Choice:
    """Take values out of what surrounds them: a tool call, `{"params": …}`, the model's reasons beside them."""
    template = entry.get("template")
    words = {name: entry[name] for name in ("rationale", "explanation", "lesson") if name not in allowed and name in entry}
    values = entry
    for _ in range(len(_ENVELOPES)):
        name = next((name for name in _ENVELOPES if name in values and name not in allowed), None)
        if name is None:
            break
        inner = values[name]
        inner = inner[0] if isinstance(inner, list) and len(inner) == 1 else inner
        inner = read_object(inner) if isinstance(inner, str) else inner
        if not isinstance(inner, dict):
            break
        values = {str(key): value for key, value in inner.items()}
        template = template if isinstance(template, str) else values.get("template")
        words |= {name: values[name] for name in ("rationale", "explanation", "lesson") if name not in allowed and name in values}
    said = {name: value for name, value in values.items() if name in allowed or name not in _SELF}
    for name, value in said.items():
        if isinstance(value, dict | list):
            told = f"{_short(name)} is {'an object' if isinstance(value, dict) else 'a list'}; expected one value"
            raise ProposalFault(FaultReason.BAD_VALUE, told)
    rationale = words.get("rationale", words.get("explanation", ""))
    lesson = words.get("lesson", "")
    named = template if isinstance(template, str) and "template" not in allowed else None
    return Choice(named, said, *(word if isinstance(word, str) else "" for word in (rationale, lesson)))


def _checked(values: Object, template: Template) -> dict[str, Value]:
    known = {parameter.name: parameter for parameter in template.parameters}
    checked: dict[str, Value] = {}
    for name, value in values.items():
        parameter = known.get(name)
        if parameter is None:
            raise _unknown(name, {parameter.name: parameter.range for parameter in template.parameters})
        read = _as_declared(value, parameter)
        if not parameter.allows(read):
            told = f"parameter {name!r} is {_short(value)}; expected {parameter.range}"
            raise ProposalFault(FaultReason.BAD_VALUE, told)
        checked[name] = read
    return checked


def _as_declared(value: object, parameter: Parameter) -> Value:
    """Read "12", 12.0 and "true" as what they are meant to be."""
    read = scalar(value) if isinstance(value, str) and not parameter.allows(value) else value
    if parameter.kind is Kind.INT and type(read) is float and read.is_integer():
        read = int(read)
    return read  # type: ignore[return-value] # whoever calls asks the parameter whether it allows it


def _set(values: Object, known: Mapping[str, Settable]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in values.items():
        if name not in known:
            raise _unknown(name, {name: f"{_kind(entry.value)}, now {entry.value!r}" for name, entry in known.items()})
        now = known[name].value
        read = scalar(value) if isinstance(value, str) and not isinstance(now, str) else value
        if type(now) is float and type(read) is int:
            read = float(read) if abs(read) < 2**53 else read
        if type(now) is int and type(read) is float and read.is_integer():
            read = int(read)
        if type(now) is int and type(read) is float and math.isfinite(read):
            raise ProposalFault(FaultReason.BAD_VALUE, f"{name} is {read!r}; expected an int, as it is now ({now!r})")
        if type(read) is not type(now) or not _fits(read):
            raise ProposalFault(
                FaultReason.BAD_VALUE, f"{name} is {_short(value)}; expected {_kind(now)}, as it is now ({now!r})"
            )
        found[name] = read
    return found


def _fits(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _TEXT_CHARACTERS and value.isprintable()
    return not isinstance(value, float | int) or (math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63)


def _kind(value: Value) -> str:
    return {bool: "true or false", int: "an int", float: "a number", str: "text"}[type(value)]


def _unknown(name: str, allowed: Mapping[str, str]) -> ProposalFault:
    return ProposalFault(FaultReason.UNKNOWN_PARAMETER, f"there is no parameter {_short(name)}; it has {_listed(allowed)}")


def _listed(allowed: Mapping[str, str]) -> str:
    if not allowed:
        return "none that can be set; change its code"
    listed: Iterable[str] = (f"{name} ({range_})" if range_ else name for name, range_ in list(allowed.items())[:_LISTED])
    return ", ".join(listed)


def _open(answer: Answer) -> bool:
    return answer.text.count("{") > answer.text.count("}")


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        return "a number of more digits than can be shown"
    return text if len(text) <= _TEXT_CHARACTERS else f"{text[:_TEXT_CHARACTERS]}…"

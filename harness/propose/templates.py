"""Policy templates: files that render to policy code and declare the parameters they can be rendered with.

A template is one file, `NAME.py.j2`. It opens with a Jinja comment that holds its declaration in TOML; the rest is the policy.
Values enter the code as Python literals through the filter `literal` and in no other way, so no value becomes code.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

from jinja2 import DictLoader, Environment, StrictUndefined, TemplateError, TemplateSyntaxError, meta

from harness.errors import InputError
from harness.policy import Candidate, Origin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable
    from pathlib import Path

SUFFIX = ".py.j2"
_DECLARATION = re.compile(r"\A\{#(.*?)#\}", re.DOTALL)
_NAME = re.compile(r"[a-z][a-z0-9_]*")

Value: TypeAlias = bool | int | float | str


class Kind(StrEnum):
    """What a parameter's values are."""

    INT = "int"
    FLOAT = "float"
    CHOICE = "choice"
    BOOL = "bool"


_FIELDS = {
    Kind.INT: {"type", "help", "default", "low", "high", "log"},
    Kind.FLOAT: {"type", "help", "default", "low", "high", "log"},
    Kind.CHOICE: {"type", "help", "default", "choices"},
    Kind.BOOL: {"type", "help", "default"},
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One dimension of a template's space.

    `low` and `high` (both inclusive; None for choices and booleans) bound numbers, `log` says that their scale is
    logarithmic. `choices` lists the values of a choice or boolean in order of declaration.
    """

    name: str
    kind: Kind
    help: str
    default: Value
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Value, ...] = ()

    @property
    def range(self) -> str:
        """Return in words which values are allowed."""
        if self.choices:
            return f"one of {', '.join(map(repr, self.choices))}"
        return f"{'an int' if self.kind is Kind.INT else 'a number'} from {self.low} to {self.high}"

    def allows(self, value: object) -> bool:
        """Return whether a template may be rendered with this value; True is no number and 1 no boolean."""
        if self.choices:
            return any(type(value) is type(choice) and value == choice for choice in self.choices)
        if type(value) is not int and (self.kind is Kind.INT or type(value) is not float):
            return False
        return self.low is not None and self.high is not None and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Template:
    """One template as loaded.

    `wraps` names the choice parameter that says which of the templates in `wrapped` is rendered inside this one; None for
    a template that stands alone.
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    source: str
    wraps: str | None = None
    wrapped: tuple[Template, ...] = ()


def load(directory: Path | None = None) -> tuple[Template, ...]:
    """Return the templates of a directory by name, or those that the harness ships.

    Templates of a directory of one's own may wrap the shipped ones.

    Raises:
        InputError: the directory cannot be read, or a template is not declared as it has to be.
    """
    folder: Traversable = files("policy_templates") if directory is None else directory
    try:
        texts = {f.name.removesuffix(SUFFIX): f.read_bytes() for f in folder.iterdir() if f.name.endswith(SUFFIX)}
    except OSError as error:
        raise InputError(
            f"{directory}: no templates can be read: {error.strerror}; give a directory of *{SUFFIX} files"
        ) from error
    own = [_parse(name, text) for name, text in sorted(texts.items())]
    known = {template.name: template for template in [*(load() if directory else ()), *own] if template.wraps is None}
    return tuple(_with_wrapped(template, known) for template in own)


def schedulers() -> tuple[Template, ...]:
    """Return the branch schedulers that the harness ships: to be named, and no part of the search over templates."""
    folder = files("policy_templates") / "schedulers"
    texts = {f.name.removesuffix(SUFFIX): f.read_bytes() for f in folder.iterdir() if f.name.endswith(SUFFIX)}
    return tuple(_parse(name, text) for name, text in sorted(texts.items()))


def defaults(template: Template) -> dict[str, Value]:
    """Return every parameter's default."""
    return {parameter.name: parameter.default for parameter in template.parameters}


def render(template: Template, params: Mapping[str, Any]) -> str:
    """Return the policy's code with these values of all its parameters.

    A wrapped template is rendered with its defaults, save for parameters that the outer one declares under the same name.

    Raises:
        InputError: a parameter is missing, unknown or out of range, or the template cannot be rendered.
    """
    values = _checked(template, params)
    for inner in template.wrapped:
        if template.wraps and inner.name == values[template.wraps]:
            values = defaults(inner) | values
            # The outer template's values meet the inner one's ranges as well.
            _checked(inner, {parameter.name: values[parameter.name] for parameter in inner.parameters})
    try:
        return _environment(template).from_string(template.source).render(values | {"summary": template.summary})
    except TemplateError as error:
        raise InputError(f"template {template.name}: cannot be rendered: {error}") from error


def as_it_comes(named: str) -> Candidate | None:
    """Return the policy that a template is at its defaults, None where there is no template of this name."""
    template = next((template for template in (*load(), *schedulers()) if template.name == named), None)
    if template is None:
        return None
    params = defaults(template)
    return Candidate(render(template, params), Origin.TEMPLATE, f"{named}: the template as it comes", named, params)


def _checked(template: Template, params: Mapping[str, Any]) -> dict[str, Value]:
    known = {parameter.name: parameter for parameter in template.parameters}
    for name, value in params.items():
        if name not in known:
            raise InputError(
                f"template {template.name}: no parameter {name!r} (value {value!r}); it has {', '.join(known) or 'none'}"
            )
    for name, parameter in known.items():
        if name not in params:
            raise InputError(f"template {template.name}: parameter {name!r} is missing; expected {parameter.range}")
        if not parameter.allows(params[name]):
            raise InputError(f"template {template.name}: parameter {name!r} is {params[name]!r}; expected {parameter.range}")
    return {name: float(params[name]) if parameter.kind is Kind.FLOAT else params[name] for name, parameter in known.items()}


def _literal(value: Value) -> str:
    """Write a value as Python, strings in the quotes that formatters prefer."""
    text = repr(value)
    return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text else text


def _environment(template: Template) -> Environment:
    environment = Environment(  # noqa: S701 - the product is Python; escaping for HTML would break it
        loader=DictLoader({inner.name + SUFFIX: inner.source for inner in template.wrapped}),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["literal"] = _literal
    return environment


def _parse(name: str, text: bytes) -> Template:
    where = f"template {name}"
    try:
        source = text.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    declaration = _DECLARATION.match(source)
    if declaration is None:
        raise InputError(
            f"{where}: it has no declaration; open it with a Jinja comment that holds TOML: {{# name = {name!r} … #}}"
        )
    try:
        said = tomllib.loads(declaration[1])
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: its declaration is no TOML: {error}") from error
    _refuse_unknown(where, said, {"name", "summary", "wraps", "parameters"})
    if said.get("name") != name:
        raise InputError(f"{where}: name is {said.get('name')!r}; expected {name!r}, as the file is called")
    summary = _text(where, said, "summary")
    table = said.get("parameters", {})
    if not isinstance(table, dict):
        raise InputError(f"{where}: parameters is {table!r}; expected a table for each parameter: [parameters.width]")
    parameters = tuple(_parameter(f"{where}: parameter {key!r}", key, entry) for key, entry in table.items())
    wraps = said.get("wraps")
    if wraps is not None and not any(p.name == wraps and p.kind is Kind.CHOICE for p in parameters):
        raise InputError(f"{where}: wraps is {wraps!r}; expected the name of one of its choice parameters")
    template = Template(name, summary, parameters, source, wraps)
    _refuse_undeclared(template)
    return template


def _refuse_undeclared(template: Template) -> None:
    environment = _environment(template)
    try:
        used = meta.find_undeclared_variables(environment.parse(template.source))
    except TemplateSyntaxError as error:
        raise InputError(f"template {template.name}: line {error.lineno}: {error.message}") from error
    undeclared = sorted(used - {"summary"} - {parameter.name for parameter in template.parameters})
    if undeclared:
        raise InputError(
            f"template {template.name}: {undeclared[0]!r} is used and not declared; add [parameters.{undeclared[0]}]"
        )


def _parameter(where: str, name: str, entry: object) -> Parameter:
    if not _NAME.fullmatch(name) or name == "summary":
        raise InputError(f"{where}: not a name for a parameter; expected small letters, digits and _, and not 'summary'")
    if not isinstance(entry, dict):
        raise InputError(f"{where}: is {entry!r}; expected a table: [parameters.{name}]")
    if entry.get("type") not in list(Kind):
        raise InputError(f"{where}: type is {entry.get('type')!r}; expected one of {', '.join(Kind)}")
    kind = Kind(entry["type"])
    _refuse_unknown(where, entry, _FIELDS[kind])
    words = _text(where, entry, "help")
    if kind in (Kind.INT, Kind.FLOAT):
        low, high = (_number(where, entry, kind, bound) for bound in ("low", "high"))
        log = entry.get("log", False)
        if low > high or not isinstance(log, bool) or (log and low <= 0):
            raise InputError(f"{where}: low {low}, high {high}, log {log!r}; expected low <= high, and low > 0 where log is true")
        default = _number(where, entry, kind, "default")
        parameter = Parameter(name, kind, words, default, low, high, log)
    else:
        choices = (False, True) if kind is Kind.BOOL else entry.get("choices")
        if not isinstance(choices, list | tuple) or not choices or not all(type(c) in (bool, int, float, str) for c in choices):
            raise InputError(f"{where}: choices is {choices!r}; expected a list of values")
        parameter = Parameter(name, kind, words, entry.get("default", ""), choices=tuple(choices))
    if not parameter.allows(parameter.default):
        raise InputError(f"{where}: default is {entry.get('default')!r}; expected {parameter.range}")
    return parameter


def _with_wrapped(template: Template, known: Mapping[str, Template]) -> Template:
    if template.wraps is None:
        return template
    choices = next(parameter.choices for parameter in template.parameters if parameter.name == template.wraps)
    for choice in choices:
        if choice not in known:
            raise InputError(
                f"template {template.name}: parameter {template.wraps!r} offers {choice!r}; expected templates that wrap none:"
                f" {', '.join(known)}"
            )
    wrapped = tuple(known[str(choice)] for choice in choices)
    return Template(template.name, template.summary, template.parameters, template.source, template.wraps, wrapped)


def _text(where: str, said: Mapping[str, Any], key: str) -> str:
    text = said.get(key)
    if not isinstance(text, str) or not text.strip() or "\n" in text or '"' in text or "\\" in text:
        raise InputError(f'{where}: {key} is {text!r}; expected one line of text without " and \\')
    return text


def _number(where: str, said: Mapping[str, Any], kind: Kind, key: str) -> float:
    number = said.get(key)
    if type(number) is int or (kind is Kind.FLOAT and type(number) is float and abs(number) < float("inf")):
        return float(number) if kind is Kind.FLOAT else number
    raise InputError(f"{where}: {key} is {number!r}; expected {'an int' if kind is Kind.INT else 'a finite number'}")


def _refuse_unknown(where: str, said: Mapping[str, Any], known: set[str]) -> None:
    for key in said:
        if key not in known:
            raise InputError(f"{where}: field {key!r} is not known; expected {', '.join(sorted(known))}")

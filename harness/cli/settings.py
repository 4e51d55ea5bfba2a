"""`harness config` and `harness version`."""

from __future__ import annotations

import platform

from harness import __version__, config
from harness.cli.output import note, say, say_json, table


def show(loaded: config.Loaded, as_json: bool) -> int:
    """Print every setting, its value and where that comes from."""
    values = loaded.settings.model_dump(mode="json")
    values["store"] = config.without_password(values["store"])
    values["model"] = values["model"] and [config.without_password(name) for name in values["model"]]
    for sentence in config.idle_variables():
        note(sentence)
    if as_json:
        file = None if loaded.file is None else str(loaded.file)
        settings = {name: {"value": values[name], "from": loaded.origins[name]} for name in config.FIELDS}
        say_json({"file": file, "settings": settings})
        return 0
    rows = [[name, _text(values[name]), loaded.origins[name], help_of(name)] for name in config.FIELDS]
    head = ("setting", "value", "from", "meaning")
    say(table(head, rows, left=head))
    return 0


def help_of(name: str) -> str:
    """Return a setting's sentence of help."""
    return str(config.Settings.model_fields[name].description)


def _text(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "none" if value is None else str(value)


def version(as_json: bool) -> int:
    """Print which harness runs on what."""
    words = {"harness": __version__, "python": platform.python_version(), "platform": platform.platform()}
    if as_json:
        say_json(words)
    else:
        say("\n".join(f"{name} {value}" for name, value in words.items()))
    return 0

"""What models are called: `PROVIDER:NAME`, or `openai-compatible:NAME@URL` for any server that speaks OpenAI's protocol.

A name holds no key, since it stands in settings, stores and manifests: it may say which variable of the environment does.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from harness.errors import InputError

COMPATIBLE = "openai-compatible"
REPLAY = "replay"
_KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    COMPATIBLE: "OPENAI_COMPATIBLE_API_KEY",
}
_WISH = (
    "expected PROVIDER:NAME such as openai:gpt-5-mini or anthropic:claude-haiku-4-5, openai-compatible:NAME@URL for any other "
    "server, or replay:RUN"
)


@dataclass(frozen=True, slots=True)
class Named:
    """A model's name, taken apart. `model` is the provider's own word for it; of `replay`, the run."""

    provider: str
    model: str
    url: str | None = None
    key_variable: str | None = None
    """The environment variable that holds the key; None takes the provider's usual one."""

    @property
    def name(self) -> str:
        """Return the whole name. Where the key is found is no part of it."""
        return f"{self.provider}:{self.model}" + (f"@{self.url}" if self.url is not None else "")

    @property
    def key_is_in(self) -> str | None:
        """Return the variable that the key is read from; None where only the client knows, or where none is sent.

        The usual variable of compatible servers goes to this machine and its network alone: to any other host a key is
        sent where the name says which.
        """
        if self.key_variable is None and self.provider == COMPATIBLE and not _is_near(self.url or ""):
            return None
        return self.key_variable or _KEY_VARIABLES.get(self.provider)


def parse(text: str) -> Named:
    """Take a name apart.

    Raises:
        InputError: it is none, or holds what looks like a key; which is not repeated then.
    """
    provider, colon, rest = text.strip().partition(":")
    if not colon or not provider or not rest or not text.isprintable():
        raise InputError(f"model {text!r} names no provider; {_WISH}")
    if provider != COMPATIBLE:
        return Named(provider, rest)
    model, at, address = rest.partition("@http")
    if not at or not model:
        raise InputError(f"model {text!r} says not where it answers; {_WISH}")
    return _compatible(model, "http" + address)


def _is_near(url: str) -> bool:
    """Return whether a host is this machine, or of a private network by its address or its name."""
    host = urlsplit(url).hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))
    return address.is_loopback or address.is_private or address.is_link_local


def _compatible(model: str, address: str) -> Named:
    where = f"model {COMPATIBLE}:{model}"
    try:
        url = urlsplit(address)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise InputError(f"{where}: its URL is none: {error}; expected one such as http://127.0.0.1:8080/v1") from None
    if url.scheme not in {"http", "https"} or not host:
        raise InputError(f"{where}: its URL names no host; expected one such as http://127.0.0.1:8080/v1")
    if "@" in url.netloc or url.query:
        raise InputError(
            f"{where}: its URL holds a password or a query; keys come from the environment alone: write …{url.path}#VARIABLE "
            "with the name of the variable that holds it"
        )
    return Named(COMPATIBLE, model, f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}", url.fragment or None)

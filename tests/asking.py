"""What tests of models share: requests, a model that says what it is told to, and an HTTP server that does."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from harness.models.base import Answer, Exchange, Finish, Message, ModelError, Request, Role, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.models.base import Model


def asked(text: str = "Say yes.", model: str = "scripted:m", **changes: Any) -> Request:
    """Return a request with one message."""
    fields: dict[str, Any] = {"temperature": 0.0, "seed": 1, "max_output_tokens": 16, "timeout_s": 20.0}
    return Request((Message(Role.USER, text),), model, **{**fields, **changes})


def said(text: str = "yes", cost_usd: float | None = None, **changes: Any) -> Answer:
    """Return an answer."""
    fields: dict[str, Any] = {"usage": Usage(3, 1), "finish": Finish.STOP, "latency_s": 0.1, "model": "m"}
    return Answer(text, cost_usd=cost_usd, **{**fields, **changes})


@dataclass
class Scripted:
    """A model that answers, or fails, as the script says, one line for each request; `requests` are those it got."""

    script: list[Answer | BaseException]
    name: str = "scripted:m"
    requests: list[Request] = field(default_factory=list)

    def complete(self, request: Request) -> Answer:
        """Do what the next line says."""
        self.requests.append(request)
        line = self.script[len(self.requests) - 1]
        if isinstance(line, BaseException):
            raise line
        return line


def error_of(model: Model, request: Request) -> ModelError:
    """Return the error that a model ends in."""
    try:
        answer = model.complete(request)
    except ModelError as error:
        return error
    raise AssertionError(f"expected an error, got {answer}")


def completion(text: str | None, finish: str | None = "stop", usage: tuple[int, int] | None = (3, 1), **message: Any) -> bytes:
    """Return an answer as OpenAI's protocol writes it."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    said: dict[str, Any] = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice]}
    if usage is not None:
        said["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return json.dumps(said).encode()


@contextmanager
def serving(reply: Callable[[Any], None]) -> Iterator[str]:
    """Serve what `reply` writes to each POST, and return the URL. `reply` gets the handler, with `body`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
            reply(self)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answering(body: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """Return a reply that is always the same."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return reply


class Recorded:
    """A model whose exchanges are handed over as a run keeps them."""

    def __init__(self, model: Model, sink: Callable[[Exchange], None]) -> None:
        self._model = model
        self._sink = sink
        self.name = model.name

    def complete(self, request: Request) -> Answer:
        """Return the answer once it was handed over."""
        try:
            answer = self._model.complete(request)
        except ModelError as error:
            self._sink(Exchange(request, None, str(error), "2026-11-30T20:00:00Z", error.kind))
            raise
        self._sink(Exchange(request, answer, None, "2026-11-30T20:00:00Z"))
        return answer

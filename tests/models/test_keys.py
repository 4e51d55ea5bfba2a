"""A key that is planted in the environment comes out nowhere: no answer, error, stored exchange, log or traceback holds it."""

from __future__ import annotations

import html
import json
import logging
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from asking import Recorded, answering, asked, completion, error_of, serving
from builders import tree

from harness import config, score, wiring
from harness.models import naming
from harness.models.base import Exchange, ModelError, exchange_fields
from harness.models.client import Client
from harness.models.journal import Asked
from harness.models.redaction import MASK, keys, redacted
from harness.models.retried import Retried
from harness.store.records import RunPlan

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).parents[2]
KEY = 'sk-planted/qqXZ"ZXpp+vvWW\\def='
VARIABLES = {"#MY_PLANTED": "MY_PLANTED", "": "OPENAI_COMPATIBLE_API_KEY"}


def echo(status: int, write: Callable[[str], bytes]) -> Callable[[Any], None]:
    """Return a server's reply that gives the key back that it was sent."""

    def reply(handler: Any) -> None:
        key = handler.headers["authorization"].removeprefix("Bearer ")
        assert key == KEY
        answering(write(key), status, x_request_id=quote(key))(handler)

    return reply


@pytest.mark.parametrize("where", VARIABLES)
@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
@pytest.mark.parametrize(
    "write",
    [
        lambda key: json.dumps({"error": {"message": f"bad key {key}"}}).encode(),
        lambda key: json.dumps({"detail": [{"input": key, "url": f"/v1?key={quote(key, safe='')}"}]}).encode(),
        lambda key: f"<html>Authorization: Bearer {key}</html>".encode(),
        lambda key: b"x" * 590 + key.encode(),
    ],
    ids=["message", "odd fields", "html", "across the cut"],
)
def test_a_key_that_a_server_gives_back_in_its_error_is_nowhere(
    where: str,
    status: int,
    write: Callable[[str], bytes],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(VARIABLES[where], KEY)
    kept: list[Exchange] = []
    with caplog.at_level(logging.DEBUG), serving(echo(status, write)) as url:
        model = Recorded(Client(naming.parse(f"openai-compatible:m@{url}{where}")), kept.append)
        error = error_of(model, asked())

    shown = "".join(traceback.format_exception(error))
    assert_nowhere(str(error), repr(error), shown, json.dumps([exchange_fields(exchange) for exchange in kept]))
    assert_nowhere("\n".join(record.getMessage() for record in caplog.records if record.name.startswith("harness")))


def test_a_key_that_a_server_gives_back_in_its_answer_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    kept: list[Exchange] = []
    with serving(echo(200, lambda key: completion(f"Your key is {key}.\n```python\nK = {key!r}\n```"))) as url:
        answer = Recorded(Client(naming.parse(f"openai-compatible:m@{url}")), kept.append).complete(asked())

    assert f"Your key is {MASK}." in answer.text
    assert_nowhere(answer.text, json.dumps(exchange_fields(kept[0])))


@pytest.mark.parametrize("status", [200, 401])
def test_a_key_that_a_server_gives_back_is_in_no_byte_of_the_store(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    one = tree("root>a", scores={"a": 1.0})
    for name in ("HARNESS_STORE", "HARNESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    settings = config.load({"store": f"sqlite:///{tmp_path}/harness.db"}).settings
    with wiring.open_store(settings, create=True) as store:
        store.add_trees([one])
        run = store.begin_run(RunPlan(7, 5, score.Settings(), "docker", (one.digest,)))
        with serving(echo(status, lambda key: completion(f"it is {key}, so {quote(key)}"))) as url:
            model = Recorded(
                Client(naming.parse(f"openai-compatible:m@{url}")), lambda e: store.exchanged(run, Asked(2, "whole", (1,)), 1, e)
            )
            with suppress(ModelError):
                model.complete(asked())
        (call,) = store.calls(run)

    assert MASK in str(call.exchange.answer or call.exchange.error)
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"openai-compatible" in kept or b"scripted:m" in kept
    assert [part for part in (b"planted", b"qqXZ", b"ZXpp", b"vvWW") if part in kept] == []


def test_a_key_with_a_line_end_is_used_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from a file that was read by a shell; as it is, it would be no header."""
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY + "\n")
    with serving(echo(200, lambda _: completion("yes"))) as url:
        assert Client(naming.parse(f"openai-compatible:m@{url}")).complete(asked()).text == "yes"


@pytest.mark.parametrize("name", ["openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"])
def test_a_key_that_is_no_header_is_not_in_the_error_about_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "sk-planted-01234\n56789abcdef")
    with serving(answering(completion("yes"))) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        error = error_of(Client(naming.parse(name)), asked())

    assert "planted" not in "".join(traceback.format_exception(error))


def test_a_key_for_one_server_is_not_sent_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    monkeypatch.setenv("OTHER", "another-key-0123456789")
    got: list[str] = []

    def keep(handler: Any) -> None:
        got.append(str(handler.headers))
        answering(completion("yes"))(handler)

    with serving(keep) as url:
        Client(naming.parse(f"openai-compatible:m@{url}#OTHER")).complete(asked())

    assert_nowhere(got[0])
    assert "another-key-0123456789" in got[0]


def test_a_server_that_sends_us_elsewhere_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    got: list[str] = []

    def keep(handler: Any) -> None:
        got.append(str(handler.headers))
        answering(completion("yes"))(handler)

    with serving(keep) as elsewhere, serving(answering(b"", 307, location=f"{elsewhere}/chat/completions")) as url:
        error = error_of(Client(naming.parse(f"openai-compatible:m@{url}")), asked())

    assert "307" in str(error)
    assert got == []


def test_what_a_process_prints_as_it_dies_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that the client would log, and the traceback of an error that nobody caught."""
    program = (
        "import logging, sys; logging.basicConfig(level=logging.INFO)\n"
        "from asking import asked; from harness.models import client, naming\n"
        "client.Client(naming.parse(sys.argv[1])).complete(asked())\n"
    )
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    monkeypatch.setenv("PYTHONPATH", f"{PROJECT}:{PROJECT / 'tests'}")
    with serving(echo(401, lambda key: json.dumps({"error": {"message": f"no such key: {key}"}}).encode())) as url:
        command = [sys.executable, "-c", program, f"openai-compatible:m@{url}"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert "no such key: ***" in ended.stderr
    assert_nowhere(ended.stdout, ended.stderr)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "aws_secret", "DB_PASSWORD", "GOOGLE_CREDENTIALS"])
def test_variables_that_hold_a_key_are_known_by_their_names(name: str) -> None:
    assert redacted(f"it is {KEY}", {name: KEY}) == f"it is {MASK}"


@pytest.mark.parametrize(
    "write",
    [
        str,
        quote,
        lambda key: quote(key, safe=""),
        lambda key: quote(key, safe="").lower().replace("qqxz", "qqXZ").replace("zxpp", "ZXpp").replace("vvww", "vvWW"),
        json.dumps,
        lambda key: json.dumps(json.dumps(key)),
        lambda key: json.dumps(key).replace("/", "\\/"),
        repr,
        lambda key: repr(repr(key)),
        html.escape,
        lambda key: "".join(c if c.isalnum() else f"&#{ord(c)};" for c in key),
        lambda key: "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in key),
    ],
)
def test_a_key_is_known_however_it_is_written(write: Callable[[str], str]) -> None:
    told = redacted(f"before {write(KEY)} after", {"MY_KEY": KEY})

    assert_nowhere(told)
    assert MASK in told
    assert told.startswith("before ")
    assert told.endswith(" after")


def test_words_that_stand_in_texts_by_themselves_are_left_alone() -> None:
    assert keys({"API_KEY": "none", "HOME": "/home/somebody", "DB_PASSWORD": ""}) == ()


def test_a_key_within_a_longer_key_leaves_no_rest() -> None:
    environment = {"A_KEY": "sk-planted", "B_KEY": "sk-planted-and-more"}

    assert redacted("sk-planted-and-more", environment) == MASK


def test_a_retried_call_raises_what_the_last_try_said_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    with serving(echo(503, lambda key: json.dumps({"error": {"message": key}}).encode())) as url:
        model = Retried(Client(naming.parse(f"openai-compatible:m@{url}")), sleep=lambda _: None)
        with pytest.raises(ModelError) as raised:
            model.complete(asked())

    assert_nowhere("".join(traceback.format_exception(raised.value)))


def assert_nowhere(*texts: str) -> None:
    """Look for the planted key in every way that it may be written."""
    for text in texts:
        for part in ("planted", "qqXZ", "ZXpp", "vvWW"):
            assert part not in text, f"{part!r} in {text[:2000]}"


def test_a_text_that_is_made_to_be_slow_to_search_is_not() -> None:
    began = time.process_time()

    redacted("\\" * 2**20, {"MY_KEY": "/" * 20})

    assert time.process_time() - began < 20  # it would be hours


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("http://127.0.0.1:8080/v1", "OPENAI_COMPATIBLE_API_KEY"),
        ("http://localhost:8080/v1", "OPENAI_COMPATIBLE_API_KEY"),
        ("http://192.168.1.7:8000/v1", "OPENAI_COMPATIBLE_API_KEY"),
        ("http://gpu-box:8000/v1", "OPENAI_COMPATIBLE_API_KEY"),
        ("https://models.example.com/v1", None),
        ("https://8.8.8.8/v1", None),
        ("https://models.example.com/v1#MY_KEY", "MY_KEY"),
    ],
)
def test_the_usual_key_goes_to_this_network_and_elsewhere_only_the_one_that_is_named(url: str, variable: str | None) -> None:
    assert naming.parse(f"openai-compatible:m@{url}").key_is_in == variable


@pytest.mark.parametrize(
    "text",
    [
        "use sk-proj-abcdefghijklmnop1234 for it",
        "Authorization: Bearer abcdef123456.ghi",
        "postgresql://user:hunter2secret@db/harness",
    ],
)
def test_what_looks_like_a_key_is_masked_wherever_it_comes_from(text: str) -> None:
    assert "***" in redacted(text, {})
    assert not any(part in redacted(text, {}) for part in ("abcdefghijklmnop", "abcdef123456", "hunter2"))


def test_a_short_key_is_masked_where_its_variable_is_named() -> None:
    assert redacted("it is q7Zx here", {"MINE": "q7Zx"}, also=("MINE",)) == "it is *** here"
    assert redacted("it is q7Zx here", {"SOME_KEY": "q7Zx"}) == "it is q7Zx here"

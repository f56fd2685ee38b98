"""The real servers, each started with the small model on a free port of the loopback until the block is left."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from antiphon_local_triton.model_directory import CHATML_TEMPLATE
from antiphon_local_triton.server_venv import read_layout
from tests.engines.cases import CASES, MODEL, ONLY_LLAMACPP, ONLY_VLLM, Body
from tests.engines.environments import BUILT, FOLDER, LLAMACPP, VLLM, Engine, install
from tests.engines.model_folder import make_folder
from tests.support.children import start_child
from tests.support.ports import free_ports
from tests.support.triton import server_venv

START_TIMEOUT_S = 600.0
QWEN3_TEMPLATE = FOLDER.parent / "golden/templates/Qwen-Qwen3-0.6B.jinja"
"""A template in which llama.cpp finds how the model thinks."""
_QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
_VLLM_OPTIONS = (
    *("--served-model-name", MODEL, "--host", "127.0.0.1", "--enforce-eager", "--max-model-len", "2048"),
    *("--max-num-seqs", "8", "--enable-prompt-tokens-details", "--seed", "0"),
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"),
    *("--default-chat-template-kwargs", '{"enable_thinking": false}'),
    # The parser takes what the model writes for reasoning until the thinking ends: a guide has to hold there too.
    *("--structured-outputs-config", '{"enable_in_reasoning": true}'),
)


@dataclass(frozen=True, eq=False)
class Kind:
    """A server that can be tried: how it is started, what it is asked, and how many requests its metrics show."""

    engine: Engine
    title: str
    cases: Mapping[str, Body]
    command: Callable[[int], list[str]]
    running: str
    """The metric of the running requests."""
    cached: str | None = None
    """The metric of the prompt tokens that were found in the cache."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    kind: Kind
    port: int

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.partition(" ")[0].partition("{")[0] == name)


def _vllm(port: int) -> list[str]:
    folder = make_folder(_weights(), BUILT / "model", CHATML_TEMPLATE.read_text("utf-8"))
    serve = [str(VLLM.python), str(VLLM.python.with_name("vllm")), "serve", str(folder)]
    return [*serve, *_VLLM_OPTIONS, "--port", str(port)]


def _llamacpp(port: int) -> list[str]:
    program = FOLDER / "llamacpp/serve.py"
    return [str(LLAMACPP.python), str(program), str(_weights()), str(QWEN3_TEMPLATE), str(port)]


def _weights() -> Path:
    return read_layout(server_venv()).packaged_gguf


KINDS = (
    Kind(
        VLLM,
        "vLLM on CPU",
        {**CASES, **ONLY_VLLM},
        _vllm,
        running="vllm:num_requests_running",
        cached="vllm:prefix_cache_hits_total",
    ),
    Kind(LLAMACPP, "llama.cpp's server", {**CASES, **ONLY_LLAMACPP}, _llamacpp, running="llamacpp:requests_processing"),
)


@contextmanager
def serving(kind: Kind) -> Iterator[Server]:
    """Installs and starts a server, and waits until it answers. RuntimeError: it ended, or took too long."""
    install(kind.engine)
    (port,) = free_ports(1)
    log = BUILT / f"{kind.engine.name}.log"
    with log.open("wb") as output:
        process = start_child(
            ["env", *(f"{name}={value}" for name, value in _QUIET.items()), *kind.command(port)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait(port, process, log)
        yield Server(kind, port)
    finally:
        process.terminate()
        process.wait()


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline_s:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
        except (URLError, OSError):
            time.sleep(0.5)
        else:
            return
    raise RuntimeError(f"the server does not answer; see {log}")

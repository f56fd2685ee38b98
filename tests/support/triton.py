"""A real Triton server for tests, with scripted models or with the packaged language model.

    async with triton_server(PACED, STALL) as server:
        channel = grpc.aio.insecure_channel(server.grpc_address)

    async with smollm2_server("tensorrt_llm", "vllm_model") as server:
        ...

The server's environment is built once in the user's cache folder. If that is not possible, tests fail; nothing here
skips.
"""

import asyncio
import json
import os
import re
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon_local_triton.repository import ENGINE, MODEL_NAME, write_model_repository
from antiphon_local_triton.server_venv import ensure_server_venv, read_layout
from antiphon_local_triton.supervisor import LocalTriton, Supervision, TritonState
from antiphon_tokens import engine, signature
from antiphon_tokens.repository import BATCH_MAX, CONFIG_FILE
from tests.support import text_models, triton_ensemble
from tests.support.text_models import TEXT_MODELS

SCRIPT = Path(__file__).with_name("triton_models") / "scripted.py"
READY_TIMEOUT_S = 120.0
LOGGED_TIMEOUT_S = 30.0
SUPERVISION = Supervision(stop_grace_s=0, backoff_first_s=0.1)
SIGNATURES = (MODEL_NAME, *TEXT_MODELS)
"""All signatures under which the packaged model can be served."""
CONTEXT_LENGTH = 1024
"""The context length of the packaged language model in `smollm2_server`."""


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """A model of `triton_models/scripted.py`: its name on the server and its behaviour."""

    name: str
    behaviour: str = "paced"
    delay_ms: float = 10.0
    after_tokens: int = 3
    """The number of ids before stall, die or fail."""
    ids_per_response: int = 1
    says: str | Sequence[int] | Sequence[str] | None = None
    """The model's answer to every request: ids, or a text, letter by letter or in the given pieces. None: the model
    echoes its prompt."""
    signature: str = MODEL_NAME
    """One of SIGNATURES, which determines the inputs and outputs."""
    obeys: bool = True
    """Whether a request can set the behaviour by the end of its id."""
    takes_lora: bool = False
    """Whether the model has TensorRT-LLM's input for an adapter, and answers with the requested adapter."""
    in_ensemble: bool = False
    """Whether the model is a real ensemble, a chain of models that Triton's own scheduler runs, for the signature
    `ensemble`."""


PACED = ScriptedModel("paced")
STALL = ScriptedModel("stall", "stall")
DIE = ScriptedModel("die", "die")
FAIL = ScriptedModel("fail", "fail")
COARSE = ScriptedModel("coarse", "coarse", ids_per_response=4)


@dataclass(frozen=True, slots=True)
class RunningTriton:
    """A running server, ready at the start of the test."""

    local: LocalTriton

    @property
    def grpc_address(self) -> str:
        return self.local.grpc_address

    @property
    def metrics_port(self) -> int:
        ports = self.local._ports
        assert ports is not None
        return ports.metrics

    @property
    def log_path(self) -> Path:
        return self.local.log_path

    @property
    def pid(self) -> int:
        pid = self.local.pid
        assert pid is not None, self.local.reason
        return pid

    def stub_pids(self) -> list[int]:
        """Returns the process ids of the Python models."""
        listings = Path(f"/proc/{self.pid}/task").glob("*/children")
        return sorted({int(pid) for listing in listings for pid in listing.read_text().split()})

    def kill(self) -> None:
        """Kills the server like a crash. Its supervisor restarts it."""
        self.signal(signal.SIGKILL)

    def kill_stubs(self) -> None:
        """Kills the processes of the Python models. The supervisor restarts the server."""
        for pid in self.stub_pids():
            os.kill(pid, signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def leave_alone(self) -> None:
        """Stops the supervision of the server, as in a fleet that only probes its readiness."""
        task = self.local._task
        assert task is not None
        task.cancel()
        await asyncio.wait([task])

    async def started_again(self, pid: int) -> None:
        """Waits until a process other than `pid` serves."""
        async with asyncio.timeout(READY_TIMEOUT_S):
            while self.local.state is not TritonState.READY or self.local.pid in (pid, None):
                await asyncio.sleep(0.02)

    def log_text(self) -> str:
        return self.log_path.read_text("utf-8", "replace")

    async def logged(self, words: str, *, number: int = 1) -> str:
        """Waits until so many lines of the log contain `words`. Returns the last of them."""
        deadline_s = time.monotonic() + LOGGED_TIMEOUT_S
        while True:
            lines = [line for line in self.log_text().splitlines() if words in line]
            if len(lines) >= number:
                return lines[number - 1]
            assert time.monotonic() < deadline_s, f"{words!r} is not in the log:\n{self.log_text()[-2000:]}"
            await asyncio.sleep(0.02)

    async def tokens_when_cancelled(self, request_id: str) -> int:
        """Returns the number of tokens that the model had generated when it noticed the cancellation of a request."""
        line = await self.logged(f"request_id={request_id}")
        return int(re.findall(r"cancelled after (\d+) tokens", line)[0])


def server_venv() -> Path:
    """Returns the server's environment, which all test runs on this machine share."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return ensure_server_venv(Path(base) / "antiphon", print)


@asynccontextmanager
async def triton_server(*models: ScriptedModel) -> AsyncIterator[RunningTriton]:
    """Runs a supervised server with the given scripted models. Yields it when it is ready, and stops it at the end."""
    with tempfile.TemporaryDirectory(prefix="triton-") as folder:
        repository = Path(folder) / "models"
        for model in models:
            write_scripted_model(repository, model)
        async with _running(repository, Path(folder) / "data", tuple(model.name for model in models)) as server:
            yield server


@asynccontextmanager
async def smollm2_server(*names: str) -> AsyncIterator[RunningTriton]:
    """Runs a supervised server with the packaged language model under these signatures. Yields it when it is ready, and
    stops it at the end."""
    gguf = read_layout(server_venv()).packaged_gguf
    with tempfile.TemporaryDirectory(prefix="triton-") as folder:
        repository = smollm2_repository(Path(folder) / "models", gguf, *names, slots=4)
        async with triton_repository(repository, *names) as server:
            yield server


def smollm2_repository(out: Path, gguf: Path, *names: str, slots: int, context_length: int = CONTEXT_LENGTH) -> Path:
    """Writes a repository with the packaged language model, or a file like it, under these signatures."""
    out.mkdir()
    if MODEL_NAME in names:
        write_model_repository(out, gguf=gguf, context_length=context_length, slots=slots)
    for name in set(names) - {MODEL_NAME}:
        text_models.write(out, name, gguf=gguf, context_length=context_length, slots=slots)
    return out


@asynccontextmanager
async def triton_repository(repository: Path, *models: str) -> AsyncIterator[RunningTriton]:
    """Runs a supervised server with the given model repository. Yields it when it is ready, and stops it at the end."""
    with tempfile.TemporaryDirectory(prefix="triton-") as folder:
        async with _running(repository, Path(folder), models or (MODEL_NAME,)) as server:
            yield server


@asynccontextmanager
async def _running(repository: Path, data_dir: Path, models: tuple[str, ...]) -> AsyncIterator[RunningTriton]:
    venv = await asyncio.to_thread(server_venv)
    local = LocalTriton.of_environment(
        venv, repository, data_dir=data_dir, models=models, supervision=SUPERVISION, report=print
    )
    await local.start()
    try:
        await local.wait_ready(READY_TIMEOUT_S)
        yield RunningTriton(local)
    finally:
        await local.stop()


def signature_config(name: str, model: str, *more_inputs: str) -> str:
    """Returns the configuration of the packaged model with the signature `name`, for a model of another name, without
    parameters."""
    if name == MODEL_NAME:
        config = signature.config(model, ENGINE, engine.module(ENGINE).FEATURES, batch_max=BATCH_MAX)
    else:
        config = text_models.config_of(name).replace(f'name: "{name}"', f'name: "{model}"', 1)
    config = config.partition("\nparameters ")[0]
    return config.replace("input [", " ".join(["input [", *(f"{tensor}," for tensor in more_inputs)]), 1)


_LORA_INPUT = '{ name: "lora_task_id" data_type: TYPE_UINT64 dims: [ 1 ] optional: true }'


def write_scripted_model(repository: Path, model: ScriptedModel) -> None:
    """Adds the model to a repository folder."""
    if model.in_ensemble:
        step = triton_ensemble.write(repository, model.name)
        model = replace(model, name=step, signature=MODEL_NAME, in_ensemble=False)
    config = signature_config(model.signature, model.name, *[_LORA_INPUT] if model.takes_lora else [])
    settings = {
        "behaviour": model.behaviour,
        "delay_ms": model.delay_ms,
        "after_tokens": model.after_tokens,
        "ids_per_response": model.ids_per_response,
        "obeys": model.obeys,
    } | ({} if model.says is None else {"says": json.dumps(model.says)})
    lines = [
        f'parameters {{ key: "{key}" value: {{ string_value: {json.dumps(str(value))} }} }}'
        for key, value in settings.items()
    ]
    version = repository / model.name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_bytes(SCRIPT.read_bytes())
    (repository / model.name / CONFIG_FILE).write_text("\n".join([config, *lines, ""]), "utf-8")

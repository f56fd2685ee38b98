"""A real Triton server for tests, with scripted models or with the packaged language model.

    async with triton_server(PACED, STALL) as server:
        channel = grpc.aio.insecure_channel(server.grpc_address)

    async with smollm2_server("tensorrt_llm", "vllm_model") as server:
        ...

The server's environment is built once into the user's cache folder; nothing here skips when that is not possible.
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

from antiphon_local_triton.repository import (
    CONFIG_FILE,
    MODEL_NAME,
    TEMPLATE_REPOSITORY,
    TEXT_MODELS,
    write_model_repository,
)
from antiphon_local_triton.server_venv import ensure_server_venv, read_layout
from antiphon_local_triton.supervisor import LocalTriton, Supervision, TritonState
from tests.support import triton_ensemble

SCRIPT = Path(__file__).with_name("triton_models") / "scripted.py"
READY_TIMEOUT_S = 120.0
LOGGED_TIMEOUT_S = 30.0
SUPERVISION = Supervision(stop_grace_s=0, backoff_first_s=0.1)
SIGNATURES = (MODEL_NAME, *TEXT_MODELS)
"""All that a model of the packaged repository can be served under."""
CONTEXT_LENGTH = 1024
"""Of the packaged language model, as `smollm2_server` serves it."""


@dataclass(frozen=True, slots=True)
class ScriptedModel:
    """A model of `triton_models/scripted.py`: its name on the server and how it behaves."""

    name: str
    behaviour: str = "paced"
    delay_ms: float = 10.0
    after_tokens: int = 3
    """For stall, die and fail: after how many ids."""
    ids_per_response: int = 1
    says: str | Sequence[int] | Sequence[str] | None = None
    """The model's answer to every request: ids, or a text, letter by letter or in the given pieces; None for an
    echo."""
    signature: str = MODEL_NAME
    """One of SIGNATURES: the packaged model whose inputs and outputs it has."""
    obeys: bool = True
    """A request may say how it behaves, by the end of its id."""
    takes_lora: bool = False
    """It has TensorRT-LLM's input for an adapter, and answers with the adapter that it was asked for."""
    in_ensemble: bool = False
    """Of the signature `ensemble`: a chain of models that Triton's own scheduler runs, not one that looks like it."""


PACED = ScriptedModel("paced")
STALL = ScriptedModel("stall", "stall")
DIE = ScriptedModel("die", "die")
FAIL = ScriptedModel("fail", "fail")
COARSE = ScriptedModel("coarse", "coarse", ids_per_response=4)


@dataclass(frozen=True, slots=True)
class RunningTriton:
    """A server that was ready when the test got it."""

    local: LocalTriton

    @property
    def grpc_address(self) -> str:
        return self.local.grpc_address

    @property
    def log_path(self) -> Path:
        return self.local.log_path

    @property
    def pid(self) -> int:
        pid = self.local.pid
        assert pid is not None, self.local.reason
        return pid

    def stub_pids(self) -> list[int]:
        """The processes of the Python models."""
        listings = Path(f"/proc/{self.pid}/task").glob("*/children")
        return sorted({int(pid) for listing in listings for pid in listing.read_text().split()})

    def kill(self) -> None:
        """Kills the server as a crash would; its supervisor starts it again."""
        self.signal(signal.SIGKILL)

    def kill_stubs(self) -> None:
        """Kills the processes of the Python models; its supervisor starts the server again."""
        for pid in self.stub_pids():
            os.kill(pid, signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def leave_alone(self) -> None:
        """From now on nobody looks after the server, as in a fleet that only asks it whether it is ready."""
        task = self.local._task
        assert task is not None
        task.cancel()
        await asyncio.wait([task])

    async def started_again(self, pid: int) -> None:
        """Waits until another process than `pid` serves."""
        async with asyncio.timeout(READY_TIMEOUT_S):
            while self.local.state is not TritonState.READY or self.local.pid in (pid, None):
                await asyncio.sleep(0.02)

    def log_text(self) -> str:
        return self.log_path.read_text("utf-8", "replace")

    async def logged(self, words: str, *, number: int = 1) -> str:
        """Waits until so many lines of the log hold `words`; returns the last of them."""
        deadline_s = time.monotonic() + LOGGED_TIMEOUT_S
        while True:
            lines = [line for line in self.log_text().splitlines() if words in line]
            if len(lines) >= number:
                return lines[number - 1]
            assert time.monotonic() < deadline_s, f"{words!r} is not in the log:\n{self.log_text()[-2000:]}"
            await asyncio.sleep(0.02)

    async def tokens_when_cancelled(self, request_id: str) -> int:
        """How many tokens the model had made when it saw that a request was cancelled."""
        line = await self.logged(f"request_id={request_id}")
        return int(re.findall(r"cancelled after (\d+) tokens", line)[0])


def server_venv() -> Path:
    """The server's environment, shared by all test runs on this machine."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return ensure_server_venv(Path(base) / "antiphon", print)


@asynccontextmanager
async def triton_server(*models: ScriptedModel) -> AsyncIterator[RunningTriton]:
    """A supervised server with the given scripted models, ready; stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="triton-") as folder:
        repository = Path(folder) / "models"
        for model in models:
            write_scripted_model(repository, model)
        async with _running(repository, Path(folder) / "data", tuple(model.name for model in models)) as server:
            yield server


@asynccontextmanager
async def smollm2_server(*names: str) -> AsyncIterator[RunningTriton]:
    """A supervised server with the packaged language model under these signatures, ready; stopped at the end."""
    gguf = read_layout(server_venv()).packaged_gguf
    with tempfile.TemporaryDirectory(prefix="triton-") as folder:
        repository = write_model_repository(
            Path(folder) / "models", gguf=gguf, context_length=CONTEXT_LENGTH, slots=4, models=names
        )
        async with triton_repository(repository, *names) as server:
            yield server


@asynccontextmanager
async def triton_repository(repository: Path, *models: str) -> AsyncIterator[RunningTriton]:
    """A supervised server with a repository of your own, ready; stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="triton-") as folder:
        async with _running(repository, Path(folder), models or (MODEL_NAME,)) as server:
            yield server


@asynccontextmanager
async def _running(repository: Path, data_dir: Path, models: tuple[str, ...]) -> AsyncIterator[RunningTriton]:
    venv = await asyncio.to_thread(server_venv)
    local = LocalTriton.bundled(
        venv, repository, data_dir=data_dir, models=models, supervision=SUPERVISION, report=print
    )
    await local.start()
    try:
        await local.wait_ready(READY_TIMEOUT_S)
        yield RunningTriton(local)
    finally:
        await local.stop()


def signature_config(signature: str, name: str, *more_inputs: str) -> str:
    """The configuration of the packaged model with this signature, for a model of another name. No parameters."""
    packaged = (TEMPLATE_REPOSITORY / signature / CONFIG_FILE).read_text("utf-8")
    config = packaged.partition("\nparameters ")[0].replace(f'name: "{signature}"', f'name: "{name}"', 1)
    return config.replace("input [", " ".join(["input [", *(f"{tensor}," for tensor in more_inputs)]), 1)


_LORA_INPUT = '{ name: "lora_task_id" data_type: TYPE_UINT64 dims: [ 1 ] optional: true }'


def write_scripted_model(repository: Path, model: ScriptedModel) -> None:
    """Adds the model to a repository folder."""
    if model.in_ensemble:
        step = triton_ensemble.write(repository, model.name)
        model = replace(model, name=step, signature=MODEL_NAME, in_ensemble=False)
    signature = signature_config(model.signature, model.name, *[_LORA_INPUT] if model.takes_lora else [])
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
    (repository / model.name / CONFIG_FILE).write_text("\n".join([signature, *lines, ""]), "utf-8")

"""The token-level model in a real Triton on the CPU, on each engine that runs there. vLLM is installed on first use.

Triton 2.51 was built for numpy 1, and reads the arrays of numpy 2 wrongly. So the Python of a Triton with vLLM is an
environment with the numpy of the bundled Triton in front of the packages of vLLM.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from antiphon_local_triton.model_directory import CHATML_TEMPLATE
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_local_triton.server_venv import VenvLayout, read_layout
from antiphon_local_triton.supervisor import BACKENDS, LocalTriton, Supervision, shared_memory_prefix
from antiphon_local_triton.triton import TritonCommand, TritonPorts, link_backends, triton_command
from antiphon_tokens import repository
from antiphon_tokens.engines import vllm
from antiphon_tokens.repository import Model
from tests.engines.environments import BUILT, VLLM, install
from tests.engines.model_folder import make_folder
from tests.support.triton import RunningTriton, server_venv, smollm2_repository, triton_repository

START_TIMEOUT_S = 600.0
STREAMS_MAX = 8
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


@asynccontextmanager
async def llama_cpp_server(context_length: int) -> AsyncIterator[RunningTriton]:
    """Runs the small model on llama.cpp, with 4 slots of this context."""
    gguf = read_layout(server_venv()).packaged_gguf
    with tempfile.TemporaryDirectory(prefix="repository-") as name:
        out = smollm2_repository(Path(name) / "models", gguf, MODEL_NAME, slots=4, context_length=context_length)
        async with triton_repository(out) as running:
            yield running


@asynccontextmanager
async def vllm_server(context_length: int) -> AsyncIterator[RunningTriton]:
    """Runs the small model on vLLM, with STREAMS_MAX streams at once."""
    install(VLLM)
    layout = read_layout(server_venv())
    with tempfile.TemporaryDirectory(prefix="triton-") as name:
        folder = Path(name)
        _write_model(folder / "models", layout, context_length)
        in_overlay = replace(layout, venv=_overlay(folder / "python", layout))

        def command_for(ports: TritonPorts) -> TritonCommand:
            return triton_command(
                in_overlay,
                repository=folder / "models",
                backends=link_backends(layout, folder / BACKENDS),
                ports=ports,
                shm_prefix=shared_memory_prefix(folder),
                environment={**os.environ, **_ENVIRONMENT},
            )

        supervision = Supervision(start_timeout_s=START_TIMEOUT_S, failed_starts_max=1)
        local = LocalTriton(command_for, data_dir=folder, supervision=supervision, report=print)
        await local.start()
        try:
            await local.wait_ready(START_TIMEOUT_S)
            yield RunningTriton(local)
        finally:
            await local.stop()


SERVERS: Mapping[str, Callable[[int], AbstractAsyncContextManager[RunningTriton]]] = {
    "llama_cpp": llama_cpp_server,
    "vllm": vllm_server,
}
"""The servers by the names of their engines. The argument is the length of the context."""


def _overlay(folder: Path, layout: VenvLayout) -> Path:
    """Makes the environment of Triton's Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ("numpy", "numpy.libs"):
        shutil.copytree(layout.site_packages / name, packages / name)
    (of_vllm,) = VLLM.folder.glob("lib/python*/site-packages")
    (packages / "vllm.pth").write_text(f"{of_vllm}\n", "utf-8")
    return folder


def _write_model(out: Path, layout: VenvLayout, context_length: int) -> None:
    weights = make_folder(layout.packaged_gguf, BUILT / "model", CHATML_TEMPLATE.read_text("utf-8"))
    options = {"enforce_eager": True, "max_model_len": context_length, "max_num_seqs": STREAMS_MAX, **vllm.ARGUMENTS}
    repository.write(out, Model(MODEL_NAME, "vllm", {"model": str(weights), **options}))

"""The token-level model on vLLM, inside a real Triton, on the CPU: `make engines` runs it, because it installs vLLM.

Triton 2.51 was built for numpy 1, and reads the arrays of numpy 2 wrongly. So Triton's Python is an environment with
the numpy of the bundled Triton in front of the packages of vLLM.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from antiphon_local_triton.model_directory import CHATML_TEMPLATE
from antiphon_local_triton.repository import MODEL_NAME
from antiphon_local_triton.server_venv import VenvLayout, read_layout
from antiphon_local_triton.supervisor import BACKENDS, LocalTriton, Supervision, shared_memory_prefix
from antiphon_local_triton.triton import TritonCommand, TritonPorts, link_backends, triton_command
from antiphon_tokens import repository
from antiphon_tokens.engines import vllm
from antiphon_tokens.repository import Model
from tests.contract.engine.tokens_suite import CONTEXT_LENGTH, TokensContract
from tests.engines.environments import BUILT, VLLM, install
from tests.engines.model_folder import make_folder
from tests.support.triton import RunningTriton, server_venv

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1_200)]

START_TIMEOUT_S = 600.0
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}


def overlay(folder: Path, layout: VenvLayout) -> Path:
    """Makes the environment of Triton's Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ("numpy", "numpy.libs"):
        shutil.copytree(layout.site_packages / name, packages / name)
    (of_vllm,) = VLLM.folder.glob("lib/python*/site-packages")
    (packages / "vllm.pth").write_text(f"{of_vllm}\n", "utf-8")
    return folder


def write_model(out: Path, layout: VenvLayout) -> None:
    weights = make_folder(layout.packaged_gguf, BUILT / "model", CHATML_TEMPLATE.read_text("utf-8"))
    options = {"enforce_eager": True, "max_model_len": CONTEXT_LENGTH, "max_num_seqs": 8, **vllm.ARGUMENTS}
    repository.write(out, Model(MODEL_NAME, "vllm", {"model": str(weights), **options}))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[RunningTriton]:
    install(VLLM)
    layout = read_layout(server_venv())
    with tempfile.TemporaryDirectory(prefix="triton-") as name:
        folder = Path(name)
        write_model(folder / "models", layout)
        in_overlay = replace(layout, venv=overlay(folder / "python", layout))

        def command_for(ports: TritonPorts) -> TritonCommand:
            return triton_command(
                in_overlay,
                repository=folder / "models",
                backends=link_backends(layout, folder / BACKENDS),
                ports=ports,
                shm_prefix=shared_memory_prefix(folder),
                environment={**os.environ, **ENVIRONMENT},
            )

        supervision = Supervision(start_timeout_s=START_TIMEOUT_S, failed_starts_max=1)
        local = LocalTriton(command_for, data_dir=folder, supervision=supervision, report=print)
        await local.start()
        try:
            await local.wait_ready(START_TIMEOUT_S)
            yield RunningTriton(local)
        finally:
            await local.stop()


class TestVllm(TokensContract):
    """All of the suite."""

"""The model of `antiphon up` without a model server: a Triton on this machine, with the toy model or your GGUF file.

No other module imports antiphon_local_triton, which knows nothing of Antiphon.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path

from antiphon import logs, profile_files
from antiphon.folders import cache_folder
from antiphon_local_triton.model_directory import CHATML_TEMPLATE, build_model_directory
from antiphon_local_triton.repository import MODEL_NAME, write_model_repository
from antiphon_local_triton.server_venv import ensure_server_venv, read_layout
from antiphon_local_triton.supervisor import LocalTriton

log = logging.getLogger(__name__)

TOY_SAMPLING = {"temperature": 0.2, "top_p": 0.9}  # what the makers of the toy model recommend
# Prompt and answer together, in each slot. All slots of the toy model then take 0.5 GB of memory; with twice the length
# they would take 0.9 GB.
CONTEXT_TOKENS_MAX = 4_096
# The limit of an answer whose request sets none. Without it a small model may repeat itself until its context is full,
# which takes a CPU a minute or more.
OUTPUT_TOKENS_DEFAULT = 1_024
SLOTS = 4  # generations that run at once


class LocalModel:
    """A part of `antiphon up`: one model on a local Triton, which is restarted when it dies."""

    name = "triton"
    ready_timeout_s = 180.0  # a large file from a slow disk

    def __init__(
        self, model_name: str, triton: LocalTriton, directory: Path, context_length: int, profiles_folder: Path
    ) -> None:
        self.names = [model_name]
        self._triton = triton
        self._directory = directory
        self._context_length = context_length
        self._profiles_folder = profiles_folder

    @property
    def engine(self) -> str:
        return (
            f"Triton at {self._triton.grpc_address}, llama.cpp on CPU; its log: {self._triton.log_path}; answers have "
            f"{OUTPUT_TOKENS_DEFAULT:,} tokens at most unless a request sets max_output_tokens"
        )

    async def start(self) -> None:
        """Starts Triton, without waiting until it is ready, and writes the model profile with its address."""
        await self._triton.start()
        (model_name,) = self.names
        profile: dict[str, str | int] = {
            "name": model_name,
            "directory": str(self._directory),
            "endpoint": self._triton.grpc_address,
            "triton_model": MODEL_NAME,
            "context_length": self._context_length,
            "max_output_tokens": OUTPUT_TOKENS_DEFAULT,
        }
        profile_files.replace_all(self._profiles_folder, [profile])

    async def stop(self) -> None:
        await self._triton.stop()


def prepare(model_name: str, *, gguf: Path | None, data: Path, profiles_folder: Path) -> LocalModel:
    """Prepares everything that the local Triton needs: in the folder `data`, and for the toy model, which it serves
    without a `gguf` file, in the cache folder. Blocks; the first call downloads the server, which takes up to minutes.

    SettingsError: this machine cannot run the model; the message says what would help."""
    venv = ensure_server_venv(cache_folder(), _report)
    if gguf is None:  # the toy model's directory is shared by all data folders, as the model is
        gguf, template = read_layout(venv).packaged_gguf, CHATML_TEMPLATE.read_text(encoding="utf-8")
        toy = venv / "models" / model_name
        directory = build_model_directory(gguf, toy, chat_template=template, sampling=TOY_SAMPLING)
    else:
        directory = build_model_directory(gguf, data / "models" / model_name)
    context_length = _context_length(directory)
    folder = data / "triton"
    repository = folder / "repository"
    # Another process may serve the same data folder: its repository must not change.
    write = partial(write_model_repository, repository, gguf=gguf, context_length=context_length, slots=SLOTS)
    triton = LocalTriton.of_environment(venv, repository, data_dir=folder, report=log.warning, prepare=write)
    return LocalModel(model_name, triton, directory, context_length, profiles_folder)


def _context_length(model_directory: Path) -> int:
    config = json.loads((model_directory / "config.json").read_text(encoding="utf-8"))
    return min(config.get("max_position_embeddings") or CONTEXT_TOKENS_MAX, CONTEXT_TOKENS_MAX)


def _report(line: str) -> None:
    logs.announce(line)

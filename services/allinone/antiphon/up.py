"""`antiphon up`: everything on one machine. Prepares a model and a Triton for it, then runs all targets.

What the targets need to know about the model they read from a profile file in the data folder, as in production. Where
the user has profiles, nothing is prepared: the targets read those.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from antiphon import banner, chat_models, profile_files
from antiphon.local.model_directory import CHATML_TEMPLATE, build_model_directory
from antiphon.local.repository import MODEL_NAME, write_model_repository
from antiphon.local.server_venv import ensure_server_venv, read_layout
from antiphon.local.supervisor import LocalTriton
from antiphon.settings import Settings
from antiphon.targets import Process, build
from antiphon_core import lifecycle
from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.lifecycle import Part
from antiphon_core.ports.translator import Translator
from antiphon_translator.models import profiles

log = logging.getLogger(__name__)

TOY_MODEL = "smollm2"
TOY_SAMPLING = {"temperature": 0.2, "top_p": 0.9}  # what its makers recommend
# Prompt and answer together, for each slot: 0.5 GB with the toy model, 0.9 GB at twice the length.
CONTEXT_TOKENS_MAX = 4_096
SLOTS = 4
READY_POLL_S = 0.05
OTHERS_TIMEOUT_S = 5.0  # their servers, their time to start: the user is told, and served when they are there


@dataclass(frozen=True, slots=True)
class Plan:
    """The choices of the command line. The toy model is served unless one of `gguf`, `triton`, `openai` and
    `own_profiles` says otherwise."""

    data: Path
    gguf: Path | None = None
    triton: str | None = None
    openai: str | None = None
    openai_key_file: Path | None = None
    model_directory: Path | None = None
    model_name: str | None = None
    triton_model: str | None = None
    own_profiles: Path | None = None

    def check(self) -> None:
        """SettingsError: options that exclude or need each other."""
        if self.own_profiles:
            self._check_profiles_alone()
        if self.triton and self.gguf:
            raise SettingsError("--gguf and --triton exclude each other: your own Triton has its own model.")
        if self.openai and (self.gguf or self.triton):
            raise SettingsError("--openai excludes --gguf and --triton: your own server has its own models.")
        if self.openai_key_file and not self.openai:
            raise SettingsError("--openai-key-file needs --openai URL.")
        if not self.openai and bool(self.triton) != bool(self.model_directory):
            raise SettingsError("--triton HOST:PORT and --model-dir DIR need each other.")
        if self.triton_model and not self.triton:
            raise SettingsError("--triton-model needs --triton HOST:PORT: it is the name of a model there.")

    def _check_profiles_alone(self) -> None:
        others = {
            "--gguf": self.gguf,
            "--triton": self.triton,
            "--openai": self.openai,
            "--openai-key-file": self.openai_key_file,
            "--model-dir": self.model_directory,
            "--model-name": self.model_name,
            "--triton-model": self.triton_model,
        }
        for option, value in others.items():
            if value is not None:
                raise SettingsError(f"--profiles and {option} exclude each other: profiles say all about their models.")

    @property
    def name(self) -> str:
        """The model's name in requests, where this command describes one model."""
        if self.model_name:
            return self.model_name
        source = self.gguf.stem if self.gguf else self.model_directory.name if self.model_directory else TOY_MODEL
        return re.sub(r"[^a-z0-9._-]+", "-", source.lower())

    @property
    def profiles(self) -> Path:
        """Where the targets read: the user's folder, or that of the one profile that this command writes."""
        return self.own_profiles or self.data / "profiles"


def default_data_folder() -> Path:
    """Where things are kept unless --data says otherwise, as the XDG base directories have it."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "antiphon"


def cache_folder() -> Path:
    """Where the Triton environment is kept: it holds nothing of the user's, and all data folders share it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antiphon"


def preset(plan: Plan) -> Mapping[str, Mapping[str, Any]]:
    """The settings that `up` prefers: durable, in the data folder, on whatever gRPC ports are free."""
    return {
        "store": {"url": f"sqlite:///{plan.data / 'store.db'}", "port": 0},
        "translator": {"port": 0},
        "log": {"level": "WARNING"},
    }


async def run(plan: Plan, settings: Settings) -> None:
    """Runs until a signal arrives. LocalModelError: this machine cannot run the local model, and what would help."""
    plan.check()
    plan.data.mkdir(parents=True, exist_ok=True)
    models = await _models(plan)
    process = Process(settings)
    with lifecycle.building():
        parts = build(["all"], process)
    await lifecycle.run([models, *parts, _Welcome(process, models)], on_started=lambda: None)


class _Models(Part, Protocol):
    """The models that are served: the first part to start, as it makes sure that there are profiles to read."""

    ready_timeout_s: float

    @property
    def names(self) -> Sequence[str]:
        """The models' names in requests."""

    @property
    def engine(self) -> str:
        """The server that runs them, in words for the banner."""


async def _models(plan: Plan) -> _Models:
    if plan.own_profiles:
        return _ProfiledModels(plan.own_profiles)
    if plan.openai:
        return await chat_models.discovered(
            plan.openai,
            profiles_folder=plan.profiles,
            key_file=plan.openai_key_file,
            directory=plan.model_directory,
            only=plan.model_name,
        )
    return _RemoteModel(plan) if plan.triton else await asyncio.to_thread(_local_model, plan)


class _ProfiledModels:
    """Models that the user has described. They are only read: what is wrong in a profile is found before the start."""

    name = "models"
    ready_timeout_s = OTHERS_TIMEOUT_S

    def __init__(self, folder: Path) -> None:
        """SettingsError: there is no such folder, or no profile in it, or one with a mistake."""
        self.names = [profile.name for profile in profiles.load_directory(folder)]
        self.engine = f"as {folder} says"
        if not self.names:
            raise SettingsError(f"There is no model profile (*.toml) in {folder}.")

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass


class _RemoteModel:
    """A model that somebody else's Triton serves: a profile is all there is to it."""

    name = "model"
    ready_timeout_s = OTHERS_TIMEOUT_S

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.names = [plan.name]
        self.engine = f"Triton at {plan.triton}"

    async def start(self) -> None:
        assert self._plan.triton is not None and self._plan.model_directory is not None  # noqa: S101, PT018 - checked
        _write_profile(self._plan, self._plan.triton, self._plan.model_directory.absolute())

    async def stop(self) -> None:
        pass


class _LocalModel:
    """A model that this process's own Triton serves, restarted when it dies."""

    name = "triton"
    ready_timeout_s = 180.0  # a large file from a slow disk

    def __init__(self, plan: Plan, triton: LocalTriton, directory: Path, context_length: int) -> None:
        self._plan = plan
        self.names = [plan.name]
        self._triton = triton
        self._directory = directory
        self._context_length = context_length

    @property
    def engine(self) -> str:
        return f"Triton at {self._triton.grpc_address}, llama.cpp on CPU; its log: {self._triton.log_path}"

    async def start(self) -> None:
        await self._triton.start()
        _write_profile(self._plan, self._triton.grpc_address, self._directory, context_length=self._context_length)

    async def stop(self) -> None:
        await self._triton.stop()


class _Welcome:
    """The last part to start: waits until every model would answer a question, then tells the user."""

    name = "welcome"

    def __init__(self, process: Process, models: _Models) -> None:
        self._process = process
        self._models = models

    async def start(self) -> None:
        missing = await self._wait_ready()
        print(banner.welcome(self._process, models=self._models.names, engine=self._models.engine), flush=True)
        if missing:
            print(f"warning: not ready yet: {missing}", flush=True)

    async def stop(self) -> None:
        pass

    async def _wait_ready(self) -> str:
        """Which models cannot answer when the time is up, and why; empty when all can."""
        translator = self._process.translator_port()
        deadline = self._process.clock.monotonic() + self._models.ready_timeout_s
        while missing := await _missing(translator):
            if self._process.clock.monotonic() > deadline:
                break
            await asyncio.sleep(READY_POLL_S)
        return missing


async def _missing(translator: Translator) -> str:
    """Which models cannot answer now, and why."""
    try:
        await translator.ready()
        models = await translator.models()
    except Unavailable as error:
        return error.message
    return " ".join(f"{model.id}: {model.reason}" for model in models if not model.ready)


def _local_model(plan: Plan) -> _LocalModel:
    """Prepares everything that the local Triton needs; blocks, the first time for as long as the download takes."""
    venv = ensure_server_venv(cache_folder(), _report)
    directory = plan.data / "models" / plan.name
    if plan.gguf is None:
        gguf, template = read_layout(venv).packaged_gguf, CHATML_TEMPLATE.read_text(encoding="utf-8")
        build_model_directory(gguf, directory, chat_template=template, sampling=TOY_SAMPLING)
    else:
        gguf = plan.gguf
        build_model_directory(gguf, directory)
    context_length = _context_length(directory)
    repository = write_model_repository(
        plan.data / "triton" / "repository", gguf=gguf, context_length=context_length, slots=SLOTS
    )
    triton = LocalTriton.bundled(venv, repository, data_dir=plan.data / "triton", report=log.warning)
    return _LocalModel(plan, triton, directory, context_length)


def _context_length(model_directory: Path) -> int:
    config = json.loads((model_directory / "config.json").read_text(encoding="utf-8"))
    return min(config.get("max_position_embeddings") or CONTEXT_TOKENS_MAX, CONTEXT_TOKENS_MAX)


def _write_profile(plan: Plan, endpoint: str, directory: Path, *, context_length: int | None = None) -> None:
    """The one profile of this data folder; those of earlier runs with other models go."""
    members: dict[str, str | int] = {
        "name": plan.name,
        "directory": str(directory),
        "endpoint": endpoint,
        "triton_model": plan.triton_model or MODEL_NAME,
    }
    if context_length is not None:
        members["context_length"] = context_length
    profile_files.replace_all(plan.profiles, [members])


def _report(line: str) -> None:
    print(line, flush=True)

"""`antiphon up`: everything on one machine. Prepares a model and a Triton for it, then runs all targets.

What the targets need to know about the model they read from a profile file in the data folder, as in production. Where
the user has profiles, nothing is prepared: the targets read those.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from antiphon import banner, chat_models, local_model, profile_files
from antiphon.settings import Settings
from antiphon.targets import Process, build
from antiphon_core import lifecycle
from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.lifecycle import Part
from antiphon_core.ports.translator import Translator
from antiphon_translator.models import profiles

TOY_MODEL = "smollm2"
TRITON_MODEL_DEFAULT = "tensorrt_llm"
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


def preset(plan: Plan) -> Mapping[str, Mapping[str, Any]]:
    """The settings that `up` prefers: durable, in the data folder, on whatever gRPC ports are free."""
    return {
        "store": {"url": f"sqlite:///{plan.data / 'store.db'}", "port": 0},
        "translator": {"port": 0},
        "log": {"level": "WARNING"},
    }


async def run(plan: Plan, settings: Settings) -> None:
    """Runs until a signal arrives. SettingsError: this machine cannot run the local model, and what would help."""
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
    if plan.triton and plan.model_directory:
        return _RemoteModel(plan.triton, plan.model_directory, plan)
    return await asyncio.to_thread(
        local_model.prepare, plan.name, gguf=plan.gguf, data=plan.data, profiles_folder=plan.profiles
    )


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

    def __init__(self, endpoint: str, directory: Path, plan: Plan) -> None:
        self.names = [plan.name]
        self.engine = f"Triton at {endpoint}"
        self._folder = plan.profiles
        self._profile = {
            "name": plan.name,
            "directory": str(directory.absolute()),
            "endpoint": endpoint,
            "triton_model": plan.triton_model or TRITON_MODEL_DEFAULT,
        }

    async def start(self) -> None:
        profile_files.replace_all(self._folder, [self._profile])

    async def stop(self) -> None:
        pass


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
        translator = self._process.translator_of(self._process.settings.edge)
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

"""`antiphon up`: runs everything on one machine. By default it prepares a model and a Triton, then runs all targets.

The targets read the model's profile from a file, as in production. This command writes that file into the data folder;
with `--profiles` it prepares nothing, and the targets read the user's profiles.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from antiphon import banner, chat_models, lifecycle, local_model, logs, profile_files, stop_notice
from antiphon.lifecycle import Part
from antiphon.settings import Settings
from antiphon.targets import Process, build
from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.ports.translator import Translator
from antiphon_translator.models import profiles

TOY_MODEL = "smollm2"
TRITON_MODEL_DEFAULT = "tensorrt_llm"
READY_POLL_S = 0.05
OTHERS_TIMEOUT_S = 5.0  # servers that this command did not start: after this time `up` warns and serves all the same


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the command line. Without `gguf`, `triton`, `openai` or `own_profiles` the toy model is served."""

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
                raise SettingsError(f"--profiles and {option} exclude each other: profiles describe their models.")

    @property
    def name(self) -> str:
        """The model's name in requests, if this command makes the profile of one model."""
        if self.model_name:
            return self.model_name
        source = self.gguf.stem if self.gguf else _name_of(self.model_directory) if self.model_directory else TOY_MODEL
        return re.sub(r"[^a-z0-9._-]+", "-", source.lower())

    @property
    def profiles(self) -> Path:
        """The folder of profiles that the targets read: the user's, or the one that this command writes to."""
        return self.own_profiles or self.data / "profiles"


def _name_of(directory: Path) -> str:
    """The name of a folder, also of one that is given as `.` or `..`."""
    return directory.name if directory.name not in ("", "..") else directory.resolve().name


def preset(plan: Plan) -> Mapping[str, Mapping[str, Any]]:
    """The defaults that `up` changes: a durable store in the data folder, any free gRPC ports, and fewer log lines."""
    return {
        "store": {"url": f"sqlite:///{plan.data / 'store.db'}", "port": 0},
        "translator": {"port": 0},
        "tools": {"port": 0},
        "log": {"level": "WARNING"},
    }


async def run(plan: Plan, settings: Settings) -> None:
    """Runs until a signal arrives. SettingsError: the options exclude each other, or this machine cannot run the local
    model; the message says what would help."""
    plan.check()
    plan.data.mkdir(parents=True, exist_ok=True)
    models = await _models(plan)
    process = Process(settings)
    with lifecycle.building():
        parts = build(["all"], process)
    await lifecycle.run(
        [models, *parts, _Welcome(process, models)],
        on_started=lambda: None,
        on_signal=lambda _: logs.announce(stop_notice.for_terminal(process)),
        drain_time=process.drain_time,
    )


class _Models(Part, Protocol):
    """The models that are served. This is the first part to start, because it writes the profiles that others read."""

    ready_timeout_s: float

    @property
    def names(self) -> Sequence[str]:
        """The models' names in requests."""

    @property
    def engine(self) -> str:
        """The server that runs the models, in words for the banner."""


async def _models(plan: Plan) -> _Models:
    if plan.own_profiles:
        return _ProfiledModels(plan.own_profiles)
    if plan.openai:
        return await chat_models.discover(
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
    """The models of the user's own profiles, which are read at once: mistakes in them are found before the start."""

    name = "models"
    ready_timeout_s = OTHERS_TIMEOUT_S

    def __init__(self, folder: Path) -> None:
        """SettingsError: there is no such folder, or no profile in it, or one with a mistake."""
        self.names = [profile.name for profile in profiles.load_directory(folder)]
        self.engine = f"see the profiles in {folder}"
        if not self.names:
            raise SettingsError(f"There is no model profile (*.toml) in {folder}.")

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass


class _RemoteModel:
    """A model in a Triton that this command did not start. Starting this part writes the model's profile."""

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
    """The last part to start. Waits until every model is ready, or for `ready_timeout_s`, then prints the banner."""

    name = "welcome"

    def __init__(self, process: Process, models: _Models) -> None:
        self._process = process
        self._models = models

    async def start(self) -> None:
        missing = await self._wait_ready()
        logs.announce(banner.welcome(self._process, models=self._models.names, engine=self._models.engine))
        if missing:
            logs.announce(f"warning: not ready yet: {missing}")

    async def stop(self) -> None:
        pass

    async def _wait_ready(self) -> str:
        """Waits until all models are ready. Returns those that are not ready in time, with the reasons."""
        translator = self._process.translator_of(self._process.settings.edge)
        deadline = self._process.clock.monotonic() + self._models.ready_timeout_s
        while missing := await _missing(translator):
            if self._process.clock.monotonic() > deadline:
                break
            await asyncio.sleep(READY_POLL_S)
        return missing


async def _missing(translator: Translator) -> str:
    """The models that are not ready, with the reasons; empty if all are."""
    try:
        await translator.ready()
        models = await translator.models()
    except Unavailable as error:
        return error.message
    return " ".join(f"{model.id}: {model.reason}" for model in models if not model.ready)

"""`antiphon up --openai URL`: makes a profile for each model that a server of chat completions lists.

Servers list LoRA adapters as models, with their base model as `parent`. An adapter is served under its own name, with
the tokenizer and the context length of its base model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from antiphon import banner, profile_files
from antiphon_core.config import SettingsError
from antiphon_core.errors import AntiphonError
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.openai_wire import ListedModel
from antiphon_translator.models import model_directory, profiles
from antiphon_translator.models.profiles import CHAT_ENGINE

READY_TIMEOUT_S = 5.0


class ChatModels:
    """The models of one server, as a part of `antiphon up`. To start it, its profiles are written."""

    name = "models"
    ready_timeout_s = READY_TIMEOUT_S

    def __init__(self, url: str, members: Sequence[dict[str, str | int]], folder: Path) -> None:
        self.names = [str(each["name"]) for each in members]
        self.engine = f"chat completions at {url}"
        self._members = members
        self._folder = folder

    async def start(self) -> None:
        profile_files.replace_all(self._folder, self._members)

    async def stop(self) -> None:
        pass


async def discover(
    url: str, *, profiles_folder: Path, key_file: Path | None, directory: Path | None, only: str | None
) -> ChatModels:
    """Asks a server for its models. `directory` is the model directory of the one model that is served, and of its
    adapters. `only` names the one model to serve of several. SettingsError: the URL is malformed, or the server cannot
    be asked, lacks the model, or has several for one `directory`."""
    base = _base_url(url)
    shared = _shared_members(base, key_file)
    found = await _list_models(shared)
    served = [each for each in found if only in (None, each.name)]
    if not served:
        listed = ", ".join(each.name for each in found) or "no models"
        raise SettingsError(f"The server at {base} has no model '{only or 'at all'}'; it lists {listed}.")
    if directory is not None and len({each.parent or each.name for each in served}) > 1:
        names = ", ".join(each.name for each in served)
        raise SettingsError(f"--model-dir is for one model; choose one with --model-name: {names}.")
    lengths = {each.name: each.context_length for each in found}
    members = [shared | _members(each, directory, lengths) for each in served]
    return ChatModels(base, members, profiles_folder)


def _base_url(url: str) -> str:
    """The URL with the usual path if it has none. SettingsError: it is malformed."""
    try:
        path = urlsplit(url).path
    except ValueError as error:
        shown = banner.without_password(url)
        raise SettingsError(f"--openai must be a URL such as http://host:8000/v1, not '{shown}'.") from error
    return url.rstrip("/") if path.strip("/") else url.rstrip("/") + "/v1"


def _shared_members(url: str, key_file: Path | None) -> dict[str, str | int]:
    """Returns the members that all profiles of the server have in common."""
    key: dict[str, str | int] = {} if key_file is None else {"api_key_file": str(key_file.absolute())}
    return {"engine": CHAT_ENGINE, "endpoint": url} | key


async def _list_models(shared: dict[str, str | int]) -> list[ListedModel]:
    engine = OpenAIChatEngine(profiles.from_values({"name": "of --openai", **shared}, source="--openai"))
    try:
        return await engine.list_models()
    except AntiphonError as error:
        raise SettingsError(f"Cannot list the models at {shared['endpoint']}: {error.message}") from error
    finally:
        await engine.close()


def _members(
    model: ListedModel, directory: Path | None, context_lengths: Mapping[str, int | None]
) -> dict[str, str | int]:
    """The members of one model's profile. Its context length is the smaller one of the server's and the directory's."""
    members: dict[str, str | int] = {"name": model.name}
    if model.parent is not None:
        members |= {"chat_model": model.parent, "lora": model.name}
    lengths = [model.context_length or context_lengths.get(model.parent or "")]
    if directory is not None:
        members["directory"] = str(directory.absolute())
        lengths.append(model_directory.read(directory).context_length)
    known = [length for length in lengths if length is not None]
    return members | ({"context_length": min(known)} if known else {})

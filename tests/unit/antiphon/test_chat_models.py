from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon import chat_models
from antiphon_core.config import SettingsError
from antiphon_core.errors import EngineUnavailable
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.openai_wire import ListedModel
from antiphon_translator.models import profiles
from tests.support.served_models import write_directory

TWO = [ListedModel("meta/a", 4096), ListedModel("b")]


async def served(monkeypatch: pytest.MonkeyPatch, folder: Path, *found: ListedModel, **options: Any) -> Any:
    """Discovers the models of a server that lists `found`. Returns the written profiles by name."""

    async def listed(_engine: OpenAIChatEngine) -> list[ListedModel]:
        return list(found)

    monkeypatch.setattr(OpenAIChatEngine, "list_models", listed)
    given: dict[str, Any] = {"key_file": None, "directory": None, "only": None} | options
    url = given.pop("url", "http://h:8000/v1/")
    models = await chat_models.discover(url, profiles_folder=folder / "profiles", **given)
    await models.start()
    await models.stop()
    return {profile.name: profile for profile in profiles.load_directory(folder / "profiles")}


async def test_each_model_that_the_server_lists_has_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = await served(monkeypatch, tmp_path, *TWO, key_file=tmp_path / "key")
    assert set(found) == {"meta/a", "b"}
    assert (found["meta/a"].context_length, found["b"].context_length) == (4096, None)
    for profile in found.values():
        assert (profile.engine, profile.endpoint) == ("openai_chat", "http://h:8000/v1")
        assert (profile.directory, profile.api_key_file) == (None, tmp_path / "key")


@pytest.mark.parametrize("url", ["http://h:8000", "http://h:8000/"])
async def test_a_server_url_without_a_path_gets_the_path_v1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str
) -> None:
    assert (await served(monkeypatch, tmp_path, *TWO, url=url))["b"].endpoint == "http://h:8000/v1"


async def test_a_model_directory_is_used_for_the_selected_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = write_directory(tmp_path / "model")
    found = await served(monkeypatch, tmp_path, *TWO, only="meta/a", directory=directory)
    assert {name: profile.directory for name, profile in found.items()} == {"meta/a": directory}
    assert found["meta/a"].context_length == 4096
    (longer,) = (await served(monkeypatch, tmp_path, ListedModel("c", 10**6), directory=directory)).values()
    assert longer.context_length == 8192


async def test_an_adapter_has_the_directory_and_context_length_of_its_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = write_directory(tmp_path / "model")
    adapted = [ListedModel("meta/a", 4096), ListedModel("pirate", parent="meta/a")]
    found = await served(monkeypatch, tmp_path, *adapted, directory=directory)
    adapter = found["pirate"]
    assert (adapter.lora, adapter.chat_model, found["meta/a"].lora) == ("pirate", "meta/a", None)
    assert (adapter.context_length, adapter.directory) == (4096, directory)
    (alone,) = (await served(monkeypatch, tmp_path, *adapted, only="pirate")).values()
    assert (alone.name, alone.context_length) == ("pirate", 4096)


@pytest.mark.parametrize(
    ("found", "options", "words"),
    [
        (TWO, {"only": "c"}, "has no model 'c'; it lists meta/a, b"),
        ((), {}, "it lists no models"),
        (TWO, {"directory": Path("d")}, "choose one with --model-name: meta/a, b"),
        (TWO, {"url": "h:8000"}, "must be a URL"),
    ],
)
async def test_discovery_without_a_usable_model_or_url_raises_settings_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: list[ListedModel], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        await served(monkeypatch, tmp_path, *found, **options)


async def test_an_unreachable_chat_server_raises_settings_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def listed(_engine: OpenAIChatEngine) -> list[ListedModel]:
        raise EngineUnavailable("It cannot be reached.")

    monkeypatch.setattr(OpenAIChatEngine, "list_models", listed)
    with pytest.raises(SettingsError, match="Cannot list the models at http://h/v1: It cannot be reached."):
        await chat_models.discover("http://h", profiles_folder=tmp_path, key_file=None, directory=None, only=None)


@pytest.mark.parametrize("url", ["http://[::1:8000", "http://h]/v1", "http://me:pass@[h/v1"])
async def test_a_malformed_url_is_rejected_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="--openai must be a URL such as") as raised:
        await served(monkeypatch, tmp_path, *TWO, url=url)
    assert "pass" not in str(raised.value)

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from antiphon import up
from antiphon_core.config import SettingsError


@pytest.mark.parametrize(
    ("plan", "name"),
    [
        (up.Plan(data=Path("d")), "smollm2"),
        (up.Plan(data=Path("d"), gguf=Path("/m/Qwen3 4B_Q4.GGUF")), "qwen3-4b_q4"),
        (up.Plan(data=Path("d"), triton="h:1", model_directory=Path("/models/Llama-3.1")), "llama-3.1"),
        (up.Plan(data=Path("d"), model_name="Mine"), "Mine"),
    ],
)
def test_the_default_model_name_follows_its_source(plan: up.Plan, name: str) -> None:
    assert plan.name == name


@pytest.mark.parametrize("directory", [".", "inner/.."])
def test_a_model_in_the_current_folder_is_named_after_the_folder(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Llama-3.1/inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "Llama-3.1")
    assert up.Plan(data=Path("d"), triton="h:1", model_directory=Path(directory)).name == "llama-3.1"


def test_conflicting_or_incomplete_options_are_refused() -> None:
    up.Plan(data=Path("d"), triton="h:1", model_directory=Path("m")).check()
    with pytest.raises(SettingsError, match="need each other"):
        up.Plan(data=Path("d"), model_directory=Path("m")).check()
    up.Plan(data=Path("d"), openai="http://h/v1", model_directory=Path("m")).check()
    with pytest.raises(SettingsError, match="--openai excludes --gguf and --triton"):
        up.Plan(data=Path("d"), openai="http://h/v1", gguf=Path("f")).check()
    with pytest.raises(SettingsError, match="--openai-key-file needs --openai"):
        up.Plan(data=Path("d"), openai_key_file=Path("k")).check()
    with pytest.raises(SettingsError, match="--triton-model needs --triton"):
        up.Plan(data=Path("d"), triton_model="t").check()
    with pytest.raises(SettingsError, match="exclude each other"):
        up.Plan(data=Path("d"), triton="h:1", gguf=Path("f"), model_directory=Path("m")).check()


@pytest.mark.parametrize(
    ("option", "member"),
    [
        ("--gguf", {"gguf": Path("f")}),
        ("--triton", {"triton": "h:1"}),
        ("--openai", {"openai": "http://h/v1"}),
        ("--openai-key-file", {"openai_key_file": Path("k")}),
        ("--model-dir", {"model_directory": Path("m")}),
        ("--model-name", {"model_name": "n"}),
        ("--triton-model", {"triton_model": "t"}),
    ],
)
def test_profiles_exclude_every_option_that_describes_a_model(option: str, member: dict[str, Any]) -> None:
    up.Plan(data=Path("d"), own_profiles=Path("p")).check()
    with pytest.raises(SettingsError, match=f"--profiles and {option} exclude each other"):
        up.Plan(data=Path("d"), own_profiles=Path("p"), **member).check()


def test_own_profiles_replace_the_generated_profiles_folder() -> None:
    assert up.Plan(data=Path("d")).profiles == Path("d/profiles")
    assert up.Plan(data=Path("d"), own_profiles=Path("mine")).profiles == Path("mine")


async def test_the_profile_replaces_that_of_an_earlier_model(tmp_path: Path) -> None:
    for name in ("one", 'two "quoted"'):
        endpoint, directory = "127.0.0.1:1", Path("/models/x")
        plan = up.Plan(data=tmp_path, triton=endpoint, model_directory=directory, model_name=name)
        await up._RemoteModel(endpoint, directory, plan).start()
    (profile,) = (tmp_path / "profiles").glob("*.toml")
    assert tomllib.loads(profile.read_text()) == {
        "name": 'two "quoted"',
        "directory": "/models/x",
        "endpoint": "127.0.0.1:1",
        "triton_model": "tensorrt_llm",
    }


def test_up_defaults_to_a_sqlite_store_and_free_ports() -> None:
    preferred = up.preset(up.Plan(data=Path("/d")))
    assert preferred["store"] == {"url": "sqlite:////d/store.db", "port": 0}
    assert preferred["translator"] == {"port": 0}

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_translator.models import profiles
from antiphon_translator.models.profiles import ModelProfile

MINIMAL = {"name": "m", "directory": "weights", "endpoint": "triton:8001"}


def test_profile_is_loaded_with_all_its_members(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(
        'name = "m"\ndirectory = "weights"\nendpoint = "triton:8001"\nengine = "triton_vllm"\ntriton_model = "t"\n'
        'chat_template = "/t.jinja"\ncontext_length = 4096\nfirst_token_timeout_s = 9\ntoken_timeout_s = 1.5\n'
        "probe_timeout_s = 1\n"
    )
    assert profiles.load(path) == ModelProfile(
        name="m",
        directory=tmp_path / "weights",
        endpoint="triton:8001",
        engine="triton_vllm",
        triton_model="t",
        chat_template=Path("/t.jinja"),
        context_length=4096,
        first_token_timeout_s=9,
        token_timeout_s=1.5,
        probe_timeout_s=1,
    )


def test_defaults_are_for_tensorrt_llm_on_triton() -> None:
    profile = profiles.from_values(MINIMAL)
    assert (profile.engine, profile.triton_model) == ("auto", "tensorrt_llm")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"triton_modell": "x"}, "no 'triton_modell' in a model profile; did you mean 'triton_model'"),
        ({"name": ""}, "name = '' must be text"),
        ({"name": 7}, "name = 7 must be text"),
        ({"stop_in_reasoning": "yes"}, "stop_in_reasoning = 'yes' must be true or false"),
        ({"context_length": 0}, "context_length = 0 must be a positive whole number"),
        ({"context_length": 1.5}, "must be a positive whole number"),
        ({"token_timeout_s": True}, "token_timeout_s = True must be a positive number"),
        ({"token_timeout_s": float("nan")}, "token_timeout_s = nan must be a positive number"),
        ({"token_timeout_s": float("inf")}, "must be a positive number"),
        ({"endpoint": "http://triton:8001"}, "must be host:port"),
        ({"endpoint": "triton"}, "must be host:port"),
        ({"endpoint": "http://vllm:8000/v1"}, 'or engine must be "openai_chat"'),
        ({"engine": "openai"}, "no engine 'openai'. There is auto, .*; openai_chat, a server of chat completions"),
        ({"engine": "openai", "endpoint": "http://vllm:8000/v1"}, "no engine 'openai'"),
        ({"endpoints": "a:1"}, "must be a list of texts"),
        ({"endpoints": []}, "must be a list of texts"),
        ({"endpoints": [7]}, "must be a list of texts"),
        ({"endpoints": ["a:1", "b"]}, "give either endpoint or endpoints"),
        ({"engine": "openai_chat"}, "must be a URL"),
        ({"engine": "vllm_tokens"}, "must be a URL"),
        ({"router": "llm_d"}, "router = 'llm_d' needs an engine behind a URL"),
        ({"engine": "openai_chat", "endpoint": "http://a/v1", "router": "dynamo"}, "needs session_secret_file"),
        ({"images": "yes"}, "images = 'yes' must be one of native, placeholder, refuse"),
        ({"images": True}, "images = True must be one of native, placeholder, refuse"),
        ({"roles": ["system", "sytem"]}, "roles has 'sytem'; there is system, developer,"),
        ({"metrics_port": 80_001}, "metrics_port = 80001 must be at most 65535"),
        ({"kv_isolation": "tenants"}, "kv_isolation = 'tenants' must be one of none, tenant"),
        (
            {"kv_isolation": "tenant", "engine": "triton_text"},
            'engine = "triton_text" takes no cache salt. kv_isolation = "tenant" .*vllm_tokens.*endpoints of its own',
        ),
        ({"image_token": ""}, "image_token = '' must be text"),
        ({"image_tokens": 0}, "image_tokens = 0 must be a positive whole number"),
    ],
)
def test_invalid_profile_is_an_error_of_one_line(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        profiles.from_values(MINIMAL | changes, source="m.toml")
    assert str(caught.value).startswith("m.toml: ")
    assert "\n" not in str(caught.value)


def test_several_endpoints_are_validated_and_kept_in_order() -> None:
    rest = {key: value for key, value in MINIMAL.items() if key != "endpoint"}
    profile = profiles.from_values(rest | {"endpoints": ["a:1", "b:2"]})
    assert (profile.endpoint, profile.endpoints) == ("a:1", ("a:1", "b:2"))
    for endpoints, words in ((["a:1", "b"], "'b' must be host:port"), (["a:1", "a:1"], "one of them twice")):
        with pytest.raises(SettingsError, match=words):
            profiles.from_values(rest | {"endpoints": endpoints})


def test_profile_of_a_chat_completions_server_has_a_url_and_a_key_file(tmp_path: Path) -> None:
    given = MINIMAL | {"engine": "openai_chat", "endpoint": "http://vllm:8000/v1", "api_key_file": "key"}
    profile = profiles.from_values(given | {"chat_model": "meta/llama"}, base=tmp_path)
    assert (profile.endpoint, profile.chat_model) == ("http://vllm:8000/v1", "meta/llama")
    assert profile.api_key_file == tmp_path / "key"


def test_pinned_system_messages_are_files_beside_the_profile(tmp_path: Path) -> None:
    given = MINIMAL | {"pinned_system_messages": ["a.txt", "b.txt"]}
    profile = profiles.from_values(given, base=tmp_path)
    assert profile.pinned_system_messages == (tmp_path / "a.txt", tmp_path / "b.txt")


def test_a_chat_completions_server_needs_no_directory() -> None:
    given = {"name": "m", "engine": "openai_chat", "endpoint": "http://vllm:8000/v1"}
    assert profiles.from_values(given).directory is None


def test_images_are_rejected_by_default() -> None:
    assert profiles.from_values(MINIMAL).images == "refuse"
    seeing = profiles.from_values(MINIMAL | {"images": "native", "image_token": "<image>", "image_tokens": 576})
    assert (seeing.images, seeing.image_token, seeing.image_tokens) == ("native", "<image>", 576)


@pytest.mark.parametrize("name", sorted(MINIMAL))
def test_missing_member_is_an_error_with_its_name(name: str) -> None:
    with pytest.raises(SettingsError, match=f"'{name}' is missing"):
        profiles.from_values({key: value for key, value in MINIMAL.items() if key != name})


def test_profiles_of_a_directory_are_sorted_and_have_unique_names(tmp_path: Path) -> None:
    text = 'name = "{}"\ndirectory = "."\nendpoint = "t:1"\n'
    (tmp_path / "b.toml").write_text(text.format("b"))
    (tmp_path / "a.toml").write_text(text.format("a"))
    (tmp_path / "notes.txt").write_text("not a profile")
    assert [profile.name for profile in profiles.load_directory(tmp_path)] == ["a", "b"]
    (tmp_path / "c.toml").write_text(text.format("a"))
    with pytest.raises(SettingsError, match="'a' is described in .*a.toml already"):
        profiles.load_directory(tmp_path)
    with pytest.raises(SettingsError, match="does not exist"):
        profiles.load_directory(tmp_path / "none")


@pytest.mark.parametrize("content", [b"name = ", b"\xff"])
def test_profile_that_is_no_toml_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.toml").write_bytes(content)
    with pytest.raises(SettingsError, match="Cannot read the model profile .*m.toml"):
        profiles.load(tmp_path / "m.toml")


@pytest.mark.parametrize("endpoint", ["https://ann:secret@vllm/v1", "https://ann:sec ret@a", "ann:secret@triton:8001"])
@pytest.mark.parametrize("name", ["endpoint", "endpoints"])
def test_password_in_an_endpoint_is_rejected_and_not_repeated(endpoint: str, name: str) -> None:
    given = {key: value for key, value in MINIMAL.items() if key != "endpoint"}
    for engine in ("openai_chat", "auto"):
        values = given | {"engine": engine, name: endpoint if name == "endpoint" else [endpoint, "b:1"]}
        with pytest.raises(SettingsError, match="must not have a user name or password") as caught:
            profiles.from_values(values)
        assert "sec" not in str(caught.value)

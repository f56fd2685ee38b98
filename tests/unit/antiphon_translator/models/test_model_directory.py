from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.jsons import Object, dumps, loads
from antiphon_translator.models import model_directory
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.served_models import tokenizer, write_directory


@pytest.fixture(autouse=True)
def vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads the vocabulary of SmolLM2 once for all tests of this file, because reading takes a tenth of a second."""
    load = ModelTokenizer.load
    monkeypatch.setattr(ModelTokenizer, "load", lambda path: tokenizer() if path.exists() else load(path))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_directory(tmp_path / "m")


def test_facts_of_smollm2_are_read(directory: Path) -> None:
    facts = model_directory.read(directory)
    assert facts.stop_ids == (2,)
    assert facts.context_length == 8192
    assert facts.special_tokens["eos_token"] == "<|im_end|>"
    assert facts.chat_template is not None
    assert "<|im_start|>" in facts.chat_template


def test_all_end_ids_are_stop_ids_with_that_of_the_tokenizer_first(directory: Path) -> None:
    (directory / "generation_config.json").write_bytes(dumps({"eos_token_id": [0, 2, 5, 0]}))
    assert model_directory.read(directory).stop_ids == (2, 0, 5)
    (directory / "tokenizer_config.json").unlink()
    assert model_directory.read(directory).stop_ids == (0, 2, 5)
    (directory / "generation_config.json").unlink()
    assert model_directory.read(directory).stop_ids == ()


def test_beginning_that_the_tokenizer_adds_is_read_unless_it_is_switched_off(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tokenizer().__dict__, "added_beginning", "<s>")
    assert model_directory.read(directory).added_beginning == "<s>"
    config = loads((directory / "tokenizer_config.json").read_bytes())
    (directory / "tokenizer_config.json").write_bytes(dumps(config | {"add_bos_token": False}))
    assert model_directory.read(directory).added_beginning == ""


def test_sampling_defaults_without_a_value_are_left_out(directory: Path) -> None:
    given = {"temperature": 0.6, "top_p": None, "top_k": 20, "do_sample": True, "max_length": 5}
    (directory / "generation_config.json").write_bytes(dumps(given))
    assert model_directory.read(directory).sampling_defaults == {"temperature": 0.6, "top_k": 20}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain", "plain"),
        ([{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}], "d"),
        (None, None),
    ],
)
def test_chat_template_is_read_from_the_tokenizer_config(
    directory: Path, template: object, expected: str | None
) -> None:
    (directory / "chat_template.jinja").unlink()
    (directory / "tokenizer_config.json").write_bytes(dumps({"chat_template": template}))
    assert model_directory.read(directory).chat_template == expected


@pytest.mark.parametrize(
    "template",
    [
        [{"template": "x"}],
        [{"name": "default"}],
        [{"name": 1, "template": "x"}],
        [{"name": "d", "template": 1}],
        ["x"],
        7,
    ],
)
def test_chat_template_of_another_form_is_an_error(directory: Path, template: object) -> None:
    (directory / "chat_template.jinja").unlink()
    (directory / "tokenizer_config.json").write_bytes(dumps({"chat_template": template}))
    with pytest.raises(SettingsError, match="tokenizer_config.json: 'chat_template' must be .* Correct the file"):
        model_directory.read(directory)


def test_template_file_wins_over_the_tokenizer_config(directory: Path) -> None:
    (directory / "chat_template.jinja").write_text("own")
    (directory / "tokenizer_config.json").write_bytes(dumps({"chat_template": "other"}))
    assert model_directory.read(directory).chat_template == "own"


def test_special_tokens_are_read_in_either_form(directory: Path) -> None:
    given = {"bos_token": {"content": "<s>"}, "eos_token": "<|im_end|>", "pad_token": None, "add_bos_token": True}
    (directory / "tokenizer_config.json").write_bytes(dumps(given))
    assert model_directory.read(directory).special_tokens == {"bos_token": "<s>", "eos_token": "<|im_end|>"}


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({}, None),
        ({"max_position_embeddings": 4096}, 4096),
        ({"text_config": {"max_position_embeddings": 4096}, "max_position_embeddings": 5}, 4096),
        ({"max_position_embeddings": 32_768, "rope_scaling": YARN}, 131_072),
        ({"max_position_embeddings": 131_072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131_072),
        ({"max_position_embeddings": 4096, "rope_scaling": None}, 4096),
    ],
)
def test_context_length_is_read_from_the_model_config(directory: Path, config: Object, length: int | None) -> None:
    (directory / "config.json").write_bytes(dumps(config))
    assert model_directory.read(directory).context_length == length


def test_infinity_and_nan_count_as_missing(directory: Path) -> None:
    config = b'{"time_step_limit": [0.0, Infinity], "norm": NaN, "low": -Infinity, "max_position_embeddings": 131072}'
    (directory / "config.json").write_bytes(config)
    assert model_directory.read(directory).context_length == 131_072
    (directory / "config.json").write_bytes(b'{"max_position_embeddings": Infinity}')
    assert model_directory.read(directory).context_length is None


@pytest.mark.parametrize(
    ("name", "content", "member"),
    [
        ("config.json", {"max_position_embeddings": "8"}, "max_position_embeddings"),
        ("config.json", {"max_position_embeddings": True}, "max_position_embeddings"),
        ("config.json", {"text_config": "m"}, "text_config"),
        ("config.json", {"max_position_embeddings": 8, "rope_scaling": "yarn"}, "rope_scaling"),
        ("config.json", {"max_position_embeddings": 8, "rope_scaling": YARN | {"factor": "4"}}, "factor"),
        (
            "config.json",
            {"max_position_embeddings": 8, "rope_scaling": YARN | {"original_max_position_embeddings": "4"}},
            "original_max_position_embeddings",
        ),
        ("generation_config.json", {"temperature": "0.6"}, "temperature"),
        ("generation_config.json", {"top_p": [1]}, "top_p"),
        ("generation_config.json", {"top_k": 20.0}, "top_k"),
        ("generation_config.json", {"repetition_penalty": True}, "repetition_penalty"),
        ("generation_config.json", {"eos_token_id": "2"}, "eos_token_id"),
        ("generation_config.json", {"eos_token_id": True}, "eos_token_id"),
        ("generation_config.json", {"eos_token_id": [2, "0"]}, "eos_token_id"),
        ("tokenizer_config.json", {"eos_token": 2}, "eos_token"),
        ("tokenizer_config.json", {"bos_token": {"content": 1}}, "content"),
    ],
)
def test_value_of_a_wrong_type_is_an_error_with_file_and_member(
    directory: Path, name: str, content: Object, member: str
) -> None:
    (directory / name).write_bytes(dumps(content))
    with pytest.raises(SettingsError, match=f"{name}: '{member}' must be an? .*, but is an? .* Correct the file"):
        model_directory.read(directory)


@pytest.mark.parametrize("scaling", [{"factor": None}, {"factor": 4, "original_max_position_embeddings": None}])
def test_yarn_without_factor_or_length_uses_a_default(directory: Path, scaling: Object) -> None:
    config = {"max_position_embeddings": 8, "rope_scaling": {"type": "yarn"} | scaling}
    (directory / "config.json").write_bytes(dumps(config))
    assert model_directory.read(directory).context_length == 8 * (scaling["factor"] or 1)


FILES = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json", "config.json"]


@pytest.mark.parametrize(
    ("name", "content"),
    [(name, b"\xff\xfe") for name in FILES]
    + [(name, content) for name in FILES if name.endswith(".json") for content in (b"{", b'{"a": ' + 10**5 * b"[")]
    + [
        ("config.json", b'{"max_position_embeddings": 8, "rope_scaling": {"type": "yarn", "factor": 1e400}}'),
        ("generation_config.json", b'{"temperature": 1e400}'),
    ],
)
def test_unreadable_file_is_an_error_with_name_and_remedy(
    directory: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    monkeypatch.undo()  # the vocabulary, too, is read from the directory
    (directory / name).write_bytes(content)
    with pytest.raises(SettingsError, match=f"Cannot read .*/{name}: .*Correct the file or download it again"):
        model_directory.read(directory)


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("tokenizer.json", "chat_template.jinja")])
def test_file_without_an_object_is_an_error_with_name_and_remedy(directory: Path, name: str) -> None:
    (directory / name).write_bytes(b"[]")
    with pytest.raises(SettingsError, match=f"{name}: it must hold a JSON object.*Correct the file"):
        model_directory.read(directory)


def test_directory_without_a_tokenizer_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="tokenizer.json: .*No such file.* Correct the file or download it again"):
        model_directory.read(tmp_path)

import json
import os
from pathlib import Path

import pytest
from tokenizers import Tokenizer, pre_tokenizers

from antiphon_local_triton import model_directory
from antiphon_local_triton.errors import LocalModelError
from antiphon_local_triton.gguf_file import Value as Read
from antiphon_local_triton.gguf_file import read_metadata
from antiphon_local_triton.model_directory import build_model_directory, ends_of_turn
from tests.unit.antiphon_local_triton.gguf_writer import Value, write_gguf

TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
METADATA: dict[str, Value] = {
    "general.architecture": "llama",
    "llama.context_length": 2048,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3, 3, *[1] * (len(TOKENS) - 3)],
    "tokenizer.ggml.merges": [],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.padding_token_id": 2,
    "tokenizer.chat_template": "from the file",
}


def _json(path: Path) -> dict[str, object]:
    content = json.loads(path.read_text("utf-8"))
    assert isinstance(content, dict)
    return content


def test_build_writes_tokenizer_template_and_configs(tmp_path: Path) -> None:
    out = build_model_directory(write_gguf(tmp_path / "m.gguf", METADATA), tmp_path / "model")
    assert Tokenizer.from_file(str(out / "tokenizer.json")).get_vocab_size() == len(TOKENS)
    config = _json(out / "tokenizer_config.json")
    assert (config["bos_token"], config["eos_token"], config["pad_token"]) == (TOKENS[1], TOKENS[2], TOKENS[2])
    assert config["chat_template"] == "from the file"
    assert _json(out / "generation_config.json")["eos_token_id"] == [2, 0]
    model = _json(out / "config.json")
    assert (model["model_type"], model["max_position_embeddings"]) == ("llama", 2048)
    assert model["vocab_size"] == len(TOKENS)


def test_changed_recommended_sampling_rewrites_the_generation_config(tmp_path: Path) -> None:
    gguf = write_gguf(tmp_path / "m.gguf", METADATA)
    for temperature in (0.2, 0.3):
        out = build_model_directory(gguf, tmp_path / "model", sampling={"temperature": temperature})
        config = _json(out / "generation_config.json")
        assert (config["temperature"], config["do_sample"]) == (temperature, True)
    assert "do_sample" not in _json(build_model_directory(gguf, tmp_path / "plain") / "generation_config.json")


def test_a_given_template_replaces_the_one_of_the_file(tmp_path: Path) -> None:
    gguf = write_gguf(tmp_path / "m.gguf", METADATA)
    out = build_model_directory(gguf, tmp_path / "model", chat_template="ours")
    assert _json(out / "tokenizer_config.json")["chat_template"] == "ours"
    build_model_directory(gguf, out)
    assert _json(out / "tokenizer_config.json")["chat_template"] == "from the file"


def test_the_directory_is_rebuilt_only_when_the_gguf_file_changed(tmp_path: Path) -> None:
    gguf, out = write_gguf(tmp_path / "m.gguf", METADATA), tmp_path / "model"
    build_model_directory(gguf, out)
    (out / "mark").touch()
    build_model_directory(gguf, out)
    assert (out / "mark").exists()
    os.utime(gguf, ns=(1, 1))
    build_model_directory(gguf, out)
    assert not (out / "mark").exists()
    assert sorted(tmp_path.iterdir()) == [gguf, out], "nothing temporary is left"


def test_concurrent_builds_leave_one_complete_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf, out = write_gguf(tmp_path / "m.gguf", METADATA), tmp_path / "model"

    def while_the_other_finishes(path: Path) -> dict[str, Read]:
        monkeypatch.undo()
        build_model_directory(gguf, out)
        (out / "mark").touch()
        return read_metadata(path)

    monkeypatch.setattr(model_directory, "read_metadata", while_the_other_finishes)
    assert build_model_directory(gguf, out) == out
    assert (out / "mark").exists()
    assert sorted(tmp_path.iterdir()) == [gguf, out], "nothing temporary is left"


def test_an_unfinished_directory_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / "tokenizer.json").write_text("{", "utf-8")
    build_model_directory(write_gguf(tmp_path / "m.gguf", METADATA), out)
    Tokenizer.from_file(str(out / "tokenizer.json"))


def test_a_model_without_template_is_refused(tmp_path: Path) -> None:
    metadata = {key: value for key, value in METADATA.items() if key != "tokenizer.chat_template"}
    gguf = write_gguf(tmp_path / "m.gguf", metadata)
    with pytest.raises(LocalModelError, match="no chat template"):
        build_model_directory(gguf, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalModelError, match="cannot be read"):
        build_model_directory(tmp_path / "none.gguf", tmp_path / "model")


@pytest.mark.parametrize(
    ("tokens", "named", "expected"),
    [
        (["a", "</s>"], {"eos": 1}, [1]),
        (["<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"], {"eos": 1, "eot": 1}, [1, 0, 2]),
        (["<|endoftext|>", "<|return|>", "<|end|>", "<|call|>"], {"eos": 1}, [1, 0, 3]),
        (["<|end|>", "x"], {}, [0]),
        (["x"], {"eos": 7}, []),
    ],
)
def test_every_end_of_turn_is_found(tokens: list[Read], named: dict[str, int], expected: list[int]) -> None:
    ids = {f"tokenizer.ggml.{name}_token_id": number for name, number in named.items()}
    assert ends_of_turn({"tokenizer.ggml.tokens": tokens, **ids}) == expected

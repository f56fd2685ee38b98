from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from antiphon import cli
from antiphon_tokens import arguments

ROOT = Path(__file__).parents[3]
WRITE = ("triton-models", "write")


def write(folder: Path, *options: str, engine: str = "tensorrt_llm") -> int:
    named = ("--engine", engine, "--model", "/weights/m", "--name", "mine")
    return cli.main([*WRITE, str(folder), *named, *options])


def test_model_is_written_with_the_arguments_of_its_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(tmp_path, "--set", "max_seq_len: 8192", "--set", 'guided_decoding_backend: "llguidance"') == 0
    assert arguments.read(tmp_path / "mine/1/model.yaml") == {
        "model": "/weights/m",
        "guided_decoding_backend": "llguidance",
        "kv_cache_config": {"enable_block_reuse": True},
        "max_seq_len": 8192,
    }
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith(f"{tmp_path}/mine/config.pbtxt: bad_words, cache_salt, conversation, guide, ")
    assert shown[1] == f"{tmp_path}/mine/1/model.yaml: the arguments of tensorrt_llm"


def test_features_that_are_left_out_are_not_declared(tmp_path: Path) -> None:
    assert write(tmp_path, "--without", "conversation,priority") == 0
    config = (tmp_path / "mine/config.pbtxt").read_text("utf-8")
    assert ("cache_salt" in config, "conversation_id" in config, '"priority"' in config) == (True, False, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "max_seq_len=8192"), "--set: expected `name: value`"),
        (("--set", "max_seq_len: many"), "--set: the value of max_seq_len must be JSON on one line"),
        (("--without", "salt"), "There is no feature 'salt'; there are: min_p, "),
    ],
)
def test_mistake_is_one_line_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    assert write(tmp_path / "models", *options) == 2
    assert capsys.readouterr().err.startswith(f"antiphon: {message}")
    assert not (tmp_path / "models").exists()


def test_check_without_a_tokenizer_says_what_to_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("127.0.0.1:9", "--name", "mine", "--tokenizer", str(tmp_path))
    assert cli.main(["triton-models", "check", *options]) == 2
    assert "Pass the folder of the model's tokenizer with --tokenizer" in capsys.readouterr().err


def test_commands_of_the_guide_write_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs/howto/triton-token-models.md").read_text("utf-8")
    commands = [line.strip() for line in guide.splitlines() if line.strip().startswith("antiphon triton-models write")]
    assert len(commands) == 5
    for command in commands:
        assert cli.main(shlex.split(command)[1:]) == 0, command
        assert arguments.read(tmp_path / "repository/qwen3/1/model.yaml")["model"] == "/models/qwen3"

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon import cli
from antiphon_translator.engines.http_streams import HttpModelServer
from tests.support.served_models import write_directory

Output = pytest.CaptureFixture[str]
CHAT = 'name = "m"\nengine = "openai_chat"\nendpoint = "http://127.0.0.1:9/v1"\n'


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "m.toml"
    path.write_text(text)
    return str(path)


def test_profile_check_prints_the_resolved_profile(tmp_path: Path, capsys: Output) -> None:
    write_directory(tmp_path / "model")
    path = written(tmp_path, 'name = "m"\ndirectory = "model"\nendpoint = "t:1"\n')
    assert cli.main(["profile", "check", path, "--offline"]) == 0
    told = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert told["context length"].strip() == "8192"
    assert told["engine"].strip().startswith("auto (")
    assert "late_system" in told["roles"]
    assert "server" not in told


def test_a_chat_profile_with_only_a_url_passes_the_check(tmp_path: Path, capsys: Output) -> None:
    assert cli.main(["profile", "check", written(tmp_path, CHAT), "--offline"]) == 0
    assert "the server says when a prompt is too long" in capsys.readouterr().out


def test_profile_check_of_an_unreachable_server_exits_1(tmp_path: Path, capsys: Output) -> None:
    assert cli.main(["profile", "check", written(tmp_path, CHAT)]) == 1
    assert "The server of model 'm' cannot be reached." in capsys.readouterr().out


@pytest.mark.parametrize(("found", "status", "told"), [("m", 0, "ready"), ("other", 1, "no model 'm' (chat_model)")])
def test_profile_check_fails_if_the_chat_server_lacks_the_model(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch, found: str, status: int, told: str
) -> None:
    async def models(_server: HttpModelServer) -> object:
        return {"data": [{"id": found}]}

    monkeypatch.setattr(HttpModelServer, "models", models)
    assert cli.main(["profile", "check", written(tmp_path, CHAT)]) == status
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CHAT.replace("openai_chat", "openai"), "there is no engine 'openai'. There is auto, "),
        (CHAT.replace('engine = "openai_chat"\n', 'directory = "x"\n'), 'or engine must be "openai_chat"'),
        (CHAT.replace('engine = "openai_chat"\n', ""), "'directory' is missing"),
    ],
)
def test_invalid_input_prints_one_line_and_exits_2(tmp_path: Path, capsys: Output, text: str, words: str) -> None:
    assert cli.main(["profile", "check", written(tmp_path, text)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line

from __future__ import annotations

import io

import pytest

from antiphon.cli import main

Output = pytest.CaptureFixture[str]


def test_a_message_on_the_command_line_is_answered(base_url: str, capsys: Output) -> None:
    assert main(["chat", "--url", base_url, "Hi", "there"]) == 0
    assert capsys.readouterr().out == "Hello there, friend.\n"


def test_piped_lines_are_run_as_one_conversation(
    base_url: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\nAgain\n/tree\n/exit\nNever\n"))
    assert main(["chat", "--url", base_url]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["Hello there, friend."] * 2
    assert [line.strip()[:7] for line in printed[2:]] == ["● resp_"] * 2


def test_a_failed_message_exits_with_status_1(base_url: str, capsys: Output) -> None:
    assert main(["chat", "--url", base_url, "--model=none", "Hi"]) == 1
    assert "The model 'none'" in capsys.readouterr().out


def test_a_failed_line_of_a_pipe_exits_with_status_1(
    base_url: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\n/exit\n"))
    assert main(["chat", "--url", base_url, "--model=none"]) == 1
    assert "The model 'none'" in capsys.readouterr().out


def test_chat_with_an_unreachable_server_exits_1_with_its_url(capsys: Output) -> None:
    assert main(["chat", "--url", "http://127.0.0.1:9/v1", "Hi"]) == 1
    assert capsys.readouterr().err.startswith("antiphon: http://127.0.0.1:9/v1 does not answer")

from __future__ import annotations

import io

import pytest
from rich.console import Console

from antiphon.chat_command import _THEME, RichScreen
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


@pytest.mark.parametrize("is_terminal", [True, False])
def test_only_a_terminal_is_kept_from_escape_sequences(is_terminal: bool) -> None:
    written = io.StringIO()
    screen = RichScreen(Console(file=written, force_terminal=is_terminal, color_system=None, theme=_THEME))
    screen.write("\x1b]52;c;AAAA hi\n")
    assert ("\x1b]52" in written.getvalue()) is not is_terminal
    assert "hi\n" in written.getvalue()


def test_a_pipe_gets_the_text_as_the_model_wrote_it() -> None:
    written = io.StringIO()
    text = "all:\r\n\tcc \x1b \a [bold]x[/bold]\n"
    RichScreen(Console(file=written, theme=_THEME)).write(text)
    assert written.getvalue() == text

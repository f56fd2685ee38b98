"""`antiphon chat`: a conversation in the terminal, with any server of the Responses API."""

from __future__ import annotations

import argparse
import asyncio
import readline
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.theme import Theme

from antiphon.folders import default_data_folder
from antiphon.talk import api
from antiphon.talk.api import Api
from antiphon.talk.chat import Chat
from antiphon.talk.conversation import Conversation
from antiphon.talk.own_tools import OwnTools
from antiphon.talk.visible import visible

HISTORY_LINES_MAX = 1000
_THEME = Theme({"text": "default", "thought": "dim italic", "note": "dim", "error": "red"})


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "message", nargs="*", help="the first message; also the last one if standard input is no terminal"
    )
    parser.add_argument("--model", help="the model (default: the first that the server lists)")
    parser.add_argument("--instructions", help="instructions for the model")
    parser.add_argument("--resume", metavar="ID", help="continue after this response")
    parser.add_argument("--tools", type=Path, metavar="FILE", help="a Python file whose functions the model may call")
    parser.add_argument("--max-output-tokens", type=int, metavar="N", help="end each answer after N tokens")
    api.declare(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    screen = RichScreen(Console(theme=_THEME, highlight=False))
    with _history(default_data_folder() / "chat_history"), asyncio.Runner() as runner:
        return _talk(options, screen, runner)


def _talk(options: argparse.Namespace, screen: RichScreen, runner: asyncio.Runner) -> int:
    tools = OwnTools.of(options.tools) if options.tools else OwnTools()
    opened = Api.open(options.url)
    server = runner.run(opened.__aenter__())
    try:
        model = options.model or runner.run(server.models())[0]
        limit = {} if options.max_output_tokens is None else {"max_output_tokens": options.max_output_tokens}
        chat = Chat(server, screen, Conversation(model, options.instructions, limit, tools.definitions), tools)
        if sys.stdin.isatty():
            screen.write(f"{model} at {options.url}. /help shows the commands.\n", "note")
        for line in _lines(options):
            if not _take(chat, line, screen, runner):
                break
        return 1 if chat.failures and not sys.stdin.isatty() else 0
    finally:
        runner.run(opened.__aexit__(None, None, None))


def _take(chat: Chat, line: str, screen: RichScreen, runner: asyncio.Runner) -> bool:
    """Handles a line. Returns False at the end of the conversation. Ctrl-C closes the stream of the answer, so that the
    engine stops."""
    try:
        return runner.run(chat.take(line))
    except KeyboardInterrupt:
        screen.write("\n(stopped)\n", "note")
        return True


def _lines(options: argparse.Namespace) -> Iterator[str]:
    """The lines to handle: first those from the arguments, then those of standard input. Standard input that is no
    terminal, such as a pipe, is read only if the arguments have no message."""
    if options.resume:
        yield f"/resume {options.resume}"
    if options.message:
        yield " ".join(options.message)
    if sys.stdin.isatty() or not options.message:
        while (line := _line()) is not None:
            yield line


def _line() -> str | None:
    """The next line of standard input; None at its end."""
    try:
        return input("> " if sys.stdin.isatty() else "")
    except (EOFError, KeyboardInterrupt):
        return None


class RichScreen:
    """Writes texts: to a terminal in colour and with visible control characters (talk/visible.py), and unchanged to any
    other output."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str, style: str = "text") -> None:
        if self._console.is_terminal:
            self._console.print(visible(text), style=style, end="", markup=False, soft_wrap=True)
        else:  # rich would replace tabs by spaces
            self._console.file.write(text)
            self._console.file.flush()

    @contextmanager
    def waiting(self) -> Iterator[Callable[[], None]]:
        """Shows a spinner inside the context. Yields the function that removes the spinner earlier."""
        status = self._console.status("", spinner="dots")
        status.start()
        try:
            yield status.stop
        finally:
            status.stop()


@contextmanager
def _history(file: Path) -> Iterator[None]:
    """Offers the lines of earlier chats under the arrow keys: loads them from `file`, and saves them with the new lines
    at the end. Does nothing if standard input is no terminal."""
    if not sys.stdin.isatty():
        yield
        return
    with suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        readline.set_history_length(HISTORY_LINES_MAX)
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)

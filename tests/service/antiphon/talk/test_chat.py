from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon.talk import chat as chat_module
from antiphon.talk.api import Api
from antiphon.talk.chat import Chat
from antiphon.talk.conversation import Conversation
from antiphon.talk.own_tools import OwnTools


class Paper:
    """A screen that keeps the written texts by style."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write(self, text: str, style: str = "text") -> None:
        self.texts[style] = self.texts.get(style, "") + text

    @contextmanager
    def waiting(self) -> Iterator[Callable[[], None]]:
        yield lambda: None


@pytest.fixture
def paper() -> Paper:
    return Paper()


@pytest.fixture
async def chat(base_url: str, paper: Paper) -> AsyncIterator[Chat]:
    async with Api.open(base_url) as server:
        yield Chat(server, paper, Conversation("m"), OwnTools())


async def test_answers_are_printed_and_continued_by_the_next_message(chat: Chat, paper: Paper) -> None:
    for _ in range(2):
        assert await chat.take("Hi")
    assert paper.texts == {"text": "Hello there, friend.\n" * 2}
    assert len(chat.conversation.heads) == 2


async def test_a_fork_makes_a_branch_of_the_tree(chat: Chat, paper: Paper) -> None:
    for line in ("One", "Two", "/fork", "Three", "/tree"):
        await chat.take(line)
    root, *branches = [line for line in paper.texts["note"].splitlines() if "resp_" in line and "behind" not in line]
    assert root.startswith("● resp_")
    assert [line.startswith("  ● resp_") for line in branches] == [True, True]
    assert branches[1].endswith("◀ here")


async def test_a_response_is_resumed_by_its_id(chat: Chat, paper: Paper) -> None:
    await chat.take("Hi")
    (head,) = chat.conversation.heads
    for line in ("/new", f"/resume {head}", "Again"):
        await chat.take(line)
    assert chat.conversation.heads[0] == head
    assert len(chat.conversation.heads) == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/nothing", "There is no command /nothing."),
        ("/fork", "There are 0 responses"),
        ("/fork two", "Say by how many"),
        ("/tree", "Nothing has been answered yet."),
        ("/resume conv_1", "Name a response"),
        ("/resume resp_none", "resp_none"),
        ("/image nowhere.png", "No such file"),
        ("/model none", "Models here: m, seer."),
    ],
)
async def test_a_wrong_command_prints_an_error_and_the_chat_continues(
    chat: Chat, paper: Paper, line: str, told: str
) -> None:
    assert await chat.take(line)
    assert told in paper.texts["error"]
    assert chat.failures == 1
    assert await chat.take("Hi")


async def test_the_model_command_changes_the_model(chat: Chat) -> None:
    await chat.take("/model seer")
    assert chat.conversation.model == "seer"


async def test_the_help_names_every_command(chat: Chat, paper: Paper) -> None:
    await chat.take("/help")
    assert all(name in paper.texts["note"] for name in chat._commands)


@pytest.mark.parametrize("line", ["/exit", "/quit"])
async def test_exit_and_quit_end_the_chat(chat: Chat, line: str) -> None:
    assert not await chat.take(line)


async def test_function_calls_run_the_functions_of_the_users_file(base_url: str, paper: Paper, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("def get_weather(location: str) -> str:\n    return f'Rain in {location}'\n")
    tools = OwnTools.of(tmp_path / "tools.py")
    async with Api.open(base_url) as server:
        chat = Chat(server, paper, Conversation("m", tools=tools.definitions), tools)
        await chat.take("What is the weather in San Francisco?")
    assert "get_weather(" in paper.texts["note"]
    assert "→ Rain in " in paper.texts["note"]
    assert len(chat.conversation.heads) == 2


async def test_a_response_that_cannot_be_read_is_not_resumed(chat: Chat) -> None:
    await chat.take("Hi")
    before = list(chat.conversation.heads)
    await chat.take("/resume resp_none")
    assert chat.conversation.heads == before
    await chat.take("Again")
    assert (chat.failures, len(chat.conversation.heads)) == (1, 2)


@pytest.mark.parametrize("line", ["", "/new", "/fork"])
async def test_the_next_message_goes_on_behind_calls_without_outputs(
    base_url: str, paper: Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(chat_module, "ROUNDS_MAX", 1)
    (tmp_path / "tools.py").write_text("def get_weather(location: str) -> str:\n    return f'Rain in {location}'\n")
    tools = OwnTools.of(tmp_path / "tools.py")
    async with Api.open(base_url) as server:
        chat = Chat(server, paper, Conversation("m", tools=tools.definitions), tools)
        await chat.take("What is the weather in San Francisco?")
        (head,) = chat.conversation.heads
        for each in (line, f"/resume {head}" if line else "", "Never mind."):
            await chat.take(each)
        assert (chat.failures, len(chat.conversation.heads)) == (0, 2)

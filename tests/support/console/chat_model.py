"""A server of chat completions whose model answers by simple rules, at a pace that a test sets.

The last message selects the answer. A text in `answers` gets those answers, one after the other. A model with a tool
calls it; a tool's output is repeated; an image is acknowledged; a request for JSON gets a place. "Wait" is answered
with words until the gate is opened.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from antiphon_core.jsons import Object, dumps
from tests.support.fake_chat import FakeChat, Step, delta, ending, served
from tests.support.in_a_thread import in_a_thread
from tests.support.served_models import write_directory

MODEL = "antiphon-demo"
PLACE = '{"city": "Rome"}'
_WORDS = re.compile(r"\s*\S+")


@dataclass
class ChatModel(FakeChat):
    """The behaviour of the model. Its members can be changed at any time."""

    answers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pause_s: float = 0.0
    """The pause between two words."""
    first_pause_s: float = 0.0
    waiting_words: Sequence[str] = ()
    """Words that are repeated while the gate is closed. Empty: numbered words."""
    model: str = MODEL
    _asked: Counter[str] = field(default_factory=Counter)
    _gate: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    def open_gate(self) -> None:
        """Lets the waiting answers end. May be called from any thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._gate.set)

    def close_gate(self) -> None:
        """Lets answers to "Wait" continue until the gate is opened. May be called from any thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._gate.clear)

    async def _performed(self, script: Sequence[Step], request: web.Request) -> AsyncIterator[bytes]:
        asked = await request.json()
        count, reason = 0, "stop"
        await asyncio.sleep(self.first_pause_s)
        async for chunk in self._chunks(asked):
            count += 1
            reason = "tool_calls" if b"tool_calls" in chunk else reason
            yield chunk
            if count >= asked.get("max_tokens", count + 1):
                reason = "length"
                break
        prompt = len(_WORDS.findall(dumps(asked["messages"]).decode()))
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": count,
            "total_tokens": prompt + count,
            "prompt_tokens_details": {"cached_tokens": prompt // 2},
        }
        for data in ending(reason, usage):
            yield data

    async def _chunks(self, asked: Object) -> AsyncIterator[bytes]:
        last = asked["messages"][-1]
        text = _text_of(last)
        if last["role"] == "user" and asked.get("tools"):
            yield _call(asked["tools"][0]["function"]["name"])
            return
        if text.startswith("Wait"):
            async for word in self._until_the_gate_opens():
                yield delta(content=word)
        for word in _WORDS.findall(self._answer(asked, last, text)):
            await asyncio.sleep(self.pause_s)
            yield delta(content=word)

    async def _until_the_gate_opens(self) -> AsyncIterator[str]:
        number = 0
        while not self._gate.is_set():
            words = self.waiting_words
            yield (words[number % len(words)] if words else f"word-{number + 1}") + " "
            number += 1
            await asyncio.sleep(0.05)

    def _answer(self, asked: Object, last: Object, text: str) -> str:
        if asked.get("response_format", {}).get("type") in ("json_schema", "json_object"):
            return PLACE
        if last["role"] == "tool":
            return f"The tool says: {text}"
        if isinstance(last["content"], list) and any(part["type"] == "image_url" for part in last["content"]):
            return "I see an image."
        found = self.answers.get(text)
        if not found:
            return f"You said: {text}"
        self._asked[text] += 1
        return found[(self._asked[text] - 1) % len(found)]


def _text_of(message: Object) -> str:
    content: Any = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


def _call(name: str) -> bytes:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": PLACE}}
    return delta(tool_calls=[call])


@asynccontextmanager
async def _chat_model() -> AsyncIterator[ChatModel]:
    model = ChatModel()
    model._loop = asyncio.get_running_loop()
    async with served(model):
        try:
            yield model
        finally:
            model._gate.set()


@contextmanager
def chat_model() -> Iterator[ChatModel]:
    """Runs a chat model in its own thread."""
    with in_a_thread(_chat_model()) as model:
        yield model


def write_profile(folder: Path, model: ChatModel) -> Path:
    """Writes the model's profile for `antiphon up --profiles`: it accepts images, and has a tokenizer, which background
    responses need."""
    write_directory(folder / "demo")
    (folder / "demo.toml").write_text(
        f'name = "{MODEL}"\nengine = "openai_chat"\nendpoint = "{model.endpoint}"\nimages = "native"\n'
        'directory = "demo"\n',
        "utf-8",
    )
    return folder

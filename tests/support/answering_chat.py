"""A fake server of chat completions with the behaviour of vLLM and NIM. It answers the questions of client_plays.py.

A model that is not listed is answered with 404. A stream begins with the role, and the usage comes in its own chunk, if
requested.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from antiphon_core.jsons import Object
from tests.support.client_plays import GREETING, PLAYS
from tests.support.fake_chat import FakeChat, delta, event, served

DONE = b"data: [DONE]\n\n"


@dataclass
class AnsweringChat(FakeChat):
    """The server and its requests. The model's name has the form of Hugging Face."""

    model: str = "meta-llama/Llama-3.1-8B-Instruct"
    context_length: int | None = 8_192

    async def completions(self, request: web.Request) -> web.StreamResponse:
        asked: Object = await request.json()
        if asked["model"] != self.model:
            told = {"message": f"The model `{asked['model']}` does not exist.", "type": "NotFoundError", "code": 404}
            return web.json_response({"object": "error"} | told, status=404)
        self.script = _stream(asked)
        return await super().completions(request)


@asynccontextmanager
async def answering_chat() -> AsyncIterator[AnsweringChat]:
    """Runs the server on a free port of this machine."""
    server = AnsweringChat()
    async with served(server, "/v1/chat/completions"):
        yield server


def answer(asked: Object) -> str:
    """Returns the answer to the last message. The second question can be answered only with the first one in the
    prompt."""
    texts = [message["content"] for message in asked["messages"]]
    is_known = len(texts) == 1 or PLAYS.get(texts[0]) is not None
    (said,) = PLAYS.get(texts[-1], [GREETING]) if is_known else [GREETING]
    return str(said)


def _stream(asked: Object) -> list[bytes]:
    words = answer(asked).split(" ")
    deltas = [delta(content=word if number == 0 else f" {word}") for number, word in enumerate(words)]
    usage = {"prompt_tokens": 40, "completion_tokens": len(words), "total_tokens": 40 + len(words)}
    is_counted = (asked.get("stream_options") or {}).get("include_usage")
    counted = [event({"choices": [], "usage": usage})] if is_counted else []
    ended = event({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]})
    return [delta(role="assistant", content=""), *deltas, ended, *counted, DONE]

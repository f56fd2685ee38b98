"""A server of chat completions with the template of a model family: it reads the rendered prompt, rejects requests that
the template refuses, and answers with the next step of a play (client_plays.py)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from aiohttp import web

from antiphon_core.errors import InvalidRequest
from tests.support import client_plays
from tests.support.client_plays import HERMES, THOUGHT, Call, Format, Step
from tests.support.fake_chat import FakeChat, delta, ending, served
from tests.support.templated_system import rendering


@dataclass
class PlayedChat(FakeChat):
    form: Format = HERMES

    async def completions(self, request: web.Request) -> web.StreamResponse:
        assert self.render is not None
        with suppress(InvalidRequest):  # rejected below
            self.script = _stream(client_plays.next_step(self.render(await request.json()), self.form))
        return await super().completions(request)


@asynccontextmanager
async def played_chat(name: str, template: str, form: Format) -> AsyncIterator[PlayedChat]:
    """Runs a server of the model `name` on a free port of this machine."""
    server = PlayedChat(model=name, form=form, render=rendering(template))
    async with served(server, "/v1/chat/completions"):
        yield server


def _stream(step: Step) -> list[bytes]:
    begun = [delta(role="assistant", content=""), delta(reasoning_content=THOUGHT)]
    if not isinstance(step, Call):
        return [*begun, *(delta(content=letter) for letter in step), *ending()]
    function = {"name": step.name, "arguments": json.dumps(step.arguments)}
    call = {"index": 0, "id": "chatcmpl-tool-0123456789abcdef", "type": "function", "function": function}
    return [*begun, delta(tool_calls=[call]), *ending("tool_calls")]

"""A chat completions server in this process, for what a real one does not do on demand: hang, send garbage, vanish.

Everything it was asked is kept in `requests`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from tests.support.engine_plays import Ending, Play, as_text

MODEL = "m"
USAGE = {"prompt_tokens": 4, "completion_tokens": 9, "total_tokens": 13}


def event(chunk: Mapping[str, Any]) -> bytes:
    """A chunk as it is sent."""
    return b"data: " + dumps(chunk) + b"\n\n"


def delta(**members: Any) -> bytes:
    """A chunk with this delta."""
    return event(
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": members, "finish_reason": None}]}
    )


def ending(reason: str = "stop") -> list[bytes]:
    """The last chunks of a stream: why it ended, what was counted, and the goodbye."""
    return [
        event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        event({"choices": [], "usage": USAGE}),
        b"data: [DONE]\n\n",
    ]


@dataclass
class FakeChat:
    """The server's behaviour; change its members at any time.

    `script` is what a stream answers with: bytes, numbers (seconds of silence), or an Ending.
    """

    script: Sequence[bytes | float | Ending] = ()
    model: str = MODEL
    owner: str | None = "vllm"
    context_length: int | None = None
    adapters: Sequence[str] = ()
    """Adapters of the model, listed as vLLM lists them."""
    refusal: tuple[int, Object] | None = None
    """A status, and what is said with it, instead of an answer."""
    retry_after: str | None = None
    """A header of the refusal."""
    render: Callable[[Object], str] | None = None
    """Writes the prompt of a request, as the model's template does. InvalidRequest: the template refuses it."""
    prompts: list[str] = field(default_factory=list)
    requests: list[Object] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    peers: list[object] = field(default_factory=list)
    """Where each request came from: address and port."""
    model_calls: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    endpoint: str = ""

    def play(self, play: Play) -> None:
        """Answers the next streams with a play."""
        self.begun, self.stopped = play.begun, play.stopped
        said = [delta(content=as_text(ids)) for ids in play.messages]
        self.script = [*(step for chunk in said for step in (play.pause_s, chunk)), play.ending]

    async def models(self, request: web.Request) -> web.Response:
        self.model_calls += 1
        self._note(request)
        self.keys.append(request.headers.get("Authorization"))
        if self.refusal is not None and self.refusal[0] in (401, 503):
            return web.json_response(self.refusal[1], status=self.refusal[0])
        entry = {"id": self.model, "object": "model"} | ({} if self.owner is None else {"owned_by": self.owner})
        # vLLM's card of an adapter has no max_model_len.
        adapters = [entry | {"id": name, "root": f"/adapters/{name}", "parent": self.model} for name in self.adapters]
        return web.json_response(
            {"object": "list", "data": [entry | {"max_model_len": self.context_length}, *adapters]}
        )

    async def completions(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.headers.append(request.headers)
        self.begun.set()
        self._note(request)
        if self.refusal is not None:
            later = {} if self.retry_after is None else {"Retry-After": self.retry_after}
            return web.json_response(self.refusal[1], status=self.refusal[0], headers=later)
        if self.render is not None:
            try:
                self.prompts.append(self.render(self.requests[-1]))
            except InvalidRequest as error:
                told = {"object": "error", "message": error.message, "type": "BadRequestError", "code": 400}
                return web.json_response(told, status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await self._stream(request, response)
        except (asyncio.CancelledError, ConnectionError):
            self.stopped.set()
            raise
        return response

    def _note(self, request: web.Request) -> None:
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peername"))

    async def _stream(self, request: web.Request, response: web.StreamResponse) -> None:
        for step in self.script:
            match step:
                case bytes():
                    await response.write(step)
                case float() | int():
                    await asyncio.sleep(step)
                case Ending.BY_ITSELF:
                    await response.write(b"".join(ending()))
                case Ending.ERROR:
                    await response.write(event({"error": {"message": "out of paper", "code": 500}}))
                case Ending.SILENCE:
                    await asyncio.Event().wait()
                case Ending.LOST:
                    await asyncio.sleep(0.02)  # what was written is on its way
                    assert request.transport is not None
                    request.transport.abort()


@asynccontextmanager
async def fake_chat() -> AsyncIterator[FakeChat]:
    """A running fake on a free port of this machine."""
    fake = FakeChat()
    async with served(fake, "/v1/chat/completions"):
        yield fake


@asynccontextmanager
async def served(fake: FakeChat, path: str) -> AsyncIterator[None]:
    """Serves a fake on a free port of this machine, its streams at this path."""
    application = web.Application()
    application.router.add_get("/v1/models", fake.models)
    application.router.add_post(path, fake.completions)
    # A connection that is closed cancels its handler, which is how the fake learns of it.
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield
    finally:
        await runner.cleanup()

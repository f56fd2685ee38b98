"""A chat completions server in this process that can do what a real one does not do on demand: hang, send garbage,
vanish.

`requests` has all requests of the server.
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
    """Returns a chunk as a server-sent event."""
    return b"data: " + dumps(chunk) + b"\n\n"


def delta(**members: Any) -> bytes:
    """Returns a chunk with this delta."""
    return event(
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": members, "finish_reason": None}]}
    )


def ending(reason: str = "stop", usage: Mapping[str, Any] = USAGE) -> list[bytes]:
    """Returns the last chunks of a stream: finish reason, usage, and `[DONE]`."""
    return [
        event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        event({"choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


Step = bytes | float | Ending
"""A part of a streamed answer: bytes, seconds of silence, or the ending."""


class Rejection(Exception):
    """An answer with an error status, raised by the `answer` of a fake."""

    def __init__(self, status: int, body: Object) -> None:
        super().__init__(status)
        self.status, self.body = status, body


@dataclass
class FakeChat:
    """The behaviour of the server. Its members can be changed at any time."""

    script: Sequence[Step] = ()
    answer: Callable[[Object], Sequence[Step]] | None = None
    """Makes the script of a request. Rejection: the request is rejected."""
    model: str = MODEL
    owner: str | None = "vllm"
    context_length: int | None = None
    adapters: Sequence[str] = ()
    """Adapters of the model, listed as vLLM lists them."""
    refusal: tuple[int, Object] | None = None
    """A status and a body that are sent instead of an answer."""
    retry_after: str | None = None
    """The header Retry-After of that status."""
    answer_headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of an answer, such as those of a router before the server."""
    render: Callable[[Object], str] | None = None
    """Renders the prompt of a request with the model's template. InvalidRequest: the template refuses the request."""
    prompts: list[str] = field(default_factory=list)
    requests: list[Object] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    peers: list[object] = field(default_factory=list)
    """The address and port of each request's client."""
    model_calls: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    stops: int = 0
    """The number of streams that clients cancelled."""
    endpoint: str = ""

    def play(self, play: Play) -> None:
        """Lets the next streams be answered with a play."""
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
        try:
            script = self.answer(self.requests[-1]) if self.answer is not None else self.script
        except Rejection as rejection:
            return web.json_response(rejection.body, status=rejection.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **self.answer_headers})
        await response.prepare(request)
        try:
            async for data in self._performed(script, request):
                await response.write(data)
        except (asyncio.CancelledError, ConnectionError):
            self.stopped.set()
            self.stops += 1
            raise
        return response

    def _note(self, request: web.Request) -> None:
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peername"))

    async def _performed(self, script: Sequence[Step], request: web.Request) -> AsyncIterator[bytes]:
        for step in script:
            match step:
                case bytes():
                    yield step
                case float() | int():
                    await asyncio.sleep(step)
                case Ending.BY_ITSELF:
                    yield b"".join(ending())
                case Ending.ERROR:
                    yield event({"error": {"message": "out of paper", "code": 500}})
                case Ending.SILENCE:
                    await asyncio.Event().wait()
                case Ending.LOST:
                    await asyncio.sleep(0.02)  # lets the written data be sent
                    assert request.transport is not None
                    request.transport.abort()


@asynccontextmanager
async def fake_chat(**members: Any) -> AsyncIterator[FakeChat]:
    """Runs a fake with these members on a free port of this machine."""
    fake = FakeChat(**members)
    async with served(fake):
        yield fake


@asynccontextmanager
async def served(fake: FakeChat, path: str = "/v1/chat/completions") -> AsyncIterator[None]:
    """Serves a fake on a free port of this machine, its streams at this path."""
    application = web.Application(client_max_size=2**24)
    application.router.add_get("/v1/models", fake.models)
    application.router.add_post(path, fake.completions)
    # A closed connection cancels its handler, by which the fake notices it.
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield
    finally:
        await runner.cleanup()

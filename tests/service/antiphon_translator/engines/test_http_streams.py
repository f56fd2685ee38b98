from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from antiphon_core.errors import EngineFault, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_core.jsons import Object
from antiphon_translator.engines.http_streams import HttpModelServer
from antiphon_translator.generation import EngineChunk, TokenChunk
from antiphon_translator.models.profiles import ModelProfile
from tests.support import pushed
from tests.support.chunks import only
from tests.support.engine_plays import Ending
from tests.support.fake_generate import DONE, PATH, FakeGenerate, fake_generate, ids_event
from tests.support.waiting import WAIT_MAX_S


class IdsReader:
    """Reads the ids of events. It is complete with any finish reason."""

    def __init__(self) -> None:
        self.is_complete = False
        self.content_chars = 0

    def read(self, event: Object) -> EngineChunk | None:
        self.is_complete = event["choices"][0]["finish_reason"] is not None
        return TokenChunk(event["choices"][0]["token_ids"])

    def note_done(self) -> None: ...

    def finish(self) -> EngineChunk | None:
        return TokenChunk((99,))


@pytest.fixture
async def fake() -> AsyncIterator[FakeGenerate]:
    async with fake_generate() as running:
        yield running


@pytest.fixture
async def server(fake: FakeGenerate) -> AsyncIterator[HttpModelServer]:
    made = HttpModelServer(profile(fake.endpoint), end_grace_s=WAIT_MAX_S)
    yield made
    await made.close()


def profile(endpoint: str) -> ModelProfile:
    return ModelProfile(
        name="m", directory=Path(), endpoint=endpoint, first_token_timeout_s=2 * WAIT_MAX_S, probe_timeout_s=WAIT_MAX_S
    )


async def generated(
    server: HttpModelServer, *, most: int = 100, cut_off: type[EngineFault | EngineUnavailable] = EngineFault
) -> list[int]:
    deliveries = pushed.Deliveries(most=most)
    url = server.url.removesuffix("/v1") + PATH
    await server.generate(url, b"{}", IdsReader(), deliveries, Flow(), cut_off=cut_off)
    return [number for chunks in deliveries.received for chunk in only(TokenChunk, chunks) for number in chunk.ids]


async def test_stream_is_delivered_to_its_end_with_the_final_chunk(fake: FakeGenerate, server: HttpModelServer) -> None:
    fake.script = [ids_event([1]), ids_event([2, 3], "stop"), DONE]
    assert await generated(server) == [1, 2, 3, 99]


async def test_connection_is_reused_after_the_client_stopped_reading(
    fake: FakeGenerate, server: HttpModelServer
) -> None:
    fake.script = [ids_event([1], "stop"), 0.01, DONE]
    for _ in range(3):
        assert await generated(server, most=1) == [1]
    assert len(set(fake.peers)) == 1


async def test_stream_that_does_not_end_is_closed_after_the_grace_time(fake: FakeGenerate) -> None:
    server = HttpModelServer(profile(fake.endpoint), end_grace_s=0.02)
    fake.script = [ids_event([1], "stop"), Ending.SILENCE]
    assert await generated(server, most=1) == [1]
    async with asyncio.timeout(WAIT_MAX_S):
        await fake.stopped.wait()
    await server.close()


async def test_answer_of_a_server_that_is_silent_behind_its_finish_reason_is_whole(fake: FakeGenerate) -> None:
    timeouts = replace(profile(fake.endpoint), token_timeout_s=0.02)
    server = HttpModelServer(timeouts, end_grace_s=0.02, usage_wait_s=0.1)
    fake.script = [ids_event([1], "stop"), Ending.SILENCE]
    assert await generated(server) == [1, 99]
    await server.close()


@pytest.mark.parametrize("end", [[], [DONE]], ids=["without [DONE]", "with [DONE]"])
@pytest.mark.parametrize("most", [1, 100])
async def test_a_connection_that_breaks_after_the_finish_reason_does_not_fail_the_generation(
    fake: FakeGenerate, server: HttpModelServer, most: int, end: list[bytes]
) -> None:
    fake.script = [ids_event([1], "stop"), *end, 0.01, Ending.LOST]
    assert await generated(server, most=most) == ([1] if most == 1 else [1, 99])


@pytest.mark.parametrize("error", [EngineFault, EngineUnavailable])
async def test_stream_that_ends_before_the_generation_raises_the_given_error(
    fake: FakeGenerate, server: HttpModelServer, error: type[EngineFault | EngineUnavailable]
) -> None:
    fake.script = [ids_event([1]), DONE]
    with pytest.raises(error, match="ended the stream before the generation"):
        await generated(server, cut_off=error)


NO_JSON = [b"data: " + b"[" * 100_000 + b"\n\n", b"data: " + b"9" * 5_000 + b"\n\n", b"data: x\n\n"]


@pytest.mark.parametrize("event", NO_JSON, ids=["deep", "digits", "word"])
async def test_answer_without_content_beside_an_event_that_is_no_json_is_an_error(
    fake: FakeGenerate, server: HttpModelServer, event: bytes
) -> None:
    fake.script = [event, ids_event([], "stop"), DONE]
    with pytest.raises(EngineFault, match="an event that cannot be read"):
        await generated(server)


async def test_error_event_that_is_no_json_ends_the_answer(fake: FakeGenerate, server: HttpModelServer) -> None:
    fake.script = [
        ids_event([1]),
        b'data: {"error": {"code": ' + b"9" * 5_000 + b"}}\n\n",
        ids_event([2], "stop"),
        DONE,
    ]
    with pytest.raises(EngineFault, match="an event that cannot be read"):
        await generated(server)


async def test_route_exists_with_any_status_but_404(fake: FakeGenerate, server: HttpModelServer) -> None:
    root = server.url.removesuffix("/v1")
    assert await server.has_route(root + PATH)
    assert not await server.has_route(root + "/other")


async def test_models_are_listed_with_their_adapters(fake: FakeGenerate, server: HttpModelServer) -> None:
    fake.adapters = ["pirate"]
    base, adapter = await server.list_models()
    assert (base.name, base.context_length, base.parent) == ("m", 4_096, None)
    assert (adapter.name, adapter.context_length, adapter.parent) == ("pirate", None, "m")


async def test_unreachable_server_is_unavailable() -> None:
    server = HttpModelServer(profile("http://127.0.0.1:9/v1"))
    for asking in (server.models(), server.has_route("http://127.0.0.1:9/x")):
        with pytest.raises(EngineUnavailable, match="cannot be reached"):
            await asking
    await server.close()


@pytest.mark.parametrize("status", [200, 500])
async def test_answer_that_never_ends_is_given_up(status: int) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        while True:
            await response.write(b"x" * 2**20)

    async with TestServer(_application(endless)) as running:
        server = HttpModelServer(profile(f"http://127.0.0.1:{running.port}/v1"))
        async with asyncio.timeout(WAIT_MAX_S / 2):
            with pytest.raises(EngineFault):
                await server.models()
        await server.close()


def _application(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.Application:
    application = web.Application()
    application.router.add_get("/v1/models", handler)
    return application

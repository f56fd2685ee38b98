"""A server of chat completions (NIM, vLLM, SGLang, llama.cpp): a conversation in, text, reasoning and calls out.

A generation that is stopped closes its connection, which is how these servers learn that nobody listens any more. One
that ends by itself leaves the connection for the next. A stream that ends without a finish reason is a fault.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import aiohttp

from antiphon_core.errors import AntiphonError, EngineFault, EngineTimeout, EngineUnavailable, InvalidRequest
from antiphon_core.flow import Flow
from antiphon_core.jsons import Object, compact, loads
from antiphon_core.telemetry import correlation
from antiphon_translator.engines import chat_errors, openai_logprobs, openai_wire
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.http_pool import HttpPool
from antiphon_translator.engines.openai_wire import ChunkReader, Dialect, ListedModel
from antiphon_translator.engines.sse import EventData
from antiphon_translator.engines.token_timeouts import TokenTimeouts, TokenTimer, timed
from antiphon_translator.generation import EngineChunk, GenerationRequest, Level
from antiphon_translator.models.profiles import ModelProfile

log = logging.getLogger(__name__)

_DONE = b"[DONE]"


class OpenAIChatEngine:
    """One model on one server."""

    level = Level.CHAT

    def __init__(self, profile: ModelProfile) -> None:
        self._profile = profile
        self._url = profile.endpoint.rstrip("/")
        self._model = profile.chat_model or profile.name
        self._server = f"The server of model '{profile.name}'"
        self._pool: HttpPool | None = None
        self._dialect: Dialect | None = None
        self._timeouts = TokenTimeouts(
            self._server, first_s=profile.first_token_timeout_s, next_s=profile.token_timeout_s
        )

    async def controls(self) -> frozenset[str]:
        return (await self._described()).controls

    async def ready(self) -> None:
        await self._models()

    async def listed(self) -> list[ListedModel]:
        """All models of the server. Raises as `ready`, and EngineFault for a list that cannot be read."""
        return openai_wire.listed(await self._models())

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        body = compact(openai_wire.body(request, self._model, await self._described()))
        reader = openai_logprobs.reader(request)
        try:
            async with timed(self._timeouts, flow) as timer, self._asked("POST", "/chat/completions", body) as response:
                await self._pass_on(response.content, reader, deliver, flow, timer)
        except InvalidRequest:
            raise  # the server is as it was
        except AntiphonError:
            self._dialect = None  # the server may come back as another
            raise

    async def _pass_on(
        self, content: aiohttp.StreamReader, reader: ChunkReader, deliver: Deliver, flow: Flow, timer: TokenTimer
    ) -> None:
        """Delivers what each read brings, until nothing more is wanted."""
        events = EventData()
        while received := await content.readany():
            chunks: list[EngineChunk] = []
            error = self._read(events.feed(received), reader, chunks)
            if chunks:
                timer.token_came()
                if not deliver(chunks):
                    return
            if error is not None:
                raise error
            await flow.wait_until_open()
        if not reader.complete:
            raise EngineFault(f"{self._server} ended the stream before the generation.")
        deliver((reader.finish(),))

    def _read(self, events: list[bytes], reader: ChunkReader, chunks: list[EngineChunk]) -> AntiphonError | None:
        """Adds what events say to `chunks`, up to the one that is an error."""
        try:
            for data in events:
                chunk = None if data == _DONE else reader.read(self._event(data))
                if chunk is not None:
                    chunks.append(chunk)
        except AntiphonError as error:
            return error
        return None

    def _event(self, data: bytes) -> Object:
        """An event. Raises the error that it stands for, in band as it came."""
        try:
            event = loads(data)
        except ValueError as error:
            raise EngineFault(f"{self._server} sent an event that cannot be read.") from error
        if not isinstance(event, dict):
            raise EngineFault(f"{self._server} sent an event that cannot be read.")
        if event.get("error") or event.get("object") == "error":
            raise self._error(event.get("error") or event, status=200)
        return event

    def _error(self, told: object, *, status: int, retry_after: str | None = None) -> AntiphonError:
        """The error that an answer stands for."""
        return chat_errors.of_answer(
            told, status=status, server=self._server, model=self._profile.name, url=self._url, retry_after=retry_after
        )

    async def _described(self) -> Dialect:
        """What the server takes, asked for once, and again after a failure."""
        if self._dialect is None:
            self._dialect = openai_wire.dialect_of(await self._models(), self._model)
        return self._dialect

    async def _models(self) -> Object:
        try:
            async with asyncio.timeout(self._profile.probe_timeout_s):
                async with self._asked("GET", "/models", None) as response:
                    return self._event(await response.read())
        except TimeoutError as error:
            raise EngineTimeout(f"{self._server} did not answer in time.") from error

    @asynccontextmanager
    async def _asked(self, method: str, path: str, body: bytes | None) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer with status 200. Its connection is closed at the end, unless all of it was read."""
        with self._translated():
            response = await self._connected().request(method, self._url + path, body, self._headers())
            try:
                if response.status != 200:
                    told = chat_errors.parsed(await response.read())
                    raise self._error(told, status=response.status, retry_after=response.headers.get("Retry-After"))
                yield response
            finally:
                response.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turns what aiohttp raises into our errors."""
        try:
            yield
        except aiohttp.ClientError as error:
            log.info("model '%s': %s", self._profile.name, error)
            raise EngineUnavailable(f"{self._server} cannot be reached.") from error

    def _headers(self) -> Mapping[str, str]:
        """The key is read anew for each request: it may be replaced in place."""
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            **dict(correlation.engine_headers()),
        }
        path = self._profile.api_key_file
        if path is None:
            return headers
        try:
            return headers | {"Authorization": f"Bearer {path.read_text('utf-8').strip()}"}
        except (OSError, ValueError) as error:
            raise EngineUnavailable(
                f"The file with the API key of model '{self._profile.name}' is unreadable."
            ) from error

    def _connected(self) -> HttpPool:
        if self._pool is None:
            self._pool = HttpPool()
        return self._pool

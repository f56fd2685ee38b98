"""A server of chat completions (NIM, vLLM, SGLang, llama.cpp): a conversation in, text, reasoning and calls out.

Closing the generator closes the connection, which is how these servers learn that nobody listens any more. A stream
that ends without a finish reason is a fault.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager

import aiohttp

from antiphon_core.errors import AntiphonError, EngineFault, EngineTimeout, EngineUnavailable
from antiphon_core.jsons import Object, dumps, loads
from antiphon_translator.engines import guide_errors, openai_logprobs, openai_wire
from antiphon_translator.engines.inbox import Inbox, Patience
from antiphon_translator.engines.openai_wire import ChunkReader, Dialect
from antiphon_translator.engines.sse import EventData
from antiphon_translator.generation import EngineChunk, GenerationRequest, Level
from antiphon_translator.profiles import ModelProfile

log = logging.getLogger(__name__)

_DONE = b"[DONE]"
_LOGGED_CHARS_MAX = 1_000
_BY_STATUS: Mapping[int, tuple[type[AntiphonError], str]] = {
    401: (EngineUnavailable, "refuses the API key"),
    403: (EngineUnavailable, "refuses the API key"),
    404: (EngineUnavailable, "has no such model"),
    408: (EngineTimeout, "did not answer in time"),
    429: (EngineUnavailable, "is overloaded"),
    502: (EngineUnavailable, "cannot be reached"),
    503: (EngineUnavailable, "is not ready"),
    504: (EngineTimeout, "did not answer in time"),
}


class OpenAIChatEngine:
    """One model on one server."""

    level = Level.CHAT

    def __init__(self, profile: ModelProfile) -> None:
        self._profile = profile
        self._url = profile.endpoint.rstrip("/")
        self._model = profile.chat_model or profile.name
        self._server = f"The server of model '{profile.name}'"
        self._session: aiohttp.ClientSession | None = None
        self._dialect: Dialect | None = None

    async def controls(self) -> frozenset[str]:
        return (await self._described()).controls

    async def ready(self) -> None:
        await self._models()

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Sequence[EngineChunk], None]:
        body = openai_wire.body(request, self._model, await self._described())
        patience = Patience(
            self._server, first_s=self._profile.first_token_timeout_s, next_s=self._profile.token_timeout_s
        )
        inbox = Inbox(self._chunks(body, openai_logprobs.reader(request)), patience)
        try:
            async with aclosing(inbox.batches()) as batches:
                async for batch in batches:
                    yield batch
        except AntiphonError:
            self._dialect = None  # the server may come back as another
            raise
        finally:
            await inbox.close()

    async def _chunks(self, body: Object, reader: ChunkReader) -> AsyncGenerator[EngineChunk, None]:
        events = EventData()
        async with self._asked("POST", "/chat/completions", dumps(body)) as response:
            async for received in response.content.iter_any():
                for data in events.feed(received):
                    chunk = None if data == _DONE else reader.read(self._event(data))
                    if chunk is not None:
                        yield chunk
        if not reader.complete:
            raise EngineFault(f"{self._server} ended the stream before the generation.")
        yield reader.finish()

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

    def _error(self, told: object, *, status: int) -> AntiphonError:
        """The error that an answer stands for; its own words go to the log."""
        log.warning("model '%s': the server reports: %d %.*s", self._profile.name, status, _LOGGED_CHARS_MAX, told)
        if (refusal := guide_errors.of_text(str(told), server=self._server)) is not None:
            return refusal
        code = told.get("code") if isinstance(told, dict) else None
        kind, what = _BY_STATUS.get(code if isinstance(code, int) else status, (EngineFault, "reported an error"))
        return kind(f"{self._server} {what}.")

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
            response = await self._connected().request(method, self._url + path, data=body, headers=self._headers())
            try:
                if response.status != 200:
                    raise self._error((await response.read()).decode("utf-8", "replace"), status=response.status)
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
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        path = self._profile.api_key_file
        if path is None:
            return headers
        try:
            return headers | {"Authorization": f"Bearer {path.read_text('utf-8').strip()}"}
        except (OSError, ValueError) as error:
            raise EngineUnavailable(
                f"The file with the API key of model '{self._profile.name}' is unreadable."
            ) from error

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Time limits are ours: aiohttp's know no tokens. A connection is for one request: some servers close one
            # that was used a few times without saying so, and a POST that meets that moment is lost.
            timeout = aiohttp.ClientTimeout(total=None)
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            self._session = aiohttp.ClientSession(timeout=timeout, connector=connector)
        return self._session

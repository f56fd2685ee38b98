"""A model server over HTTP that streams a generation as server-sent events: NIM, vLLM, SGLang, llama.cpp.

Stopping a generation closes its connection, which makes these servers stop, too. A generation that ends by itself
leaves its connection open for the next request. openai_chat.py and vllm_tokens.py build on this module; the modules
that write their request bodies and read their events do no I/O.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import aiohttp

from antiphon_core.egress.http_connections import REDIRECTS, EndlessFraming, compression_of
from antiphon_core.errors import AntiphonError, EngineFault, EngineMisconfigured, EngineTimeout, EngineUnavailable
from antiphon_core.flow import Flow
from antiphon_core.jsons import Object, loads
from antiphon_core.limits import ENGINE_SLICE_BYTES_MAX, ENGINE_TEXT_BYTES_MAX
from antiphon_translator.engines import chat_errors, openai_wire, request_headers, secret_texts
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.fleet_routers import NO_ROUTE, ROUTERS, Route
from antiphon_translator.engines.http_pool import HttpPool
from antiphon_translator.engines.lenient_json import values_in
from antiphon_translator.engines.openai_wire import ListedModel
from antiphon_translator.engines.sse import DONE, Data, ErrorData, EventData
from antiphon_translator.engines.stream_budget import StreamBudget
from antiphon_translator.engines.token_timeouts import TokenTimeouts, TokenTimer, time_tokens
from antiphon_translator.engines.unread import UnreadParts
from antiphon_translator.generation import EngineChunk, GenerationRequest
from antiphon_translator.models.profiles import ModelProfile

log = logging.getLogger(__name__)

_NO_HEADERS: Mapping[str, str] = {}
_READ_MEMBERS = (b'"choices"', b'"error"')
END_GRACE_S = 0.25
"""Seconds that a server may take to end a stream after its finish reason, before the connection is closed."""
USAGE_WAIT_S = 5.0
"""Seconds that a server may be silent after its finish reason, before the answer ends without its usage."""
_END_BYTES_MAX = 4_096


class EventReader(Protocol):
    """Reads the events of one generation."""

    @property
    def is_complete(self) -> bool:
        """Whether the answer is whole: the server sent the finish reason, or ended the stream without one."""

    @property
    def content_chars(self) -> int:
        """The content that was read so far, as StreamBudget counts it, with what is held back."""

    def read(self, event: Object) -> EngineChunk | None:
        """Returns the content of one event. EngineFault: a part of the answer cannot be read. EngineFault,
        EngineOverloaded, EngineTimeout, EngineUnavailable: the server broke the generation off."""

    def note_done(self) -> None:
        """Notes that the server ended the stream by `[DONE]`, or sent its answer as one body."""

    def finish(self) -> EngineChunk | None:
        """Returns the last chunk, once the stream has ended."""


class HttpModelServer:
    """The server of one model profile. `endpoint` is its base URL, such as http://vllm:8000/v1."""

    def __init__(
        self, profile: ModelProfile, *, end_grace_s: float = END_GRACE_S, usage_wait_s: float = USAGE_WAIT_S
    ) -> None:
        self.name = f"The server of model '{profile.name}'"
        """For messages to callers."""
        self.url = profile.endpoint.rstrip("/")
        self.unread = UnreadParts(profile.name)
        self._profile = profile
        self._end_grace_s = end_grace_s
        self._usage_wait_s = usage_wait_s
        self._pool: HttpPool | None = None
        self._timeouts = TokenTimeouts(self.name, first_s=profile.first_token_timeout_s, next_s=profile.token_timeout_s)

    def route(self, request: GenerationRequest) -> Route:
        """The part of a request for the fleet's router. EngineMisconfigured: the file of the secret is unreadable."""
        secret = request_headers.session_secret(self._profile)
        return Route.of(ROUTERS[self._profile.router], request, self._profile.endpoint, secret)

    async def models(self) -> Object:
        """The answer to GET /models. Raises EngineTimeout after `probe_timeout_s`."""
        async with self._probe_timeout(), self._response("GET", f"{self.url}/models", None) as response:
            return self._check_event(_object(await _body(response), self.name))

    async def list_models(self) -> list[ListedModel]:
        """All models of the server. Raises as `models`, and EngineFault for a list that cannot be read."""
        return openai_wire.parse_models(await self.models())

    async def has_route(self, url: str) -> bool:
        """Whether the server has a POST route at `url`: then the status of a GET is not 404."""
        async with self._probe_timeout():
            with self._translate_errors():
                response = await self._connect().request("GET", url, None, request_headers.of(self._profile))
                response.close()
                return response.status != 404

    def misconfigured_error(self, finding: str) -> EngineMisconfigured:
        """The error of a server that does not fit its profile; `finding` goes on behind the server's name."""
        return chat_errors.misconfigured_error(f"{self.name} {finding}", model=self._profile.name)

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    async def generate(
        self,
        url: str,
        body: bytes,
        reader: EventReader,
        deliver: Deliver,
        flow: Flow,
        *,
        route: Route = NO_ROUTE,
        cut_off: type[AntiphonError] = EngineFault,
    ) -> None:
        """Runs one generation. Raises `cut_off` for an answer that the reader does not find complete."""
        opened = self._response("POST", url, body, route.headers)
        async with time_tokens(self._timeouts, flow) as timer, opened as response:
            events = EventData()
            deliver = route.with_placement(response.headers, deliver)
            if not await self._pass_on(response.content, events, reader, deliver, flow, timer):
                return
            if not reader.is_complete:
                raise cut_off(f"{self.name} {self._came(events.plain_body, response.content_type)}.")
            rest = reader.finish()
            if rest is not None:
                deliver((rest,))
            await self._drain(response.content, reader, timer)

    def _came(self, plain_body: bytes, content_type: str) -> str:
        """The words for an answer that is no whole stream."""
        if not plain_body:
            return "ended the stream before the generation"
        return f"sent {chat_errors.beginning(plain_body, self.url)} ({content_type[:80]}) in place of a stream"

    async def _pass_on(
        self,
        content: aiohttp.StreamReader,
        events: EventData,
        reader: EventReader,
        deliver: Deliver,
        flow: Flow,
        timer: TokenTimer,
    ) -> bool:
        """Delivers the content of each read up to `[DONE]`. Returns False as soon as `deliver` does. A read is one
        slice of work: where more bytes wait, other turns come first."""
        is_open, is_done, ends_at, budget = True, False, None, StreamBudget(self.name)
        while is_open and not is_done:
            received = await _read_some(content, reader, ends_at)
            is_open, content_chars = bool(received), reader.content_chars
            found = events.feed(received) if is_open else events.finish()
            if is_done := DONE in found:
                del found[found.index(DONE) :]
            chunks: list[EngineChunk] = []
            error = self._read(found, events, reader, chunks)
            budget.note(len(received), reader.content_chars - content_chars)
            self._check_loss(events, reader)
            if chunks:
                timer.token_came()
            if reader.is_complete and (chunks or ends_at is None):
                timer.stop()
                ends_at = asyncio.get_running_loop().time() + self._usage_wait_s
            if chunks and not deliver(chunks):
                if reader.is_complete:  # the stream ends soon, and its connection can be used again
                    await self._drain(content, reader, timer)
                return False
            if error is not None:
                raise error
            await flow.wait_until_open()
            if len(received) == ENGINE_SLICE_BYTES_MAX:
                await asyncio.sleep(0)
        if is_done or events.plain_body:
            reader.note_done()
            self._check_loss(events, reader)
        return True

    async def _drain(self, content: aiohttp.StreamReader, reader: EventReader, timer: TokenTimer) -> None:
        """Reads a complete stream to its end, so that its connection can be used again."""
        timer.end_within(self._end_grace_s)
        size = 0
        while size <= _END_BYTES_MAX and (received := await _read_some(content, reader)):
            size += len(received)

    def _read(
        self, found: list[Data], events: EventData, reader: EventReader, chunks: list[EngineChunk]
    ) -> AntiphonError | None:
        """Adds the content of events to `chunks`. Stops at an event that is an error, and returns the error."""
        try:
            for event in self._values(found, events):
                chunk = reader.read(self._check_event(event))
                if chunk is not None:
                    chunks.append(chunk)
        except AntiphonError as error:
            return error
        return None

    def _values(self, found: list[Data], events: EventData) -> Iterator[Object]:
        """The objects in the data of events. Raises an error that an event is named for, and EngineFault for data that
        may hold a part of the answer or an error, and cannot be read. Notes other data that cannot be read."""
        for data in found:
            if isinstance(data, ErrorData):
                raise self._error(chat_errors.parse_error(data.data), status=200)
            try:
                for value in values_in(data):
                    if isinstance(value, dict):
                        yield value
                    else:
                        self.unread.note("event", value)
            except ValueError as error:
                if any(member in data for member in _READ_MEMBERS):
                    raise self._unreadable_error() from error
                events.has_unreadable = True
                self.unread.note("event", data.decode("utf-8", "replace"))

    def _check_loss(self, events: EventData, reader: EventReader) -> None:
        """EngineFault: the answer is complete without any content, and an event could not be read: it may have been an
        error, or all of the answer."""
        if events.has_unreadable and reader.is_complete and not reader.content_chars:
            raise self._unreadable_error()

    def _unreadable_error(self) -> EngineFault:
        return EngineFault(f"{self.name} sent an event that cannot be read.")

    def _check_event(self, event: Object) -> Object:
        """An event that reports no error. Raises the error that it reports."""
        if event.get("error") or event.get("object") == "error":
            raise self._error(event.get("error") or event, status=200)
        return event

    def _error(self, answer: object, *, status: int, retry_after: str | None = None) -> AntiphonError:
        return chat_errors.of_answer(
            answer, status=status, server=self.name, model=self._profile.name, url=self.url, retry_after=retry_after
        )

    @asynccontextmanager
    async def _response(
        self, method: str, url: str, body: bytes | None, more_headers: Mapping[str, str] = _NO_HEADERS
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends a request. Yields the response if its status is 200, and raises the server's error otherwise.
        At the end the connection is closed, unless the whole response was read."""
        with self._translate_errors():
            headers = {**request_headers.of(self._profile), **more_headers}
            response = await self._connect().request(method, url, body, headers)
            try:
                if response.status != 200:
                    raise await self._rejection(response)
                if (compression := compression_of(response)) is not None:
                    raise self.misconfigured_error(
                        f"compresses its answers ({compression}), which it is asked not to do"
                    )
                yield response
            finally:
                response.close()

    async def _rejection(self, response: aiohttp.ClientResponse) -> AntiphonError:
        """The error of a response whose status is not 200."""
        if response.status in REDIRECTS:
            location = response.headers.get("Location", "")
            return chat_errors.redirect_error(location, server=self.name, model=self._profile.name)
        answer = chat_errors.parse_error(b"" if compression_of(response) else await _body(response))
        return self._error(answer, status=response.status, retry_after=response.headers.get("Retry-After"))

    @asynccontextmanager
    async def _probe_timeout(self) -> AsyncIterator[None]:
        """Raises EngineTimeout when the block takes longer than `probe_timeout_s`."""
        try:
            async with asyncio.timeout(self._profile.probe_timeout_s):
                yield
        except TimeoutError as error:
            raise EngineTimeout(f"{self.name} did not answer in time.") from error

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translates the errors of aiohttp into EngineUnavailable, and endless framing into EngineFault."""
        try:
            yield
        except EndlessFraming as error:
            raise EngineFault(f"{self.name} {error}.") from error
        except aiohttp.ClientError as error:
            log.info("model '%s': %s", self._profile.name, secret_texts.mask_secrets(str(error)))
            raise EngineUnavailable(f"{self.name} cannot be reached.") from error

    def _connect(self) -> HttpPool:
        if self._pool is None:
            self._pool = HttpPool()
        return self._pool


def _object(body: bytes, server: str) -> Object:
    """The JSON object in a body. EngineFault: it has none."""
    try:
        found = loads(body)
    except ValueError as error:
        raise EngineFault(f"{server} sent an answer that is no JSON.") from error
    if not isinstance(found, dict):
        raise EngineFault(f"{server} sent an answer that is no JSON object.")
    return found


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """The body of a response; of a longer one than ENGINE_TEXT_BYTES_MAX, which may never end, its beginning."""
    body = bytearray()
    while len(body) <= ENGINE_TEXT_BYTES_MAX and (received := await response.content.readany()):
        body += received
    return bytes(body)


async def _read_some(content: aiohttp.StreamReader, reader: EventReader, ends_at: float | None = None) -> bytes:
    """Reads the bytes that came, one slice of them at most; none at the end. After the finish reason, a broken
    connection is an end, too, and so is the time `ends_at` of the event loop."""
    try:
        async with asyncio.timeout_at(ends_at):
            return await content.read(ENGINE_SLICE_BYTES_MAX)
    except (aiohttp.ClientError, TimeoutError):
        if not reader.is_complete:
            raise
        return b""

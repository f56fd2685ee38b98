"""The client of one MCP server, with the credentials of one caller: exchanges over HTTP, negotiation and sessions.

A request is one POST, made once. Nothing here is repeated but two things that the server has not executed: the probe of
its era, and a request that a server rejected because its session has expired (404).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import aiohttp

from antiphon_core.egress.http_connections import EndlessFraming, compression_of
from antiphon_core.jsons import Object
from antiphon_core.ports.tools import OnProgress, Tool, ignore_progress
from antiphon_core.telemetry import correlation
from antiphon_core.tracebacks import release_frames
from antiphon_tools.mcp import protocol
from antiphon_tools.mcp.answers import AnswerReader
from antiphon_tools.mcp.definitions import ToolReader
from antiphon_tools.mcp.faults import AnswerLost, Code, HttpFault, McpFault, NotSent, ProtocolFault, unusable
from antiphon_tools.mcp.protocol import HandshakeSession, Message, Peer, Stateless

PAGES_ITEMS_MAX = 32
NOTICE_S = 2.0
"""The time for a notification, an answer to the server, or the end of a session: nothing waits for their effect."""


@dataclass(frozen=True, slots=True)
class ToolPages:
    """All pages of a listing. `ttl_ms` is the shortest lifetime that a page states, None if none does."""

    tools: tuple[Tool, ...]
    ttl_ms: int | None = None


@dataclass(slots=True)
class Sending:
    """Whether a request has a connection. From then on, bytes of it may have been written."""

    is_connected: bool = False


def connection_notes() -> aiohttp.TraceConfig:
    """Makes the session note in the `Sending` of a request that it has a connection."""

    async def note(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any) -> None:
        context.trace_request_ctx.is_connected = True

    config = aiohttp.TraceConfig()
    config.on_connection_create_end.append(note)
    config.on_connection_reuseconn.append(note)
    return config


class McpClient:
    """One MCP server. `http` must have `connection_notes` among its traces. `peer` is what is known of its era."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        url: str,
        headers: Mapping[str, str],
        *,
        wire_bytes: int,
        peer: Stateless | None = None,
    ) -> None:
        self._http = http
        self._url = url
        self._headers = headers
        self._wire_bytes = wire_bytes
        self._peer: Peer | None = peer
        self._negotiation = asyncio.Lock()
        self._last_id = 0
        self._notices: set[asyncio.Task[None]] = set()

    @property
    def is_stateless(self) -> bool:
        """Whether the server is known to be of the stateless era."""
        return isinstance(self._peer, Stateless)

    async def list_tools(self, permits: Callable[[str], bool] = lambda _: True) -> ToolPages:
        """The tools whose names are permitted. McpFault: also for more than PAGES_ITEMS_MAX pages, a cursor that
        repeats, and what ToolReader raises."""
        reader = ToolReader(permits)
        ttls: list[int] = []
        params: Object = {}
        seen: set[str] = set()
        while True:
            page = await self._request(protocol.LIST_TOOLS, params)
            tools, cursor, ttl_ms = page.get("tools"), page.get("nextCursor"), page.get("ttlMs")
            if not isinstance(tools, list):
                raise unusable("lists no tools")
            reader.add(tools)
            if isinstance(ttl_ms, int) and not isinstance(ttl_ms, bool):
                ttls.append(ttl_ms)
            if not isinstance(cursor, str) or not cursor:
                return ToolPages(reader.tools, min(ttls, default=None))
            if cursor in seen or len(seen) + 1 == PAGES_ITEMS_MAX:
                raise unusable(f"lists its tools on more than {PAGES_ITEMS_MAX} pages, or on the same page again")
            seen.add(cursor)
            params = {"cursor": cursor}

    async def call_tool(
        self,
        name: str,
        arguments: Object,
        schema: Object,
        *,
        call_id: str,
        sending: Sending,
        on_progress: OnProgress = ignore_progress,
    ) -> Object:
        """The result of one call, which is sent once. McpFault: NotSent if nothing of it was written, AnswerLost if it
        was and has no answer. Cancelling tells the server; `sending` says whether there was anything to cancel."""
        meta: Object = {"io.antiphon/call": call_id}
        return await self._request(
            protocol.CALL_TOOL,
            {"name": name, "arguments": arguments},
            name=name,
            meta=meta,
            extra=protocol.argument_headers(schema, arguments),
            sending=sending,
            on_progress=on_progress,
        )

    async def close(self) -> None:
        """Ends the session, if the server has one for this client."""
        if isinstance(self._peer, HandshakeSession) and self._peer.session_id:
            await self._end_session(self._peer)
        if self._notices:
            await asyncio.wait(tuple(self._notices))

    # ---- Requests ----

    async def _request(self, method: str, params: Object, *, sending: Sending | None = None, **options: Any) -> Object:
        sending = sending or Sending()
        peer = await self._known_peer()
        try:
            return await self._request_once(peer, method, params, sending=sending, **options)
        except (HttpFault, ProtocolFault) as fault:
            if not _has_expired(peer, fault):
                raise
        sending.is_connected = False  # the session has expired, so the request was not executed
        if self._peer is peer:
            self._peer = None
        return await self._request_once(await self._known_peer(), method, params, sending=sending, **options)

    async def _request_once(
        self,
        peer: Peer,
        method: str,
        params: Object,
        *,
        sending: Sending,
        name: str = "",
        meta: Object | None = None,
        extra: Mapping[str, str] | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> Object:
        request_id = self._next_id()
        if meta is not None:
            meta = {**meta, "progressToken": request_id}
        message = protocol.request(peer, request_id, method, params, meta=meta, name=name)
        if extra and isinstance(peer, Stateless):
            message = replace(message, headers={**message.headers, **extra})
        reader = AnswerReader(request_id, self._wire_bytes, on_progress)
        if isinstance(peer, HandshakeSession):
            reader.on_request = partial(self._answer_request, peer)
        try:
            return await self._exchange(message, reader, sending)
        except (asyncio.CancelledError, AnswerLost):
            if sending.is_connected and isinstance(peer, HandshakeSession):
                cancelled = {"requestId": request_id, "reason": "cancelled by the client"}
                self._notify(protocol.notification(peer, protocol.CANCELLED, cancelled))
            raise

    def _answer_request(self, peer: HandshakeSession, request_id: Any, method: str) -> None:
        """Answers a request of the server, which would otherwise wait for it while the call is open."""
        if len(self._notices) < PAGES_ITEMS_MAX:
            self._notify(protocol.answer(peer, request_id, method))

    # ---- Negotiation ----

    async def _known_peer(self) -> Peer:
        if self._peer is not None:
            return self._peer
        async with self._negotiation:
            if self._peer is None:
                try:
                    self._peer = await self._negotiate()
                except AnswerLost as fault:  # of the negotiation: the request itself was not sent
                    raise NotSent(fault.code, fault.message) from fault
            return self._peer

    async def _negotiate(self) -> Peer:
        """Asks for the stateless era, then shakes hands. A failure of the network is no verdict on the era."""
        probe = self._next_id()
        try:
            found = await self._exchange(protocol.discover(probe), AnswerReader(probe, self._wire_bytes))
        except (ProtocolFault, HttpFault) as fault:
            if isinstance(fault, HttpFault) and (fault.code >= 500 or fault.code in (401, 403, 429)):
                raise _not_executed(fault) from fault
        else:
            versions = found.get("supportedVersions")
            if isinstance(versions, list) and protocol.STATELESS_VERSION in versions:
                return Stateless()
        return await self._shake_hands()

    async def _shake_hands(self) -> HandshakeSession:
        request_id = self._next_id()
        message = protocol.initialize(request_id)
        reader = AnswerReader(request_id, self._wire_bytes)
        heads: list[Mapping[str, str]] = []
        try:
            result = await self._exchange(message, reader, heads=heads)
        except (ProtocolFault, HttpFault) as fault:
            raise _not_executed(fault) from fault
        version = result.get("protocolVersion")
        if version not in protocol.HANDSHAKE_VERSIONS:
            raise ProtocolFault(Code.UNSUPPORTED_VERSION, "The tool server speaks no known version of MCP.")
        session_id = heads[0].get(protocol.SESSION_HEADER, "")
        if not protocol.is_session_id(session_id):
            raise unusable("gave its session an id that no header can have")
        peer = HandshakeSession(version, session_id)
        await self._post(protocol.notification(peer, protocol.INITIALIZED))
        return peer

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    # ---- HTTP ----

    async def _exchange(
        self,
        message: Message,
        reader: AnswerReader,
        sending: Sending | None = None,
        *,
        heads: list[Mapping[str, str]] | None = None,
    ) -> Object:
        """Sends a request and reads its answer. `heads` gets the headers of the answer."""
        sending = sending or Sending()
        async with self._open(message, sending) as response:
            if heads is not None:
                heads.append(response.headers)
            reader.begin(
                response.status,
                response.headers.get("Content-Type", ""),
                length=response.content_length,
                compression=compression_of(response),
            )
            async for chunk in response.content.iter_any():
                if reader.feed(chunk):
                    break
            else:
                reader.finish()
        if reader.result is None:
            raise AnswerLost(Code.UNKNOWN_OUTCOME, "The tool server ended its stream without an answer.")
        return reader.result

    @asynccontextmanager
    async def _open(
        self, message: Message, sending: Sending, method: str = "POST"
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a request. McpFault: the exchange broke, here or while its answer was read. It has nothing of
        the error of aiohttp, which quotes the URL and the headers."""
        trace = correlation.current().trace
        traced = dict(trace.headers()[:1]) if trace is not None else {}  # without the state of other tracing systems
        try:
            async with self._http.request(
                method,
                self._url,
                data=message.body or None,
                headers={**self._headers, **traced, **message.headers},
                allow_redirects=False,
                trace_request_ctx=sending,
            ) as response:
                yield response
        except (aiohttp.ClientError, OSError) as error:
            fault = _network_fault(error, is_connected=sending.is_connected)
            release_frames(error)
            raise fault from None

    async def _post(self, message: Message, method: str = "POST") -> None:
        """Sends a notification or an answer, or ends a session. Its own answer is not read."""
        async with self._open(message, Sending(), method):
            pass

    def _notify(self, message: Message) -> None:
        self._in_background(partial(self._post, message))

    async def _end_session(self, peer: HandshakeSession) -> None:
        await _briefly(partial(self._post, Message(protocol.delete_headers(peer), b""), "DELETE"))

    def _in_background(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_briefly(work))
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)


async def _briefly(work: Callable[[], Awaitable[None]]) -> None:
    """Does what a server may be told, but need not be."""
    with suppress(McpFault, TimeoutError):
        async with asyncio.timeout(NOTICE_S):
            await work()


def _has_expired(peer: Peer, fault: HttpFault | ProtocolFault) -> bool:
    """Whether the server rejected a request because it does not know its session."""
    if not isinstance(peer, HandshakeSession) or not peer.session_id:
        return False
    return fault.status == 404


def _not_executed(fault: ProtocolFault | HttpFault) -> ProtocolFault | HttpFault:
    """The fault of a negotiation, which says that no tool was called."""
    return type(fault)(fault.code, f"{fault.message} No tool was called.")


def _network_fault(error: Exception, *, is_connected: bool) -> NotSent | AnswerLost | ProtocolFault:
    """The fault of a broken exchange. The reason is not shown: clients must not be able to map the network."""
    if isinstance(error, EndlessFraming):
        return unusable(str(error))
    if not is_connected:
        return NotSent(Code.SERVER, "The tool server cannot be reached from here.")
    return AnswerLost(Code.UNKNOWN_OUTCOME, "The connection to the tool server broke before it answered.")

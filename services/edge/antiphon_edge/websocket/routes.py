"""GET /v1/responses as a WebSocket: the handler, and the table of open connections (connection.py)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Any

from aiohttp import WebSocketError, WSCloseCode, web

from antiphon_core.errors import Unavailable
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_core.request.hosted_tools import NONE_RUN_HERE, HostedTools
from antiphon_core.telemetry import metrics
from antiphon_edge.http import connections, pages
from antiphon_edge.http.socket_frames import Violation
from antiphon_edge.operations.routing import serves
from antiphon_edge.routes import bodies, response_list, turn_headers
from antiphon_edge.routes.response_list import ResponseList
from antiphon_edge.turns.turn_service import TurnService
from antiphon_edge.turns.turn_starter import TurnStarter
from antiphon_edge.websocket import subprotocols
from antiphon_edge.websocket.connection import Connection

log = logging.getLogger(__name__)

LIFETIME_S = 3_600.0  # OpenAI's
_REASONS: Mapping[int, bytes] = {
    WSCloseCode.MESSAGE_TOO_BIG: f"A message has more than {BODY_BYTES_MAX} bytes or too many fragments.".encode(),
}
"""Why aiohttp closes a connection by itself, where the client can do something about it. At most 123 bytes: RFC 6455,
section 5.5."""
_UPGRADE = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13"}  # RFC 9110, RFC 6455


class SocketRoutes:
    """The handler, and all open connections. A process has one instance."""

    def __init__(
        self,
        turns: TurnService,
        starter: TurnStarter,
        *,
        keep_alive_s: float,
        lifetime_s: float = LIFETIME_S,
        lanes: int = 1,
        origins: Collection[str] = (),
        hosted: HostedTools = NONE_RUN_HERE,
        listing: ResponseList | None = None,
    ) -> None:
        """`lanes`: how many lanes of a connection run at once. `origins`: the origins of web pages that may connect,
        besides pages of this host; "*" for all. `hosted` decides about hosted tools in requests. `listing` answers
        requests that open no WebSocket and name a session."""
        self._listing = listing
        self._hosted = hosted
        self._turns = turns
        self._starter = starter
        self._keep_alive_s = keep_alive_s
        self._lifetime_s = lifetime_s
        self._running_max = lanes
        self._origins = frozenset(origins)
        self._open: set[Connection] = set()
        self._is_draining = False
        subprotocols.redact_log()

    @serves("listResponses")
    async def connect(self, request: web.Request) -> web.StreamResponse:
        session_id = turn_headers.session_id_of(request)
        socket = _Socket(
            request,
            heartbeat=self._keep_alive_s,
            max_msg_size=BODY_BYTES_MAX,
            compress=False,  # costs time and memory for each connection, and saves little on small events
        )
        if not _opens(socket, request):
            if self._listing is not None and response_list.is_list_request(request):
                return await self._listing.page(request)
            raise web.HTTPUpgradeRequired(
                reason="GET /v1/responses opens a WebSocket, or lists the responses of a session or conversation that "
                "the query names. To create a response, POST.",
                headers=_UPGRADE | {"Connection": "Upgrade" if request.keep_alive else "Upgrade, close"},
            )
        if pages.is_foreign(request, self._origins):  # browsers do not apply CORS to WebSockets
            return pages.reject_foreign()
        if self._is_draining:
            raise Unavailable.at_shutdown("Connect again.")
        connections.bound_stream(request)
        await socket.prepare(request)
        connection = Connection(
            request,
            socket,
            self._turns,
            self._starter,
            session_id=session_id,
            hosted=self._hosted,
            running_max=self._running_max,
        )
        await self._serve(connection, request, socket)
        return socket

    async def _serve(self, connection: Connection, request: web.Request, socket: _Socket) -> None:
        """Serves a connection until it is closed. It is asked to close when it reaches its maximum age."""
        self._open.add(connection)
        metrics.STREAMS_OPEN.of("websocket").add()
        ageing = asyncio.get_running_loop().call_later(self._lifetime_s, connection.expire, self._lifetime_s)
        try:
            with bodies.tally_of(request) as tally:
                connections.bound_messages(request, tally, socket.fail)
                await connection.serve()
        finally:
            ageing.cancel()
            metrics.STREAMS_OPEN.of("websocket").add(-1)
            self._open.discard(connection)

    def leave(self) -> None:
        """Closes idle connections, and the others when their running responses have ended. The server must still read,
        since clients answer pings."""
        self._is_draining = True
        for connection in self._open:
            connection.leave()

    async def abort(self) -> None:
        """Cancels the responses that still run, and waits until all connections are closed."""
        for connection in list(self._open):
            connection.abort()
        if self._open:
            await asyncio.wait([connection.served for connection in self._open])


class _Socket(web.WebSocketResponse):
    """A WebSocket that sends a close frame with its reason, and then drops all that the client sends.

    aiohttp sends the bare code for the errors that it finds. It then parses the client's messages until the client
    closes, too, for up to ten seconds, and closes the TCP connection at once. That resets the connection if the client
    has sent more, and the client could lose the close frame.
    """

    def __init__(self, request: web.Request, **options: Any) -> None:
        super().__init__(timeout=0.0, **options)  # `close` waits for no answer
        self._request = request
        self._reasons = dict(_REASONS)
        self._is_left_to_server = False

    def fail(self, violation: Violation) -> None:
        """Closes the connection when the messages that came before the violation are read."""
        log.info("a WebSocket is closed with %d: %s", violation.code, violation.reason)
        self._reasons[violation.code] = violation.reason.encode()
        if self._reader is not None:
            self._reader.set_exception(WebSocketError(violation.code, violation.reason))

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True) -> bool:
        """Sends a close frame, unless one was sent. From now on the client's bytes are dropped. The server ends the TCP
        connection: when the client does, or LINGER_S later (http_server.py)."""
        if not self.closed and not self._closing:  # the client has not closed first
            self._is_left_to_server = True
            connections.drop_messages(self._request)
        try:
            return await super().close(code=code, message=message or self._reasons.get(code, b""), drain=drain)
        finally:
            self._exception = None  # its traceback refers to this socket

    def _close_transport(self) -> None:
        if not self._is_left_to_server:
            super()._close_transport()


def _opens(socket: web.WebSocketResponse, request: web.Request) -> bool:
    """Whether the request is a valid opening handshake of RFC 6455."""
    try:
        return bool(socket.can_prepare(request))
    except ValueError:  # aiohttp quotes the wrong header, which fails if the header is not UTF-8
        return False

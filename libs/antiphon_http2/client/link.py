"""One connection of a client on an event loop."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import cast

from antiphon_http2.client.connection import ClientConnection
from antiphon_http2.client.options import Options
from antiphon_http2.client.targets import Target
from antiphon_http2.errors import ConnectionLost
from antiphon_http2.socket_link import SocketLink

log = logging.getLogger(__name__)

ALPN = "h2"
_REFUSED_PAUSE_S = 0.01  # before a stream that the server refused is sent again


async def connect(
    target: Target, tls: ssl.SSLContext | None, options: Options, on_closed: Callable[[Link], None]
) -> Link:
    """Connects, and returns when the server has sent its settings. ConnectionLost: it failed; the message says why."""
    link = Link(asyncio.get_running_loop(), target, options, on_closed)
    try:
        async with asyncio.timeout(options.connect_timeout_s):
            await link.open(tls)
    except BaseException as error:
        link.abort()
        if isinstance(error, TimeoutError):
            text = f"{target.authority} did not answer within {options.connect_timeout_s:g} s."
            raise ConnectionLost(text, is_unprocessed=True) from error
        if isinstance(error, OSError):
            raise ConnectionLost(f"{target.authority}: {error}", is_unprocessed=True) from error
        raise
    return link


class Link(SocketLink[ClientConnection]):
    """A ClientConnection with its socket. After calls of `connection.calls`, `flush` must be called."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, target: Target, options: Options, on_closed: Callable[[Link], None]
    ) -> None:
        super().__init__(
            loop,
            ClientConnection(options, loop.time),
            keepalive_interval_s=options.keepalive_interval_s,
            keepalive_timeout_s=options.keepalive_timeout_s,
        )
        self._target = target
        self._on_closed = on_closed
        self._hold: asyncio.TimerHandle | None = None  # of the pause after a refused stream
        self._changed = asyncio.Event()  # the server's settings have arrived, or the connection is lost
        self._closed = asyncio.Event()
        self._rest: asyncio.Handle | None = None  # of messages that wait for the next iteration of the loop

    async def open(self, tls: ssl.SSLContext | None) -> None:
        """Connects, and returns when the server has sent its settings. OSError, ConnectionLost: it failed."""
        target = self._target
        hostname = target.host if tls is not None else None
        await self._loop.create_connection(
            lambda: self, target.address or target.host, target.port, ssl=tls, server_hostname=hostname
        )
        await self._changed.wait()
        if self.connection.is_closed:
            raise ConnectionLost(f"{self._target.authority}: {self.connection.reason}", is_unprocessed=True)

    def close(self, reason: str) -> None:
        """Ends all calls, and closes the connection when the last bytes are written."""
        self.connection.close(reason)
        self.flush()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def abort(self) -> None:
        super().abort()
        self._changed.set()
        if self._transport is None:
            self._closed.set()

    def flush(self) -> None:
        self._schedule_rest()
        super().flush()

    def _has_calls(self) -> bool:
        return self.connection.calls.has_open

    def _schedule_rest(self) -> None:
        if self.connection.calls.is_behind and self._rest is None:
            self._rest = self._loop.call_soon(self._settle_rest)

    def _settle_rest(self) -> None:
        self._rest = None
        self.connection.calls.settle_rest()
        self.flush()

    # ---- asyncio.Protocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        encrypted = transport.get_extra_info("ssl_object")
        if encrypted is not None and encrypted.selected_alpn_protocol() != ALPN:
            self.connection.lose("The server did not agree to speak HTTP/2 inside TLS.")
        if self.connection.is_closed:  # aborted while connecting, too
            self._transport = cast(asyncio.Transport, transport)
            self.abort()
            return
        self._use_transport(transport)

    def data_received(self, data: bytes) -> None:
        self._keepalive.note_received(self._loop.time())
        farewell = self.connection.farewell
        self.connection.receive(data)
        if self.connection.farewell != farewell:
            log.info("%s: %s", self._target.authority, self.connection.farewell)
        if self.connection.is_ready or self.connection.is_closed:
            self._changed.set()
        self.flush()
        self._pace_reading()
        if self.connection.calls.is_held and self._hold is None:
            self._hold = self._loop.call_at(self._loop.time() + _REFUSED_PAUSE_S, self._end_hold)

    def connection_lost(self, error: Exception | None) -> None:
        for timer in (self._timer, self._hold):
            if timer is not None:
                timer.cancel()
        self.connection.lose(f"The connection was lost: {error}" if error else "The server closed the connection.")
        self._schedule_rest()
        self._changed.set()
        self._closed.set()
        self._on_closed(self)

    def _end_hold(self) -> None:
        self._hold = None
        self.connection.calls.begin_again()
        self.flush()

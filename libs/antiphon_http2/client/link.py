"""One connection on an event loop, asyncio's or uvloop's: the socket, its timers, and backpressure in both directions.

While the socket's write buffer is full, bodies of requests wait; answers to pings and settings are still written. If a
server does not read these answers, it is not read any more once UNREAD_ANSWERS_BYTES_MAX of them wait.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from collections.abc import Callable
from typing import cast

from antiphon_http2.client.connection import Connection
from antiphon_http2.client.options import Options
from antiphon_http2.client.targets import Target
from antiphon_http2.errors import ConnectionLost
from antiphon_http2.keepalive import Keepalive, Step
from antiphon_http2.limits import UNREAD_ANSWERS_BYTES_MAX

log = logging.getLogger(__name__)

ALPN = "h2"
_REFUSED_PAUSE_S = 0.01  # before a stream that the server refused is sent again
_CLOSE_GRACE_S = 1.0  # to write the last bytes, before the connection is aborted
# For idle connections TCP keepalive is used: servers limit HTTP/2 pings and close connections that send too many.
_TCP_IDLE_S = 60
_TCP_INTERVAL_S = 10


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


class Link(asyncio.Protocol):
    """A Connection with its socket. After calls of `connection.calls`, `flush` must be called."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, target: Target, options: Options, on_closed: Callable[[Link], None]
    ) -> None:
        self.connection = Connection(options, loop.time)
        self._loop = loop
        self._target = target
        self._options = options
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._keepalive = Keepalive(options.keepalive_interval_s, options.keepalive_timeout_s, loop.time())
        self._timer: asyncio.TimerHandle | None = None  # of the keepalive, or of the close after that
        self._hold: asyncio.TimerHandle | None = None  # of the pause after a refused stream
        self._changed = asyncio.Event()  # the server's settings have arrived, or the connection is lost
        self._closed = asyncio.Event()
        self._rest: asyncio.Handle | None = None  # of messages that wait for the next iteration of the loop
        self._full_bytes: int | None = None  # in the write buffer when it became full; None if it is not full

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

    @property
    def silence_s(self) -> float:
        """The time since something was received."""
        return self._keepalive.silence_s(self._loop.time())

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def abort(self) -> None:
        """Ends all calls, and closes the connection at once."""
        self.connection.lose("The connection was given up.")
        self._changed.set()
        if self._transport is None:
            self._closed.set()
        else:
            self._transport.abort()

    # ---- writing ----

    def flush(self) -> None:
        """Writes pending data. Bodies are only written while the socket's buffer is not full."""
        self._schedule_rest()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        while data := self.connection.data_to_send(with_bodies=self._full_bytes is None):
            transport.write(data)
        if self.connection.is_finished:
            transport.close()
            self._arm(self._loop.time() + _CLOSE_GRACE_S, transport.abort)

    def _schedule_rest(self) -> None:
        if self.connection.calls.is_behind and self._rest is None:
            self._rest = self._loop.call_soon(self._settle_rest)

    def _settle_rest(self) -> None:
        self._rest = None
        self.connection.calls.settle_rest()
        self.flush()

    def pause_writing(self) -> None:
        self._full_bytes = self._transport.get_write_buffer_size() if self._transport is not None else 0

    def resume_writing(self) -> None:
        self._full_bytes = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self.flush()

    def _stop_reading_if_unread(self) -> None:
        transport = self._transport
        if self._full_bytes is None or transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() - self._full_bytes > UNREAD_ANSWERS_BYTES_MAX:
            transport.pause_reading()

    # ---- asyncio.Protocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.connection.is_closed:  # aborted while connecting
            self._transport.abort()
            return
        encrypted = transport.get_extra_info("ssl_object")
        if encrypted is not None and encrypted.selected_alpn_protocol() != ALPN:
            self.connection.lose("The server did not agree to speak HTTP/2 inside TLS.")
            self.abort()
            return
        _watch_peer(transport.get_extra_info("socket"), self._options.keepalive_timeout_s)
        self._arm(self._keepalive.due_s, self._check_alive)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._keepalive.heard(self._loop.time())
        farewell = self.connection.farewell
        self.connection.receive(data)
        if self.connection.farewell != farewell:
            log.info("%s: %s", self._target.authority, self.connection.farewell)
        if self.connection.is_ready or self.connection.is_closed:
            self._changed.set()
        self.flush()
        self._stop_reading_if_unread()
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

    # ---- time ----

    def _check_alive(self) -> None:
        step = self._keepalive.step(self._loop.time(), has_calls=self.connection.calls.has_open)
        if step is Step.GIVE_UP:
            self.connection.lose(f"Nothing came within {self._options.keepalive_timeout_s:g} s of a ping.")
            self.abort()
            return
        if step is Step.PING:
            self.connection.ping()
            self.flush()
        self._arm(self._keepalive.due_s, self._check_alive)

    def _arm(self, due_s: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, callback)

    def _end_hold(self) -> None:
        self._hold = None
        self.connection.calls.begin_again()
        self.flush()


def _watch_peer(connected: socket.socket, timeout_s: float) -> None:
    """Lets the kernel detect a dead peer: by TCP keepalive on an idle connection, and by `timeout_s` without an
    acknowledgement of sent data. Both event loops set TCP_NODELAY themselves."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _TCP_IDLE_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _TCP_INTERVAL_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(timeout_s * 1000))

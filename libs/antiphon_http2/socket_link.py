"""A connection's socket on an event loop, asyncio's or uvloop's: keepalive, and backpressure in both directions.

While the socket's write buffer is full, bodies wait; answers to pings and settings are still written. If the peer does
not read these answers, it is not read any more once UNREAD_ANSWERS_BYTES_MAX of them wait.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, cast

from antiphon_http2.keepalive import Keepalive, Step
from antiphon_http2.limits import BURST_BYTES, UNREAD_ANSWERS_BYTES_MAX

_CLOSE_GRACE_S = 1.0  # to write the last bytes, before the connection is aborted
# For idle connections TCP keepalive is used: servers limit HTTP/2 pings and close connections that send too many.
_TCP_IDLE_S = 60
_TCP_INTERVAL_S = 10


class Wired(Protocol):
    """A connection, as a link needs it."""

    @property
    def is_finished(self) -> bool: ...

    def data_to_send(self, *, with_bodies: bool = True) -> bytes: ...

    def ping(self) -> None: ...

    def lose(self, reason: str) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=Wired)


class SocketLink(asyncio.Protocol, Generic[ConnectionT]):
    """A connection with its socket. After calls of the connection's methods, `flush` must be called."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connection: ConnectionT,
        *,
        keepalive_interval_s: float,
        keepalive_timeout_s: float,
    ) -> None:
        self.connection = connection
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._keepalive = Keepalive(keepalive_interval_s, keepalive_timeout_s, loop.time())
        self._keepalive_timeout_s = keepalive_timeout_s
        self._timer: asyncio.TimerHandle | None = None  # of the keepalive, or of the close after that
        self._full_bytes: int | None = None  # in the write buffer when it became full; None if it is not full

    def abort(self) -> None:
        """Ends all calls, and closes the connection at once."""
        self.connection.lose("The connection was given up.")
        if self._transport is not None:
            self._transport.abort()

    @property
    def silence_s(self) -> float:
        """The time since something was received."""
        return self._keepalive.silence_s(self._loop.time())

    def _has_calls(self) -> bool:
        """Whether keepalive pings are due."""
        raise NotImplementedError

    @property
    def has_unread(self) -> bool:
        """Whether bytes that were read wait for their turn. Meanwhile the socket is not read."""
        return False

    # ---- writing ----

    def flush(self) -> None:
        """Writes pending data. Bodies are only written while the socket's buffer is not full."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        while data := self.connection.data_to_send(with_bodies=self._full_bytes is None):
            self._write(transport, data)
            if len(data) < BURST_BYTES:  # nothing is left that may leave now
                break
        if self.connection.is_finished:
            transport.close()
            self._arm(self._loop.time() + _CLOSE_GRACE_S, transport.abort)

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        transport.write(data)

    def pause_writing(self) -> None:
        self._full_bytes = self._transport.get_write_buffer_size() if self._transport is not None else 0

    def resume_writing(self) -> None:
        self._full_bytes = None
        self._pace_reading()
        self.flush()

    def _pace_reading(self) -> None:
        """Reads the socket, unless the connection has bytes to handle or its peer does not read answers."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self.has_unread or self._has_unread_answers(transport):
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _has_unread_answers(self, transport: asyncio.Transport) -> bool:
        if self._full_bytes is None:
            return False
        return transport.get_write_buffer_size() - self._full_bytes > UNREAD_ANSWERS_BYTES_MAX

    # ---- asyncio.Protocol ----

    def _use_transport(self, transport: asyncio.BaseTransport) -> None:
        """Begins to use a transport, whose TLS handshake is over."""
        self._transport = cast(asyncio.Transport, transport)
        watch_peer(transport.get_extra_info("socket"), self._keepalive_timeout_s)
        self._arm(self._keepalive.due_s, self._check_alive)
        self.flush()

    # ---- time ----

    def _check_alive(self) -> None:
        step = self._keepalive.step(self._loop.time(), has_calls=self._has_calls())
        if step is Step.GIVE_UP:
            self.connection.lose(f"Nothing came within {self._keepalive_timeout_s:g} s of a ping.")
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


def watch_peer(connected: socket.socket, timeout_s: float) -> None:
    """Lets the kernel detect a dead peer: by TCP keepalive on an idle connection, and by `timeout_s` without an
    acknowledgement of sent data. Both event loops set TCP_NODELAY themselves."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _TCP_IDLE_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _TCP_INTERVAL_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(timeout_s * 1000))

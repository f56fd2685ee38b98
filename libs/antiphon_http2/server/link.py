"""One connection of a server on an event loop. All that its calls send in one iteration of the loop leaves in one
write: a system call for each answer was half of the cost of a token."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from antiphon_http2.limits import HANDSHAKE_ITEMS
from antiphon_http2.server.answers import Status
from antiphon_http2.server.call import Serve, ServerCall
from antiphon_http2.server.connection import ServerConnection
from antiphon_http2.server.events import Happening
from antiphon_http2.server.options import ServerOptions
from antiphon_http2.server.read_turns import ReadTurn, ReadTurns
from antiphon_http2.server.stream import ServerStream
from antiphon_http2.server.tls import TlsFault, TlsSession
from antiphon_http2.socket_link import SocketLink
from antiphon_http2.statuses import UNIMPLEMENTED

Route = Callable[[str], Serve | None]
"""The handler of a method's path; None if there is none."""
_PATH_CHARS_MAX = 200  # of a path that an error message repeats
_FAREWELL_S = 1.0  # for calls that are on their way when the connection is shut down


class Worth(NamedTuple):
    """The worth of a connection on which no known caller's call runs. The least one gives way first."""

    is_known: bool  # a caller was authenticated on it
    has_calls: bool  # of strangers, such as health watches
    heard_s: float  # the time since something came from the client, as a negative number


class ServerLink(SocketLink[ServerConnection]):
    """A ServerConnection with its socket. With `read_tls` the connection begins with a handshake."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ServerOptions,
        route: Route,
        *,
        read_tls: Callable[[], ssl.SSLContext] | None,
        turns: ReadTurns,
        tasks: set[asyncio.Task[None]],
        admit: Callable[[ServerLink], bool],
        on_closed: Callable[[ServerLink], None],
        admit_caller: Callable[[str], bool] = lambda _caller: True,
    ) -> None:
        """`tasks` gets the tasks of handlers, until they end. `admit` is called when the client has connected, and
        returns whether the server serves it. `on_closed` is called at the end of a connection that was admitted.
        `admit_caller` returns whether a caller may have another connection."""
        super().__init__(
            loop,
            ServerConnection(options, loop.time),
            keepalive_interval_s=options.keepalive_interval_s,
            keepalive_timeout_s=options.keepalive_timeout_s,
        )
        self.peer = ""
        self.caller = ""
        self.certificate: Mapping[str, Any] = {}
        self._options, self._route = options, route
        self._read_tls = read_tls
        self._turn = ReadTurn(self, turns)
        self._tasks = tasks
        self._admit, self._on_closed, self._admit_caller = admit, on_closed, admit_caller
        self._tls: TlsSession | None = None
        self._flush_handle: asyncio.Handle | None = None
        self._before_flush: list[tuple[Callable[[], None], Callable[[Exception], None]]] = []
        self._farewell: asyncio.TimerHandle | None = None  # of the wait for calls on their way, after a shut-down
        self._frame_timer: asyncio.TimerHandle | None = None
        self._age_timers: tuple[asyncio.TimerHandle, ...] = ()
        self._on: Mapping[Happening, Callable[[ServerStream], None]] = {Happening.BEGUN: self._begin, **_REPORTS}

    def shut_down(self) -> None:
        """Takes no more calls, and closes the connection after the last one. A connection that is not ready yet is
        closed at once."""
        if self.connection.is_ready:
            self.connection.shut_down()
            self.flush()
            self._farewell = self._loop.call_later(_FAREWELL_S, self._refuse_calls)
        else:
            self.abort()

    def note_caller(self, caller: str) -> bool:
        """Counts the connection as one of the first caller that is named on it. Returns False, and shuts the connection
        down, if that caller has as many others as one may have."""
        if caller and not self.caller:
            if not self._admit_caller(caller):
                self.shut_down()
                return False
            self.caller = caller
        return True

    @property
    def address(self) -> str:
        """The client's address without its port."""
        return self.peer.rpartition(":")[0]

    @property
    def worth(self) -> Worth | None:
        """The worth of this connection for its client; None if it must not give way to another one."""
        connection = self.connection
        if connection.is_closed or connection.has_known_calls:
            return None
        return Worth(connection.strangers.is_known, connection.calls > 0, -self.silence_s)

    def give_way(self) -> None:
        """Closes a connection, so that another one has room. A client that does not read gets no GOAWAY: it could keep
        its socket open until the end of the grace."""
        if self.connection.is_ready and not cast(asyncio.Transport, self._transport).get_write_buffer_size():
            self.connection.close("Another client needs the room of this connection.")
            self.flush()
        else:
            self.abort()

    def _refuse_calls(self) -> None:
        """Ends the wait for a client that does not answer."""
        self.connection.refuse_calls()
        self.flush()

    def end_calls(self, status: Status) -> None:
        """Ends all calls at once, and takes no more."""
        self.connection.refuse_calls()
        for stream in self.connection.streams():
            stream.owner.abort(status)
        self.flush()

    def abort(self) -> None:
        super().abort()
        self._handle_events()

    def flush_soon(self) -> None:
        """Writes pending data at the end of this iteration of the loop."""
        if self._flush_handle is None:
            self._turn.note()
            self._flush_handle = self._loop.call_soon(self._flush_now)

    def flush(self) -> None:
        if self._tls is None or self._tls.is_secured:
            super().flush()
        self._handle_events()

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        if self._tls is not None:
            self._tls.send(data)
            data = self._tls.take()
        transport.write(data)

    def before_flush(self, callback: Callable[[], None], on_failure: Callable[[Exception], None]) -> None:
        """Calls `callback` before the next flush of `flush_soon`, and `on_failure` with an exception that it raises.
        One that another callback adds is called before the flush behind it."""
        self._before_flush.append((callback, on_failure))
        self.flush_soon()

    def _flush_now(self) -> None:
        callbacks, self._before_flush = self._before_flush, []
        try:  # the handle is kept until then: answers of the callbacks leave with this flush
            for callback, on_failure in callbacks:
                try:
                    callback()
                except Exception as error:  # noqa: BLE001 - a bug of one call, and the flush is that of all
                    on_failure(error)
        finally:
            self._flush_handle = None
        if self._before_flush:
            self.flush_soon()
        self.flush()

    def _has_calls(self) -> bool:
        return self.connection.calls > 0

    # ---- asyncio.Protocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.peer = _peer_text(transport.get_extra_info("peername"))
        if not self._admit(self):
            self._on_closed = _ignore
            cast(asyncio.Transport, transport).abort()
            return
        if self._read_tls is not None:
            self._tls = TlsSession(self._read_tls())
        if self.connection.strangers.is_spent:
            self._turn.begin_in_line()
        self._use_transport(transport)
        now_s, options = self._loop.time(), self._options
        self._arm(now_s + options.handshake_timeout_s, self.abort)  # until the client's settings have arrived
        self._age_timers = (
            self._loop.call_at(now_s + options.age_s, self.shut_down),
            self._loop.call_at(now_s + options.age_s + options.age_grace_s, self.abort),
        )

    def data_received(self, data: bytes) -> None:
        self._keepalive.note_received(self._loop.time())
        self._turn.read(data)
        self._pace_reading()

    @property
    def has_unread(self) -> bool:
        return self._turn.is_waiting or self.connection.has_unread

    def step(self, data: bytes) -> int:
        connection, was_ready = self.connection, self.connection.is_ready
        tls_items = HANDSHAKE_ITEMS if self._tls is not None and not self._tls.is_secured else 0
        connection.receive(data if self._tls is None else self._decrypt(self._tls, data))
        if connection.is_ready and not was_ready:
            self._arm(self._keepalive.due_s, self._check_alive)
        self._watch_frame()
        self._handle_events()
        self.flush_soon()
        self._pace_reading()
        return connection.work_items + tls_items

    def _watch_frame(self) -> None:
        """Ends the connection if a frame is not finished in time. The timer is not moved for each frame: it looks again
        when a later one began."""
        since_s = self.connection.unfinished_since_s
        if since_s is not None and self._frame_timer is None:
            self._frame_timer = self._loop.call_at(since_s + self._options.frame_timeout_s, self._check_frame)

    def _check_frame(self) -> None:
        self._frame_timer = None
        since_s, timeout_s = self.connection.unfinished_since_s, self._options.frame_timeout_s
        if since_s is not None and self._loop.time() >= since_s + timeout_s:
            self.connection.close(f"A frame or header block was not finished within {timeout_s:g} s.")
            self.flush()
        else:
            self._watch_frame()

    def _decrypt(self, tls: TlsSession, data: bytes) -> bytes:
        """Decrypts what was read, and continues the handshake. A fault of TLS is the client's: it ends the connection,
        and the reason leaves its text out, because nobody on this side can mend it."""
        was_secured = tls.is_secured
        try:
            plain = tls.receive(data)
        except TlsFault:
            plain = b""
            self.connection.lose("The TLS connection failed.")
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(tls.take())
        if tls.is_secured and not was_secured:
            self.certificate = tls.certificate
            if not tls.speaks_http2:
                self.connection.lose("The client did not agree to speak HTTP/2 inside TLS.")
        if self.connection.is_closed and self._transport is not None:
            self._transport.close()
        return plain

    def connection_lost(self, error: Exception | None) -> None:
        for timer in (self._timer, self._frame_timer, self._flush_handle, self._farewell, *self._age_timers):
            if timer is not None:
                timer.cancel()
        self.connection.lose(f"The connection was lost: {error}" if error else "The client closed the connection.")
        self._handle_events()
        self._on_closed(self)

    # ---- events ----

    def _handle_events(self) -> None:
        while self.connection.events:
            for kind, stream in self.connection.take_events():
                self._on[kind](stream)

    def _begin(self, stream: ServerStream) -> None:
        call = stream.owner = ServerCall(self, stream, self._loop)
        serve = self._route(call.path)
        if serve is None:
            call.finish(Status(UNIMPLEMENTED, f"There is no method {call.path[:_PATH_CHARS_MAX]}."))
        else:
            task = call.begin(serve)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _release_call(stream: ServerStream) -> ServerCall:
    """The call of a stream that has ended, without the cycle of references that would keep both for the collector."""
    call: ServerCall = stream.owner
    stream.owner = None
    return call


_REPORTS: Mapping[Happening, Callable[[ServerStream], None]] = {
    Happening.RECEIVED: lambda stream: stream.owner.on_received(),
    Happening.SENT: lambda stream: stream.owner.on_sent(),
    Happening.ENDED: lambda stream: _release_call(stream).on_ended(),
    Happening.CANCELLED: lambda stream: _release_call(stream).on_cancelled(),
}


def _ignore(_link: ServerLink) -> None:
    """The `on_closed` of a connection that was not admitted."""


def _peer_text(address: Any) -> str:
    """The address of a peer, in gRPC's form."""
    if not isinstance(address, tuple):
        return "unknown:"
    host, port = str(address[0]).removeprefix("::ffff:"), address[1]
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"

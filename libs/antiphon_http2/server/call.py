"""One call, as its handler sees it: an asyncio interface to a stream of a ServerConnection.

A handler asks for requests, sends answers and may finish the call; without that the call ends with OK when the handler
returns. Its task is cancelled when the client cancels the call, when its timeout passes, and when the connection is
lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from antiphon_http2.errors import GrpcError
from antiphon_http2.limits import UNSENT_ANSWERS_BYTES_MAX
from antiphon_http2.server.answers import SUCCESS, Status
from antiphon_http2.server.connection import ServerConnection
from antiphon_http2.server.requests import Metadata
from antiphon_http2.server.stream import ServerStream
from antiphon_http2.statuses import CANCELLED, DEADLINE_EXCEEDED, UNKNOWN

Serve = Callable[["ServerCall"], Awaitable[None]]
_FAILED = Status(UNKNOWN, "The handler failed.")


class CallLink(Protocol):
    """A link, as a call needs it."""

    connection: ServerConnection
    peer: str
    certificate: Mapping[str, Any]

    def flush_soon(self) -> None: ...

    def note_caller(self, caller: str) -> bool: ...

    def before_flush(self, callback: Callable[[], None], on_failure: Callable[[Exception], None]) -> None: ...


class ServerCall:
    """One call of a client."""

    __slots__ = (
        "_callbacks",
        "_connection",
        "_deadline_s",
        "_link",
        "_loop",
        "_news",
        "_room",
        "_stream",
        "_task",
        "_timer",
    )

    def __init__(self, link: CallLink, stream: ServerStream, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._connection = link.connection
        self._stream = stream
        self._loop = loop
        self._news: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_s: float | None = None
        timeout_s = stream.head.timeout_s
        if timeout_s is not None:
            self._deadline_s = loop.time() + timeout_s
            self._timer = loop.call_at(self._deadline_s, self._on_timeout)

    # ---- for handlers ----

    @property
    def path(self) -> str:
        return self._stream.head.path

    @property
    def metadata(self) -> Metadata:
        return self._stream.head.metadata

    @property
    def peer(self) -> str:
        """The client's address, such as ipv4:10.0.0.1:5120 or ipv6:[::1]:5120."""
        return self._link.peer

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The client's verified certificate, as `ssl.SSLSocket.getpeercert` returns it; empty without one."""
        return self._link.certificate

    def authenticate(self, caller: str = "") -> bool:
        """Notes that the caller is known. Calls of strangers are limited by a budget of their connection and address,
        and give way to those of known callers. With the caller's name its connections are counted: returns False, and
        takes no more calls on this one, if the caller has as many others as one may have."""
        self._connection.authenticate(self._stream)
        return self._link.note_caller(caller)

    def time_remaining_s(self) -> float | None:
        """The time until the call's timeout; None if it has none."""
        return None if self._deadline_s is None else max(0.0, self._deadline_s - self._loop.time())

    async def next_size(self) -> int | None:
        """Waits for the next request to begin, and returns its length; None if the client sends no more. GrpcError: it
        is malformed."""
        while (size := self._connection.size(self._stream)) is None:
            if self._stream.is_read:
                return None
            await self._wait_until_received()
        return size

    async def receive(self) -> bytes:
        """Receives the request whose length `next_size` returned. GrpcError: it is malformed."""
        while (message := self._connection.take(self._stream)) is None:
            self._connection.size(self._stream)
            await self._wait_until_received()
        return message

    @property
    def is_full(self) -> bool:
        """Whether the handler has to wait for `room` before it sends more."""
        return self._connection.unsent_bytes(self._stream) > UNSENT_ANSWERS_BYTES_MAX

    @property
    def is_idle(self) -> bool:
        """Whether all answers so far are passed on to the socket."""
        return not self._connection.unsent_bytes(self._stream)

    def send(self, message: bytes) -> None:
        """Sends one answer. It leaves with everything else that this iteration of the event loop sends."""
        if not self._stream.is_ending:
            self._connection.send(self._stream, message)
            self._link.flush_soon()

    def before_write(self, callback: Callable[[], None]) -> None:
        """Calls `callback` at the end of this iteration of the event loop, before the answers so far are written. It
        may send more. An exception of it ends the call, as one of the handler does."""
        self._link.before_flush(callback, self._on_failed_callback)

    async def room(self) -> None:
        """Waits until all answers so far are passed on to the socket."""
        if self._connection.unsent_bytes(self._stream):
            self._connection.report_when_sent(self._stream)
            self._room = self._loop.create_future()
            await self._room

    def finish(self, status: Status = SUCCESS) -> None:
        """Ends the call behind its answers. No effect on a call that has ended."""
        self._connection.finish(self._stream, status)
        self._link.flush_soon()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when the end of the call is passed on to the socket, or the call is cancelled; at once if
        that is over."""
        if self._stream.is_ended:
            callback()
        else:
            self._callbacks.append(callback)

    # ---- for the link ----

    def begin(self, serve: Serve) -> asyncio.Task[None]:
        """Starts the handler."""
        self._task = self._loop.create_task(self._run(serve))
        return self._task

    def abort(self, status: Status) -> None:
        """Ends the call and its handler, without the answers that wait."""
        self._connection.abort(self._stream, status)
        self._link.flush_soon()
        self._stop()

    def on_received(self) -> None:
        _wake(self._news)

    def on_sent(self) -> None:
        _wake(self._room)

    def on_ended(self) -> None:
        """Handles the end of the call."""
        if self._timer is not None:
            self._timer.cancel()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancelled(self) -> None:
        self._stop()
        self.on_ended()

    async def _run(self, serve: Serve) -> None:
        try:
            await serve(self)
        except GrpcError as error:
            self.finish(Status(error.status, error.message, error.details))
        except asyncio.CancelledError:
            self.finish(Status(CANCELLED, "The call was cancelled."))
            raise
        except Exception as error:  # noqa: BLE001 - a bug of the handler, which the loop logs
            self._report(error)
            self.finish(_FAILED)
        else:
            self.finish()

    def _on_failed_callback(self, error: Exception) -> None:
        self._report(error)
        self.abort(_FAILED)

    def _report(self, error: Exception) -> None:
        message = f"the handler of {self.path} failed"
        self._loop.call_exception_handler({"message": message, "exception": error, "task": self._task})

    async def _wait_until_received(self) -> None:
        self._connection.read_on(self._stream)
        self._link.flush_soon()
        self._news = self._loop.create_future()
        await self._news

    def _on_timeout(self) -> None:
        self.abort(Status(DEADLINE_EXCEEDED, "Deadline Exceeded"))

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)

"""The interface for callers: gRPC streams to one endpoint.

    streams = GrpcStreams("triton:8001")
    call = await streams.start("/inference.GRPCInferenceService/ModelStreamInfer", message, receive)
    await call.wait_end()

`receive` is a plain function. The event loop calls it with all messages of the call that were in one read of the
socket, with the context variables of the task that began the call. `receive` must not block. An exception that
`receive` raises ends the call.
"""

from __future__ import annotations

import asyncio
import math
import random
import ssl
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from contextvars import copy_context
from typing import Protocol

from antiphon_http2.client.backoff import Backoff
from antiphon_http2.client.link import ALPN, Link, connect
from antiphon_http2.client.options import Options
from antiphon_http2.client.requests import Request
from antiphon_http2.client.responses import Fields
from antiphon_http2.client.targets import Target, read_target
from antiphon_http2.errors import ConnectionLost, GrpcError
from antiphon_http2.statuses import CANCELLED, DEADLINE_EXCEEDED

DEFAULT_OPTIONS = Options()
_CLOSED = "The client was closed."


class Flow(Protocol):
    """Backpressure of one stream: a receiver pauses and resumes it, and the source of the stream listens."""

    @property
    def is_paused(self) -> bool: ...

    def listening(self, *, pause: Callable[[], None], resume: Callable[[], None]) -> AbstractContextManager[None]:
        """Calls `pause` and `resume` when the flow changes, and `pause` at once if it is paused already."""
        ...


class GrpcCall:
    """One call, which runs or waits until the server allows one more stream. `GrpcStreams.start` makes it."""

    def __init__(
        self,
        link: Link,
        request: Request,
        receive: Callable[[Sequence[bytes]], None],
        *,
        flow: Flow | None,
        deadline_s: float | None,
    ) -> None:
        self._link = link
        self._flow = flow
        self._done = asyncio.Event()
        self._outcome: Exception | None = None
        self._cleanup = ExitStack()
        # The loop reads a connection with the context variables of the task that connected, so log lines of all calls
        # would have the ids of the first one's response.
        context = copy_context()
        self._stream = link.connection.calls.open(
            request, lambda messages: context.run(receive, messages), self._on_end
        )
        if flow is not None:
            self._cleanup.enter_context(flow.listening(pause=self._pause, resume=self._resume_soon))
        if deadline_s is not None:
            timer = asyncio.get_running_loop().call_at(deadline_s, self._on_timeout)
            self._cleanup.callback(timer.cancel)
        link.flush()

    async def wait_end(self) -> None:
        """Returns when the server has ended the call with OK. GrpcError: the call failed. Raises what `receive`
        raised."""
        await self._done.wait()
        if self._outcome is not None:
            raise self._outcome

    @property
    def trailers(self) -> Fields:
        """The trailers of a call that the server has ended."""
        return self._stream.trailers

    def cancel(self) -> bool:
        """Ends the call at once, without further messages. False if it had ended before."""
        return self._end(GrpcError(CANCELLED, "The call was cancelled by its caller."))

    def give_up(self, reason: str, silence_s: float) -> None:
        """Ends the call as ConnectionLost. Closes the whole connection if nothing came on it for `silence_s`."""
        if self._link.silence_s >= silence_s:
            self._link.close(reason)
        else:
            self._end(ConnectionLost(reason))

    def _end(self, error: GrpcError) -> bool:
        has_ended_now = self._link.connection.calls.cancel(self._stream, error)
        self._link.flush()
        return has_ended_now

    def _on_timeout(self) -> None:
        self._end(_timeout_error())

    def _on_end(self, outcome: Exception | None) -> None:
        self._outcome = outcome
        self._cleanup.close()
        self._done.set()

    def _pause(self) -> None:
        self._link.connection.calls.pause(self._stream)

    def _resume_soon(self) -> None:
        """Resumes in the next iteration of the loop, because `receive` must not run within the call that resumes the
        flow."""
        asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        if self._flow is not None and not self._flow.is_paused:
            self._link.connection.calls.resume(self._stream)
            self._link.flush()


class GrpcStreams:
    """gRPC streams to one endpoint, `host:port` or `dns:///host:port`, all over one connection. For one event loop.

    The first call connects, and so does the next call after the connection was lost. After a failed attempt calls fail
    at once until the backoff has passed. `read_tls` returns the certificates for each new connection; its context is
    changed to offer HTTP/2 by ALPN. ValueError: the endpoint is malformed.
    """

    def __init__(
        self,
        endpoint: str | Target,
        *,
        read_tls: Callable[[], ssl.SSLContext] | None = None,
        options: Options = DEFAULT_OPTIONS,
    ) -> None:
        self._target = read_target(endpoint) if isinstance(endpoint, str) else endpoint
        self._read_tls = read_tls
        self._options = options
        self._backoff = Backoff(options.backoff_first_s, options.backoff_max_s, random.uniform)
        self._last_error = ""
        self._attempt: asyncio.Task[Link | None] | None = None
        self._link: Link | None = None
        self._links: set[Link] = set()  # with those that the server is closing, whose calls continue
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that takes calls."""
        return self._link is not None and self._link.connection.calls.can_open

    @property
    def can_connect(self) -> bool:
        """Whether the backoff of the last failed attempt to connect has passed."""
        return self._backoff.can_try(asyncio.get_running_loop().time())

    @property
    def silence_s(self) -> float:
        """The time since something was received on the connection; infinite before the first connection."""
        return math.inf if self._link is None else self._link.silence_s

    async def connect(self) -> None:
        """Connects if there is no connection. ConnectionLost: it fails, or the backoff has not passed."""
        await self._open_link()

    async def start(
        self,
        path: str,
        message: bytes,
        receive: Callable[[Sequence[bytes]], None],
        *,
        flow: Flow | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        timeout_s: float | None = None,
    ) -> GrpcCall:
        """Begins a call with one message. While `flow` is paused, nothing is received, and the server may send
        `Options.stream_window_bytes` at most. `timeout_s` is for the whole call, connecting included.

        Raises ConnectionLost: there is no connection; GrpcError: the timeout passed while connecting; ValueError: the
        metadata is malformed.
        """
        scheme = "http" if self._read_tls is None else "https"
        request = Request(self._target.authority, scheme, path, message, metadata, timeout_s)
        deadline_s = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline_s):
                link = await self._open_link()
        except TimeoutError as error:
            raise _timeout_error() from error
        return GrpcCall(link, request, receive, flow=flow, deadline_s=deadline_s)

    async def close(self) -> None:
        """Ends open calls as ConnectionLost, and waits until the connections are closed."""
        self._is_closed = True
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait((self._attempt,))
        links = list(self._links)
        for link in links:
            link.close(_CLOSED)
        for link in links:
            await link.wait_closed()

    async def _open_link(self) -> Link:
        """The connection. All callers that wait for it share one attempt to connect."""
        if self._is_closed:
            raise ConnectionLost(_CLOSED, is_unprocessed=True)
        if self._link is not None and self.is_connected:
            return self._link
        if self._attempt is None:
            if not self.can_connect:
                raise ConnectionLost(f"{self._last_error} Connecting is not tried again yet.", is_unprocessed=True)
            self._attempt = asyncio.create_task(self._connect())
        attempt = self._attempt
        await asyncio.wait((attempt,))
        if attempt.cancelled():
            raise ConnectionLost(_CLOSED, is_unprocessed=True)
        link = attempt.result()
        if link is None:
            raise ConnectionLost(self._last_error, is_unprocessed=True)
        return link

    async def _connect(self) -> Link | None:
        """Connects once. Returns None if that fails, and sets `_last_error`."""
        try:
            link = await connect(self._target, self._tls(), self._options, self._links.discard)
        except ConnectionLost as error:
            self._backoff.note_failure(asyncio.get_running_loop().time())
            self._last_error = error.message
            return None
        finally:
            self._attempt = None
        self._backoff.note_success()
        self._links.add(link)
        self._link = link
        return link

    def _tls(self) -> ssl.SSLContext | None:
        if self._read_tls is None:
            return None
        context = self._read_tls()
        context.set_alpn_protocols([ALPN])
        return context


def _timeout_error() -> GrpcError:
    return GrpcError(DEADLINE_EXCEEDED, "The call did not end within its timeout.")

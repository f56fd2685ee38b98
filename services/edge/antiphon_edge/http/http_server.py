"""The HTTP server: every request gets an answer with a request id, and every error is in OpenAI's envelope.

By itself aiohttp answers bytes that it cannot parse as a request in plain text that quotes them, and logs them: an API
key, or a part of a prompt. This server answers them like any other request. Neither the answer nor the log quotes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import (
    BadHttpMethod,
    BadStatusLine,
    HttpProcessingError,
    InvalidURLError,
    LineTooLong,
)
from aiohttp.web_protocol import ERROR, MAX_MSG_QUEUE_SIZE

from antiphon_core.byte_budget import ByteBudget
from antiphon_core.errors import Unavailable
from antiphon_core.ids import Ids
from antiphon_core.limits import HEAD_BYTES_MAX, HEADER_BYTES_MAX, HEADS_BYTES_MAX, URL_BYTES_MAX
from antiphon_core.tracebacks import release_frames
from antiphon_edge.http import ambiguity, request_ids
from antiphon_edge.http.chunk_framing import FramingBound
from antiphon_edge.http.connection_table import ConnectionTable
from antiphon_edge.http.connections import (
    FRAME_BYTES,
    FRAMED_BYTES,
    PLAIN_BYTES,
    PacedReads,
    ReadBuffer,
    StreamConnection,
)
from antiphon_edge.http.cors import Cors
from antiphon_edge.http.http_errors import MALFORMED, Handler, answer_to, raw_rejection, rejection
from antiphon_edge.http.incomplete_requests import SenderWatch
from antiphon_edge.http.request_ids import RequestsInProgress
from antiphon_edge.http.socket_frames import CheckedFrames

log = logging.getLogger(__name__)

LINGER_S = 2.0
"""How long a connection that ends still takes bytes of the client, which it drops."""
DROPPED_BYTES_MAX = 64 * 2**20
"""How many bytes a connection that ends drops. A client that was sending when the connection ended has at most some of
the largest bodies on the way."""
PIPELINE_WAIT_S = 1.0
"""How long a full queue of pipelined requests may wait for the answer before them. A client that is not read for longer
could disconnect unnoticed: its FIN may wait behind bytes that the kernel has no room for."""
HEAD_REJECTED = raw_rejection(
    431,
    "header_too_large",
    f"The head of the request has more than {HEAD_BYTES_MAX} bytes, or the server receives too many heads at once.",
)
_TOO_MANY_HEADERS = "Too many headers received"  # aiohttp has no class for it


@dataclass(frozen=True, slots=True)
class Rejection:
    """The answer to a request that is rejected before a handler gets it. `message` quotes nothing of the request."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


_URL_TOO_LONG = Rejection(414, "url_too_long", f"The URL is longer than {URL_BYTES_MAX} bytes.")
_HEADER_TOO_LARGE = Rejection(431, "header_too_large", f"A header is larger than {HEADER_BYTES_MAX} bytes.")
_HEADERS_TOO_MANY = Rejection(431, "too_many_headers", "The request has too many headers.")
_MALFORMED_MESSAGE = Rejection(
    400,
    MALFORMED,
    "The request is not valid HTTP/1.1: a header or a chunk of the body is malformed, doubled or missing.",
)
_UNKNOWN_EXPECTATION = Rejection(417, "expectation_failed", "The only 'Expect' that is supported is '100-continue'.")
_EXPECTATIONS_MET: Sequence[Sequence[str]] = ([], ["100-continue"])
_BY_CLASS: Mapping[type[HttpProcessingError], Rejection] = {
    BadHttpMethod: Rejection(400, MALFORMED, "This is not an HTTP/1.1 request, or its method is unknown."),
    BadStatusLine: Rejection(400, MALFORMED, "The request line is not valid HTTP/1.1."),
    InvalidURLError: Rejection(400, MALFORMED, "The URL of the request has characters that a URL cannot have."),
}


_REJECTION: web.RequestKey[Rejection | None] = web.RequestKey("rejection")


def rejection_of(error: HttpProcessingError) -> Rejection:
    """The answer to an error of aiohttp's parser."""
    if isinstance(error, LineTooLong):
        return _URL_TOO_LONG if error.args[1] == URL_BYTES_MAX else _HEADER_TOO_LARGE
    if error.message == _TOO_MANY_HEADERS:
        return _HEADERS_TOO_MANY
    return _BY_CLASS.get(type(error), _MALFORMED_MESSAGE)


class HttpServer(web.Server):
    """Replaces the server of an aiohttp application: adds request ids, timeouts, limits, and envelopes for errors."""

    def __init__(
        self,
        inner: web.Server,
        ids: Ids,
        cors: Cors | None,
        *,
        read_timeout_s: float,
        table: ConnectionTable,
        requests: RequestsInProgress,
    ) -> None:
        handler = _wrap_handler(inner.request_handler, cors)
        super().__init__(
            request_ids.observe(handler, ids, requests),  # type: ignore[arg-type]
            request_factory=_wrap_factory(inner.request_factory),
            handler_cancellation=inner.handler_cancellation,
        )
        self._ids = ids
        self._cors = cors
        self._read_timeout_s = read_timeout_s
        self._table = table
        self._read_buffer = ReadBuffer()
        self._heads = ByteBudget("heads", total=HEADS_BYTES_MAX, share=HEADS_BYTES_MAX // 8)

    def __call__(self) -> PacedReads:  # type: ignore[override]
        connection = _Connection(self, self._ids, self._cors, self._read_timeout_s, self._table, self._heads)
        return PacedReads(connection, self._read_buffer)


class _Connection(StreamConnection):
    """One connection of the server."""

    def __init__(
        self,
        server: HttpServer,
        ids: Ids,
        cors: Cors | None,
        read_timeout_s: float,
        table: ConnectionTable,
        heads: ByteBudget,
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,
            max_line_size=URL_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            auto_decompress=False,  # bodies: antiphon_edge/http/encodings.py
        )
        self._event_loop = asyncio.get_running_loop()
        self._ids = ids
        self._cors = cors
        self.current: web.BaseRequest | None = None
        """The request that is handled; None between requests, and from the answer on."""
        self.serves_last = False
        """Whether the current request is the last one that is read from this connection."""
        self._is_over = False
        self._dropped_bytes = 0
        self._pipeline_check: asyncio.TimerHandle | None = None
        self._sender = SenderWatch(read_timeout_s, heads, is_answering=self._is_answering, hang_up=self._hang_up)
        self._table = table
        self._framing = FramingBound()
        self.peer = ""

    @property
    def idle_since_s(self) -> float | None:
        """The time since which the connection is idle; None while it serves a request or is a WebSocket. An incomplete
        head does not make it busy: the rest of the head may never arrive."""
        is_busy = self._is_answering() or self.frames is not None
        return None if is_busy else self._sender.heard_at_s

    def _is_answering(self) -> bool:
        return self.current is not None or bool(self._messages)

    @property
    def _is_dropping(self) -> bool:
        return self._is_over or (self.frames is not None and self.frames.is_over)

    @property
    def read_bytes(self) -> int:
        frames = self.frames
        if self._is_over or (frames is not None and frames.is_over):
            return PLAIN_BYTES
        if frames is None:
            return max(FRAMED_BYTES, self._sender.body_bytes)
        return max(FRAME_BYTES, frames.payload_bytes)

    def shed(self) -> None:
        """Closes this idle connection to make room for a new one."""
        self.force_close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if name else ""
        self._table.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._table.remove(self)
        self._sender.stop()
        if self._pipeline_check is not None:
            self._pipeline_check.cancel()
        if exc is not None:  # of a write, whose frames refer to the request, as does what keeps the error
            release_frames(exc)
        super().connection_lost(exc)
        self.current = None

    def data_received(self, data: bytes) -> None:
        """Parses data, and watches timeouts and sizes. When the parser fails within a body, it sets the error on the
        body: aiohttp only queues the error as the next request, and a handler that reads the body would wait
        forever."""
        if self._is_dropping:
            self._drop(len(data))
            return
        heads = self._request_count
        super().data_received(data)
        if self.frames is not None:
            return
        if len(self._messages) >= MAX_MSG_QUEUE_SIZE and self._pipeline_check is None:
            self._check_pipeline_later()
        requests: list[Any] = [*islice(self._messages, len(self._messages) + heads - self._request_count, None)]
        is_malformed = bool(requests) and not isinstance(requests[-1][0], RawRequestMessage)
        if not self._sender.note_received(data, requests, self.peer, is_malformed=is_malformed):
            self._reject_head()
        elif is_malformed:
            self._break_bodies()
        elif not requests:
            self._is_over = not self._framing.note_received(len(data))
        elif requests[-1][0].chunked:
            self._framing.begin(requests[-1][1])

    def _drop(self, size: int) -> None:
        """Counts bytes that are dropped, and disconnects a client that sends too many of them."""
        self._dropped_bytes += size
        if self._dropped_bytes > DROPPED_BYTES_MAX:
            log.info("%s is disconnected: it goes on sending after the end of its connection", self.peername)
            self.force_close()

    def _check_pipeline_later(self) -> None:
        self._pipeline_check = self._event_loop.call_later(PIPELINE_WAIT_S, self._check_pipeline, self.current)

    def _check_pipeline(self, request: web.BaseRequest | None) -> None:
        """Reads on if `request` is still handled, so that a disconnect is noticed. What waits behind it is dropped, and
        its answer is the last of the connection."""
        self._pipeline_check = None
        transport = self.transport
        if transport is None or transport.is_closing() or transport.is_reading():
            return
        if request is not self.current or request is None:
            self._check_pipeline_later()
            return
        log.info("%s pipelines too much behind a request: only this request is answered", self.peername)
        self._is_over = True
        self.read_on()

    def read_on(self) -> None:
        """Resumes reading; also while aiohttp's queue is full, if all that is read is dropped."""
        if not self._is_over:
            super().read_on()
        elif self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def _break_bodies(self) -> None:
        """Makes reading the incomplete bodies fail: the parser has failed, and gives them nothing more."""
        bodies = [body for _, body in self._messages]
        if self.current is not None:
            bodies.append(self.current.content)
        for body in bodies:
            if not body.is_eof():
                body.set_exception(web.RequestPayloadError("the rest of the body cannot be read"))

    def _reject_head(self) -> None:
        """Rejects a head that exceeds a limit, and drops all further data."""
        self._is_over = True
        self._sender.stop()
        if self._is_answering() or self.transport is None:
            self.force_close()  # another answer is being sent, or comes first
            return
        log.info("a head from %s is rejected: it is too large, or there are too many incomplete ones", self.peername)
        self.transport.write(HEAD_REJECTED)
        _end_sending(self.transport)
        self._event_loop.call_later(LINGER_S, self.force_close)

    def _hang_up(self) -> None:
        log.info("%s is disconnected: read timeout before the head of a request was complete", self.peername)
        self.force_close()

    def set_parser(self, parser: Any, data_received_cb: Callable[[], None] | None = None) -> None:
        """Makes the connection a WebSocket. It has no read timeout: a client is alive as long as it answers pings."""
        self._sender.stop()
        self.serves_last = False
        self.frames = CheckedFrames(parser, self._event_loop.time)
        super().set_parser(self.frames, data_received_cb)  # type: ignore[arg-type]

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to an exception after the answer has begun, or to bytes that are no request."""
        try:
            if isinstance(exc, HttpProcessingError):
                return self._reject_malformed(request, exc)
            return super().handle_error(request, status, exc, message)
        finally:
            if exc is not None:
                release_frames(exc)

    def _reject_malformed(self, request: web.BaseRequest, exc: HttpProcessingError) -> web.StreamResponse:
        """The answer to bytes that are no request. It is the last of the connection: where the next request would begin
        is unknown."""
        self._is_over = True
        request_ids.assign(request, self._ids)
        why = rejection_of(exc)
        log.info("a request from %s is rejected with %d: %s", request.remote, why.status, why.message)
        cors = self._cors.headers_for_all() if self._cors is not None else {}
        return _reject(why, {**request_ids.headers_of(request), **cors})

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Lingers after the last answer: reads and drops for a while what the client still sends. Closing at once would
        reset the connection, and the client could lose the answer."""
        self.current = None
        body = request.content
        if isinstance(body.exception(), web.RequestPayloadError):
            resp.force_close()
        finished = await super().finish_response(request, resp, start_time)
        broke_off = isinstance(body.exception(), web.RequestPayloadError)
        self._is_over = self._is_dropping or self.serves_last or broke_off
        if self._is_over and self.transport is not None:
            _end_sending(self.transport)
            self.read_on()
            await asyncio.sleep(LINGER_S)  # cancelled when the client disconnects
        return finished

    def log_exception(self, *args: Any, **options: Any) -> None:
        """Logs an exception; without a traceback if a body was incomplete or the client has disconnected."""
        if isinstance(options.get("exc_info"), web.RequestPayloadError):
            log.info("the body of a request from %s was not read to its end", self.peername)
        elif isinstance(options.get("exc_info"), ConnectionError):
            log.info("%s disconnected before its answer was complete", self.peername)
        elif isinstance(options.get("exc_info"), Unavailable):
            log.warning("the answer to %s was cut off: %s", self.peername, options["exc_info"])
        else:
            super().log_exception(*args, **options)


def _end_sending(transport: asyncio.Transport) -> None:
    """Closes the sending side of the connection, unless the client has reset the connection."""
    with suppress(OSError):
        transport.write_eof()


def _wrap_factory(make: Callable[..., web.BaseRequest]) -> Callable[..., web.BaseRequest]:
    """Wraps aiohttp's factory of requests.

    A request that stands for a parser error becomes one of HTTP/1.1: aiohttp makes it one of HTTP/1.0, whose answer
    would lack `Connection: close`. So does a request of a version that is not served. A request that is rejected, or
    after which no other can be parsed safely, becomes the last of its connection."""

    def make_request(message: RawRequestMessage, payload: Any, connection: _Connection, *rest: Any) -> web.BaseRequest:
        if message is ERROR:
            connection.current = make(message._replace(version=HttpVersion11), payload, connection, *rest)
            return connection.current
        rejected = _rejection_of_head(message)
        if rejected is not None or ambiguity.is_last(message):
            version = HttpVersion10 if message.version == HttpVersion10 else HttpVersion11
            message = message._replace(should_close=True, version=version)
            connection.serves_last = True
        request = connection.current = make(message, payload, connection, *rest)
        request[_REJECTION] = rejected
        return request

    return make_request


def _rejection_of_head(message: RawRequestMessage) -> Rejection | None:
    """The answer to a request whose head was parsed and is not acceptable; None for all others."""
    if (why := ambiguity.ambiguity_of(message)) is not None:
        return Rejection(400, MALFORMED, why)
    # aiohttp checks the header, too, but its answer quotes the value, which fails if that is not UTF-8.
    if hdrs.EXPECT in message.headers and message.version >= HttpVersion11:
        expected = [each.lower() for each in message.headers.getall(hdrs.EXPECT) if each]
        return _UNKNOWN_EXPECTATION if expected not in _EXPECTATIONS_MET else None
    return None


def _wrap_handler(handler: Handler, cors: Cors | None) -> Handler:
    """Wraps a handler: answers rejected requests, with the headers that the application adds to all other answers, and
    makes an answer with an envelope of each exception."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if (why := request[_REJECTION]) is not None:
            allowed = cors.headers_of(request) if cors is not None else {}
            return _reject(why, {**request_ids.headers_of(request), **allowed})
        try:
            return await handler(request)
        except ConnectionError:
            raise  # the client has disconnected
        except Exception as error:
            if request.writer.output_size:
                raise  # the answer has begun: aiohttp logs the error, and closes the connection
            answer = answer_to(request, error)
            release_frames(error)
            return answer

    return handle


def _reject(why: Rejection, headers: Mapping[str, str]) -> web.Response:
    answer = rejection(why.status, why.code, why.message, {**why.headers, **headers})
    answer.force_close()
    return answer

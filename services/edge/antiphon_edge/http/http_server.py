"""HTTP itself: whatever comes over a connection gets an answer with a name, and its errors in the envelope.

aiohttp answers what it cannot read as a request by itself, in plain text around the bytes in question, and logs these:
a key, or a piece of a prompt. Here such a request is answered like all others, and neither the answer nor the log
repeats anything of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import (
    BadHttpMethod,
    BadStatusLine,
    ContentEncodingError,
    HttpProcessingError,
    InvalidURLError,
    LineTooLong,
)
from aiohttp.web_protocol import ERROR

from antiphon_core.ids import Ids
from antiphon_core.limits import HEADER_BYTES_MAX, HEADS_BYTES_MAX, URL_BYTES_MAX
from antiphon_edge.http import ambiguity, encodings, request_ids
from antiphon_edge.http.byte_budget import ByteBudget
from antiphon_edge.http.connection_table import ConnectionTable
from antiphon_edge.http.connections import StreamConnection
from antiphon_edge.http.cors import Cors
from antiphon_edge.http.heads import HEAD_REFUSED, HeadBound
from antiphon_edge.http.http_errors import MALFORMED, Handler, enveloping, refuse
from antiphon_edge.http.masking import MaskedFrames
from antiphon_edge.http.slow_senders import SenderWatch

log = logging.getLogger(__name__)

LINGER_S = 2.0
_TOO_MANY_HEADERS = "Too many headers received"  # aiohttp has no class for it


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why something is no request. `message` has nothing of it."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


_URL_TOO_LONG = Unreadable(414, "url_too_long", f"The URL is longer than {URL_BYTES_MAX} bytes.")
_HEADER_TOO_LARGE = Unreadable(431, "header_too_large", f"A header is larger than {HEADER_BYTES_MAX} bytes.")
_HEADERS_TOO_MANY = Unreadable(431, "too_many_headers", "The request has too many headers.")
_NO_MESSAGE = Unreadable(
    400,
    MALFORMED,
    "The request is not valid HTTP/1.1: a header or a chunk of the body is malformed, doubled or missing.",
)
_NOT_MET = Unreadable(417, "expectation_failed", "The only expectation that is met here is '100-continue'.")
_MET: Sequence[Sequence[str]] = ([], ["100-continue"])
_BY_CLASS: Mapping[type[HttpProcessingError], Unreadable] = {
    BadHttpMethod: Unreadable(400, MALFORMED, "This is no request of HTTP/1.1, or its method is unknown."),
    BadStatusLine: Unreadable(400, MALFORMED, "The first line of the request is not one of HTTP/1.1."),
    InvalidURLError: Unreadable(400, MALFORMED, "The URL of the request has characters that a URL cannot have."),
    ContentEncodingError: Unreadable(415, encodings.CODE, encodings.MESSAGE, encodings.ACCEPT),
}


_UNWANTED: web.RequestKey[Unreadable | None] = web.RequestKey("unwanted")


def unreadable(error: HttpProcessingError) -> Unreadable:
    """Translates an error of aiohttp's parser."""
    if isinstance(error, LineTooLong):
        return _URL_TOO_LONG if error.args[1] == URL_BYTES_MAX else _HEADER_TOO_LARGE
    if error.message == _TOO_MANY_HEADERS:
        return _HEADERS_TOO_MANY
    return _BY_CLASS.get(type(error), _NO_MESSAGE)


class HttpServer(web.Server):
    """Serves what an application's own server would, with a name for every request and an envelope for every error."""

    def __init__(
        self, inner: web.Server, ids: Ids, cors: Cors | None, *, read_timeout_s: float, table: ConnectionTable
    ) -> None:
        super().__init__(
            request_ids.naming(_refusing(enveloping(inner.request_handler), cors), ids),  # type: ignore[arg-type]
            request_factory=_adapted(inner.request_factory),
            handler_cancellation=inner.handler_cancellation,
        )
        self._ids = ids
        self._cors = cors
        self._read_timeout_s = read_timeout_s
        self._table = table
        self._heads = ByteBudget("heads", total=HEADS_BYTES_MAX, share=HEADS_BYTES_MAX // 8)

    def __call__(self) -> web.RequestHandler:
        heads = HeadBound(self._heads)
        return _Connection(self, self._ids, self._cors, self._read_timeout_s, self._table, heads)


class _Connection(StreamConnection):
    """One connection."""

    def __init__(
        self,
        server: HttpServer,
        ids: Ids,
        cors: Cors | None,
        read_timeout_s: float,
        table: ConnectionTable,
        heads: HeadBound,
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,
            max_line_size=URL_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )
        self._ids = ids
        self._cors = cors
        self.serves_last = False
        """Whether nothing that comes behind the request in hand is taken for another one."""
        self._is_over = False
        self._sender = SenderWatch(read_timeout_s, self._hang_up)
        self._table = table
        self._head = heads
        self.peer = ""

    @property
    def idle_since_s(self) -> float | None:
        """Since when no request is in hand. A piece of a head is none: it may be all that ever comes."""
        is_busy = self._current_request is not None or self._messages or self.frames is not None
        return None if is_busy else self._sender.heard_at_s

    def shed(self) -> None:
        """Closes the connection, for one that has something to ask."""
        self.force_close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if name else ""
        self._table.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._table.remove(self)
        self._head.clear()
        self._sender.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Also tells those who read a body that the rest of it cannot be read. aiohttp only queues the error as the
        next request, behind the one whose body it is about, and which would wait for it for ever."""
        if self._is_over:
            return
        heads = self._request_count
        super().data_received(data)
        self._sender.came(data, self._messages[-1][1] if self._request_count > heads else None)
        if self.frames is None and not self._head.has_room(self.peer, len(data), is_in_head=self._sender.is_in_head):
            self._refuse_head()
            return
        if not self._messages or isinstance(self._messages[-1][0], RawRequestMessage):
            return
        bodies = [body for _, body in self._messages]
        if self._current_request is not None:
            bodies.append(self._current_request.content)
        for body in bodies:
            if not body.is_eof():
                body.set_exception(web.RequestPayloadError("the rest of the body cannot be read"))

    def _refuse_head(self) -> None:
        """Answers a head that is too large, or that there is no room for, and drops what else comes."""
        self._is_over = True
        self._sender.stop()
        self._head.clear()
        if self._current_request is not None or self.transport is None:
            self.force_close()  # another answer is on its way
            return
        log.info("a head from %s is refused: it is too large, or there are too many", self.peername)
        self.transport.write(HEAD_REFUSED)
        _end_sending(self.transport)
        self._loop.call_later(LINGER_S, self.force_close)

    def _hang_up(self) -> None:
        log.info("%s sent no request, or no more of one, for too long", self.peername)
        self.force_close()

    def set_parser(self, parser: Any, data_received_cb: Callable[[], None] | None = None) -> None:
        """From here on the connection is a WebSocket, and may be silent for as long as it answers pings."""
        self._sender.stop()
        self.serves_last = False
        self.frames = MaskedFrames(parser)
        super().set_parser(self.frames, data_received_cb)  # type: ignore[arg-type]

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no request. Nothing comes behind it: where the next one begins is not known."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        self._is_over = True
        request_ids.name(request, self._ids)
        why = unreadable(exc)
        log.info("what came from %s is refused with %d: %s", request.remote, why.status, why.message)
        pages = self._cors.headers_for_all() if self._cors is not None else {}
        return _refuse(why, {**request_ids.headers_of(request), **pages})

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Behind the last answer it takes for a while what the client is still sending, and drops it. To close at once
        would reset the connection, and the client could lose the answer."""
        body = request.content
        if "Content-Encoding" in request.headers and not body.is_eof():
            resp.force_close()  # aiohttp would decode the rest, gigabytes of it perhaps, only to drop it
            body.set_exception(web.RequestPayloadError("not read to its end"))
        finished = await super().finish_response(request, resp, start_time)
        broke_off = isinstance(body.exception(), web.RequestPayloadError)
        self._is_over = self._is_over or self.serves_last or broke_off
        if self._is_over and self.transport is not None:
            _end_sending(self.transport)
            self.resume_reading(resume_parser=False)
            await asyncio.sleep(LINGER_S)  # cancelled as soon as the client hangs up
        return finished

    def log_exception(self, *args: Any, **options: Any) -> None:
        """But for bodies that are not read to their end: whoever read one was told, and the others had answered. And
        for clients that hang up: that is theirs to do."""
        if isinstance(options.get("exc_info"), web.RequestPayloadError):
            log.info("the body of a request from %s was not read to its end", self.peername)
        elif isinstance(options.get("exc_info"), ConnectionError):
            log.info("%s hung up before it had its whole answer", self.peername)
        else:
            super().log_exception(*args, **options)


def _end_sending(transport: asyncio.Transport) -> None:
    """Tells the client that nothing more comes. One that has reset the connection is told nothing."""
    with suppress(OSError):
        transport.write_eof()


def _adapted(make: Callable[..., web.BaseRequest]) -> Callable[..., web.BaseRequest]:
    """Requests as `make` makes them, with what aiohttp has to be told of them.

    It stands in for what it could not read with a request of HTTP/1.0, whose answer could not even say that the
    connection ends; and it goes on behind requests whose end is not sure."""

    def make_request(message: RawRequestMessage, payload: Any, connection: _Connection, *rest: Any) -> web.BaseRequest:
        if message is ERROR:
            return make(message._replace(version=HttpVersion11), payload, connection, *rest)
        unwanted = _unwanted(message)
        if unwanted is not None or ambiguity.is_last(message):
            message = message._replace(should_close=True)
            connection.serves_last = True
        request = make(message, payload, connection, *rest)
        request[_UNWANTED] = unwanted
        return request

    return make_request


def _unwanted(message: RawRequestMessage) -> Unreadable | None:
    """Why a request that could be read is refused before anything else is asked of it."""
    if (why := ambiguity.ambiguity_of(message)) is not None:
        return Unreadable(400, MALFORMED, why)
    expected = [each.lower() for each in message.headers.getall(hdrs.EXPECT, []) if each]
    # aiohttp looks at it, too, but its refusal cannot quote what is no text.
    if expected not in _MET and message.version >= HttpVersion11:
        return _NOT_MET
    return None


def _refusing(handler: Handler, cors: Cors | None) -> Handler:
    """A handler that refuses what is not wanted, with the headers that other answers get from the application."""

    async def handle(request: web.Request) -> web.StreamResponse:
        why = request[_UNWANTED]
        if why is None:
            return await handler(request)
        pages = cors.headers_of(request) if cors is not None else {}
        return _refuse(why, {**request_ids.headers_of(request), **pages})

    return handle


def _refuse(why: Unreadable, headers: Mapping[str, str]) -> web.Response:
    answer = refuse(why.status, why.code, why.message, {**why.headers, **headers})
    answer.force_close()
    return answer

"""The server's end of a connection: bytes in, events out; calls of its methods, bytes out.

The owner handles the events after each call of any method (`take_events`). Requests are received only when they are
asked for: a call may send the window of its stream, 64 KiB, and no more until `read_on`.
"""

from __future__ import annotations

from collections.abc import Callable

from hyperframe.frame import GoAwayFrame, RstStreamFrame

from antiphon_http2 import frames
from antiphon_http2.connection import HEAD_ITEMS, ITEM_BYTES, Connection, first_credit
from antiphon_http2.errors import GrpcError
from antiphon_http2.frames import ConnectionFault
from antiphon_http2.header_codec import HeaderBlock, Headers
from antiphon_http2.limits import (
    REQUEST_BLOCK_BYTES_MAX,
    REQUEST_LIST_BYTES_MAX,
    REQUEST_WINDOW_BYTES,
    SMALL_DATA_BYTES,
    STEP_ITEMS_MAX,
)
from antiphon_http2.messages import frame_message
from antiphon_http2.server.answers import HEADERS, Fields, Status, http_answer, trailers
from antiphon_http2.server.events import Event, Happening
from antiphon_http2.server.options import ServerOptions
from antiphon_http2.server.preface import PrefaceReader, WrongPreface
from antiphon_http2.server.requests import MalformedRequest, NotGrpc, count_values, read_head
from antiphon_http2.server.strangers import StrangerBudget
from antiphon_http2.server.stream import ServerStream
from antiphon_http2.settings import server_settings
from antiphon_http2.statuses import INTERNAL, ErrorCode

_TOO_MANY = "Too many calls without valid authentication came over this connection, or from this address."
_FAREWELL = b"farewell"  # the content of the ping behind the first GOAWAY


class ServerConnection(Connection):
    """The server's end of one connection. Answers wait in it until flow control and the owner let them leave."""

    peer = "client"

    def __init__(self, options: ServerOptions, now_s: Callable[[], float]) -> None:
        """`now_s` is a monotonic clock."""
        super().__init__(
            now_s,
            stream_window_bytes=REQUEST_WINDOW_BYTES,
            block_bytes_max=REQUEST_BLOCK_BYTES_MAX,
            header_list_bytes_max=REQUEST_LIST_BYTES_MAX,
            step_items_max=STEP_ITEMS_MAX,
            on_empty=self._on_empty,
        )
        self._options = options
        self._streams: dict[int, ServerStream] = {}
        self.events: list[Event] = []
        self.strangers = StrangerBudget(now_s)
        self._preface = PrefaceReader()
        self._begun_id = 0  # the last stream that the client began
        self._final_id: int | None = None  # the last stream that will be processed; None: streams may begin
        self._out += [frames.settings_frame(server_settings(options.streams_max)), first_credit()]

    # ---- for the owner ----

    @property
    def calls(self) -> int:
        """The number of calls that have not ended."""
        return len(self._streams)

    @property
    def has_known_calls(self) -> bool:
        """Whether a call runs whose caller was authenticated."""
        return any(stream.is_authenticated for stream in self._streams.values())

    def streams(self) -> list[ServerStream]:
        """The calls that have not ended."""
        return list(self._streams.values())

    @property
    def is_finished(self) -> bool:
        """Whether no call runs or can begin any more."""
        return self.is_closed or (self._final_id is not None and not self._streams)

    def receive(self, data: bytes) -> None:
        if not self._preface.is_complete and not self.is_closed:
            try:
                data = self._preface.receive(data)
            except WrongPreface:
                self.lose("The client does not speak HTTP/2.")
        if self._preface.is_complete:
            super().receive(data)

    def take_events(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def size(self, stream: ServerStream) -> int | None:
        """The length of the next request; None if it is not known yet. GrpcError: it is too large, or compressed; the
        client ended its requests within it."""
        size = stream.requests.size()
        if stream.is_read and len(stream.requests) and stream.requests.missing_bytes > 0:
            raise GrpcError(INTERNAL, "The client ended its requests inside a message.")
        return size

    def take(self, stream: ServerStream) -> bytes | None:
        """Removes and returns the next request; None if it is not complete. GrpcError: it is too large, or
        compressed."""
        return stream.requests.take()

    def read_on(self, stream: ServerStream) -> None:
        """Lets the client send the next request, or its length if that is not known, and notes that the owner waits for
        it. GrpcError: it is too large, or compressed."""
        stream.is_awaited = True
        if stream.is_read or stream.is_ending:
            return
        missing_bytes = stream.requests.missing_bytes
        allowed_bytes = REQUEST_WINDOW_BYTES - stream.owed_bytes
        # Between two requests the window is opened only when less than half of it is left: small requests would
        # otherwise cost a WINDOW_UPDATE each.
        idle_bytes = REQUEST_WINDOW_BYTES // 2 if stream.requests.size() is None else 0
        if allowed_bytes < max(missing_bytes, idle_bytes):
            increment = max(missing_bytes, REQUEST_WINDOW_BYTES - len(stream.requests)) - allowed_bytes
            self._out.append(frames.window_update_frame(stream.id, increment))
            stream.owed_bytes -= increment

    def send(self, stream: ServerStream, message: bytes) -> None:
        """Sends an answer. The headers go before the first one."""
        if not stream.has_headers:
            stream.has_headers = True
            self._control.earn_for_call()
            self._out += self._header_frames(stream.id, HEADERS, ends_stream=False)
        self._sender.append(stream.id, frame_message(message))

    def authenticate(self, stream: ServerStream) -> None:
        """Notes that the caller of a call is known, so that the call does not count as one of a stranger's."""
        if not stream.is_authenticated:
            stream.is_authenticated = True
            self.strangers.refund(stream.charged_items)

    def report_when_sent(self, stream: ServerStream) -> None:
        """Reports SENT when all answers of a call so far are sent. Call it only while some of them wait."""
        stream.waits_for_room = True

    def unsent_bytes(self, stream: ServerStream) -> int:
        """The bytes of answers that wait for the client."""
        return self._sender.waiting_bytes(stream.id)

    def finish(self, stream: ServerStream, status: Status) -> None:
        """Ends a call behind its answers. No effect on a call that has ended."""
        if stream.is_ending:
            return
        stream.is_ending = True
        fields = trailers(status) if stream.has_headers else [*HEADERS, *trailers(status)]
        self._out += self._sender.end(stream.id, lambda: self._last_frames(stream, fields))

    def abort(self, stream: ServerStream, status: Status) -> None:
        """Ends a call at once, without the answers that wait."""
        if stream.is_ended:
            return
        self._sender.drop(stream.id)
        self._sender.open(stream.id)
        stream.is_ending = False
        self.finish(stream, status)

    def shut_down(self) -> None:
        """Takes no more calls, and lets those end that run. The client may have begun some that have not arrived: they
        are processed if they come before the answer to a ping (RFC 9113, section 6.8), or before `refuse_calls`."""
        self._out.append(frames.goaway_frame(ErrorCode.NO_ERROR, last_id=frames.STREAM_ID_MAX))
        self._out.append(frames.ping_frame(_FAREWELL))

    def refuse_calls(self) -> None:
        """Processes no call from now on that has not begun."""
        self._refuse_calls(ErrorCode.NO_ERROR, "")

    def _refuse_calls(self, code: ErrorCode, reason: str) -> None:
        if self._final_id is None and not self.is_closed:
            self._final_id = self._begun_id
            self._out.append(frames.goaway_frame(code, reason, last_id=self._begun_id))

    # ---- frames ----

    @property
    def _last_id(self) -> int:
        return self._begun_id

    def _find(self, stream_id: int) -> ServerStream | None:
        if stream_id % 2 == 0 or stream_id > self._begun_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"A frame belongs to stream {stream_id}, which is none.")
        return self._streams.get(stream_id)

    def _takes_data(self, stream: ServerStream) -> bool:
        if stream.is_read and not stream.is_ending:
            self._reset(stream, ErrorCode.STREAM_CLOSED)
        return not (stream.is_read or stream.is_ending)

    def _take(self, stream: ServerStream, data: bytes, start: int, stop: int) -> None:
        self.work_items += 1  # the frames of the fast path are not counted before
        if stop - start < SMALL_DATA_BYTES:
            self._control.charge(0)
        if stream.is_ending:
            return
        stream.requests.feed(data, start, stop)
        if stream.is_awaited and self._needs_owner(stream):
            self._report_received(stream)

    def _take_late(self, size: int) -> None:
        if size < SMALL_DATA_BYTES:
            self._control.charge(0)

    def _needs_owner(self, stream: ServerStream) -> bool:
        """Whether the next request is complete or malformed, or the client needs more credit to complete it."""
        try:
            missing_bytes = stream.requests.missing_bytes
        except GrpcError:
            return True
        return missing_bytes <= 0 or missing_bytes > REQUEST_WINDOW_BYTES - stream.owed_bytes

    def _report_received(self, stream: ServerStream) -> None:
        if stream.is_awaited:
            stream.is_awaited = False
            self.events.append(Event(Happening.RECEIVED, stream))

    def _on_end_of_data(self, stream: ServerStream) -> None:
        stream.is_read = True
        self._reading.pop(stream.id, None)
        self._report_received(stream)

    def _on_block(self, block: HeaderBlock, headers: Headers) -> None:
        if block.stream_id % 2 == 0:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "A client begins streams of odd numbers only.")
        if block.stream_id > self._begun_id:
            self._begun_id = block.stream_id
            self._begin(block, headers)
        elif (stream := self._streams.get(block.stream_id)) is None:
            self._control.charge(len(block.content))
        elif stream.is_read or not block.ends_stream:
            self._reset(stream, ErrorCode.STREAM_CLOSED if stream.is_read else ErrorCode.PROTOCOL_ERROR)
        else:
            self._on_end_of_data(stream)

    def _begin(self, block: HeaderBlock, headers: Headers) -> None:
        if self._final_id is not None:
            self._control.charge(len(block.content))
            return
        if len(self._streams) >= self._options.streams_max:
            self._refuse(block, ErrorCode.REFUSED_STREAM)
            return
        items = len(block.content) // ITEM_BYTES + HEAD_ITEMS + count_values(headers)
        self.work_items += count_values(headers) - len(headers)  # the base has counted the rest
        self.strangers.charge(items)
        try:
            head = read_head(headers)
        except MalformedRequest:
            self._refuse(block, ErrorCode.PROTOCOL_ERROR)
        except NotGrpc as error:
            self._answer(block, http_answer(error.http_status))
        except GrpcError as error:
            self._answer(block, [*HEADERS, *trailers(Status(error.status, error.message))])
        else:
            stream = ServerStream(block.stream_id, head, message_bytes_max=self._options.message_bytes_max)
            stream.charged_items = items
            self._open(stream)
            if block.ends_stream:
                self._on_end_of_data(stream)

    def _open(self, stream: ServerStream) -> None:
        self._streams[stream.id] = self._reading[stream.id] = stream
        self._sender.open(stream.id)
        self.events.append(Event(Happening.BEGUN, stream))

    def _refuse(self, block: HeaderBlock, code: ErrorCode) -> None:
        self._control.charge(len(block.content))
        self._out.append(frames.reset_frame(block.stream_id, code))
        self._limit_strangers()

    def _answer(self, block: HeaderBlock, fields: Fields) -> None:
        """Ends a call that no owner gets to see."""
        self._control.charge(len(block.content))
        self._out += self._header_frames(block.stream_id, fields, ends_stream=True)
        if not block.ends_stream:
            self._out.append(frames.reset_frame(block.stream_id, ErrorCode.NO_ERROR))
        self._limit_strangers()

    def _limit_strangers(self) -> None:
        """Takes no more calls of a connection that had too many without authentication. Those that run go on, because
        some of them may be a known caller's."""
        if self.strangers.is_spent:
            self._refuse_calls(ErrorCode.ENHANCE_YOUR_CALM, _TOO_MANY)

    def _on_reset(self, frame: RstStreamFrame) -> None:
        if (stream := self._find(frame.stream_id)) is not None:
            self._control.charge(0)  # once more: a call that is begun and cancelled takes as much as two other frames
            self._cancel_stream(stream)

    def _reset(self, stream: ServerStream, code: ErrorCode) -> None:
        self._out.append(frames.reset_frame(stream.id, code))
        self._cancel_stream(stream)

    def _cancel_stream(self, stream: ServerStream) -> None:
        self._forget(stream)
        self.events.append(Event(Happening.CANCELLED, stream))

    def _on_goaway(self, frame: GoAwayFrame) -> None:
        """The client begins no more calls; those that run continue."""
        self._final_id = self._begun_id

    def _on_ping_answer(self, content: bytes) -> None:
        if content == _FAREWELL:
            self.refuse_calls()

    def _on_lost(self, reason: str) -> None:
        for stream in list(self._streams.values()):
            self._cancel_stream(stream)

    # ---- answers ----

    def _header_frames(self, stream_id: int, fields: Fields, *, ends_stream: bool) -> list[bytes]:
        block = self._codec.encode(fields)
        return list(frames.headers_frames(stream_id, block, self._sender.frame_bytes_max, ends_stream=ends_stream))

    def _on_empty(self, stream_id: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None and stream.waits_for_room:
            stream.waits_for_room = False
            self.events.append(Event(Happening.SENT, stream))

    def _last_frames(self, stream: ServerStream, fields: Fields) -> list[bytes]:
        """The trailers, and the end of a request that the server does not need."""
        out = self._header_frames(stream.id, fields, ends_stream=True)
        if not stream.is_read:
            out.append(frames.reset_frame(stream.id, ErrorCode.NO_ERROR))
        self._control.earn_for_call()
        self._forget(stream)
        self.events.append(Event(Happening.ENDED, stream))
        return out

    def _forget(self, stream: ServerStream) -> None:
        stream.is_ended = stream.is_ending = True
        self._streams.pop(stream.id, None)
        if not stream.is_authenticated:
            self._limit_strangers()
        self._reading.pop(stream.id, None)
        self._sender.drop(stream.id)

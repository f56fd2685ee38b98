"""The protocol of one connection to a gRPC server, without I/O: bytes in, bytes out, and callbacks for messages.

The owner of a Connection must

* pass everything that it reads to `receive`, in order and in pieces of any size, but not from within a callback;
* after each call of any method, also of `calls`, write the result of `data_to_send`, until that is empty;
* close the socket when `is_finished` is true and everything is written, and call `lose` when the socket is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hyperframe.frame import (
    ContinuationFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from antiphon_http2 import frames
from antiphon_http2.client.call_table import CallTable
from antiphon_http2.client.options import Options
from antiphon_http2.client.responses import error_in_headers, fields_of, is_informational, outcome
from antiphon_http2.client.stream import Stream
from antiphon_http2.control_budget import ControlBudget
from antiphon_http2.errors import GrpcError
from antiphon_http2.frames import FRAME_HEADER_BYTES, ConnectionFault
from antiphon_http2.header_codec import HeaderBlock, HeaderCodec
from antiphon_http2.limits import BURST_BYTES, CONNECTION_WINDOW_BYTES, INTERIM_ITEMS_MAX
from antiphon_http2.sending import Sender
from antiphon_http2.settings import check_settings, client_settings
from antiphon_http2.statuses import INTERNAL, ErrorCode, error_code_name, status_of_reset

_unpack_header = frames.FRAME_HEADER.unpack_from


class Connection:
    """The client's end of a connection. `calls` begins and ends its calls."""

    def __init__(self, options: Options, now_s: Callable[[], float]) -> None:
        """`now_s` is a monotonic clock."""
        self.is_ready = False  # the server's settings have arrived
        self.is_closed = False
        self.reason = ""  # of the close
        self.farewell: str | None = None  # the reason of the server's GOAWAY
        settings = client_settings(options.stream_window_bytes)
        self._out = [frames.PREFACE, frames.settings_frame(settings), _first_credit()]
        self._control = ControlBudget(now_s)
        self._codec = HeaderCodec()
        self._sender = Sender()
        self.calls = CallTable(self._out, self._codec, self._sender, options)
        self._stream_window_bytes = options.stream_window_bytes
        self._owed_bytes = 0  # received, without flow control credit for the connection so far
        self._rest = b""  # the incomplete frame at the end of the last read
        self._block: HeaderBlock | None = None
        self._handlers: dict[int | None, Callable[[Any], None]] = {
            ContinuationFrame.type: self._on_continuation,
            GoAwayFrame.type: self._on_goaway,
            HeadersFrame.type: self._on_headers,
            PingFrame.type: self._on_ping,
            PushPromiseFrame.type: self._on_push_promise,
            RstStreamFrame.type: self._on_reset,
            SettingsFrame.type: self._on_settings,
            WindowUpdateFrame.type: self._on_window_update,
        }

    @property
    def is_finished(self) -> bool:
        """Whether no call runs or can begin any more."""
        return self.is_closed or (self.farewell is not None and not self.calls.has_open)

    def receive(self, data: bytes) -> None:
        if self.is_closed:
            return
        data = self._rest + data if self._rest else data
        try:
            self._rest = data[self._read_frames(data) :]
            self._credit_connection()
        except ConnectionFault as fault:
            self._out.append(frames.goaway_frame(fault.code, fault.message))
            self.lose(f"The server broke the rules of HTTP/2: {fault.message}")
        self.calls.settle()

    def data_to_send(self, *, with_bodies: bool = True) -> bytes:
        """Returns bytes to write now. Request bodies come in bursts, so that they can be stopped when the socket is
        full: then pass `with_bodies` = False for control frames and headers only."""
        out: list[bytes | memoryview] = [*self._out]
        self._out.clear()
        if with_bodies and not self.is_closed:
            bodies = list(self._sender.frames(BURST_BYTES))
            self._control.earn_for_bytes(sum(map(len, bodies)))
            out.extend(bodies)
        return b"".join(out)

    def ping(self) -> None:
        self._out.append(frames.ping_frame(b"antiphon"))

    def close(self, reason: str) -> None:
        """Ends all calls, and tells the server."""
        if not self.is_closed:
            self._out.append(frames.goaway_frame(ErrorCode.NO_ERROR))
            self.lose(reason)

    def lose(self, reason: str) -> None:
        """Ends all calls, because the server cannot be reached any more. No effect on a closed connection."""
        if not self.is_closed:
            self.is_closed, self.reason = True, reason
            self.calls.lose(reason)
            self.calls.settle()

    # ---- DATA ----

    def _read_frames(self, data: bytes) -> int:
        """Reads all complete frames, and returns the offset of the incomplete rest."""
        start, end = 0, len(data)
        reading = self.calls.reading
        while end - start >= FRAME_HEADER_BYTES:
            high, low, kind, flags, stream_id = _unpack_header(data, start)
            length = high << 8 | low
            if length > frames.FRAME_BYTES_MAX:
                raise self._too_large(length)
            content = start + FRAME_HEADER_BYTES
            stop = content + length
            if stop > end:
                break
            # The fast path, for nearly all frames. Padded frames and the last frame of a stream have flags.
            is_plain = kind == frames.DATA and flags == 0 and length and self._block is None
            if is_plain and (stream := reading.get(stream_id)):
                self._take(stream, data, content, stop)
            else:
                self._read_frame(kind, flags, stream_id & frames.STREAM_ID_MAX, data, start, stop)
            start = stop
        return start

    def _take(self, stream: Stream, data: bytes, start: int, stop: int) -> None:
        """Reads messages, or parts of them, from the payload of a DATA frame."""
        self._owe(stream, stop - start)
        if not stream.is_unsettled:
            self.calls.unsettle(stream)
        try:
            stream.messages.feed(data, start, stop)
        except GrpcError as error:
            self.calls.reset(stream, ErrorCode.CANCEL, error)

    def _owe(self, stream: Stream, size: int) -> None:
        self._owed_bytes += size
        stream.owed_bytes += size
        if stream.owed_bytes > self._stream_window_bytes:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "The server sent more than a stream's window.")

    def _credit_connection(self) -> None:
        """Credits the connection's window as data arrives, so that a paused receiver does not stop other streams."""
        if self._owed_bytes > CONNECTION_WINDOW_BYTES:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "The server sent more than the connection's window.")
        if self._owed_bytes * 2 >= CONNECTION_WINDOW_BYTES:
            self._out.append(frames.window_update_frame(0, self._owed_bytes))
            self._owed_bytes = 0

    def _on_data(self, flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        """Handles every DATA frame outside the fast path: empty, padded, the last one, of an ended stream, or before
        headers."""
        size = stop - start
        if flags & frames.PADDED:
            start, stop = frames.unpadded(data, start, stop)
        stream = self.calls.find(stream_id)
        if start == stop and (stream is None or not flags & frames.END_STREAM):
            self._control.charge(size)
        if stream is None or not stream.has_headers:
            self._owed_bytes += size
            if stream is not None:
                error = GrpcError(INTERNAL, "The server sent data before headers.")
                self.calls.reset(stream, ErrorCode.PROTOCOL_ERROR, error)
            return
        self._owe(stream, size - (stop - start))
        self._take(stream, data, start, stop)
        if flags & frames.END_STREAM and not stream.is_ended:
            self._ended_by_server(stream, outcome({}, is_only_answer=False))

    # ---- other frames ----

    def _read_frame(self, kind: int, flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        if not self.is_ready and (kind != SettingsFrame.type or flags):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "It does not begin with its settings.")
        if self._block is not None and kind != ContinuationFrame.type:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "A header block was not continued.")
        if kind == frames.DATA:
            self._on_data(flags, stream_id, data, start + FRAME_HEADER_BYTES, stop)
            return
        if kind != HeadersFrame.type:  # HEADERS are counted by their block
            self._control.charge(stop - start - FRAME_HEADER_BYTES)
        if (handler := self._handlers.get(kind)) is not None:  # unknown kinds are ignored (RFC 9113, section 4.1)
            handler(frames.parse(data, start, stop))

    def _on_headers(self, frame: HeadersFrame) -> None:
        self.calls.find(frame.stream_id)
        self._block = HeaderBlock(frame.stream_id, ends_stream="END_STREAM" in frame.flags)
        self._add_to_block(self._block, frame)

    def _on_continuation(self, frame: ContinuationFrame) -> None:
        if self._block is None or self._block.stream_id != frame.stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "A frame continues no header block.")
        self._add_to_block(self._block, frame)

    def _add_to_block(self, block: HeaderBlock, frame: HeadersFrame | ContinuationFrame) -> None:
        block.add(frame.data)
        if "END_HEADERS" in frame.flags:
            self._block = None
            headers = self._codec.decode(block.content)  # even of an ended stream, because later blocks refer to it
            if (stream := self.calls.find(block.stream_id)) is not None:
                self._control.earn_for_call()
                self._take_headers(stream, headers, ends_stream=block.ends_stream)
            else:
                self._control.charge(len(block.content))

    def _take_headers(self, stream: Stream, headers: Sequence[tuple[bytes, bytes]], *, ends_stream: bool) -> None:
        fields = fields_of(headers)
        if ends_stream:
            self._ended_by_server(stream, outcome(fields, is_only_answer=not stream.has_headers))
        elif stream.has_headers:
            error = GrpcError(INTERNAL, "The server sent trailers that do not end the call.")
            self.calls.reset(stream, ErrorCode.PROTOCOL_ERROR, error)
        elif is_informational(fields):
            stream.interim += 1
            if stream.interim > INTERIM_ITEMS_MAX:
                reason = f"It sent more than {INTERIM_ITEMS_MAX} interim responses before its answer."
                raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, reason)
        elif (fault := error_in_headers(fields)) is not None:
            self.calls.reset(stream, ErrorCode.CANCEL, fault)
        else:
            stream.begin_reading()
            self.calls.reading[stream.id] = stream

    def _ended_by_server(self, stream: Stream, error: GrpcError | None) -> None:
        if error is None and not stream.messages.is_between_messages:
            error = GrpcError(INTERNAL, "The server ended the call inside a message.")
        if self.calls.end(stream, error):  # the server does not need the rest of the request
            self._out.append(frames.reset_frame(stream.id, ErrorCode.CANCEL))

    def _on_reset(self, frame: RstStreamFrame) -> None:
        if (stream := self.calls.find(frame.stream_id)) is not None:
            self._control.earn_for_call()
            text = f"The server reset the stream: {error_code_name(frame.error_code)}."
            is_refused = frame.error_code == ErrorCode.REFUSED_STREAM
            error = GrpcError(status_of_reset(frame.error_code), text, is_unprocessed=is_refused)
            (self.calls.refuse if is_refused else self.calls.end)(stream, error)

    def _on_settings(self, frame: SettingsFrame) -> None:
        if "ACK" in frame.flags:
            return
        settings, sender = frame.settings, self._sender
        check_settings(settings)
        sender.frame_bytes_max = settings.get(SettingsFrame.MAX_FRAME_SIZE, sender.frame_bytes_max)
        if (window_bytes := settings.get(SettingsFrame.INITIAL_WINDOW_SIZE)) is not None:
            sender.set_initial_window(window_bytes)
        if (table_bytes := settings.get(SettingsFrame.HEADER_TABLE_SIZE)) is not None:
            self._codec.limit_table(table_bytes)
        self.calls.streams_max = settings.get(SettingsFrame.MAX_CONCURRENT_STREAMS, self.calls.streams_max)
        self._out.append(frames.settings_answer())
        if not self.is_ready:
            self.is_ready, self.calls.closed_reason = True, None
        self.calls.begin_waiting()

    def _on_window_update(self, frame: WindowUpdateFrame) -> None:
        if frame.stream_id == 0:
            self._sender.credit_connection(frame.window_increment)
        else:
            self.calls.find(frame.stream_id)
            self._sender.credit(frame.stream_id, frame.window_increment)

    def _on_ping(self, frame: PingFrame) -> None:
        if "ACK" not in frame.flags:
            self._out.append(frames.ping_frame(frame.opaque_data, is_answer=True))

    def _on_goaway(self, frame: GoAwayFrame) -> None:
        """The server takes no more calls. Calls that it did not process end as ConnectionLost, the others continue."""
        debug = frame.additional_data[: frames.DEBUG_BYTES_MAX].decode("ascii", errors="backslashreplace")
        self.farewell = f"The server ends the connection: {error_code_name(frame.error_code)} {debug}".rstrip()
        self.calls.refuse_above(frame.last_stream_id, self.farewell)

    def _on_push_promise(self, _frame: Frame) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "A push was promised, although our settings forbid it.")

    def _too_large(self, length: int) -> ConnectionFault:
        if not self.is_ready:
            return ConnectionFault(ErrorCode.PROTOCOL_ERROR, "It does not speak HTTP/2.")
        return ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"A frame has {length} bytes.")


def _first_credit() -> bytes:
    """Enlarges the connection's window, which SETTINGS do not affect."""
    return frames.window_update_frame(0, CONNECTION_WINDOW_BYTES - frames.WINDOW_BYTES_DEFAULT)

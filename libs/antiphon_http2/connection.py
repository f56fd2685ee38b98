"""One end of a connection, without I/O: what a client and a server have in common.

Bytes that were read go into `receive`, in order and in pieces of any size. After each call of any method the owner
writes the result of `data_to_send`, until that is empty. When `is_finished` is true and everything is written, it
closes the socket; when the socket is lost, it calls `lose`.

Frames of calls go to the methods of a subclass. Whatever a peer may send without them is bounded here: frames without
content by a ControlBudget, header blocks before and while they are decompressed, data by the windows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

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
from antiphon_http2.control_budget import ControlBudget
from antiphon_http2.frames import FRAME_HEADER_BYTES, ConnectionFault
from antiphon_http2.header_codec import HeaderBlock, HeaderCodec, Headers
from antiphon_http2.limits import BURST_BYTES, CONNECTION_WINDOW_BYTES
from antiphon_http2.sending import Sender
from antiphon_http2.settings import check_settings
from antiphon_http2.statuses import ErrorCode

HEAD_ITEMS = 15  # of work, for a block besides its bytes: a call that is begun and rejected takes 60 to 100 us
ITEM_BYTES = 64  # of payloads, for one item of work
_BODY_BYTES = 4  # charged for each body whose window a SETTINGS frame changes, which takes 0.1 us
_unpack_header = frames.FRAME_HEADER.unpack_from


class Receiver(Protocol):
    """A stream, as a connection needs it."""

    id: int
    owed_bytes: int  # received, without flow control credit so far


class Connection:
    """The base of both ends. `_reading` has the streams that may receive data."""

    peer = "peer"

    def __init__(
        self,
        now_s: Callable[[], float],
        *,
        stream_window_bytes: int,
        block_bytes_max: int,
        header_list_bytes_max: int,
        step_items_max: int = sys.maxsize,
        on_empty: Callable[[int], None] | None = None,
    ) -> None:
        """`now_s` is a monotonic clock. `step_items_max` limits the frames that one call of `receive` handles.
        `on_empty` is passed to the Sender."""
        self.is_ready = False  # the peer's settings have arrived
        self.has_unread = False  # the step ended before the bytes; the owner calls `receive` again, perhaps with none
        self.unfinished_since_s: float | None = None  # the begin of a frame or header block that has not ended
        self.is_closed = False
        self.reason = ""  # of the close
        self._out: list[bytes] = []
        self._now_s = now_s
        self._control = ControlBudget(now_s)
        self._codec = HeaderCodec(header_list_bytes_max)
        self._sender = Sender(on_empty)
        self._reading: dict[int, Any] = {}
        self._stream_window_bytes = stream_window_bytes
        self._block_bytes_max = block_bytes_max
        self._step_items_max = step_items_max
        self.work_items = 0  # of the last step
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

    def receive(self, data: bytes) -> None:
        if self.is_closed:
            return
        data = self._rest + data if self._rest else data
        try:
            size = self._read_frames(data)
            self._rest = data[size:]
            self._note_unfinished(has_progress=size > 0)
            self._credit_connection()
        except ConnectionFault as fault:
            self._out.append(frames.goaway_frame(fault.code, fault.message, last_id=self._last_id))
            self.lose(f"The {self.peer} broke the rules of HTTP/2: {fault.message}")
        self._settle()

    def data_to_send(self, *, with_bodies: bool = True) -> bytes:
        """Returns bytes to write now. Bodies come in bursts, so that they can be stopped when the socket is full: then
        pass `with_bodies` = False for control frames and headers only."""
        out = b"".join(self._out)
        self._out.clear()
        if with_bodies and self._sender.is_ready and not self.is_closed:
            bodies = b"".join(self._sender.frames(BURST_BYTES))
            self._control.earn_for_bytes(len(bodies))
            return out + bodies if out else bodies
        return out

    def ping(self) -> None:
        self._out.append(frames.ping_frame(b"antiphon"))

    def close(self, reason: str) -> None:
        """Ends all calls, and tells the peer."""
        if not self.is_closed:
            self._out.append(frames.goaway_frame(ErrorCode.NO_ERROR, last_id=self._last_id))
            self.lose(reason)

    def lose(self, reason: str) -> None:
        """Ends all calls, because the peer cannot be reached any more. No effect on a closed connection."""
        if not self.is_closed:
            self.is_closed, self.reason = True, reason
            self.has_unread, self._rest = False, b""
            self._on_lost(reason)
            self._settle()

    # ---- for subclasses ----

    @property
    def _last_id(self) -> int:
        """The last stream of the peer that was processed."""
        return 0

    def _settle(self) -> None:
        """Called after each read, and when the connection is lost."""

    def _on_lost(self, reason: str) -> None:
        raise NotImplementedError

    def _find(self, stream_id: int) -> Any:
        """The stream of a frame; None if it has ended. ConnectionFault: it never began."""
        raise NotImplementedError

    def _takes_data(self, stream: Any) -> bool:
        """Whether DATA may come for a stream. If not, the stream is ended here."""
        raise NotImplementedError

    def _take(self, stream: Any, data: bytes, start: int, stop: int) -> None:
        """Reads messages, or parts of them, from the payload of a DATA frame."""
        raise NotImplementedError

    def _take_late(self, size: int) -> None:
        """Counts data of a stream that has ended."""

    def _on_end_of_data(self, stream: Any) -> None:
        """Handles END_STREAM in a DATA frame."""
        raise NotImplementedError

    def _on_block(self, block: HeaderBlock, headers: Headers) -> None:
        raise NotImplementedError

    def _on_reset(self, frame: RstStreamFrame) -> None:
        raise NotImplementedError

    def _on_goaway(self, frame: GoAwayFrame) -> None:
        raise NotImplementedError

    def _on_peer_settings(self, settings: Mapping[int, int]) -> None:
        """Handles settings of the peer that are not flow control's."""

    def _on_ping_answer(self, content: bytes) -> None:
        """Handles the answer to a ping."""

    # ---- DATA ----

    def _read_frames(self, data: bytes) -> int:
        """Reads the complete frames of one step, and returns the offset of the rest."""
        start, end = 0, len(data)
        reading = self._reading
        self.work_items, self.has_unread = 0, False
        while end - start >= FRAME_HEADER_BYTES:
            if self.work_items >= self._step_items_max:
                self.has_unread = True
                break
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
                self._owe(stream, length)
                self._take(stream, data, content, stop)
            else:
                self._read_frame(kind, flags, stream_id & frames.STREAM_ID_MAX, data, start, stop)
            start = stop
        return start

    def _note_unfinished(self, *, has_progress: bool) -> None:
        """Notes when the frame began whose end has not come. The frames of one header block are one: they could
        otherwise be continued for ever, also without bytes."""
        if self.has_unread or not (self._rest or self._block is not None):
            self.unfinished_since_s = None
        elif self.unfinished_since_s is None or (has_progress and self._block is None):
            self.unfinished_since_s = self._now_s()

    def _owe(self, stream: Receiver, size: int) -> None:
        self._owed_bytes += size
        stream.owed_bytes += size
        if stream.owed_bytes > self._stream_window_bytes:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"The {self.peer} sent more than a stream's window.")

    def _credit_connection(self) -> None:
        """Credits the connection's window as data arrives, so that a paused receiver does not stop other streams."""
        if self._owed_bytes > CONNECTION_WINDOW_BYTES:
            text = f"The {self.peer} sent more than the connection's window."
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, text)
        if self._owed_bytes * 2 >= CONNECTION_WINDOW_BYTES:
            self._out.append(frames.window_update_frame(0, self._owed_bytes))
            self._owed_bytes = 0

    def _on_data(self, flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        """Handles every DATA frame outside the fast path: empty, padded, the last one, or of a stream that has ended or
        may not receive data yet."""
        size = stop - start
        if flags & frames.PADDED:
            start, stop = frames.unpad(data, start, stop)
        stream = self._find(stream_id)
        if start == stop and (stream is None or not flags & frames.END_STREAM):
            self._control.charge(size)
        if stream is None or not self._takes_data(stream):
            self._owed_bytes += size
            self._take_late(size)
            return
        self._owe(stream, size)
        self._take(stream, data, start, stop)
        if flags & frames.END_STREAM and not stream.is_ended:
            self._on_end_of_data(stream)

    # ---- other frames ----

    def _read_frame(self, kind: int, flags: int, stream_id: int, data: bytes, start: int, stop: int) -> None:
        self.work_items += 1 + (stop - start) // ITEM_BYTES
        if not self.is_ready and (kind != SettingsFrame.type or flags):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "It does not begin with its settings.")
        if self._block is not None and kind != ContinuationFrame.type:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "A header block was not continued.")
        if kind == frames.DATA:
            self._on_data(flags, stream_id, data, start + FRAME_HEADER_BYTES, stop)
            return
        if kind == frames.HEADERS and not flags & (frames.PADDED | frames.PRIORITY):
            self._begin_block(stream_id, flags, data[start + FRAME_HEADER_BYTES : stop])
            return
        if kind != frames.HEADERS:  # HEADERS are counted by their block
            self._control.charge(stop - start - FRAME_HEADER_BYTES)
        if (handler := self._handlers.get(kind)) is not None:  # unknown kinds are ignored (RFC 9113, section 4.1)
            handler(frames.parse(data, start, stop))

    def _on_headers(self, frame: HeadersFrame) -> None:
        """Handles headers with padding or a priority."""
        flags = frames.END_STREAM if "END_STREAM" in frame.flags else 0
        flags |= frames.END_HEADERS if "END_HEADERS" in frame.flags else 0
        self._begin_block(frame.stream_id, flags, frame.data)

    def _begin_block(self, stream_id: int, flags: int, piece: bytes) -> None:
        ends_stream = bool(flags & frames.END_STREAM)
        self._block = HeaderBlock(stream_id, ends_stream=ends_stream, bytes_max=self._block_bytes_max)
        self._add_to_block(self._block, piece, is_last=bool(flags & frames.END_HEADERS))

    def _on_continuation(self, frame: ContinuationFrame) -> None:
        if self._block is None or self._block.stream_id != frame.stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "A frame continues no header block.")
        self._add_to_block(self._block, frame.data, is_last="END_HEADERS" in frame.flags)

    def _add_to_block(self, block: HeaderBlock, piece: bytes, *, is_last: bool) -> None:
        block.add(piece)
        if is_last:
            self._block = None
            # Even the block of an ended stream is decoded, because later blocks refer to it.
            headers = self._codec.decode(block.content)
            self.work_items += HEAD_ITEMS + len(headers)
            self._on_block(block, headers)

    def _on_settings(self, frame: SettingsFrame) -> None:
        if "ACK" in frame.flags:
            return
        settings, sender = frame.settings, self._sender
        check_settings(settings)
        sender.frame_bytes_max = settings.get(SettingsFrame.MAX_FRAME_SIZE, sender.frame_bytes_max)
        if (window_bytes := settings.get(SettingsFrame.INITIAL_WINDOW_SIZE)) is not None:
            self._control.charge(_BODY_BYTES * sender.set_initial_window(window_bytes))
        if (table_bytes := settings.get(SettingsFrame.HEADER_TABLE_SIZE)) is not None:
            self._codec.limit_table(table_bytes)
        self._out.append(frames.settings_answer())
        self._on_peer_settings(settings)
        self.is_ready = True

    def _on_window_update(self, frame: WindowUpdateFrame) -> None:
        if frame.stream_id == 0:
            self._sender.credit_connection(frame.window_increment)
        else:
            self._find(frame.stream_id)
            self._sender.credit(frame.stream_id, frame.window_increment)

    def _on_ping(self, frame: PingFrame) -> None:
        if "ACK" in frame.flags:
            self._on_ping_answer(frame.opaque_data)
        else:
            self._out.append(frames.ping_frame(frame.opaque_data, is_answer=True))

    def _on_push_promise(self, _frame: Frame) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "A push was promised, although it is not allowed.")

    def _too_large(self, length: int) -> ConnectionFault:
        if not self.is_ready:
            return ConnectionFault(ErrorCode.PROTOCOL_ERROR, "It does not speak HTTP/2.")
        return ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"A frame has {length} bytes.")


def first_credit() -> bytes:
    """Enlarges the connection's window, which SETTINGS do not affect."""
    return frames.window_update_frame(0, CONNECTION_WINDOW_BYTES - frames.WINDOW_BYTES_DEFAULT)

"""The calls of one connection: those that have a stream, and those that wait until the server allows one more.

While frames are read, changed streams are only noted (`unsettle`). `settle` then processes each of them: its receiver
gets all its messages in one call, the server gets flow control credit, and if the stream has ended, its `on_end` is
called. Callbacks may call `open`, `cancel`, `pause` and `resume`.

A stream with very many messages gets a slice of them, and `settle_rest` has to be called in the next iteration of the
event loop: 50,000 messages fit into one read, and other streams must not wait for them. Until then the server gets no
credit for that stream.
"""

from __future__ import annotations

from collections import deque

from antiphon_http2 import frames
from antiphon_http2.client.options import Options
from antiphon_http2.client.requests import Request
from antiphon_http2.client.stream import OnEnd, Receive, Stream
from antiphon_http2.errors import ConnectionLost, GrpcError
from antiphon_http2.frames import ConnectionFault
from antiphon_http2.header_codec import HeaderCodec
from antiphon_http2.sending import Sender
from antiphon_http2.statuses import ErrorCode

_REFUSALS_MAX = 10  # of one call
_STREAMS_UNLIMITED = 2**32  # the limit until the server's settings arrive


class CallTable:
    """The calls of a connection. Frames to send are appended to `out`, except bodies, which `sender` keeps until flow
    control allows to send them."""

    def __init__(self, out: list[bytes], codec: HeaderCodec, sender: Sender, options: Options) -> None:
        self.reading: dict[int, Stream] = {}  # streams that may receive messages
        self.streams_max = _STREAMS_UNLIMITED
        self.closed_reason: str | None = "The connection is not ready."  # why no call can begin; None if one can
        self.is_held = False  # a stream was refused: nothing begins until `begin_again`
        self._out = out
        self._codec = codec
        self._sender = sender
        self._options = options
        self._open: dict[int, Stream] = {}
        self._waiting: deque[Stream] = deque()
        self._unsettled: list[Stream] = []
        self._behind: list[Stream] = []
        self._next_id = 1

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    @property
    def is_behind(self) -> bool:
        """Whether `settle_rest` has to be called."""
        return bool(self._behind)

    # ---- for callers ----

    @property
    def can_open(self) -> bool:
        return self.closed_reason is None and self._next_id <= frames.STREAM_ID_MAX

    def open(self, request: Request, receive: Receive, on_end: OnEnd) -> Stream:
        """Begins a call, at once or when the server allows one more stream. ConnectionLost: this connection takes no
        calls."""
        if not self.can_open:
            raise ConnectionLost(self.closed_reason or "The connection has had all its streams.", is_unprocessed=True)
        stream = Stream(request, receive, on_end, message_bytes_max=self._options.message_bytes_max)
        self._waiting.append(stream)
        self.begin_waiting()
        return stream

    def cancel(self, stream: Stream, error: Exception) -> bool:
        """Ends a call with this error, and drops messages that were not delivered. False: it had ended before."""
        if stream.is_reported:
            return False
        stream.drop_messages()
        if stream.is_ended:
            stream.outcome = error
            self.unsettle(stream)
        else:
            self.reset(stream, ErrorCode.CANCEL, error)
        self.settle()
        return True

    def pause(self, stream: Stream) -> None:
        """Stops the delivery of messages and the flow control credit for the server."""
        stream.is_paused = True

    def resume(self, stream: Stream) -> None:
        stream.is_paused = False
        self.unsettle(stream)
        self.settle()

    # ---- for the connection ----

    def find(self, stream_id: int) -> Stream | None:
        """The stream of a frame; None if it has ended. ConnectionFault: the client never opened this stream."""
        if stream_id % 2 == 0 or stream_id >= self._next_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"A frame belongs to stream {stream_id}, which is none.")
        return self._open.get(stream_id)

    def begin_waiting(self) -> None:
        """Begins waiting calls, as many as the server's settings allow."""
        while self._waiting and not self.is_held and self.can_open and len(self._open) < self.streams_max:
            stream = self._waiting.popleft()
            stream.id, self._next_id = self._next_id, self._next_id + 2
            self._open[stream.id] = stream
            block = self._codec.encode(stream.headers)
            self._out.extend(frames.headers_frames(stream.id, block, self._sender.frame_bytes_max))
            self._sender.add(stream.id, stream.body)

    def end(self, stream: Stream, error: Exception | None) -> bool:
        """Ends a stream that receives no more frames. Returns whether part of its request was not sent."""
        self._open.pop(stream.id, None)
        self.reading.pop(stream.id, None)
        stream.end(error)
        self.unsettle(stream)
        has_rest = self._sender.drop(stream.id)
        self.begin_waiting()
        return has_rest

    def refuse(self, stream: Stream, error: GrpcError) -> None:
        """Lets a call that the server refused (REFUSED_STREAM) wait, to be sent again. It ends with `error`
        after _REFUSALS_MAX refusals, or if it cannot be sent again.

        gRPC's own server refuses streams for which it has just made room: while its process is busy, it counts a stream
        that it ended for some milliseconds longer. So no call begins until `begin_again`.
        """
        stream.refusals += 1
        if stream.has_headers or stream.refusals > _REFUSALS_MAX or not self.can_open:
            self.end(stream, error)
            return
        del self._open[stream.id]
        self._sender.drop(stream.id)
        stream.id = 0
        self._waiting.appendleft(stream)
        self.is_held = True

    def begin_again(self) -> None:
        """Lets calls begin again, some time after a stream was refused."""
        self.is_held = False
        self.begin_waiting()

    def reset(self, stream: Stream, code: ErrorCode, error: Exception) -> None:
        """Ends a stream by the client, with RST_STREAM if the server knows it."""
        if stream.id:
            self._out.append(frames.reset_frame(stream.id, code))
        else:
            self._waiting.remove(stream)
        self.end(stream, error)

    def refuse_above(self, last_id: int, reason: str) -> None:
        """Takes no more calls, and ends those that the server did not process: waiting ones, and ids above
        `last_id`."""
        self.closed_reason = reason
        waiting, self._waiting = self._waiting, deque()
        unbegun = [stream for stream in self._open.values() if stream.id > last_id]
        for stream in (*unbegun, *waiting):
            self.end(stream, ConnectionLost(reason, is_unprocessed=True))

    def lose(self, reason: str) -> None:
        """Ends all calls: the connection is gone."""
        self.refuse_above(frames.STREAM_ID_MAX, reason)
        for stream in list(self._open.values()):
            self.end(stream, ConnectionLost(reason))

    # ---- settling ----

    def unsettle(self, stream: Stream) -> None:
        if not stream.is_unsettled:
            stream.is_unsettled = True
            self._unsettled.append(stream)

    def settle(self) -> None:
        while self._unsettled:
            unsettled, self._unsettled = self._unsettled, []
            for stream in unsettled:
                self._settle_stream(stream)

    def settle_rest(self) -> None:
        """Processes the next slice of each stream that has messages left."""
        self._unsettled += self._behind
        self._behind.clear()
        self.settle()

    def _settle_stream(self, stream: Stream) -> None:
        stream.is_unsettled = False
        try:
            stream.deliver()
        except Exception as error:  # noqa: BLE001 - an error in a receiver ends only its own call
            self.cancel(stream, error)
        if stream.is_behind:
            stream.is_unsettled = True
            self._behind.append(stream)
            return
        if not stream.is_ended and not stream.is_paused and stream.owed_bytes * 2 >= self._options.stream_window_bytes:
            self._out.append(frames.window_update_frame(stream.id, stream.owed_bytes))
            stream.owed_bytes = 0
        stream.report()

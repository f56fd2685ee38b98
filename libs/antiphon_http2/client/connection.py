"""The client's end of a connection to a gRPC server: callbacks for messages and ends of calls.

The owner must not call `receive` from within a callback. The other rules are those of `antiphon_http2.connection`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hyperframe.frame import GoAwayFrame, RstStreamFrame, SettingsFrame

from antiphon_http2 import frames
from antiphon_http2.client.call_table import CallTable
from antiphon_http2.client.options import Options
from antiphon_http2.client.responses import error_in_headers, fields_of, is_informational, outcome
from antiphon_http2.client.stream import Stream
from antiphon_http2.connection import Connection, first_credit
from antiphon_http2.errors import GrpcError
from antiphon_http2.frames import ConnectionFault
from antiphon_http2.header_codec import HeaderBlock, Headers
from antiphon_http2.limits import ANSWER_HEADERS_BYTES_MAX, INTERIM_ITEMS_MAX
from antiphon_http2.settings import client_settings
from antiphon_http2.statuses import INTERNAL, ErrorCode, error_code_name, status_of_reset


class ClientConnection(Connection):
    """`calls` begins and ends the calls of the connection."""

    peer = "server"

    def __init__(self, options: Options, now_s: Callable[[], float]) -> None:
        """`now_s` is a monotonic clock."""
        super().__init__(
            now_s,
            stream_window_bytes=options.stream_window_bytes,
            block_bytes_max=ANSWER_HEADERS_BYTES_MAX,
            header_list_bytes_max=ANSWER_HEADERS_BYTES_MAX,
        )
        self.farewell: str | None = None  # the reason of the server's GOAWAY
        settings = frames.settings_frame(client_settings(options.stream_window_bytes))
        self._out += [frames.PREFACE, settings, first_credit()]
        self.calls = CallTable(self._out, self._codec, self._sender, options)
        self._reading = self.calls.reading

    @property
    def is_finished(self) -> bool:
        """Whether no call runs or can begin any more."""
        return self.is_closed or (self.farewell is not None and not self.calls.has_open)

    def _settle(self) -> None:
        self.calls.settle()

    def _on_lost(self, reason: str) -> None:
        self.calls.lose(reason)

    def _find(self, stream_id: int) -> Stream | None:
        return self.calls.find(stream_id)

    # ---- DATA ----

    def _takes_data(self, stream: Stream) -> bool:
        if not stream.has_headers:
            error = GrpcError(INTERNAL, "The server sent data before headers.")
            self.calls.reset(stream, ErrorCode.PROTOCOL_ERROR, error)
        return stream.has_headers

    def _take(self, stream: Stream, data: bytes, start: int, stop: int) -> None:
        if not stream.is_unsettled:
            self.calls.unsettle(stream)
        try:
            stream.messages.feed(data, start, stop)
        except GrpcError as error:
            self.calls.reset(stream, ErrorCode.CANCEL, error)

    def _on_end_of_data(self, stream: Stream) -> None:
        self._ended_by_server(stream, outcome({}, is_only_answer=False))

    # ---- headers and trailers ----

    def _on_block(self, block: HeaderBlock, headers: Headers) -> None:
        if (stream := self.calls.find(block.stream_id)) is not None:
            self._control.earn_for_call()
            self._take_headers(stream, headers, ends_stream=block.ends_stream)
        else:
            self._control.charge(len(block.content))

    def _take_headers(self, stream: Stream, headers: Headers, *, ends_stream: bool) -> None:
        fields = fields_of(headers)
        if ends_stream:
            stream.trailers = fields
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

    # ---- other frames ----

    def _on_peer_settings(self, settings: Mapping[int, int]) -> None:
        if settings.get(SettingsFrame.ENABLE_PUSH, 0):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "A server cannot enable pushes.")
        self.calls.streams_max = settings.get(SettingsFrame.MAX_CONCURRENT_STREAMS, self.calls.streams_max)
        if not self.is_ready:
            self.calls.closed_reason = None
        self.calls.begin_waiting()

    def _on_goaway(self, frame: GoAwayFrame) -> None:
        """The server takes no more calls. Calls that it did not process end as ConnectionLost, the others continue."""
        debug = frame.additional_data[: frames.DEBUG_BYTES_MAX].decode("ascii", errors="backslashreplace")
        self.farewell = f"The server ends the connection: {error_code_name(frame.error_code)} {debug}".rstrip()
        self.calls.refuse_above(frame.last_stream_id, self.farewell)

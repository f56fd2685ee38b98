"""Frames of HTTP/2 (RFC 9113): the frame header, frames to send, and errors in received frames.

hyperframe reads and writes all frames but DATA and HEADERS. There is a DATA frame for every token, and making an object
for each would take longer than all other work for a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct

from hyperframe.exceptions import HyperframeError, InvalidDataError
from hyperframe.frame import (
    Frame,
    GoAwayFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from antiphon_http2.statuses import ErrorCode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA = 0x0
HEADERS = 0x1
CONTINUATION = 0x9
END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20
FRAME_HEADER = Struct(">HBBBL")  # length in two parts, kind, flags, stream
FRAME_HEADER_BYTES = FRAME_HEADER.size
FRAME_BYTES_MAX = 2**14  # of a payload; the default of both sides, which our settings keep
WINDOW_BYTES_DEFAULT = 2**16 - 1
WINDOW_BYTES_MAX = 2**31 - 1
STREAM_ID_MAX = 2**31 - 1
DEBUG_BYTES_MAX = 200


class ConnectionFault(Exception):
    """The peer violated the protocol. The connection ends with a GOAWAY with this code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def parse(data: bytes, start: int, stop: int) -> Frame:
    """Parses data[start:stop] as one frame. ConnectionFault: it is malformed."""
    try:
        frame, _length = Frame.parse_frame_header(memoryview(data)[start : start + FRAME_HEADER_BYTES])
        frame.parse_body(memoryview(data)[start + FRAME_HEADER_BYTES : stop])
    except InvalidDataError as error:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, str(error)) from error
    except HyperframeError as error:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, str(error)) from error
    return frame


def unpad(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """(start, stop) of the content in a padded payload. ConnectionFault: the padding is too long."""
    if start == stop or data[start] >= stop - start:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "A frame has more padding than bytes.")
    return start + 1, stop - data[start]


def data_frame_header(stream_id: int, length: int, *, is_last: bool) -> bytes:
    return FRAME_HEADER.pack(length >> 8, length & 0xFF, DATA, END_STREAM if is_last else 0, stream_id)


def headers_frames(stream_id: int, block: bytes, frame_bytes_max: int, *, ends_stream: bool = False) -> Iterator[bytes]:
    """The frames of headers or trailers."""
    kind, flags = HEADERS, END_STREAM if ends_stream else 0
    for at in range(0, len(block), frame_bytes_max):
        piece = block[at : at + frame_bytes_max]
        if at + frame_bytes_max >= len(block):
            flags |= END_HEADERS
        yield FRAME_HEADER.pack(len(piece) >> 8, len(piece) & 0xFF, kind, flags, stream_id) + piece
        kind, flags = CONTINUATION, 0


def settings_frame(settings: Mapping[int, int]) -> bytes:
    return SettingsFrame(settings=dict(settings)).serialize()


def settings_answer() -> bytes:
    return SettingsFrame(flags=["ACK"]).serialize()


def ping_frame(content: bytes, *, is_answer: bool = False) -> bytes:
    return PingFrame(opaque_data=content, flags=["ACK"] if is_answer else []).serialize()


def window_update_frame(stream_id: int, increment: int) -> bytes:
    return WindowUpdateFrame(stream_id, increment).serialize()


def reset_frame(stream_id: int, code: ErrorCode) -> bytes:
    return RstStreamFrame(stream_id, int(code)).serialize()


def goaway_frame(code: ErrorCode, message: str = "", *, last_id: int = 0) -> bytes:
    """`last_id` is the last stream of the peer that was or may be processed."""
    debug = message.encode()[:DEBUG_BYTES_MAX]
    return GoAwayFrame(last_stream_id=last_id, error_code=int(code), additional_data=debug).serialize()

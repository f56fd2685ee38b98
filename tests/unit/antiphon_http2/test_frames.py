from __future__ import annotations

import pytest
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, PingFrame

from antiphon_http2 import frames
from antiphon_http2.frames import ConnectionFault
from antiphon_http2.statuses import ErrorCode


def test_data_frame_header_is_what_hyperframe_writes() -> None:
    content = b"x" * 70_000
    for is_last in (False, True):
        frame = DataFrame(7, content, flags=["END_STREAM"] if is_last else [])
        assert frames.data_frame_header(7, len(content), is_last=is_last) + content == frame.serialize()


def test_large_header_block_is_continued() -> None:
    first, second, third = frames.headers_frames(3, b"x" * 25, 10)
    assert [Frame.parse_frame_header(memoryview(frame)[:9])[1] for frame in (first, second, third)] == [10, 10, 5]
    kinds = [Frame.parse_frame_header(memoryview(frame)[:9])[0] for frame in (first, second, third)]
    assert [type(kind).__name__ for kind in kinds] == ["HeadersFrame", "ContinuationFrame", "ContinuationFrame"]
    assert ["END_HEADERS" in kind.flags for kind in kinds] == [False, False, True]


def test_parse_reads_a_frame_inside_other_bytes() -> None:
    frame = frames.parse(b"before" + PingFrame(opaque_data=b"12345678").serialize() + b"after", 6, 23)
    assert isinstance(frame, PingFrame)
    assert frame.opaque_data == b"12345678"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\0\0\x01\x06\0\0\0\0\0x", ErrorCode.FRAME_SIZE_ERROR),  # a ping of one byte
        (b"\0\0\x04\x08\0\0\0\0\0\0\0\0\0", ErrorCode.PROTOCOL_ERROR),  # credit of zero bytes
        (b"\0\0\x04\x03\0\0\0\0\0\0\0\0\0", ErrorCode.PROTOCOL_ERROR),  # a reset of no stream
    ],
)
def test_malformed_frame_is_a_fault(frame: bytes, code: ErrorCode) -> None:
    with pytest.raises(ConnectionFault) as caught:
        frames.parse(frame, 0, len(frame))
    assert caught.value.code == code


def test_padding_is_left_out() -> None:
    payload = b"..\x03content\0\0\0"
    start, stop = frames.unpad(payload, 2, len(payload))
    assert payload[start:stop] == b"content"
    assert frames.unpad(b"\x02\0\0", 0, 3) == (1, 1)


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x05abc"])
def test_padding_beyond_the_frame_is_a_fault(payload: bytes) -> None:
    with pytest.raises(ConnectionFault):
        frames.unpad(payload, 0, len(payload))


def test_goaway_carries_a_short_reason() -> None:
    data = frames.goaway_frame(ErrorCode.PROTOCOL_ERROR, "x" * 1_000)
    frame = frames.parse(data, 0, len(data))
    assert isinstance(frame, GoAwayFrame)
    assert frame.additional_data == b"x" * frames.DEBUG_BYTES_MAX

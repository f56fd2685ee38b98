from __future__ import annotations

import pytest

from antiphon_edge.http.zstd_frames import buffer_bytes

MAGIC = b"\x28\xb5\x2f\xfd"
HEADERS = [
    (b"\x00\x00", 2**10),
    (b"\x00\x68", 2**23),
    (b"\x00\x0f", 2**11 + 7 * 2**8),  # with a mantissa
    (b"\x03\x68ABCD", 2**23),  # with a dictionary's id
    (b"\x40\x68\x01\x00", 257),  # content of 257 bytes
    (b"\x82\x68AB\x00\x00\x00\x01", 2**23),  # content of 16 MiB, larger than the window
    (b"\x20\x09", 9),  # a single segment
    (b"\x61A\x00\x01", 512),
    (b"\xa0\x00\x00\x10\x00", 2**20),
    (b"\xe0\x00\x00\x00\x00\x00\x00\x00\x01", 2**56),
]


@pytest.mark.parametrize(("header", "size"), HEADERS)
def test_a_frame_needs_its_window_or_its_content(header: bytes, size: int) -> None:
    frame = MAGIC + header
    assert [buffer_bytes(frame[:end]) for end in range(len(frame))] == [None] * len(frame)
    assert buffer_bytes(frame) == buffer_bytes(frame + b"more") == size


@pytest.mark.parametrize("head", [b"\x50\x2a\x4d\x18", b"{", b"\x28\xb6"])
def test_skipped_and_other_frames_need_no_buffer(head: bytes) -> None:
    assert buffer_bytes(head) == 0

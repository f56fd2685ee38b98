from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from yarl import URL

from antiphon_edge.http.masking import MaskedFrames
from tests.support.edge import RunningEdge
from tests.support.raw_http import head

UPGRADE = head(
    b"GET /v1/responses",
    b"Connection: upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)
PING, TEXT, CLOSE = 0x89, 0x81, 0x88
PROTOCOL_ERROR = (1002).to_bytes(2)
SIZES = [0, 1, 125, 126, 65_535, 65_536]


@dataclass
class Seen:
    """A reader that keeps what it gets."""

    data: bytearray = field(default_factory=bytearray)
    is_over: bool = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        self.is_over = True


def frame(first: int, payload: bytes, *, masked: bool = True) -> bytes:
    """A frame whose mask is zeros, which leave the payload unchanged."""
    size, bit = len(payload), 0x80 if masked else 0
    if size < 126:
        length = bytes([bit | size])
    elif size < 2**16:
        length = bytes([bit | 126]) + size.to_bytes(2)
    else:
        length = bytes([bit | 127]) + size.to_bytes(8)
    return bytes([first]) + length + (bytes(4) if masked else b"") + payload


def fed(stream: bytes, cuts: list[int]) -> Seen:
    seen = Seen()
    frames = MaskedFrames(seen)
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        assert frames.feed_data(stream[begin:end]) == (False, b"")
    frames.feed_eof()
    assert seen.is_over
    return seen


@pytest.mark.parametrize("seed", range(10))
def test_masked_frames_are_passed_on_unchanged_at_any_cut(seed: int) -> None:
    stream = b"".join(frame(TEXT, b"x" * size) for size in SIZES)
    cuts = sorted(random.Random(seed).choices(range(len(stream)), k=40) + list(range(20)))
    assert fed(stream, cuts).data == stream


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("whole", [True, False])
def test_first_unmasked_frame_is_replaced_by_an_invalid_one(size: int, whole: bool) -> None:
    good = frame(PING, b"a") + frame(TEXT, b"x" * 200)
    stream = good + frame(TEXT, b"y" * size, masked=False) + b"z"
    cuts = [] if whole else list(range(len(good) + 2))
    assert fed(stream[: len(good) + 2], cuts).data == good + b"\x70\x00"
    assert b"y" not in fed(stream, []).data


@pytest.mark.parametrize("before", [b"", frame(PING, b"a")])
async def test_a_client_that_does_not_mask_is_closed_with_1002(edge: RunningEdge, before: bytes) -> None:
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(UPGRADE)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    writer.write(before + frame(TEXT, b'{"type": "response.create", "model": "m", "input": "hi"}', masked=False))
    async with asyncio.timeout(30):
        pong = b"\x8a\x01a" if before else b""
        assert await reader.readexactly(len(pong)) == pong
        first, size = await reader.readexactly(2)
        assert first == CLOSE
        assert (await reader.readexactly(size))[:2] == PROTOCOL_ERROR
    writer.close()
    assert edge.translator.turns == []


class Bound:
    """A listener with room for so many bytes of one message."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.held = 0
        self.ends = 0

    def grow(self, size: int) -> bool:
        self.held += size
        return self.held <= self.room

    def end(self) -> None:
        self.held = 0
        self.ends += 1


@pytest.mark.parametrize("cut", [1, 3, 10_000])
def test_messages_count_until_they_are_complete(cut: int) -> None:
    seen, bound = Seen(), Bound(300)
    frames = MaskedFrames(seen)
    frames.listener = bound
    not_last, continued = TEXT & 0x7F, 0x80
    stream = (
        frame(TEXT, b"x" * 200) + frame(not_last, b"y" * 200) + frame(PING, b"p" * 99) + frame(continued, b"z" * 100)
    )
    for begin in range(0, len(stream), cut):
        assert frames.feed_data(stream[begin : begin + cut]) == (False, b"")
    assert (bytes(seen.data), bound.held, bound.ends) == (stream, 0, 2)


def test_a_message_without_room_is_not_handed_on() -> None:
    seen = Seen()
    frames = MaskedFrames(seen)
    frames.listener = Bound(100)
    frames.feed_data(frame(TEXT, b"x" * 101))
    assert frames.feed_data(b"more") == (True, b"")
    assert b"x" not in seen.data

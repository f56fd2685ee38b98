from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from yarl import URL

from antiphon_edge.http import socket_frames
from antiphon_edge.http.socket_frames import CheckedFrames, Violation
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
    frames = CheckedFrames(seen, lambda: 0.0)
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames.feed_data(stream[begin:end])
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
def test_nothing_is_passed_on_from_the_first_unmasked_frame(size: int, whole: bool) -> None:
    good = frame(PING, b"a") + frame(TEXT, b"x" * 200)
    stream = good + frame(TEXT, b"y" * size, masked=False) + good
    cuts = [] if whole else list(range(len(good) + 4))
    assert fed(stream, cuts).data == good


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
        self.violations: list[Violation] = []

    def grow(self, size: int) -> bool:
        self.held += size
        return self.held <= self.room

    def end(self) -> None:
        self.held = 0
        self.ends += 1

    def fail(self, violation: Violation) -> None:
        self.violations.append(violation)


@pytest.mark.parametrize("cut", [1, 3, 10_000])
def test_messages_count_until_they_are_complete(cut: int) -> None:
    seen, bound = Seen(), Bound(300)
    frames = CheckedFrames(seen, lambda: 0.0)
    frames.watch(bound)
    not_last, continued = TEXT & 0x7F, 0x80
    stream = (
        frame(TEXT, b"x" * 200) + frame(not_last, b"y" * 200) + frame(PING, b"p" * 99) + frame(continued, b"z" * 100)
    )
    for begin in range(0, len(stream), cut):
        assert frames.feed_data(stream[begin : begin + cut]) == (False, b"")
    assert (bytes(seen.data), bound.held, bound.ends) == (stream, 0, 2)


def test_a_message_without_room_is_not_handed_on() -> None:
    seen, bound = Seen(), Bound(100)
    frames = CheckedFrames(seen, lambda: 0.0)
    frames.watch(bound)
    frames.feed_data(frame(TEXT, b"x" * 101))
    assert frames.feed_data(b"more") == (True, b"")
    assert b"x" not in seen.data
    assert bound.violations == [socket_frames.NO_ROOM]


def test_frames_after_a_drop_are_not_handed_on_and_hold_no_bytes() -> None:
    seen, bound = Seen(), Bound(100)
    frames = CheckedFrames(seen, lambda: 0.0)
    frames.watch(bound)
    frames.feed_data(frame(TEXT, b"x" * 50)[:-10])
    before = bytes(seen.data)
    frames.drop()
    assert frames.feed_data(b"x" * 10 + frame(TEXT, b"y")) == (True, b"")
    assert (bytes(seen.data), bound.held, bound.violations) == (before, 0, [])


CONTINUED = 0x00
COUNTED = {
    "fragments": (CONTINUED, socket_frames.FRAGMENTS_MAX - 1, socket_frames.TOO_MANY_FRAGMENTS),
    "pings": (PING, socket_frames.CONTROL_RATE.burst, socket_frames.TOO_MANY_CONTROL_FRAMES),
    "pongs": (0x8A, socket_frames.CONTROL_RATE.burst, socket_frames.TOO_MANY_CONTROL_FRAMES),
}


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("payload", [b"", b"x"])
def test_one_frame_too_many_is_a_violation_and_ends_the_reading(kind: str, payload: bytes) -> None:
    first, most, violation = COUNTED[kind]
    seen, bound = Seen(), Bound(10**6)
    frames = CheckedFrames(seen, lambda: 0.0)
    stream = frame(TEXT & 0x7F, b"x") + frame(first, payload) * most
    frames.feed_data(stream)
    assert (frames.violation, bytes(seen.data)) == (None, stream)
    frames.feed_data(frame(first, payload) * 2)
    frames.watch(bound)  # a violation that was found before it watches
    assert bytes(seen.data) == stream
    assert bound.violations == [violation]


def test_fragments_count_for_each_message_and_pings_do_not_count_as_fragments() -> None:
    most = socket_frames.FRAGMENTS_MAX
    message = frame(TEXT & 0x7F, b"x") + frame(CONTINUED, b"x") * (most - 2) + frame(0x80, b"x")
    assert fed((message + frame(PING, b"")) * 3, []).data == (message + frame(PING, b"")) * 3


def test_pings_at_their_rate_are_answered_for_ever() -> None:
    now_s, rate = 0.0, socket_frames.CONTROL_RATE
    frames = CheckedFrames(Seen(), lambda: now_s)
    for _ in range(10 * rate.burst):
        now_s += 1 / rate.per_s
        frames.feed_data(frame(PING, b""))
    assert frames.violation is None


def test_reasons_fit_into_a_close_frame() -> None:
    for violation in vars(socket_frames).values():
        if isinstance(violation, Violation):
            assert len(violation.reason.encode()) <= 123

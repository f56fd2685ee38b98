"""A link with a fake transport and a manual clock. tests/contract/http2 uses real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest
from hyperframe.frame import Frame

from antiphon_http2.client.link import Link
from antiphon_http2.client.options import Options
from antiphon_http2.client.requests import Request
from antiphon_http2.client.targets import Target
from antiphon_http2.errors import ConnectionLost
from antiphon_http2.limits import BURST_BYTES, SLICE_MESSAGES_MAX, UNREAD_ANSWERS_BYTES_MAX
from tests.support.http2_peer import Http2Peer


class Timer:
    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        self.due_s = due_s
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualLoop:
    """An event loop whose timers run when `advance` reaches them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, due_s: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(due_s, callback))
        return self.timers[-1]

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        return self.call_at(self.now_s, callback)

    def advance(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while due := [timer for timer in self.timers if timer.callback is not None and timer.due_s <= end_s]:
            timer = min(due, key=lambda timer: timer.due_s)
            self.now_s = timer.due_s
            callback, timer.callback = timer.callback, None
            assert callback is not None
            callback()
        self.now_s = end_s


class Wire(asyncio.Transport):
    """A transport that records all data, and keeps data in its buffer while `is_full`."""

    def __init__(self, link: Link, connected: socket.socket) -> None:
        super().__init__({"socket": connected})
        self.link = link
        self.written = b""
        self.kept_bytes = 0
        self.is_full = False
        self.has_reader = True
        self.end = ""

    def write(self, data: Any) -> None:
        self.written += data
        if self.is_full:
            was_empty, self.kept_bytes = self.kept_bytes == 0, self.kept_bytes + len(data)
            if was_empty:
                self.link.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.kept_bytes

    def drain(self) -> None:
        self.is_full, self.kept_bytes = False, 0
        self.link.resume_writing()

    def pause_reading(self) -> None:
        self.has_reader = False

    def resume_reading(self) -> None:
        self.has_reader = True

    def is_closing(self) -> bool:
        return bool(self.end)

    def close(self) -> None:
        self.end = "closed"

    def abort(self) -> None:
        self.end = "aborted"


class Line:
    """A link that is connected to a peer."""

    def __init__(self, connected: socket.socket) -> None:
        self.loop = ManualLoop()
        self.closed: list[Link] = []
        target = Target("host", 1, "host:1")
        self.link = Link(cast(asyncio.AbstractEventLoop, self.loop), target, Options(), self.closed.append)
        self.wire = Wire(self.link, connected)
        self.peer = Http2Peer()
        self.link.connection_made(self.wire)
        self.link.data_received(self.peer.settings({4: 2**30}) + self.peer.credit(0, 2**30))
        self.sent()

    def call(self, content: bytes = b"question") -> list[object]:
        """The messages and errors that the call receives."""
        heard: list[object] = []

        def receive(messages: Sequence[bytes]) -> None:
            heard.extend(messages)

        request = Request("host:1", "http", "/service/Method", content)
        self.link.connection.calls.open(request, receive, heard.append)
        self.link.flush()
        return heard

    def sent(self) -> list[Frame]:
        written, self.wire.written = self.wire.written, b""
        return self.peer.read(written)


@pytest.fixture
def line() -> Iterator[Line]:
    with socket.socket() as connected:
        yield Line(connected)


def kinds(frames: list[Frame]) -> list[str]:
    return [type(frame).__name__.removesuffix("Frame") for frame in frames]


def test_large_request_is_written_in_bursts_and_waits_for_a_full_socket(line: Line) -> None:
    line.wire.is_full = True
    line.call(b"x" * 2**20)
    assert BURST_BYTES <= line.wire.kept_bytes < BURST_BYTES + 2**15
    line.wire.drain()
    assert len(line.wire.written) > 2**20


def test_full_socket_still_gets_answers(line: Line) -> None:
    line.wire.is_full = True
    line.call(b"x" * 2**20)
    line.sent()
    line.link.data_received(line.peer.ping())
    assert kinds(line.sent()) == ["Ping"]
    assert line.wire.has_reader


def test_peer_that_does_not_read_its_answers_is_not_read_until_it_does(line: Line) -> None:
    line.wire.is_full = True
    line.call(b"x" * 2**20)
    received = 0
    while line.wire.has_reader:
        line.link.data_received(line.peer.ping() * 100)
        received += 100
        assert received * 17 <= UNREAD_ANSWERS_BYTES_MAX + 1_700
    line.wire.drain()
    assert line.wire.has_reader


def test_silent_peer_is_pinged_and_given_up(line: Line) -> None:
    heard = line.call()
    line.loop.advance(299)
    line.sent()
    line.loop.advance(1)
    assert kinds(line.sent()) == ["Ping"]
    line.loop.advance(20)
    assert line.wire.end == "aborted"
    (end,) = heard
    assert isinstance(end, ConnectionLost)
    assert "ping" in end.message


def test_peer_that_answers_is_kept(line: Line) -> None:
    line.call()
    for _ in range(5):
        line.loop.advance(301)
        line.link.data_received(line.peer.ping(is_answer=True))
    assert line.wire.end == ""


def test_idle_connection_is_not_pinged_by_http2_but_by_tcp(line: Line) -> None:
    line.loop.advance(10_000)
    assert line.sent() == []
    connected = line.wire.get_extra_info("socket")
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000


def test_connection_closes_after_goaway_and_the_last_call(line: Line) -> None:
    heard = line.call()
    line.link.data_received(line.peer.goaway(1))
    assert line.wire.end == ""
    line.link.data_received(line.peer.headers(1) + line.peer.messages(1, b"a") + line.peer.trailers(1))
    assert heard == [b"a", None]
    assert line.wire.end == "closed"


def test_refused_call_is_retried_after_a_delay(line: Line) -> None:
    line.call()
    line.sent()
    line.link.data_received(line.peer.reset(1, 7))
    assert line.sent() == []
    line.loop.advance(0.01)
    frames = line.sent()
    assert (kinds(frames), {frame.stream_id for frame in frames}) == (["Headers", "Data"], {3})


def test_close_sends_goaway_and_aborts_a_peer_that_does_not_close(line: Line) -> None:
    line.link.close("enough")
    assert kinds(line.sent()) == ["GoAway"]
    assert line.wire.end == "closed"
    line.loop.advance(1)
    assert line.wire.end == "aborted"


def test_protocol_violation_sends_goaway_and_closes_the_connection(line: Line) -> None:
    heard = line.call()
    line.sent()
    line.link.data_received(b"\0\0\x05\x06\0\0\0\0\0abcde")
    assert kinds(line.sent()) == ["GoAway"]
    assert line.wire.end == "closed"
    assert isinstance(heard[0], ConnectionLost)


def test_lost_connection_ends_calls_and_timers(line: Line) -> None:
    heard = line.call()
    line.call()
    line.link.data_received(line.peer.reset(3, 7))
    line.link.connection_lost(OSError("no route"))
    assert isinstance(heard[0], ConnectionLost)
    assert "no route" in heard[0].message
    assert line.closed == [line.link]
    assert all(timer.callback is None for timer in line.loop.timers)


def test_connection_made_after_an_abort_is_aborted() -> None:
    target = Target("host", 1, "host:1")
    with socket.socket() as connected:
        link = Link(cast(asyncio.AbstractEventLoop, ManualLoop()), target, Options(), lambda _link: None)
        wire = Wire(link, connected)
        link.abort()
        link.connection_made(wire)
        assert wire.end == "aborted"
        assert wire.written == b""


def test_very_many_messages_of_one_read_are_received_in_slices_and_before_the_end(line: Line) -> None:
    heard, peer, count = line.call(), line.peer, 10 * SLICE_MESSAGES_MAX
    line.link.data_received(peer.headers(1) + peer.messages(1, *[b""] * count) + peer.trailers(1))
    assert len(heard) == SLICE_MESSAGES_MAX
    other = line.call()
    line.link.data_received(peer.headers(3) + peer.messages(3, b"a") + peer.trailers(3))
    assert other == [b"a", None]
    assert len(heard) == SLICE_MESSAGES_MAX
    line.loop.advance(0)
    assert heard == [b""] * count + [None]


def test_messages_that_wait_for_their_slice_are_received_after_the_connection_is_lost(line: Line) -> None:
    heard, peer, count = line.call(), line.peer, 3 * SLICE_MESSAGES_MAX
    line.link.data_received(peer.headers(1) + peer.messages(1, *[b""] * count))
    line.link.connection_lost(None)
    line.loop.advance(0)
    assert heard[:-1] == [b""] * count
    assert isinstance(heard[-1], ConnectionLost)

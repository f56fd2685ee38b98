"""A server's link with a fake transport and a manual clock. tests/contract/http2 uses real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest
from hyperframe.frame import ContinuationFrame, HeadersFrame

from antiphon_http2.server.events import Happening
from antiphon_http2.server.link import ServerLink
from antiphon_http2.server.options import ServerOptions
from antiphon_http2.server.read_turns import ReadTurns
from antiphon_http2.server.stream import ServerStream
from antiphon_http2.token_bucket import TokenBucket
from tests.support.http2_peer import Http2Peer, message
from tests.unit.antiphon_http2.client.test_link import ManualLoop, Wire

OPTIONS = ServerOptions(handshake_timeout_s=5.0, frame_timeout_s=7.0)
PAUSE_S = 1.0


class Served:
    """A connected link and its client. Its calls stay open."""

    def __init__(self, connected: socket.socket) -> None:
        self.loop = ManualLoop()
        self.link = ServerLink(
            cast(asyncio.AbstractEventLoop, self.loop),
            OPTIONS,
            lambda _path: None,
            read_tls=None,
            turns=ReadTurns(self.loop.time),
            tasks=set(),
            admit=lambda _link: True,
            on_closed=lambda _link: None,
        )
        self.wire = Wire(cast(Any, self.link), connected)
        self.client = Http2Peer(is_client=True)
        self.streams: list[ServerStream] = []
        self.link._on = {Happening.BEGUN: self.streams.append, Happening.CANCELLED: self.streams.remove}
        self.link.connection_made(self.wire)

    def end(self) -> str:
        """How the link ended the connection; empty while it is open."""
        return self.wire.end

    def receive(self, data: bytes) -> None:
        self.loop.advance(0.01)  # the rest behind the bytes before
        self.link.data_received(data)
        self.loop.advance(0)

    def trickle(self, data: bytes, seconds: float) -> None:
        """Sends bytes one by one, each a pause behind the one before."""
        for at in range(int(seconds / PAUSE_S)):
            if self.end():
                return
            self.receive(data[at : at + 1])
            self.loop.advance(PAUSE_S)


@pytest.fixture
def served() -> Iterator[Served]:
    with socket.socket() as connected:
        yield Served(connected)


@pytest.mark.parametrize("size", [0, 1, 24, 30], ids=["silent", "preface", "no settings", "part of settings"])
def test_connection_whose_settings_do_not_come_in_time_ends(served: Served, size: int) -> None:
    """Bytes one by one do not extend the time."""
    hello = served.client.hello()
    if size:
        served.receive(hello[: size - 1])
    served.loop.advance(0.5)
    served.trickle(hello[size - 1 : size] if size else b"", 4 * PAUSE_S)
    assert not served.end()
    served.loop.advance(PAUSE_S)
    assert served.end() == "aborted"


def unfinished(client: Http2Peer) -> dict[str, bytes]:
    headers = client.request(1)
    return {
        "frame header": headers[:1],
        "headers": headers[:12],
        "header block": HeadersFrame(1, b"\x82", flags=[]).serialize(),
        "data": headers + client.data(1, message(bytes(1_000)))[:500],
        "ping": client.ping()[:10],
        "unknown frame": bytes([0, 1, 0, 0xFF, 0, 0, 0, 0, 0]),
    }


@pytest.mark.parametrize("kind", unfinished(Http2Peer(is_client=True)))
def test_connection_whose_frame_is_not_finished_in_time_ends_also_if_bytes_come(served: Served, kind: str) -> None:
    served.receive(served.client.hello())
    served.loop.advance(PAUSE_S)
    served.receive(unfinished(served.client)[kind])
    if kind == "header block":
        for _ in range(6):
            served.loop.advance(PAUSE_S)
            served.receive(ContinuationFrame(1, b"").serialize())
    else:
        served.loop.advance(PAUSE_S)
        served.trickle(bytes(5) if kind != "frame header" else b"\0\0", 5 * PAUSE_S)
    assert not served.end()
    served.loop.advance(PAUSE_S)
    assert served.end() == "closed"
    assert served.link.connection.reason == "A frame or header block was not finished within 7 s."


def test_long_upload_in_pieces_that_end_inside_frames_goes_on(served: Served) -> None:
    served.receive(served.client.hello() + served.client.request(1))
    upload = b"".join(served.client.data(1, bytes(1_000)) for _ in range(40))
    for at in range(0, len(upload), 1_500):
        served.loop.advance(2 * PAUSE_S)
        served.receive(upload[at : at + 1_500])
    assert not served.end()
    assert served.streams[0].owed_bytes == 40_000


async def test_first_bytes_from_an_address_that_spent_its_budget_wait_in_the_line(served: Served) -> None:
    served.link.connection.strangers.share(TokenBucket(0, 0, served.loop.time))
    served.link.connection_made(served.wire)
    served.receive(served.client.hello())
    assert served.link.has_unread
    assert not served.wire.has_reader
    await asyncio.sleep(0)
    assert served.link.connection.is_ready
    assert served.wire.has_reader


def test_idle_connection_between_two_frames_stays(served: Served) -> None:
    served.receive(served.client.hello())
    request = served.client.request(1)
    served.receive(request[:20])
    served.loop.advance(PAUSE_S)
    served.receive(request[20:])
    served.loop.advance(20 * PAUSE_S)
    assert not served.end()


def broken() -> None:
    raise ValueError("no batch")


def test_callback_that_raises_stops_no_other_callback_and_no_later_flush(served: Served) -> None:
    failures, calls = list[Exception](), list[str]()
    served.receive(served.client.hello())
    for number in range(2):
        served.link.before_flush(broken, failures.append)
        served.link.before_flush(partial(calls.append, f"flush {number}"), failures.append)
        served.loop.advance(0)
    assert (calls, [str(error) for error in failures]) == (["flush 0", "flush 1"], ["no batch", "no batch"])


class CountedFlushes:
    """Counts the flushes of a link. No callback of it fails."""

    def __init__(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        self.link, self.count, self._flush = served.link, 0, served.link.flush
        monkeypatch.setattr(served.link, "flush", self.flush)

    def flush(self) -> None:
        self.count += 1
        self._flush()

    def before_next(self, callback: Callable[[], None]) -> None:
        self.link.before_flush(callback, lambda error: pytest.fail(repr(error)))


def test_callback_of_a_callback_is_called_before_the_next_flush(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.receive(served.client.hello())
    flushes, seen = CountedFlushes(served, monkeypatch), list[int]()
    flushes.before_next(lambda: flushes.before_next(lambda: seen.append(flushes.count)))
    served.loop.advance(0)
    assert (seen, flushes.count) == ([1], 2)


def test_answers_of_a_callback_leave_with_the_flush_behind_it(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.receive(served.client.hello())
    flushes = CountedFlushes(served, monkeypatch)
    flushes.before_next(served.link.flush_soon)
    served.loop.advance(0)
    assert flushes.count == 1

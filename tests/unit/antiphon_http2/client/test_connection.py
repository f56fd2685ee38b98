from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.clock import ManualClock
from antiphon_http2.client.connection import ClientConnection
from antiphon_http2.client.options import Options
from antiphon_http2.client.requests import Request
from antiphon_http2.client.stream import Stream
from antiphon_http2.errors import ConnectionLost, GrpcError
from antiphon_http2.limits import CONNECTION_WINDOW_BYTES, INTERIM_ITEMS_MAX
from antiphon_http2.statuses import ErrorCode, name_of
from tests.support.http2_peer import HEADERS, Http2Peer, message

WINDOW = 100_000
OPTIONS = Options(stream_window_bytes=WINDOW, message_bytes_max=60_000)


class Session:
    """A connection, its peer, and the events of each call: lists of messages, then the end."""

    def __init__(self, settings: dict[int, int] | None = None, *, calls: int = 0) -> None:
        self.connection = ClientConnection(OPTIONS, ManualClock().monotonic)
        self.peer = Http2Peer()
        self.streams: list[Stream] = []
        self.heard: list[list[object]] = []
        self.hooks: dict[int, Callable[[Sequence[bytes]], None]] = {}
        self.connection.receive(self.peer.settings(settings))
        for _ in range(calls):
            self.call()
        self.begin = self.sent()

    def call(self, content: bytes = b"question", **options: object) -> Stream:
        number = len(self.streams)
        heard: list[object] = []

        def receive(messages: Sequence[bytes]) -> None:
            heard.append(list(messages))
            self.hooks.get(number, len)(messages)

        request = Request("host:1", "http", "/service/Method", content)
        self.heard.append(heard)
        self.streams.append(self.connection.calls.open(request, receive, heard.append))
        return self.streams[-1]

    def sent(self) -> list[Frame]:
        frames = []
        while data := self.connection.data_to_send():
            frames += self.peer.read(data)
        return frames

    def receive(self, *data: bytes) -> None:
        self.connection.receive(b"".join(data))

    def end_of(self, number: int = 0) -> GrpcError:
        end = self.heard[number][-1]
        assert isinstance(end, GrpcError)
        return end


def kinds(frames: list[Frame]) -> list[str]:
    return [type(frame).__name__.removesuffix("Frame") for frame in frames]


# ---- successful calls ----


def test_connection_begins_with_preface_settings_and_the_connections_window() -> None:
    settings, credit, answer = Session().begin
    assert isinstance(settings, SettingsFrame)
    assert settings.settings[SettingsFrame.INITIAL_WINDOW_SIZE] == WINDOW
    assert isinstance(credit, WindowUpdateFrame)
    assert credit.window_increment + 65_535 == CONNECTION_WINDOW_BYTES
    assert "ACK" in answer.flags


def test_call_sends_its_headers_and_its_only_message() -> None:
    session = Session()
    session.call(b"question")
    headers, data = session.sent()
    assert isinstance(headers, HeadersFrame)
    assert isinstance(data, DataFrame)
    assert session.peer.decode(headers.data)[":path"] == "/service/Method"
    assert data.data == message(b"question")
    assert "END_STREAM" in data.flags


def test_receiver_is_called_once_per_read_with_all_messages_then_ok() -> None:
    session = Session(calls=2)
    peer = session.peer
    session.receive(
        peer.headers(1), peer.headers(3), peer.messages(1, b"a"), peer.messages(3, b"x"), peer.messages(1, b"b", b"c")
    )
    session.receive(peer.messages(1, b"d"), peer.trailers(1))
    assert session.heard == [[[b"a", b"b", b"c"], [b"d"], None], [[b"x"]]]


def test_call_cannot_begin_before_the_servers_settings() -> None:
    connection = ClientConnection(OPTIONS, ManualClock().monotonic)
    with pytest.raises(ConnectionLost):
        connection.calls.open(Request("host:1", "http", "/", b""), lambda _messages: None, lambda _end: None)


def test_padding_and_continuations_are_read() -> None:
    session = Session(calls=1)
    peer = session.peer
    session.receive(
        peer.headers(1, [*HEADERS, ("long", "x" * 100)], cut=10),
        peer.data(1, message(b"a"), pad=0),
        peer.data(1, message(b"b"), pad=200),
        peer.data(1, b"", pad=5),
        peer.trailers(1),
    )
    assert session.heard == [[[b"a", b"b"], None]]


def test_informational_headers_unknown_frames_and_unknown_flags_are_ignored() -> None:
    session = Session(calls=1)
    peer = session.peer
    data = bytearray(peer.data(1, message(b"a")))
    data[4] |= 0x40  # an undefined flag
    data[5] |= 0x80  # the reserved bit of the stream's id
    unknown = b"\0\0\x03\xee\xff\0\0\0\x01abc"
    priority = b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\0\x10"
    session.receive(peer.headers(1, [(":status", "103")]), unknown, priority, peer.headers(1), bytes(data))
    session.receive(peer.trailers(1))
    assert session.heard == [[[b"a"], None]]


def test_more_interim_responses_than_servers_send_end_the_connection() -> None:
    session = Session(calls=1)
    interim = session.peer.headers(1, [(":status", "103")])
    session.receive(interim * INTERIM_ITEMS_MAX)
    assert not session.connection.is_closed
    session.receive(session.peer.headers(1, [(":status", "100")]))
    assert session.connection.is_closed
    assert "interim responses" in session.end_of().message


def test_ping_is_answered_and_settings_are_acknowledged() -> None:
    session = Session()
    session.receive(session.peer.ping(b"abcdefgh"), session.peer.ping(is_answer=True), session.peer.settings())
    pong, answer = session.sent()
    assert isinstance(pong, PingFrame)
    assert pong.opaque_data == b"abcdefgh"
    assert ("ACK" in pong.flags, "ACK" in answer.flags) == (True, True)


# ---- how calls end ----


def test_trailers_only_response_carries_the_error() -> None:
    session = Session(calls=1)
    session.receive(session.peer.trailers(1, [*HEADERS, ("grpc-status", "5"), ("grpc-message", "no%20model")]))
    assert (session.end_of().status, session.end_of().message) == (5, "no model")


@pytest.mark.parametrize(
    ("code", "status", "is_unprocessed"),
    [
        (ErrorCode.REFUSED_STREAM, "UNAVAILABLE", True),
        (ErrorCode.INTERNAL_ERROR, "INTERNAL", False),
        (ErrorCode.CANCEL, "CANCELLED", False),
    ],
)
def test_reset_ends_a_call_after_its_earlier_messages(code: ErrorCode, status: str, is_unprocessed: bool) -> None:
    session = Session(calls=1)
    session.receive(session.peer.headers(1), session.peer.messages(1, b"a"), session.peer.reset(1, code))
    assert session.heard[0][0] == [b"a"]
    assert (name_of(session.end_of().status), session.end_of().is_unprocessed) == (status, is_unprocessed)


def test_refused_call_is_retried_before_waiting_calls() -> None:
    session = Session({SettingsFrame.MAX_CONCURRENT_STREAMS: 1}, calls=2)
    peer = session.peer
    session.receive(peer.reset(1, ErrorCode.REFUSED_STREAM))
    assert session.sent() == []
    session.connection.calls.begin_again()
    assert [stream.id for stream in session.streams] == [3, 0]
    headers, data = session.sent()
    assert isinstance(data, DataFrame)
    assert (headers.stream_id, data.stream_id, data.data) == (3, 3, message(b"question"))
    session.receive(peer.headers(3), peer.messages(3, b"a"), peer.trailers(3))
    assert session.heard == [[[b"a"], None], []]


def test_call_that_is_refused_again_and_again_fails_as_unprocessed() -> None:
    session = Session(calls=1)
    for stream_id in range(1, 23, 2):
        assert session.heard == [[]]
        session.receive(session.peer.reset(stream_id, ErrorCode.REFUSED_STREAM))
        session.connection.calls.begin_again()
    assert (name_of(session.end_of().status), session.end_of().is_unprocessed) == ("UNAVAILABLE", True)


def test_refused_call_of_a_connection_that_ends_fails_as_unprocessed() -> None:
    session = Session(calls=1)
    session.receive(session.peer.goaway(1), session.peer.reset(1, ErrorCode.REFUSED_STREAM))
    assert session.end_of().is_unprocessed


def test_http_error_ends_the_call_and_resets_its_stream() -> None:
    session = Session(calls=1)
    session.receive(session.peer.headers(1, [(":status", "502"), ("content-type", "text/html")]))
    session.receive(session.peer.data(1, b"<html>", ends=True))
    assert name_of(session.end_of().status) == "UNAVAILABLE"
    assert kinds(session.sent()) == ["RstStream"]


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda peer: peer.data(1, message(b"a")), "INTERNAL"),  # before headers
        (lambda peer: peer.headers(1) + peer.data(1, b"\1\0\0\0\1a"), "INTERNAL"),  # compressed
        (lambda peer: peer.headers(1) + peer.data(1, b"\0\0\1\0\0"), "RESOURCE_EXHAUSTED"),  # 65,536 bytes
        (lambda peer: peer.headers(1) + peer.headers(1), "INTERNAL"),  # trailers that end nothing
        (lambda peer: peer.headers(1) + peer.data(1, b"\0\0\0\0\1") + peer.trailers(1), "INTERNAL"),  # half a message
        (lambda peer: peer.headers(1) + peer.data(1, b"", ends=True), "UNKNOWN"),  # no trailers
        (lambda peer: peer.headers(1, ends=True), "UNKNOWN"),  # no status
    ],
)
def test_malformed_call_ends_alone(make: Callable[[Http2Peer], bytes], status: str) -> None:
    session = Session(calls=2)
    session.receive(make(session.peer))
    assert name_of(session.end_of().status) == status
    session.receive(session.peer.headers(3), session.peer.messages(3, b"b"), session.peer.trailers(3))
    assert session.heard[1] == [[b"b"], None]


def test_exception_of_a_receiver_ends_its_call_only() -> None:
    session = Session(calls=2)
    peer, error = session.peer, ValueError("mine")

    def fail(_messages: Sequence[bytes]) -> None:
        raise error

    session.hooks[0] = fail
    session.receive(peer.headers(1), peer.headers(3), peer.messages(1, b"a"), peer.messages(3, b"b"))
    session.receive(peer.messages(1, b"c"), peer.messages(3, b"d"))
    assert session.heard == [[[b"a"], error], [[b"b"], [b"d"]]]
    (reset,) = session.sent()
    assert isinstance(reset, RstStreamFrame)
    assert (reset.stream_id, reset.error_code) == (1, ErrorCode.CANCEL)


def test_exception_of_a_receiver_wins_over_the_servers_ok() -> None:
    session = Session(calls=1)
    error = ValueError("mine")

    def fail(_messages: Sequence[bytes]) -> None:
        raise error

    session.hooks[0] = fail
    session.receive(session.peer.headers(1), session.peer.messages(1, b"a"), session.peer.trailers(1))
    assert session.heard == [[[b"a"], error]]
    assert session.sent() == []


def test_cancel_resets_the_stream_and_later_frames_are_ignored() -> None:
    session = Session(calls=1)
    peer = session.peer
    session.receive(peer.headers(1), peer.messages(1, b"a"))
    assert session.connection.calls.cancel(session.streams[0], GrpcError(1, "cancelled"))
    assert kinds(session.sent()) == ["RstStream"]
    session.receive(peer.messages(1, b"b"), peer.trailers(1, [("x", "y" * 50), ("grpc-status", "0")]), peer.reset(1, 8))
    assert len(session.heard[0]) == 2
    session.call()  # the compression context has the headers of the ignored trailers
    session.receive(peer.headers(3), peer.trailers(3, [("x", "y" * 50), ("grpc-status", "0")]))
    assert session.heard[1] == [None]


def test_receiver_may_cancel_its_own_call_and_others_in_the_same_read() -> None:
    session = Session(calls=2)
    peer, calls, streams = session.peer, session.connection.calls, session.streams

    def cancel_both(_messages: Sequence[bytes]) -> None:
        for stream in streams:
            calls.cancel(stream, GrpcError(1, "cancelled"))

    session.hooks[0] = cancel_both
    session.receive(peer.headers(1), peer.headers(3), peer.messages(1, b"a"), peer.messages(3, b"b"))
    assert session.heard[0][0] == [b"a"]
    assert [end.status for end in (session.end_of(0), session.end_of(1))] == [1, 1]
    assert len(session.heard[1]) == 1


def test_server_that_ends_early_gets_no_more_of_the_request() -> None:
    session = Session(calls=0)
    session.call(b"x" * 200_000)
    assert sum(len(frame.data) for frame in session.sent() if isinstance(frame, DataFrame)) == 65_535
    session.receive(session.peer.trailers(1, [*HEADERS, ("grpc-status", "8")]), session.peer.credit(0, 500_000))
    assert session.end_of().status == 8
    assert kinds(session.sent()) == ["RstStream"]


# ---- flow control ----


def test_request_goes_as_windows_and_frame_sizes_allow() -> None:
    session = Session({SettingsFrame.MAX_FRAME_SIZE: 20_000, SettingsFrame.INITIAL_WINDOW_SIZE: 30_000})
    session.call(b"x" * 99_995)
    sizes = [len(frame.data) for frame in session.sent() if isinstance(frame, DataFrame)]
    assert sizes == [20_000, 10_000]
    session.receive(session.peer.credit(1, 70_000))
    sizes = [len(frame.data) for frame in session.sent() if isinstance(frame, DataFrame)]
    assert sizes == [20_000, 15_535]  # the connection's own window
    session.receive(session.peer.credit(0, 70_000))
    *_, last = session.sent()
    assert "END_STREAM" in last.flags


def test_full_socket_gets_answers_but_no_bodies() -> None:
    session = Session()
    session.call(b"question")
    session.receive(session.peer.ping())
    assert kinds(session.peer.read(session.connection.data_to_send(with_bodies=False))) == ["Headers", "Ping"]
    assert kinds(session.sent()) == ["Data"]


def fill(session: Session, stream_id: int, size: int) -> None:
    """Receives DATA frames of `size` bytes, in messages of 10,000 bytes."""
    for _ in range(size // 10_000):
        session.receive(session.peer.messages(stream_id, b"x" * 9_995))


def test_credit_is_given_back_at_half_the_window() -> None:
    session = Session(calls=1)
    session.receive(session.peer.headers(1))
    fill(session, 1, WINDOW // 2 - 10_000)
    assert session.sent() == []
    fill(session, 1, 10_000)
    (credit,) = session.sent()
    assert isinstance(credit, WindowUpdateFrame)
    assert (credit.stream_id, credit.window_increment) == (1, WINDOW // 2)


def test_credit_is_given_for_parts_of_messages_and_for_padding() -> None:
    session = Session(calls=1)
    session.receive(session.peer.headers(1), session.peer.data(1, message(b"x" * 40_000)[:16_000]))
    session.receive(*(session.peer.data(1, b"", pad=255) for _ in range(200)))
    assert kinds(session.sent()) == ["WindowUpdate"]


def test_paused_stream_holds_its_messages_and_withholds_its_credit() -> None:
    session = Session(calls=2)
    session.receive(session.peer.headers(1), session.peer.headers(3))
    session.connection.calls.pause(session.streams[0])
    fill(session, 1, WINDOW)
    assert session.heard[0] == []
    assert session.sent() == []
    fill(session, 3, WINDOW)
    assert len(session.heard[1]) == WINDOW // 10_000
    assert {frame.stream_id for frame in session.sent()} == {3}
    session.connection.calls.resume(session.streams[0])
    assert session.heard[0] == [[b"x" * 9_995] * (WINDOW // 10_000)]
    (credit,) = session.sent()
    assert isinstance(credit, WindowUpdateFrame)
    assert (credit.stream_id, credit.window_increment) == (1, WINDOW)


def test_pausing_inside_the_receiver_holds_the_credit_of_that_read() -> None:
    session = Session(calls=1)
    session.hooks[0] = lambda _messages: session.connection.calls.pause(session.streams[0])
    session.receive(session.peer.headers(1), *(session.peer.messages(1, b"x" * 9_995) for _ in range(6)))
    assert len(session.heard[0]) == 1
    assert session.sent() == []


def test_end_of_a_paused_stream_waits_for_its_messages() -> None:
    session = Session(calls=1)
    session.connection.calls.pause(session.streams[0])
    session.receive(session.peer.headers(1), session.peer.messages(1, b"a"), session.peer.trailers(1))
    assert session.heard[0] == []
    session.connection.calls.resume(session.streams[0])
    assert session.heard[0] == [[b"a"], None]


def test_credit_of_the_connection_is_given_back_whatever_streams_do() -> None:
    session = Session(calls=200)
    for stream in session.streams:
        session.connection.calls.pause(stream)
    for number in range(90):
        session.receive(session.peer.headers(2 * number + 1))
        fill(session, 2 * number + 1, WINDOW)
    given_back = [frame for frame in session.sent() if isinstance(frame, WindowUpdateFrame)]
    assert [credit.stream_id for credit in given_back] == [0]
    assert given_back[0].window_increment >= CONNECTION_WINDOW_BYTES // 2


def test_credit_of_the_connection_is_given_back_for_calls_that_have_ended() -> None:
    session = Session(calls=1)
    session.connection.calls.cancel(session.streams[0], GrpcError(1, "cancelled"))
    for _ in range(CONNECTION_WINDOW_BYTES // 2 // 16_000 + 1):
        session.receive(session.peer.data(1, b"x" * 16_000))
    assert kinds(session.sent()) == ["RstStream", "WindowUpdate"]


# ---- settings, and the end of connections ----


def test_calls_wait_for_streams_that_the_server_allows() -> None:
    session = Session({SettingsFrame.MAX_CONCURRENT_STREAMS: 1}, calls=3)
    peer = session.peer
    assert [stream.id for stream in session.streams] == [1, 0, 0]
    session.receive(peer.trailers(1, [*HEADERS, ("grpc-status", "0")]))
    assert kinds(session.sent()) == ["Headers", "Data"]
    session.receive(peer.settings({SettingsFrame.MAX_CONCURRENT_STREAMS: 2}))
    assert [stream.id for stream in session.streams] == [1, 3, 5]


def test_goaway_refuses_unsent_calls_and_lets_the_others_end() -> None:
    session = Session({SettingsFrame.MAX_CONCURRENT_STREAMS: 3}, calls=4)
    peer = session.peer
    session.receive(peer.headers(1), peer.goaway(2**31 - 1))  # a warning
    session.receive(peer.goaway(3, ErrorCode.ENHANCE_YOUR_CALM, b"too_many_pings"))
    assert [len(heard) for heard in session.heard] == [0, 0, 1, 1]
    for number in (2, 3):
        assert isinstance(session.end_of(number), ConnectionLost)
        assert session.end_of(number).is_unprocessed
    assert "ENHANCE_YOUR_CALM too_many_pings" in session.end_of(2).message
    assert not session.connection.calls.can_open
    session.receive(peer.messages(1, b"a"), peer.trailers(1))
    assert session.heard[0] == [[b"a"], None]
    assert not session.connection.is_finished
    session.receive(peer.trailers(3, [*HEADERS, ("grpc-status", "0")]))
    assert session.connection.is_finished


def test_close_tells_the_server_and_ends_all_calls() -> None:
    session = Session(calls=1)
    session.connection.close("enough")
    assert isinstance(session.end_of(), ConnectionLost)
    assert kinds(session.sent()) == ["GoAway"]
    assert session.connection.is_finished
    session.connection.close("again")
    assert session.sent() == []


def test_lost_connection_ends_calls_after_their_messages() -> None:
    session = Session(calls=1)
    session.receive(session.peer.headers(1), session.peer.messages(1, b"a"))
    session.connection.lose("gone")
    session.connection.lose("again")
    assert session.heard[0][0] == [b"a"]
    assert session.end_of().message == "gone"
    session.receive(session.peer.messages(1, b"b"))
    assert len(session.heard[0]) == 2


FAULTS = {
    "frame too large": b"\0\x40\x01\0\0\0\0\0\x01",
    "data of no stream": Http2Peer().messages(7, b"a"),
    "data of the connection": b"\0\0\0\0\0\0\0\0\0",
    "headers of an even stream": Http2Peer().headers(2),
    "reset of no stream": Http2Peer().reset(7, 8),
    "credit of no stream": Http2Peer().credit(7, 8),
    "continuation of nothing": b"\0\0\0\x09\x04\0\0\0\x01",
    "header block not continued": b"\0\0\0\x01\0\0\0\0\x01" + Http2Peer().ping(),
    "header block continued elsewhere": b"\0\0\0\x01\0\0\0\0\x01" + b"\0\0\0\x09\x04\0\0\0\x03",
    "data inside a header block": b"\0\0\0\x01\0\0\0\0\x01" + Http2Peer().data(3, b""),
    "headers that cannot be decoded": b"\0\0\x01\x01\x04\0\0\0\x01\xff",
    "push": b"\0\0\x04\x05\x04\0\0\0\x01\0\0\0\x02",
    "settings of a stream": b"\0\0\0\x04\0\0\0\0\x01",
    "settings cut off": b"\0\0\x03\x04\0\0\0\0\0abc",
    "settings beyond limits": Http2Peer().settings({SettingsFrame.MAX_FRAME_SIZE: 1}),
    "ping of five bytes": b"\0\0\x05\x06\0\0\0\0\0abcde",
    "more padding than bytes": b"\0\0\x02\0\x08\0\0\0\x01\x05a",
    "window too large": Http2Peer().credit(0, 2**31 - 1),
}


@pytest.mark.parametrize("data", FAULTS.values(), ids=list(FAULTS))
def test_protocol_violation_ends_the_connection_with_goaway(data: bytes) -> None:
    session = Session(calls=2)
    session.receive(session.peer.headers(3), session.peer.messages(3, b"a"), data, session.peer.messages(3, b"b"))
    goaway = session.sent()[-1]
    assert isinstance(goaway, GoAwayFrame)
    assert goaway.error_code != ErrorCode.NO_ERROR
    assert session.heard[1][0] == [b"a"]
    assert isinstance(session.end_of(0), ConnectionLost)
    assert isinstance(session.end_of(1), ConnectionLost)
    assert session.connection.is_finished


FLOODS: dict[str, Callable[[Http2Peer], bytes]] = {
    "settings": lambda peer: peer.settings(),
    "settings answers": lambda peer: SettingsFrame(flags=["ACK"]).serialize(),
    "many settings": lambda peer: peer.settings(dict.fromkeys(range(100, 200), 1)),
    "pings": lambda peer: PingFrame(opaque_data=b"12345678").serialize(),
    "ping answers": lambda peer: PingFrame(opaque_data=b"12345678", flags=["ACK"]).serialize(),
    "connection updates": lambda peer: WindowUpdateFrame(0, window_increment=1).serialize(),
    "stream updates": lambda peer: WindowUpdateFrame(1, window_increment=1).serialize(),
    "updates of an ended stream": lambda peer: WindowUpdateFrame(3, window_increment=1).serialize(),
    "priorities": lambda peer: PriorityFrame(1, depends_on=3).serialize(),
    "unknown frames": lambda peer: b"\0\0\0\x77\0\0\0\0\1",
    "goaways": lambda peer: GoAwayFrame(0, last_stream_id=2**31 - 1).serialize(),
    "empty data": lambda peer: DataFrame(1).serialize(),
    "padding": lambda peer: DataFrame(1, pad_length=1, flags=["PADDED"]).serialize(),
    "data of an ended stream": lambda peer: DataFrame(3).serialize(),
    "ends of an ended stream": lambda peer: DataFrame(3, flags=["END_STREAM"]).serialize(),
    "headers of an ended stream": lambda peer: peer.headers(3),
    "resets of an ended stream": lambda peer: RstStreamFrame(3, 8).serialize(),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_flood_of_frames_without_content_ends_the_connection(kind: str) -> None:
    """One call runs, and one has ended, when the flood begins."""
    session = Session(calls=2)
    session.receive(session.peer.headers(1), session.peer.headers(3), session.peer.trailers(3))
    frame, reads = FLOODS[kind](session.peer), 0
    while not session.connection.is_closed and reads < 100:
        session.receive(frame * 1_000)
        reads += 1
    (last, *_) = [each for each in session.sent() if isinstance(each, GoAwayFrame)]
    assert (last.error_code, reads <= 5) == (ErrorCode.ENHANCE_YOUR_CALM, True)
    assert "4096 frames without content" in session.end_of().message


def test_empty_continuations_of_interim_responses_end_the_connection() -> None:
    session = Session(calls=1)
    flood = HeadersFrame(1, b"").serialize() + ContinuationFrame(1, b"").serialize() * 5_000
    session.receive(flood)
    assert session.connection.is_closed


def test_honest_servers_send_updates_for_what_they_get() -> None:
    """100 calls with 1 MiB each: two updates for every 16 KiB, a late update and a reset behind each answer."""
    session = Session()
    session.receive(WindowUpdateFrame(0, window_increment=2**30).serialize())
    for number in range(1, 201, 2):
        session.call(b"x" * 2**20)
        session.sent()
        updates = (
            WindowUpdateFrame(0, window_increment=1).serialize()
            + WindowUpdateFrame(number, window_increment=2**15).serialize()
        )
        for _ in range(64):
            session.receive(updates)
            session.sent()
        session.receive(
            session.peer.headers(number),
            session.peer.data(number, message(b"answer")),
            session.peer.trailers(number),
            WindowUpdateFrame(number, window_increment=1).serialize(),
            RstStreamFrame(number, 0).serialize(),
        )
    assert not session.connection.is_closed
    assert [heard[-1] for heard in session.heard] == [None] * 100


def test_more_than_a_streams_window_ends_the_connection() -> None:
    session = Session(calls=1)
    session.receive(session.peer.headers(1))
    session.connection.calls.pause(session.streams[0])
    fill(session, 1, WINDOW + 10_000)
    session.connection.calls.resume(session.streams[0])
    assert kinds(session.sent()) == ["GoAway"]


def test_more_than_the_connections_window_ends_the_connection() -> None:
    session = Session(calls=1)
    session.connection.calls.cancel(session.streams[0], GrpcError(1, "cancelled"))
    session.receive(session.peer.data(1, b"x" * 16_384) * (CONNECTION_WINDOW_BYTES // 16_384 + 1))
    assert "GoAway" in kinds(session.sent())


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n\r\n", Http2Peer().ping(), b"\0\0\0\x04\x01\0\0\0\0"])
def test_connection_to_a_server_that_does_not_begin_with_settings_is_closed(data: bytes) -> None:
    connection = ClientConnection(OPTIONS, ManualClock().monotonic)
    connection.receive(data)
    assert not connection.is_ready
    assert connection.is_closed
    assert "HTTP/2" in connection.reason


# ---- any bytes, in any pieces ----


def conversation(peer: Http2Peer, calls: Sequence[Sequence[bytes]], order: Sequence[int], frame_bytes: int) -> bytes:
    """A server's bytes for calls with these messages: frames of all calls mixed in some order."""
    queues: list[list[Callable[[], bytes]]] = []
    for number, messages in enumerate(calls):
        stream_id = 2 * number + 1
        body = b"".join(message(content) for content in messages)
        pieces = [body[at : at + frame_bytes] for at in range(0, len(body), frame_bytes)]
        queue: list[Callable[[], bytes]] = [lambda stream_id=stream_id: peer.headers(stream_id, cut=7)]  # type: ignore[misc]
        queue += [lambda stream_id=stream_id, piece=piece: peer.data(stream_id, piece) for piece in pieces]  # type: ignore[misc]
        queue.append(lambda stream_id=stream_id: peer.trailers(stream_id))  # type: ignore[misc]
        queues.append(queue)
    data = b""
    for choice in [*order, *range(10_000)]:
        left = [queue for queue in queues if queue]
        if not left:
            break
        data += left[choice % len(left)].pop(0)() + (peer.ping() if choice % 5 == 0 else b"")
    return data


def joined(heard: list[object]) -> list[object]:
    """The messages and other events of a call, regardless of the pieces in which they came."""
    messages = [content for part in heard if isinstance(part, list) for content in part]
    return [messages, *(repr(part) for part in heard if not isinstance(part, list))]


@given(
    calls=st.lists(st.lists(st.binary(max_size=30), max_size=6), min_size=1, max_size=4),
    order=st.lists(st.integers(0, 100), max_size=40),
    frame_bytes=st.integers(1, 60),
    cuts=st.lists(st.integers(0, 5_000), max_size=80),
)
def test_receivers_hear_the_same_however_the_bytes_are_cut(
    calls: list[list[bytes]], order: list[int], frame_bytes: int, cuts: list[int]
) -> None:
    session = Session(calls=len(calls))
    data = conversation(session.peer, calls, order, frame_bytes)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, stop in pairwise(edges):
        session.receive(data[start:stop])
    assert [joined(heard) for heard in session.heard] == [[messages, "None"] for messages in calls]


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=10), at=st.integers(0, 300))
def test_broken_bytes_end_calls_in_the_same_way_however_they_are_cut(data: bytes, cuts: list[int], at: int) -> None:
    def heard_of(cuts: list[int]) -> tuple[list[list[object]], list[bytes]]:
        session = Session(calls=2)
        begin = session.peer.headers(1) + session.peer.headers(3) + session.peer.messages(1, b"a", b"b", b"c")
        broken = begin[:at] + data + begin[at:]
        edges = sorted({0, len(broken), *(cut % (len(broken) + 1) for cut in cuts)})
        for start, stop in pairwise(edges):
            session.receive(broken[start:stop])
        session.connection.lose("the end")
        return [joined(heard) for heard in session.heard], [frame.serialize() for frame in session.sent()]

    assert heard_of(cuts) == heard_of([])

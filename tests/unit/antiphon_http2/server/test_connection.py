"""The server's end of a connection. Cases of RFC 9113 are in test_rfc_9113.py, floods in test_floods.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.clock import ManualClock
from antiphon_http2.errors import GrpcError
from antiphon_http2.limits import REQUEST_METADATA_BYTES_MAX, REQUEST_WINDOW_BYTES
from antiphon_http2.server.answers import SUCCESS, Status
from antiphon_http2.server.connection import ServerConnection
from antiphon_http2.server.events import Happening
from antiphon_http2.server.options import ServerOptions
from antiphon_http2.server.stream import ServerStream
from antiphon_http2.statuses import INTERNAL, RESOURCE_EXHAUSTED, UNIMPLEMENTED, ErrorCode
from tests.support.http2_peer import GRPC, REQUEST, Http2Peer, message

MESSAGE_BYTES_MAX = 400_000
OPTIONS = ServerOptions(streams_max=4, message_bytes_max=MESSAGE_BYTES_MAX)
WIDE = {SettingsFrame.INITIAL_WINDOW_SIZE: 2**30}


class Session:
    """A server's connection, its client, and what happened to each stream."""

    def __init__(self, settings: dict[int, int] | None = None, *, options: ServerOptions = OPTIONS) -> None:
        self.clock = ManualClock()
        self.connection = ServerConnection(options, self.clock.monotonic)
        self.client = Http2Peer(is_client=True)
        self.heard: list[tuple[Happening, int]] = []
        self.streams: dict[int, ServerStream] = {}
        self.begin = self.receive(self.client.hello(settings))

    def receive(self, *data: bytes) -> list[Frame]:
        """Passes bytes of the client on, and returns the frames that the server sends."""
        self.connection.receive(b"".join(data))
        while self.connection.has_unread:
            self.connection.receive(b"")
        return self.sent()

    def sent(self) -> list[Frame]:
        frames = []
        while data := self.connection.data_to_send():
            frames += self.client.read(data)
        for kind, stream in self.connection.take_events():
            self.heard.append((kind, stream.id))
            self.streams[stream.id] = stream
        return frames

    def call(self, stream_id: int = 1, content: bytes | None = b"question") -> ServerStream:
        """Begins a call of a known caller, with its only message unless that is None."""
        body = [] if content is None else [self.client.data(stream_id, message(content), ends=True)]
        self.receive(self.client.request(stream_id), *body)
        self.connection.authenticate(self.streams[stream_id])
        return self.streams[stream_id]

    def fields(self, frame: Frame) -> dict[str, str]:
        assert isinstance(frame, HeadersFrame)
        return self.client.decode(frame.data)


def kinds(frames: Sequence[Frame]) -> list[str]:
    return [type(frame).__name__.removesuffix("Frame") for frame in frames]


def end_code(frames: Sequence[Frame]) -> ErrorCode | None:
    """The code with which the server ends the connection."""
    return next((ErrorCode(frame.error_code) for frame in frames if isinstance(frame, GoAwayFrame)), None)


# ---- calls ----


def test_server_begins_with_its_limits() -> None:
    settings, credit, _answer = Session().begin
    assert isinstance(settings, SettingsFrame)
    assert settings.settings == {
        SettingsFrame.MAX_CONCURRENT_STREAMS: 4,
        SettingsFrame.INITIAL_WINDOW_SIZE: REQUEST_WINDOW_BYTES,
        SettingsFrame.MAX_HEADER_LIST_SIZE: REQUEST_METADATA_BYTES_MAX,
    }
    assert isinstance(credit, WindowUpdateFrame)


def test_unary_call_gets_headers_answer_and_trailers() -> None:
    session = Session()
    stream = session.call()
    assert session.heard == [(Happening.BEGUN, 1)]
    assert (stream.head.path, session.connection.size(stream)) == ("/service/Method", 8)
    assert session.connection.take(stream) == b"question"
    session.connection.send(stream, b"answer")
    session.connection.finish(stream, SUCCESS)
    headers, data, trailers = session.sent()
    assert session.fields(headers) == {":status": "200", "content-type": "application/grpc"}
    assert isinstance(data, DataFrame)
    assert data.data == message(b"answer")
    assert session.fields(trailers) == {"grpc-status": "0"}
    assert "END_STREAM" in trailers.flags
    assert session.heard[1:] == [(Happening.ENDED, 1)]
    assert session.connection.calls == 0


def test_error_without_answers_is_trailers_only_and_stops_the_request() -> None:
    session = Session()
    stream = session.call(content=None)
    session.connection.finish(stream, Status(INTERNAL, "käse\n", b"\x08\x0d", [("a", "text"), ("b-bin", b"\xff")]))
    trailers, reset = session.sent()
    assert session.fields(trailers) == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-status": "13",
        "grpc-message": "k%C3%A4se%0A",
        "grpc-status-details-bin": "CA0",
        "a": "text",
        "b-bin": "/w",
    }
    assert isinstance(reset, RstStreamFrame)
    assert reset.error_code == ErrorCode.NO_ERROR
    assert session.receive(session.client.data(1, message(b"late"), ends=True)) == []


def test_answers_of_one_iteration_leave_together_and_share_a_frame() -> None:
    session = Session()
    first, second = session.call(1), session.call(3)
    for number in range(3):
        session.connection.send(first, b"%d" % number)
        session.connection.send(second, b"x")
    data = session.connection.data_to_send()
    frames = session.client.read(data)
    assert kinds(frames) == ["Headers", "Headers", "Data", "Data"]
    assert isinstance(frames[2], DataFrame)
    assert frames[2].data == message(b"0") + message(b"1") + message(b"2")
    assert session.connection.data_to_send() == b""


def test_several_requests_are_taken_one_by_one() -> None:
    session = Session()
    stream = session.call(content=None)
    session.receive(session.client.messages(1, b"a", b"bb"), session.client.data(1, message(b""), ends=True))
    sizes = []
    taken = []
    while (size := session.connection.size(stream)) is not None:
        sizes.append(size)
        taken.append(session.connection.take(stream))
    assert (sizes, taken) == ([1, 2, 0], [b"a", b"bb", b""])
    assert stream.is_read


def test_call_that_the_client_resets_is_cancelled_with_its_answers() -> None:
    session = Session({SettingsFrame.INITIAL_WINDOW_SIZE: 0})
    stream = session.call()
    session.connection.send(stream, b"answer")
    assert session.receive(session.client.reset(1, ErrorCode.CANCEL))[1:] == []
    assert session.heard[1:] == [(Happening.CANCELLED, 1)]
    session.connection.finish(stream, SUCCESS)
    assert session.receive(session.client.credit(0, 1000)) == []


def test_lost_connection_cancels_all_calls() -> None:
    session = Session()
    session.call(1)
    session.call(3)
    session.connection.lose("gone")
    session.sent()
    assert session.heard[2:] == [(Happening.CANCELLED, 1), (Happening.CANCELLED, 3)]
    assert session.connection.is_finished


def test_call_beyond_the_limit_of_streams_is_refused_and_the_next_one_served() -> None:
    session = Session()
    for stream_id in (1, 3, 5, 7):
        session.call(stream_id)
    (reset,) = session.receive(session.client.request(9))
    assert isinstance(reset, RstStreamFrame)
    assert reset.error_code == ErrorCode.REFUSED_STREAM
    session.connection.finish(session.streams[1], SUCCESS)
    session.call(11)
    assert session.heard[-1] == (Happening.BEGUN, 11)


# ---- requests under flow control ----


def credited(frames: Sequence[Frame]) -> int:
    return sum(frame.window_increment for frame in frames if isinstance(frame, WindowUpdateFrame) and frame.stream_id)


def test_request_beyond_the_window_is_received_when_it_is_asked_for() -> None:
    session = Session()
    stream = session.call(content=None)
    content = message(b"x" * 300_000)
    frames = session.receive(*chunks(session.client, content[:REQUEST_WINDOW_BYTES]))
    assert (credited(frames), session.connection.size(stream)) == (0, 300_000)
    session.connection.read_on(stream)
    assert credited(session.sent()) == len(content) - REQUEST_WINDOW_BYTES
    assert session.heard == [(Happening.BEGUN, 1)]
    session.receive(*chunks(session.client, content[REQUEST_WINDOW_BYTES:]))
    assert session.heard[1:] == [(Happening.RECEIVED, 1)]
    assert session.connection.take(stream) == b"x" * 300_000


def chunks(client: Http2Peer, content: bytes) -> list[bytes]:
    step = 16_000
    return [client.data(1, content[at : at + step]) for at in range(0, len(content), step)]


def test_padding_does_not_use_up_the_window_of_a_request() -> None:
    session = Session()
    stream = session.call(content=None)
    content, window = message(b"x" * 100_000), REQUEST_WINDOW_BYTES
    session.connection.read_on(stream)
    for at in range(0, len(content), 1_000):
        piece = content[at : at + 1_000]
        is_padded = len(piece) + 256 <= window  # a client pads as far as the window lets it
        window -= len(piece) + 256 * is_padded
        assert window >= 0
        window += credited(session.receive(session.client.data(1, piece, pad=255 if is_padded else None)))
        if session.heard[-1] == (Happening.RECEIVED, 1) and at + 1_000 < len(content):
            session.heard.pop()
            session.connection.read_on(stream)
            window += credited(session.sent())
    assert session.connection.take(stream) == b"x" * 100_000


def test_window_is_opened_again_for_a_stream_of_small_requests() -> None:
    session = Session()
    stream = session.call(content=None)
    window = REQUEST_WINDOW_BYTES
    for _ in range(100):
        session.connection.read_on(stream)
        window += credited(session.sent())
        data = message(b"x" * 2_000)
        window -= len(data)
        assert window >= 0
        session.receive(session.client.data(1, data))
        assert session.connection.take(stream) == b"x" * 2_000


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x01\x00\x00\x00\x01x", UNIMPLEMENTED),
        (b"\x00" + (MESSAGE_BYTES_MAX + 1).to_bytes(4, "big"), RESOURCE_EXHAUSTED),
        (b"\x00\x00\x00\x00\x05abc", INTERNAL),
        (b"\x00\x00", INTERNAL),
    ],
    ids=["compressed", "too large", "incomplete", "incomplete length"],
)
@pytest.mark.parametrize("waits", [True, False])
def test_malformed_request_is_an_error_of_its_call(data: bytes, status: int, *, waits: bool) -> None:
    session = Session()
    stream = session.call(content=None)
    if waits:
        session.connection.read_on(stream)
    session.receive(session.client.data(1, data, ends=True))
    assert ((Happening.RECEIVED, 1) in session.heard) == waits
    with pytest.raises(GrpcError) as caught:
        session.connection.size(stream)
    assert caught.value.status == status


# ---- answers under flow control ----


def test_answers_and_trailers_wait_for_the_clients_window() -> None:
    session = Session({SettingsFrame.INITIAL_WINDOW_SIZE: 8})
    stream = session.call()
    session.connection.send(stream, b"answer")
    session.connection.finish(stream, SUCCESS)
    assert kinds(session.sent()) == ["Headers", "Data"]
    assert session.connection.unsent_bytes(stream) == 3
    assert session.connection.calls == 1
    frames = session.receive(session.client.credit(1, 100))
    assert kinds(frames) == ["Data", "Headers"]
    assert session.heard[1:] == [(Happening.ENDED, 1)]


def test_owner_learns_when_all_answers_are_sent() -> None:
    session = Session({SettingsFrame.INITIAL_WINDOW_SIZE: 0})
    stream = session.call()
    session.connection.send(stream, b"a" * 100)
    session.connection.report_when_sent(stream)
    session.receive(session.client.credit(1, 104))
    assert session.heard == [(Happening.BEGUN, 1)]
    session.receive(session.client.credit(1, 1))
    assert session.heard[1:] == [(Happening.SENT, 1)]


def test_aborted_call_ends_without_the_answers_that_wait() -> None:
    session = Session({SettingsFrame.INITIAL_WINDOW_SIZE: 0})
    stream = session.call()
    session.connection.send(stream, b"answer")
    session.connection.finish(stream, SUCCESS)
    assert kinds(session.sent()) == ["Headers"]
    session.connection.abort(stream, Status(INTERNAL, "late"))
    (trailers,) = session.sent()
    assert session.fields(trailers) == {"grpc-status": "13", "grpc-message": "late"}
    assert session.connection.calls == 0


# ---- rejected calls ----


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ([(":method", "GET"), *REQUEST[1:], *GRPC], {":status": "405"}),
        ([*REQUEST, ("te", "trailers"), ("content-type", "text/html")], {":status": "415"}),
        ([*REQUEST, ("te", "trailers"), ("content-type", "application/grpcx")], {":status": "415"}),
        ([*REQUEST, *GRPC, ("grpc-timeout", "soon")], {":status": "200", "grpc-status": "3"}),
        ([*REQUEST, *GRPC, ("x-bin", "?")], {":status": "200", "grpc-status": "3"}),
        ([*REQUEST, *GRPC, ("x", "y" * REQUEST_METADATA_BYTES_MAX)], {":status": "200", "grpc-status": "8"}),
        ([*REQUEST, *GRPC, ("x-bin", "," * 1_000)], {":status": "200", "grpc-status": "8"}),
    ],
)
def test_request_that_is_no_valid_call_is_answered_and_the_connection_lives(
    fields: list[tuple[str, str]], answer: dict[str, str]
) -> None:
    session = Session()
    headers, reset = session.receive(session.client.headers(1, fields))
    assert answer.items() <= session.fields(headers).items()
    assert "END_STREAM" in headers.flags
    assert isinstance(reset, RstStreamFrame)
    session.call(3)
    assert session.heard == [(Happening.BEGUN, 3)]


# ---- ends of connections ----


def test_shut_down_lets_calls_end_that_began_before_the_client_knew() -> None:
    session = Session()
    session.call(1)
    session.connection.shut_down()
    goaway, ping = session.sent()
    assert isinstance(goaway, GoAwayFrame)
    assert isinstance(ping, PingFrame)
    assert goaway.last_stream_id == 2**31 - 1
    session.call(3)
    (final,) = session.receive(session.client.ping(ping.opaque_data, is_answer=True))
    assert isinstance(final, GoAwayFrame)
    assert final.last_stream_id == 3
    assert session.receive(session.client.request(5)) == []
    assert session.heard == [(Happening.BEGUN, 1), (Happening.BEGUN, 3)]
    for stream_id in (1, 3):
        assert not session.connection.is_finished
        session.connection.finish(session.streams[stream_id], SUCCESS)
        session.sent()
    assert session.connection.is_finished


def test_client_that_leaves_keeps_its_calls() -> None:
    session = Session()
    session.call(1)
    session.receive(session.client.goaway(0))
    assert not session.connection.is_finished
    session.connection.finish(session.streams[1], SUCCESS)
    session.sent()
    assert session.connection.is_finished


def test_client_of_another_protocol_is_not_answered() -> None:
    connection = ServerConnection(OPTIONS, ManualClock().monotonic)
    connection.data_to_send()
    connection.receive(b"GET / HTTP/1.1\r\n\r\n")
    assert (connection.is_finished, connection.data_to_send()) == (True, b"")


# ---- any bytes ----


def conversation(client: Http2Peer) -> bytes:
    return b"".join(
        [
            client.hello(WIDE),
            client.request(1, ("x-request-id", "req_1")),
            client.request(3, ("long", "x" * 300)),
            client.data(1, message(b"a" * 100), ends=True),
            client.data(3, message(b"b" * 20)[:7]),
            client.ping(),
            client.data(3, message(b"b" * 20)[7:], pad=3),
            client.headers(5, [*REQUEST, *GRPC], ends=True, cut=20),
            client.reset(5, ErrorCode.CANCEL),
            client.data(3, b"", ends=True),
            client.credit(0, 1_000),
        ]
    )


def served(pieces: Sequence[bytes]) -> tuple[list[tuple[Happening, int]], dict[int, list[bytes]]]:
    """Serves a conversation. Returns what happened, but for arrivals, and the requests of each stream."""
    connection = ServerConnection(OPTIONS, ManualClock().monotonic)
    heard = []
    requests: dict[int, list[bytes]] = defaultdict(list)
    left = [*pieces]
    while left or connection.has_unread:
        connection.receive(b"" if connection.has_unread else left.pop(0))
        for kind, stream in connection.take_events():
            heard.append((kind, stream.id))
            while not stream.is_ended and (request := connection.take(stream)) is not None:
                requests[stream.id].append(request)
            if not stream.is_ending and not stream.is_read:
                connection.read_on(stream)
        connection.data_to_send()
    return [each for each in heard if each[0] is not Happening.RECEIVED], requests


@given(st.lists(st.integers(0, 1_000), max_size=30))
def test_cuts_of_the_clients_bytes_mean_nothing(cuts: list[int]) -> None:
    data = conversation(Http2Peer(is_client=True))
    points = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    pieces = [data[start:stop] for start, stop in pairwise(points)]
    whole = served([data[at : at + 1] for at in range(len(data))])
    assert served(pieces) == whole


@st.composite
def frames_of_a_client(draw: st.DrawFn) -> bytes:
    """Frames with any type, flags, stream and content."""
    out = b""
    for _ in range(draw(st.integers(1, 12))):
        content = draw(st.binary(max_size=40))
        kind, flags = draw(st.integers(0, 10)), draw(st.integers(0, 255))
        stream_id = draw(st.sampled_from([0, 1, 2, 3, 5, 2**31 - 1, 2**31 + 1]))
        out += len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + content
    return out


@given(frames_of_a_client() | st.binary(max_size=300), st.booleans())
def test_any_bytes_end_calls_or_the_connection_and_raise_nothing(data: bytes, has_calls: bool) -> None:
    session = Session(WIDE)
    if has_calls:
        session.call(1, None)
        session.connection.read_on(session.streams[1])
    session.receive(data)
    for stream in list(session.streams.values()):
        session.connection.finish(stream, SUCCESS)
    session.sent()
    assert session.connection.is_closed or session.connection.calls == 0

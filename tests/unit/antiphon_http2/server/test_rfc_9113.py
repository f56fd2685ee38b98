"""RFC 9113 case by case, in the way of h2spec: errors of connections and of streams, and what
must be tolerated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
)

from antiphon_core.clock import ManualClock
from antiphon_http2.server.answers import SUCCESS
from antiphon_http2.server.connection import ServerConnection
from antiphon_http2.server.events import Happening
from antiphon_http2.statuses import ErrorCode
from tests.support.http2_peer import GRPC, REQUEST, Http2Peer, message
from tests.unit.antiphon_http2.server.test_connection import OPTIONS, Session, end_code, kinds

Bytes = Callable[[Http2Peer], bytes]
CALL = [*REQUEST, *GRPC]


def raw(kind: int, flags: int, stream_id: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + content


CONNECTION_ERRORS: list[tuple[str, Bytes, ErrorCode]] = [
    ("4.2 a frame beyond the largest size", lambda _: raw(0, 0, 1, bytes(16_385)), ErrorCode.FRAME_SIZE_ERROR),
    ("4.3 a block that is no HPACK", lambda _: raw(1, 4, 3, b"\xff\xff\xff\xff"), ErrorCode.COMPRESSION_ERROR),
    ("4.3 another frame within a block", lambda p: raw(1, 0, 3, b"") + p.ping(), ErrorCode.PROTOCOL_ERROR),
    ("4.3 a block of another stream", lambda _: raw(1, 0, 3, b"") + raw(9, 4, 5, b""), ErrorCode.PROTOCOL_ERROR),
    ("5.1 idle: DATA", lambda p: p.data(5, b"x"), ErrorCode.PROTOCOL_ERROR),
    ("5.1 idle: RST_STREAM", lambda p: p.reset(5, 8), ErrorCode.PROTOCOL_ERROR),
    ("5.1 idle: WINDOW_UPDATE", lambda p: p.credit(5, 1), ErrorCode.PROTOCOL_ERROR),
    ("5.1 idle: CONTINUATION", lambda _: ContinuationFrame(5, b"").serialize(), ErrorCode.PROTOCOL_ERROR),
    ("5.1.1 a stream of an even number", lambda p: p.headers(2, CALL), ErrorCode.PROTOCOL_ERROR),
    ("6.1 DATA on stream 0", lambda _: raw(0, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
    ("6.1 padding beyond the frame", lambda _: raw(0, 8, 1, b"\x06abcde"), ErrorCode.PROTOCOL_ERROR),
    ("6.2 HEADERS on stream 0", lambda _: raw(1, 4, 0, b""), ErrorCode.PROTOCOL_ERROR),
    ("6.4 RST_STREAM on stream 0", lambda _: raw(3, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    ("6.4 RST_STREAM of a wrong size", lambda _: raw(3, 0, 1, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
    ("6.5 SETTINGS on a stream", lambda _: raw(4, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
    ("6.5 SETTINGS of a wrong size", lambda _: raw(4, 0, 0, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
    ("6.5.2 ENABLE_PUSH of 2", lambda p: p.settings({SettingsFrame.ENABLE_PUSH: 2}), ErrorCode.PROTOCOL_ERROR),
    ("6.5.2 a window of 2^31", lambda p: p.settings({4: 2**31}), ErrorCode.FLOW_CONTROL_ERROR),
    ("6.5.2 frames of 2^14 - 1", lambda p: p.settings({5: 2**14 - 1}), ErrorCode.PROTOCOL_ERROR),
    ("6.6 PUSH_PROMISE of a client", lambda _: raw(5, 4, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    ("6.7 PING on a stream", lambda _: raw(6, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    ("6.7 PING of a wrong size", lambda _: raw(6, 0, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
    ("6.8 GOAWAY on a stream", lambda _: raw(7, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    ("6.9 WINDOW_UPDATE of 0", lambda _: raw(8, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    ("6.9.1 a window beyond 2^31 - 1", lambda p: p.credit(0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    ("6.9.1 more data than the window", lambda p: p.data(1, bytes(16_000)) * 5, ErrorCode.FLOW_CONTROL_ERROR),
    ("6.10 CONTINUATION without a block", lambda _: raw(9, 4, 1, b""), ErrorCode.PROTOCOL_ERROR),
]


@pytest.mark.parametrize(("case", "data", "code"), CONNECTION_ERRORS, ids=[case for case, _, _ in CONNECTION_ERRORS])
def test_error_of_the_connection_ends_it_with_its_code(case: str, data: Bytes, code: ErrorCode) -> None:
    session = Session()
    session.call(1, None)
    frames = session.receive(data(session.client))
    assert end_code(frames) == code, case
    assert session.connection.is_finished
    assert session.heard[-1] == (Happening.CANCELLED, 1)


def test_goaway_shows_no_address_of_memory() -> None:
    """hpack names the object in which a number has no end."""
    session = Session()
    goaway = session.receive(raw(1, 4, 3, b"\xff" * 7 + b"\x7f"))[-1]
    assert isinstance(goaway, GoAwayFrame)
    assert goaway.additional_data == b"A header block is malformed."


def fields(*extra: tuple[str, str], pseudo: list[tuple[str, str]] | None = None) -> Bytes:
    return lambda p: p.headers(3, [*(REQUEST if pseudo is None else pseudo), *GRPC, *extra])


STREAM_ERRORS: list[tuple[str, Bytes, int, ErrorCode]] = [
    (
        "5.1 half-closed: DATA",
        lambda p: p.data(1, b"", ends=True) + p.data(1, b"x"),
        1,
        ErrorCode.STREAM_CLOSED,
    ),
    (
        "5.1 half-closed: HEADERS",
        lambda p: p.data(1, b"", ends=True) + p.headers(1, [("a", "b")], ends=True),
        1,
        ErrorCode.STREAM_CLOSED,
    ),
    ("8.1 trailers that end nothing", lambda p: p.headers(1, [("a", "b")]), 1, ErrorCode.PROTOCOL_ERROR),
    ("8.2.1 a name in capitals", fields(("X-Name", "v")), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.2.1 a name with a space", fields(("a b", "v")), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.2.1 an empty name", fields(("", "v")), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.2.1 a value with a line break", fields(("a", "b\r\nc: d")), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.2.2 connection", fields(("connection", "close")), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.2.2 te other than trailers", fields(("te", "gzip")), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.3 unknown pseudo-header", fields(pseudo=[*REQUEST, (":x", "y")]), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.3 pseudo-header of an answer", fields(pseudo=[*REQUEST, (":status", "200")]), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.3 pseudo-header behind a field", fields((":path", "/x")), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.3.1 no method", fields(pseudo=list(REQUEST[1:])), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.3.1 no scheme", fields(pseudo=[REQUEST[0], *REQUEST[2:]]), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.3.1 no path", fields(pseudo=[*REQUEST[:2], REQUEST[3]]), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.3.1 an empty path", fields(pseudo=[*REQUEST[:2], (":path", "")]), 3, ErrorCode.PROTOCOL_ERROR),
    ("8.3.1 two paths", fields(pseudo=[*REQUEST, (":path", "/x")]), 3, ErrorCode.PROTOCOL_ERROR),
]


@pytest.mark.parametrize(("case", "data", "stream_id", "code"), STREAM_ERRORS, ids=[case for case, *_ in STREAM_ERRORS])
def test_error_of_a_stream_resets_it_and_no_other(case: str, data: Bytes, stream_id: int, code: ErrorCode) -> None:
    session = Session()
    session.call(1, None)
    frames = session.receive(data(session.client))
    assert [(frame.stream_id, frame.error_code) for frame in frames if isinstance(frame, RstStreamFrame)] == [
        (stream_id, code)
    ], case
    assert not session.connection.is_closed
    session.call(7)
    assert session.heard[-1] == (Happening.BEGUN, 7)


TOLERATED: list[tuple[str, Bytes]] = [
    ("4.1 a frame of an unknown type", lambda _: raw(0xB, 0xFF, 0, b"whatever")),
    ("4.1 unknown flags", lambda _: raw(6, 0xFE, 0, bytes(8))),
    ("5.1 closed: PRIORITY", lambda _: PriorityFrame(3, depends_on=1).serialize()),
    ("5.1 closed: RST_STREAM", lambda p: p.reset(3, 8)),
    ("5.1 closed: WINDOW_UPDATE", lambda p: p.credit(3, 100)),
    ("5.1 closed: DATA", lambda p: p.data(3, b"late", ends=True)),
    ("5.1 closed: HEADERS", lambda p: p.headers(3, [("late", "trailer")], ends=True)),
    ("6.1 padding", lambda p: p.data(1, b"", pad=3)),
    ("6.5.2 unknown settings", lambda p: p.settings({0xFF: 1})),
    ("6.5.3 the answer to SETTINGS", lambda _: SettingsFrame(flags=["ACK"]).serialize()),
    ("6.7 an answer to no PING", lambda p: p.ping(is_answer=True)),
    ("8.1 trailers", lambda p: p.headers(1, [("a", "b")], ends=True)),
]


@pytest.mark.parametrize(("case", "data"), TOLERATED, ids=[case for case, _ in TOLERATED])
def test_what_is_allowed_disturbs_no_call(case: str, data: Bytes) -> None:
    session = Session()
    session.call(1, None)
    session.call(3)
    session.connection.finish(session.streams[3], SUCCESS)
    session.sent()
    frames = session.receive(data(session.client))
    assert not {"GoAway", "RstStream"} & set(kinds(frames)), case
    session.connection.finish(session.streams[1], SUCCESS)
    session.sent()
    assert session.heard[-1] == (Happening.ENDED, 1)


def test_a_connection_begins_with_settings() -> None:
    connection, client = ServerConnection(OPTIONS, ManualClock().monotonic), Http2Peer(is_client=True)
    connection.receive(client.hello()[:24] + client.ping())
    assert end_code(client.read(connection.data_to_send())) == ErrorCode.PROTOCOL_ERROR


def test_settings_and_pings_are_answered() -> None:
    session = Session()
    answer, pong = session.receive(session.client.settings({3: 1}), session.client.ping(b"abcdefgh"))
    assert isinstance(pong, PingFrame)
    assert (kinds([answer, pong]), list(answer.flags), pong.opaque_data) == (["Settings", "Ping"], ["ACK"], b"abcdefgh")


def test_headers_with_priority_and_padding_are_read() -> None:
    session = Session()
    plain = HeadersFrame(1)
    plain.parse_body(memoryview(session.client.headers(1, CALL)[9:]))
    frame = HeadersFrame(1, plain.data, flags=["END_HEADERS", "PRIORITY", "PADDED"], pad_length=9)
    session.receive(frame.serialize(), DataFrame(1, message(b"x"), flags=["END_STREAM"]).serialize())
    assert session.streams[1].head.path == "/service/Method"


def test_a_change_of_the_initial_window_applies_to_open_streams() -> None:
    session = Session({4: 4})
    stream = session.call()
    session.connection.send(stream, b"answer")
    session.sent()
    assert kinds(session.receive(session.client.settings({4: 0}))) == ["Settings"]
    assert kinds(session.receive(session.client.credit(1, 4))) == []
    assert kinds(session.receive(session.client.settings({4: 7}))) == ["Settings", "Data"]

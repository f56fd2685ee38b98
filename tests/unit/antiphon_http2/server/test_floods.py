"""Floods of frames that do no call any good: each ends with ENHANCE_YOUR_CALM after work that a
table bounds, and an honest client is never told so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hpack import Encoder
from hyperframe.frame import ContinuationFrame, GoAwayFrame, HeadersFrame, SettingsFrame

from antiphon_core.clock import ManualClock
from antiphon_http2.limits import (
    CONTROL_ITEMS_MAX,
    REQUEST_BLOCK_BYTES_MAX,
    REQUEST_LIST_BYTES_MAX,
    STEP_ITEMS_MAX,
    STRANGER_ITEMS_MAX,
    STREAMS_ITEMS_MAX,
)
from antiphon_http2.server.answers import SUCCESS, Status
from antiphon_http2.server.events import Happening
from antiphon_http2.server.options import ServerOptions
from antiphon_http2.server.strangers import AddressBudgets
from antiphon_http2.statuses import INVALID_ARGUMENT, UNAUTHENTICATED, ErrorCode
from tests.support.http2_peer import GRPC, REQUEST, Http2Peer, message
from tests.unit.antiphon_http2.server.test_connection import Session, end_code

LARGE = ServerOptions()


FLOODS: dict[str, tuple[Callable[[Http2Peer, int], bytes], int]] = {
    "pings": (lambda client, _: client.ping(), CONTROL_ITEMS_MAX),
    "answers to pings": (lambda client, _: client.ping(is_answer=True), CONTROL_ITEMS_MAX),
    "settings": (lambda client, _: client.settings(), CONTROL_ITEMS_MAX),
    "settings of many entries": (
        lambda client, _: client.settings(dict.fromkeys(range(0x50, 0xF0), 1)),
        CONTROL_ITEMS_MAX // 15,
    ),
    "window updates": (lambda client, _: client.credit(0, 1), CONTROL_ITEMS_MAX),
    "empty data": (lambda client, _: client.data(1, b""), CONTROL_ITEMS_MAX),
    "data of one byte": (lambda client, _: client.data(1, b"\0"), CONTROL_ITEMS_MAX),
    "padding": (lambda client, _: client.data(1, b"", pad=0), CONTROL_ITEMS_MAX),
    "data of ended calls": (lambda client, _: client.data(3, b"x"), CONTROL_ITEMS_MAX),
    "headers of ended calls": (lambda client, _: client.headers(3, [("a", "b")], ends=True), CONTROL_ITEMS_MAX),
    "unknown frames": (lambda _client, _: bytes([0, 0, 0, 0xFF, 0, 0, 0, 0, 0]), CONTROL_ITEMS_MAX),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_flood_ends_the_connection_within_its_budget(flood: str) -> None:
    make, most = FLOODS[flood]
    session = Session(options=LARGE)
    session.call(1, None)
    if "ended" in flood:
        session.call(3)
        session.connection.finish(session.streams[3], SUCCESS)
    sent = 0
    while (code := end_code(session.receive(make(session.client, sent)))) is None:
        sent += 1
    assert code == ErrorCode.ENHANCE_YOUR_CALM
    assert sent <= most + 6
    assert session.connection.calls == 0


def test_a_budget_fills_again_with_time_and_with_the_work_of_calls() -> None:
    session = Session(options=LARGE)
    for number in range(3 * CONTROL_ITEMS_MAX):
        session.call(2 * number + 1)
        session.connection.send(session.streams[2 * number + 1], b"answer")
        session.connection.finish(session.streams[2 * number + 1], SUCCESS)
        assert end_code(session.receive(session.client.ping(), session.client.credit(0, 11))) is None
    for _ in range(3):
        session.clock.advance(CONTROL_ITEMS_MAX / 1_000)
        assert end_code(session.receive(session.client.ping() * (CONTROL_ITEMS_MAX - 1))) is None


def test_as_many_calls_as_are_allowed_may_begin_and_be_cancelled_at_once() -> None:
    session, calls = Session(options=LARGE), range(1, 2 * STREAMS_ITEMS_MAX, 2)
    for stream_id in calls:
        session.call(stream_id)
    assert end_code(session.receive(*(session.client.reset(each, ErrorCode.CANCEL) for each in calls))) is None
    assert session.heard.count((Happening.BEGUN, 1)) == 1
    assert session.connection.calls == 0


@pytest.mark.parametrize(
    ("flood", "most"),
    [
        ("calls", 3),
        ("calls of many fields", 1),
        ("calls of many joined values", 1),
        ("pings", STEP_ITEMS_MAX),
        ("settings", STEP_ITEMS_MAX),
    ],
)
def test_step_handles_a_part_of_a_flood_and_leaves_the_rest(flood: str, most: int) -> None:
    session = Session(options=LARGE)
    fields = [("x", "y")] * (400 if "fields" in flood else 0)
    fields += [("x-bin", ",".join(["AAAA"] * 380))] * ("values" in flood)
    pieces = {
        "pings": lambda _: session.client.ping(),
        "settings": lambda _: session.client.settings(),
    }
    piece: Callable[[int], bytes] = pieces.get(
        flood, lambda number: session.client.request(2 * number + 1, *fields, ends=True)
    )
    session.connection.receive(b"".join(piece(number) for number in range(200)))
    for _ in range(200 // most - 1):
        assert session.connection.has_unread
        answered = [frame for frame in session.sent() if not isinstance(frame, GoAwayFrame)]
        begun = [kind for kind, _ in session.heard if kind is Happening.BEGUN]
        assert 0 < len(answered) + len(begun) <= most
        session.heard.clear()
        session.connection.receive(b"")
    while session.connection.has_unread:
        session.connection.receive(b"")
    session.sent()
    assert not session.connection.is_closed


def test_step_handles_a_part_of_many_short_pieces_of_a_message() -> None:
    session = Session(options=LARGE)
    stream = session.call(1, None)
    session.connection.receive(b"".join(session.client.data(1, bytes(200)) for _ in range(200)))
    assert session.connection.has_unread
    assert len(stream.requests) == STEP_ITEMS_MAX * 200


# ---- calls of strangers ----

CALLS_MAX = STRANGER_ITEMS_MAX // 18
STRANGERS: dict[str, tuple[Callable[[Http2Peer, int], bytes], int]] = {
    "rejected by the owner": (lambda client, at: client.request(at), CALLS_MAX),
    "rapid reset": (lambda client, at: client.request(at) + client.reset(at, ErrorCode.CANCEL), CALLS_MAX),
    "malformed": (lambda client, at: client.headers(at, [*REQUEST, *GRPC, ("te", "gzip")]), CALLS_MAX),
    "no gRPC": (lambda client, at: client.headers(at, REQUEST), CALLS_MAX),
    "no base64": (lambda client, at: client.request(at, ("x-bin", "!")), CALLS_MAX),
    "many fields": (lambda client, at: client.request(at, *[("x", "y")] * 400), CALLS_MAX // 15),
    "joined values": (lambda client, at: client.request(at, ("x-bin", ",".join(["AAAA"] * 380))), CALLS_MAX // 15),
    "long values": (lambda client, at: client.request(at, ("x", f"{at:010d}" * 1_000)), CALLS_MAX // 5),
}


def flood_of_strangers(session: Session, make: Callable[[Http2Peer, int], bytes], first_id: int = 3) -> int:
    """Begins calls, which the owner rejects, until the server takes no more. Returns their number."""
    for stream_id in range(first_id, 2**20, 2):
        frames = session.receive(make(session.client, stream_id))
        if (stream := session.streams.get(stream_id)) is not None:
            session.connection.finish(stream, Status(UNAUTHENTICATED))
            frames += session.sent()
        if (code := end_code(frames)) is not None:
            assert code == ErrorCode.ENHANCE_YOUR_CALM
            return stream_id // 2
    raise AssertionError("the flood has no end")


@pytest.mark.parametrize("kind", STRANGERS)
def test_connection_with_too_many_calls_of_strangers_takes_no_more_and_ends_its_known_ones(kind: str) -> None:
    make, most = STRANGERS[kind]
    session = Session(options=LARGE)
    running = session.call(1)
    assert flood_of_strangers(session, make) <= most + 1
    assert not session.connection.is_closed
    assert session.receive(session.client.request(2**20 + 1)) == []
    session.connection.finish(running, SUCCESS)
    assert "END_STREAM" in session.sent()[-1].flags
    assert session.connection.is_finished


def test_connections_of_strangers_share_the_budget_of_their_address_and_known_ones_do_not() -> None:
    clock = ManualClock()
    address = AddressBudgets(clock.monotonic).of("10.0.0.1")
    counts = []
    for _ in range(10):
        session = Session(options=LARGE)
        session.connection.strangers.share(address)
        counts.append(flood_of_strangers(session, STRANGERS["malformed"][0]))
    assert sum(counts[:5]) <= 5 * CALLS_MAX
    assert counts[5:] == [1] * 5
    known = Session(options=LARGE)
    known.connection.strangers.share(address)
    known.call(1)
    assert flood_of_strangers(known, STRANGERS["malformed"][0]) > CALLS_MAX // 2
    clock.advance(10.0)
    later = Session(options=LARGE)
    later.connection.strangers.share(address)
    assert flood_of_strangers(later, STRANGERS["malformed"][0]) > CALLS_MAX // 2


def test_calls_of_known_callers_are_not_counted() -> None:
    session = Session(options=LARGE)
    for stream_id in range(1, 3 * 2 * CALLS_MAX, 2):
        stream = session.call(stream_id)
        session.connection.finish(stream, Status(INVALID_ARGUMENT))
        assert end_code(session.sent()) is None


# ---- header blocks ----


def block_frames(block: bytes, *, step: int = 16_000) -> bytes:
    pieces = [block[at : at + step] for at in range(0, len(block), step)]
    first, *others = pieces
    out = [HeadersFrame(1, first, flags=[] if others else ["END_HEADERS"]).serialize()]
    for number, piece in enumerate(others, start=1):
        out.append(ContinuationFrame(1, piece, flags=["END_HEADERS"] if number == len(others) else []).serialize())
    return b"".join(out)


def bomb(indexes: int) -> bytes:
    """One value of 4,000 bytes, and references to it: each byte becomes 4,000 in the decoded list."""
    encoder = Encoder()
    first = encoder.encode([*REQUEST, ("x", "y" * 4_000)], huffman=False)
    return first + b"\xbe" * indexes


def test_a_block_that_expands_is_stopped_while_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """grpcio took 500 KB of such a block for a head of 90 MB before it looked at its limit."""
    session = Session(options=LARGE)
    decoded: list[int] = []
    decode = session.connection._codec._decoder._decode_indexed

    def count(data: bytes) -> object:
        decoded.append(len(data))
        return decode(data)

    monkeypatch.setattr(session.connection._codec._decoder, "_decode_indexed", count)
    frames = session.receive(block_frames(bomb(REQUEST_BLOCK_BYTES_MAX // 2)))
    assert end_code(frames) == ErrorCode.ENHANCE_YOUR_CALM
    assert len(decoded) <= len(REQUEST) + REQUEST_LIST_BYTES_MAX // 4_000 + 1
    assert session.heard == []


@pytest.mark.parametrize("step", [16_000, 100, 1], ids=["500 KB", "small frames", "frames of one byte"])
def test_a_block_is_bounded_before_it_is_decoded(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(options=LARGE)
    monkeypatch.setattr(session.connection._codec._decoder, "decode", pytest.fail)
    assert end_code(session.receive(block_frames(bomb(20 * step + 20_000), step=step))) == ErrorCode.ENHANCE_YOUR_CALM


def test_continuations_without_bytes_are_bounded() -> None:
    session = Session(options=LARGE)
    session.receive(HeadersFrame(1, b"").serialize())
    empty = ContinuationFrame(1, b"").serialize()
    assert end_code(session.receive(empty * (REQUEST_BLOCK_BYTES_MAX // 9 + 1))) == ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    ("block", "code"),
    [
        (b"\x20" * 3, ErrorCode.COMPRESSION_ERROR),
        (b"\x3f\xe1\x1f" * 3, ErrorCode.COMPRESSION_ERROR),
        (b"\x20\x3f\xe1\x1f", None),
        (b"\x00\x01a\x01b" * 2_000, ErrorCode.ENHANCE_YOUR_CALM),
    ],
    ids=["changes of the table", "long changes", "as many as an encoder needs", "fields"],
)
def test_parts_of_a_block_are_counted(block: bytes, code: ErrorCode | None) -> None:
    session = Session(options=LARGE)
    frames = session.receive(block_frames(block + Encoder().encode([*REQUEST, *GRPC])))
    assert end_code(frames) == code


def test_an_unread_call_holds_its_window_and_no_more() -> None:
    session = Session(options=LARGE)
    stream = session.call(1, None)
    session.receive(*(session.client.data(1, message(b"") * 1_000) for _ in range(13)))
    assert len(stream.requests) == 65_000
    frames = session.receive(session.client.data(1, bytes(1_000)))
    assert end_code(frames) == ErrorCode.FLOW_CONTROL_ERROR


def test_a_client_that_changes_the_window_of_many_calls_is_charged_for_each() -> None:
    session = Session({SettingsFrame.INITIAL_WINDOW_SIZE: 0}, options=LARGE)
    for number in range(STREAMS_ITEMS_MAX):
        session.call(2 * number + 1)
    sent = 1
    while not session.connection.is_closed:
        sent += 1
        session.receive(session.client.settings({SettingsFrame.INITIAL_WINDOW_SIZE: sent}))
    assert sent * STREAMS_ITEMS_MAX <= 16 * CONTROL_ITEMS_MAX

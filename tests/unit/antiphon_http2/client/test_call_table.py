"""The call table alone. test_connection.py tests the effect of frames on the table."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon_http2.client.call_table import CallTable
from antiphon_http2.client.options import Options
from antiphon_http2.client.requests import Request
from antiphon_http2.client.stream import Stream
from antiphon_http2.errors import ConnectionLost, GrpcError
from antiphon_http2.frames import STREAM_ID_MAX, ConnectionFault
from antiphon_http2.header_codec import HeaderCodec
from antiphon_http2.limits import ANSWER_HEADERS_BYTES_MAX, SLICE_MESSAGES_MAX
from antiphon_http2.messages import frame_message
from antiphon_http2.sending import Sender

REQUEST = Request("host:1", "http", "/service/Method", b"question")
CANCELLED = GrpcError(1, "cancelled")


class Table(CallTable):
    """A call table that records sent bytes, and messages and ends of calls in order."""

    def __init__(self, streams_max: int = 100) -> None:
        self.out: list[bytes] = []
        self.sender = Sender()
        self.heard: list[tuple[int, object]] = []
        super().__init__(self.out, HeaderCodec(ANSWER_HEADERS_BYTES_MAX), self.sender, Options())
        self.closed_reason = None
        self.streams_max = streams_max

    def call(self) -> Stream:
        number = len(self.heard_by)
        self.heard_by.append(number)

        def receive(messages: Sequence[bytes]) -> None:
            self.heard.append((number, list(messages)))

        def on_end(outcome: Exception | None) -> None:
            self.heard.append((number, outcome))

        return self.open(REQUEST, receive, on_end)

    heard_by: list[int]

    def feed(self, stream: Stream, content: bytes) -> None:
        stream.messages.feed(frame_message(content), 0, 5 + len(content))
        self.unsettle(stream)


@pytest.fixture
def table() -> Table:
    made = Table(streams_max=2)
    made.heard_by = []
    return made


def test_calls_get_odd_ids_up_to_what_the_server_allows(table: Table) -> None:
    assert [table.call().id for _ in range(3)] == [1, 3, 0]


def test_waiting_call_begins_when_another_ends(table: Table) -> None:
    first, _second, third, fourth = (table.call() for _ in range(4))
    table.end(first, None)
    assert (third.id, fourth.id) == (5, 0)


def test_waiting_calls_begin_when_the_server_allows_more(table: Table) -> None:
    _first, _second, third, fourth = (table.call() for _ in range(4))
    table.streams_max = 3
    table.begin_waiting()
    assert (third.id, fourth.id) == (5, 0)


def test_cancelled_waiting_call_is_never_sent(table: Table) -> None:
    first, _second, third, fourth = (table.call() for _ in range(4))
    sent = len(table.out)
    assert table.cancel(third, CANCELLED)
    assert len(table.out) == sent
    table.end(first, None)
    assert (third.id, fourth.id) == (0, 5)
    assert table.heard == [(2, CANCELLED)]


def test_cancel_of_a_call_that_has_ended_does_nothing(table: Table) -> None:
    stream = table.call()
    table.end(stream, None)
    table.settle()
    assert not table.cancel(stream, CANCELLED)
    assert table.heard == [(0, None)]


def test_cancel_wins_over_an_end_that_was_not_reported(table: Table) -> None:
    stream = table.call()
    table.pause(stream)
    table.feed(stream, b"a")
    table.end(stream, None)
    table.settle()
    sent = len(table.out)
    assert table.cancel(stream, CANCELLED)
    assert table.heard == [(0, CANCELLED)]
    assert len(table.out) == sent  # no reset of a stream that is over


def test_connection_that_takes_no_calls_gives_the_reason(table: Table) -> None:
    table.refuse_above(0, "maintenance")
    with pytest.raises(ConnectionLost, match="maintenance") as caught:
        table.call()
    assert caught.value.is_unprocessed


def test_connection_out_of_stream_ids_takes_no_calls(table: Table) -> None:
    table._next_id = STREAM_ID_MAX
    assert table.call().id == STREAM_ID_MAX
    assert not table.can_open
    with pytest.raises(ConnectionLost):
        table.call()


def test_lost_connection_ends_all_calls_and_knows_which_were_not_sent(table: Table) -> None:
    for _ in range(3):
        table.call()
    table.lose("gone")
    table.settle()
    ends = {number: outcome for number, outcome in table.heard if isinstance(outcome, ConnectionLost)}
    assert {number: end.is_unprocessed for number, end in ends.items()} == {0: False, 1: False, 2: True}


def test_each_stream_is_settled_once_however_often_it_changed(table: Table) -> None:
    first, second = table.call(), table.call()
    for stream, content in ((first, b"a"), (second, b"b"), (first, b"c")):
        table.feed(stream, content)
    table.end(first, None)
    table.settle()
    assert table.heard == [(0, [b"a", b"c"]), (0, None), (1, [b"b"])]


def test_frames_of_streams_that_never_were_are_a_fault(table: Table) -> None:
    table.call()
    for stream_id in (0, 2, 3):
        with pytest.raises(ConnectionFault):
            table.find(stream_id)


def test_frames_of_a_stream_that_has_ended_belong_to_none(table: Table) -> None:
    stream = table.call()
    assert table.find(1) is stream
    table.end(stream, None)
    assert table.find(1) is None
    assert not table.has_open


def test_stream_that_is_behind_gets_no_credit_and_can_be_paused_and_cancelled(table: Table) -> None:
    stream = table.call()
    stream.begin_reading()
    stream.owed_bytes = Options().stream_window_bytes
    for _ in range(3 * SLICE_MESSAGES_MAX):
        table.feed(stream, b"a")
    sent = len(table.out)
    table.settle()
    assert (table.is_behind, len(table.out)) == (True, sent)
    table.pause(stream)
    table.settle_rest()
    assert not table.is_behind
    table.resume(stream)
    assert table.is_behind
    table.cancel(stream, CANCELLED)
    table.settle_rest()
    assert not table.is_behind
    assert [len(heard) if isinstance(heard, list) else heard for _, heard in table.heard] == [
        SLICE_MESSAGES_MAX,
        SLICE_MESSAGES_MAX,
        CANCELLED,
    ]

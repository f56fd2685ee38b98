from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

from antiphon_http2.client.requests import Request
from antiphon_http2.client.stream import Stream
from antiphon_http2.messages import frame_message

REQUEST = Request("host:1", "http", "/service/Method", b"question")


class Caller:
    def __init__(self) -> None:
        self.calls: list[object] = []
        self.stream = Stream(REQUEST, self.receive, self.on_end, message_bytes_max=100)

    def receive(self, messages: Sequence[bytes]) -> None:
        self.calls.append(list(messages))

    def on_end(self, outcome: Exception | None) -> None:
        self.calls.append(outcome)

    def feed(self, content: bytes) -> None:
        self.stream.messages.feed(frame_message(content), 0, 5 + len(content))


def test_messages_are_delivered_together_and_once() -> None:
    caller = Caller()
    caller.feed(b"a")
    caller.feed(b"b")
    caller.stream.deliver()
    caller.stream.deliver()
    assert caller.calls == [[b"a", b"b"]]


def test_end_is_reported_once_after_the_messages() -> None:
    caller, error = Caller(), ValueError()
    caller.feed(b"a")
    caller.stream.end(error)
    caller.stream.report()
    assert caller.calls == []
    caller.stream.deliver()
    caller.stream.report()
    caller.stream.report()
    assert caller.calls == [[b"a"], error]


def test_paused_stream_keeps_its_messages_and_its_end() -> None:
    caller = Caller()
    caller.feed(b"a")
    caller.stream.is_paused = True
    caller.stream.end(None)
    caller.stream.deliver()
    caller.stream.report()
    assert caller.calls == []
    caller.stream.is_paused = False
    caller.stream.deliver()
    caller.stream.report()
    assert caller.calls == [[b"a"], None]


def test_end_does_not_wait_for_dropped_messages() -> None:
    caller = Caller()
    caller.feed(b"a")
    caller.stream.drop_messages()
    caller.stream.end(None)
    caller.stream.report()
    assert caller.calls == [None]


def test_request_is_kept_until_the_server_answers() -> None:
    caller = Caller()
    assert caller.stream.headers == REQUEST.headers
    assert caller.stream.body == frame_message(b"question")
    caller.stream.begin_reading()
    assert caller.stream.body == b""
    assert caller.stream.has_headers


def test_a_reported_stream_holds_its_caller_no_longer() -> None:
    gc.disable()
    try:
        caller = Caller()
        caller.stream.end(None)
        caller.stream.report()
        gone = weakref.ref(caller)
        del caller
        assert gone() is None
    finally:
        gc.enable()

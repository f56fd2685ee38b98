from __future__ import annotations

import pytest

from antiphon_core.errors import EngineFault
from antiphon_core.jsons import loads
from antiphon_translator.engines import sse
from antiphon_translator.engines.sse import Data, ErrorData, EventData

STREAM = (
    b': ping\n\ndata: {"a":1}\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\nid: 7\n\ndata: [DONE]\n\ndata: cut off\n'
)
EVENTS = [b'{"a":1}', b"two\nlines", b"[DONE]"]


@pytest.mark.parametrize("size", [1, 2, 7, len(STREAM)])
def test_event_data_does_not_depend_on_how_the_stream_is_cut(size: int) -> None:
    events = EventData()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [data for piece in pieces for data in events.feed(piece)] == EVENTS


def events_in(stream: bytes, size: int) -> list[Data]:
    """The data of all events, of a stream that is read in pieces of this size and then ends."""
    events = EventData()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    return [data for piece in pieces for data in events.feed(piece)] + events.finish()


@pytest.mark.parametrize("size", [1, 2, 5, 1_000])
@pytest.mark.parametrize(
    "stream",
    [
        b'\xef\xbb\xbfdata: {"a":1}\n\ndata: [DONE]\n\n',
        b'data: {"a":1}\r\rdata: [DONE]\r\r',
        b'data:{"a":1}\r\n\r\ndata:[DONE]\r\n\r\n',
        b'data: {"a":1}\ndata: [DONE]\n',
        b'data: {"a":1}\n\ndata: [DONE]',
        b'data: {"a":\ndata: 1}\n\ndata: [DONE]\n\n',
        b': OPENROUTER PROCESSING\n\nevent: message\nid: 3\ndata: {"a":1}\n\ndata: [DONE]\n\n',
    ],
    ids=["byte order mark", "CR", "CR LF", "no blank lines", "no last line end", "two lines", "other fields"],
)
def test_events_are_read_from_all_forms_of_a_stream(stream: bytes, size: int) -> None:
    first, last = events_in(stream, size)
    assert isinstance(first, bytes)
    assert (loads(first), last) == ({"a": 1}, b"[DONE]")


def test_events_without_blank_lines_are_told_apart() -> None:
    assert events_in(b'data: {"a":1}\ndata: {"a":2}\ndata: {"a":\ndata: 3}\n', 4) == [
        *(b'{"a":1}', b'{"a":2}'),
        b'{"a":\n3}',
    ]
    for stream in (b'data: {"a":1}\nevent: error\ndata: {"b":2}\n\n', b'data: {"a":1}\nerror: {"b":2}\n'):
        assert events_in(stream, 4) == [b'{"a":1}', ErrorData(b'{"b":2}')]


@pytest.mark.parametrize("size", [1, 4, 1_000])
@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"a":1}\n\nevent: error\ndata: {"b":2}\n\ndata: {"c":3}\n\n',
        b'data: {"a":1}\n\nevent:error\r\ndata:{"b":2}\r\n\r\ndata: {"c":3}\n\n',
        b'data: {"a":1}\n\ndata: {"b":2}\nevent: error\n\ndata: {"c":3}\n\n',
        b'event: message\ndata: {"a":1}\n\nerror: {"b":2}\n\nevent: error\n\ndata: {"c":3}\n\n',
    ],
    ids=["event", "CR LF", "name behind the data", "llama.cpp's field"],
)
def test_data_of_an_event_that_is_named_an_error_is_marked(stream: bytes, size: int) -> None:
    assert events_in(stream, size) == [b'{"a":1}', ErrorData(b'{"b":2}'), b'{"c":3}']


@pytest.mark.parametrize("size", [1, 5, 1_000])
@pytest.mark.parametrize(
    ("body", "plain", "events"),
    [
        (b'{"a":1}', b'{"a":1}', [b'{"a":1}']),
        (b': ping\n\n{\r\n "a": 1\r\n}\r\n', b'{\n "a": 1\n}', [b'{\n "a": 1\n}']),
        (b"<html>\n\n<p>Bad</p>", b"<html>\n<p>Bad</p>", []),
        (b": ping\n\nid: 3\n", b"", []),
        (b"", b"", []),
        (b'Hello.\ndata: {"a":1}', b"", [b'{"a":1}']),
        (b'data: {"a":1}\n\nHello.', b"", [b'{"a":1}']),
    ],
)
def test_body_without_events_is_kept(body: bytes, plain: bytes, events: list[bytes], size: int) -> None:
    data = EventData()
    found = [event for at in range(0, len(body), size) for event in data.feed(body[at : at + size])]
    assert (found + data.finish(), data.plain_body) == (events, plain)


def test_body_over_the_size_limit_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "ENGINE_TEXT_BYTES_MAX", 10)
    with pytest.raises(EngineFault, match="too long"):
        EventData().feed(b"<html>\n" * 2)


def test_line_over_the_size_limit_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "ENGINE_TEXT_BYTES_MAX", 10)
    with pytest.raises(EngineFault, match="too long"):
        EventData().feed(b"data: 12345")

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_http2.errors import GrpcError
from antiphon_http2.messages import MessageReader, frame_message
from antiphon_http2.statuses import INTERNAL, RESOURCE_EXHAUSTED


def read(stream: bytes, cuts: list[int], bytes_max: int = 1_000) -> list[bytes]:
    """The messages of a stream that comes in pieces, each inside other bytes."""
    reader = MessageReader(bytes_max)
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for start, stop in pairwise(edges):
        reader.feed(b"\x01\x02" + stream[start:stop] + b"\x03", 2, 2 + stop - start)
    return reader.ready


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(0, 400), max_size=60))
def test_messages_are_the_same_however_payloads_are_cut(messages: list[bytes], cuts: list[int]) -> None:
    assert read(b"".join(frame_message(message) for message in messages), cuts) == messages


def test_messages_of_one_byte_payloads_are_whole() -> None:
    stream = frame_message(b"first") + frame_message(b"") + frame_message(b"third")
    assert read(stream, list(range(len(stream)))) == [b"first", b"", b"third"]


@pytest.mark.parametrize("cuts", [[], [1], [4], [5], [3, 5, 6]])
def test_message_above_the_limit_is_refused_before_it_is_received(cuts: list[int]) -> None:
    assert read(frame_message(b"x" * 10), cuts, bytes_max=10) == [b"x" * 10]
    with pytest.raises(GrpcError) as caught:
        read(frame_message(b"x" * 11)[:7], cuts, bytes_max=10)
    assert caught.value.status == RESOURCE_EXHAUSTED


@pytest.mark.parametrize("cuts", [[], [1], [5]])
def test_compressed_message_is_refused(cuts: list[int]) -> None:
    with pytest.raises(GrpcError) as caught:
        read(b"\x01\0\0\0\x02ab", cuts)
    assert caught.value.status == INTERNAL


def test_reader_knows_whether_a_message_is_incomplete() -> None:
    reader = MessageReader(100)
    assert reader.is_between_messages
    reader.feed(frame_message(b"ab"), 0, 6)
    assert not reader.is_between_messages
    reader.feed(frame_message(b"ab"), 6, 7)
    assert reader.is_between_messages
    assert reader.ready == [b"ab"]

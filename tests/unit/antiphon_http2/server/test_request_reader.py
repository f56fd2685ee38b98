from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_http2.messages import frame_message
from antiphon_http2.server.request_reader import RequestReader


@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(1, 20))
def test_cuts_of_the_bytes_mean_nothing(messages: list[bytes], step: int) -> None:
    data, reader, taken = b"".join(map(frame_message, messages)), RequestReader(100), []
    for at in range(0, len(data), step):
        reader.feed(data, at, min(at + step, len(data)))
        while (message := reader.take()) is not None:
            taken.append(message)
    assert (taken, len(reader)) == (messages, 0)


def test_size_and_missing_bytes_are_known_from_the_prefix_on() -> None:
    data, reader = frame_message(b"x" * 50), RequestReader(100)
    seen = []
    for at in range(0, len(data), 11):
        reader.feed(data, at, at + 11)
        seen.append((reader.size(), reader.missing_bytes))
    assert seen == [(50, 44), (50, 33), (50, 22), (50, 11), (50, 0)]
    assert (RequestReader(100).size(), RequestReader(100).missing_bytes) == (None, 5)

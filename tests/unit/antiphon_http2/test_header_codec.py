from __future__ import annotations

from contextlib import suppress

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from antiphon_http2.frames import ConnectionFault
from antiphon_http2.header_codec import HeaderBlock, HeaderCodec
from antiphon_http2.limits import ANSWER_HEADERS_BYTES_MAX
from antiphon_http2.statuses import ErrorCode

HEADERS = [(":path", "/service/Method"), ("x-request-id", "abc")]


def decoded(decoder: Decoder, block: bytes) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in decoder.decode(block)]


def test_repeated_headers_are_read_by_another_decoder_and_shrink() -> None:
    codec, decoder = HeaderCodec(ANSWER_HEADERS_BYTES_MAX), Decoder()
    others = [(":path", "/service/Other"), ("x-request-id", "def")]
    sizes = []
    for headers in [HEADERS, HEADERS, HEADERS, others, HEADERS, others, others, HEADERS] + [HEADERS, others] * 3:
        block = codec.encode(headers)
        assert decoded(decoder, block) == headers
        sizes.append(len(block))
    assert sizes[-2:] == [len(HEADERS), len(others)]


def test_repeated_blocks_are_decoded_with_the_current_table() -> None:
    codec, encoder = HeaderCodec(ANSWER_HEADERS_BYTES_MAX), Encoder()
    for number in range(200):
        for headers in ([("a", "b")], [("a", "b")], [("a", str(number % 90))], [("a", str(number % 90)), ("a", "b")]):
            expected = [(name.encode(), value.encode()) for name, value in headers]
            assert list(codec.decode(encoder.encode(headers))) == expected


def test_number_of_cached_blocks_is_limited() -> None:
    codec, encoder = HeaderCodec(ANSWER_HEADERS_BYTES_MAX), Encoder()
    codec.decode(encoder.encode(HEADERS))
    block = encoder.encode(HEADERS)
    for count in range(1, 200):
        codec.decode(block * count)
    assert len(codec._decoded) <= 64


def test_table_size_is_followed_down_and_up_again() -> None:
    codec, decoder = HeaderCodec(ANSWER_HEADERS_BYTES_MAX), Decoder()
    decoder.decode(codec.encode(HEADERS))
    for sizes in ((0,), (100_000,), (0, 4_096), (64, 50, 70)):
        for size in sizes:
            codec.limit_table(size)
        decoder.max_allowed_table_size = min(max(sizes), 4_096)
        assert decoded(decoder, codec.encode(HEADERS)) == HEADERS


def test_smallest_table_size_since_the_last_block_is_announced() -> None:
    codec = HeaderCodec(ANSWER_HEADERS_BYTES_MAX)
    codec.limit_table(0)
    codec.limit_table(4_096)
    assert codec.encode(HEADERS).startswith(b"\x20\x3f\xe1\x1f")


def test_many_changes_of_the_table_size_take_no_memory() -> None:
    codec = HeaderCodec(ANSWER_HEADERS_BYTES_MAX)
    plain = len(HeaderCodec(ANSWER_HEADERS_BYTES_MAX).encode(HEADERS))
    for size in (0, 4_096) * 10_000:
        codec.limit_table(size)
    assert len(codec.encode(HEADERS)) < plain + 10


def test_block_is_decoded_as_bytes_even_if_it_is_no_text() -> None:
    block = Encoder().encode([(b"grpc-message", b"\xff\xfe")])
    assert HeaderCodec(ANSWER_HEADERS_BYTES_MAX).decode(block) == [(b"grpc-message", b"\xff\xfe")]


@given(st.binary(max_size=200))
def test_any_bytes_are_headers_or_a_fault(block: bytes) -> None:
    with suppress(ConnectionFault):
        HeaderCodec(ANSWER_HEADERS_BYTES_MAX).decode(block)


def test_header_bomb_is_refused() -> None:
    encoder = Encoder()
    block = encoder.encode([("x", "y" * 3_000)]) + encoder.encode([("x", "y" * 3_000)]) * 1_000
    assert len(block) < 5_000
    with pytest.raises(ConnectionFault) as caught:
        HeaderCodec(ANSWER_HEADERS_BYTES_MAX).decode(block)
    assert caught.value.code == ErrorCode.ENHANCE_YOUR_CALM


def test_block_that_grows_or_stays_empty_without_end_is_refused() -> None:
    for piece in (b"", b"x" * 16_384):
        block = HeaderBlock(1, ends_stream=False, bytes_max=ANSWER_HEADERS_BYTES_MAX)
        with pytest.raises(ConnectionFault) as caught:
            for _ in range(ANSWER_HEADERS_BYTES_MAX):
                block.add(piece)
        assert caught.value.code == ErrorCode.ENHANCE_YOUR_CALM

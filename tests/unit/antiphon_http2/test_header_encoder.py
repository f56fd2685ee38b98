from __future__ import annotations

import pytest
from hpack import Decoder
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon_http2.header_encoder import Field, HeaderEncoder

TABLE_BYTES = 4_096
CALL = [(":method", "POST"), (":path", "/service/Method"), ("authorization", "Bearer 1")]
OTHERS = [(":method", "POST"), (":path", "/service/Other"), ("authorization", "Bearer 1"), ("a", "b")]
LARGE = [("a", "y" * 3_000), ("b", "y" * 3_000), ("c", "z" * 5_000)]
"""Fields of which the table holds one, and the last not at all."""
NAMES = st.sampled_from([":path", "content-type", "x-request-id", "antiphon-tenant", "long", "漢"])
VALUES = st.sampled_from(["", "a", "b", "application/grpc", "x" * 130, "y" * 3_000, "z" * 5_000])
STEPS = st.lists(st.tuples(NAMES, VALUES), max_size=6) | st.integers(0, TABLE_BYTES)


def decoded(decoder: Decoder, block: bytes) -> list[Field]:
    return [(name.decode(), value.decode()) for name, value in decoder.decode(block, raw=True)]


@given(st.lists(STEPS, max_size=30))
@example([CALL] * 4)
@example([CALL, CALL, OTHERS, OTHERS, CALL, OTHERS, 0, CALL, TABLE_BYTES, *[CALL, OTHERS] * 3])
@example([LARGE, LARGE, CALL, CALL, LARGE, CALL, LARGE])
def test_every_block_is_read_by_another_decoder(steps: list[list[Field] | int]) -> None:
    encoder, decoder = HeaderEncoder(TABLE_BYTES), Decoder(max_header_list_size=2**20)
    for step in steps:
        if isinstance(step, int):
            encoder.resize(step)
        else:
            assert decoded(decoder, encoder.encode(step)) == step
            assert len(decoder.header_table.dynamic_entries) == len(encoder._entries)


def test_field_has_a_place_in_the_table_from_its_second_time_on() -> None:
    encoder = HeaderEncoder(TABLE_BYTES)
    sizes = [len(encoder.encode(CALL)) for _ in range(3)]
    assert min(sizes[:2]) > 2 * sizes[2]
    assert sizes[2] == len(CALL)


def test_values_that_never_repeat_take_no_place() -> None:
    encoder = HeaderEncoder(TABLE_BYTES)
    blocks = [encoder.encode([*CALL, ("x-request-id", f"req_{number}")]) for number in range(1_000)]
    assert len(encoder._entries) == len(CALL) - 1  # the method is in the static table
    assert len(encoder._seen) <= 64
    assert len(blocks[-1]) == len(CALL) + 1 + 1 + len("x-request-id") + 1 + len("req_999")


@pytest.mark.parametrize("size", [126, 127, 128, 16_000])
def test_long_values_are_written_with_their_length(size: int) -> None:
    headers = [("a", "x" * size)]
    assert decoded(Decoder(), HeaderEncoder(TABLE_BYTES).encode(headers)) == headers

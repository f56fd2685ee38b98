from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.limits import LINEAGE_BYTES_MAX
from antiphon_translator.lineage import turn_lineage
from antiphon_translator.lineage.turn_lineage import TurnLineage

LINEAGES = st.builds(
    TurnLineage,
    st.integers(1, 2**64 - 1),
    *[st.integers(0, 2**32 - 1), st.binary(max_size=16), st.integers(0, 2**32 - 1)],
    st.lists(st.integers(0, 2**21 - 1)).map(lambda ids: array("i", ids)),
    *[st.none() | st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=64)],
    st.integers(0, 2**62),
    *[st.binary(max_size=8), st.sampled_from(["", "evicted"])],
)


@given(st.lists(LINEAGES, min_size=1, max_size=4))
def test_lineages_of_rounds_are_read_as_they_were_written(lineages: list[TurnLineage]) -> None:
    stored = b""
    for lineage in lineages:
        stored = turn_lineage.encode(lineage, stored)
    assert turn_lineage.decode_rounds(stored) == lineages


@given(LINEAGES)
def test_round_behind_a_damaged_lineage_has_its_own(lineage: TurnLineage) -> None:
    assert turn_lineage.decode_rounds(turn_lineage.encode(lineage, b"\x0a")) == [lineage]


def test_of_many_rounds_the_first_ones_are_kept() -> None:
    ids, stored = array("i", [2**21 - 1] * (LINEAGE_BYTES_MAX // 9)), b""
    for number in range(8):
        stored = turn_lineage.encode(TurnLineage(1, prompt_tokens=number, written_ids=ids), stored)
        assert len(stored) <= LINEAGE_BYTES_MAX
    first, second, *_, last = turn_lineage.decode_rounds(stored)
    assert (first.written_ids, second.written_ids) == (ids, ids)
    assert last.prompt_tokens == 7


@given(st.binary(max_size=40))
def test_any_bytes_are_lineages_or_none(stored: bytes) -> None:
    assert all(isinstance(each, TurnLineage) for each in turn_lineage.decode_rounds(stored))


@pytest.mark.parametrize("stored", [b"", b"\x2a\x05\xff\xff\xff\xff\x0f", b"\x0a"])
def test_nothing_ids_out_of_range_and_cut_bytes_are_no_lineage(stored: bytes) -> None:
    assert not turn_lineage.decode_rounds(stored)


@pytest.mark.parametrize("placement", [b"", b"p" * 256])
def test_of_an_output_that_is_too_long_the_first_ids_are_kept(placement: bytes) -> None:
    ids = array("i", [2**21 - 1, 7] * LINEAGE_BYTES_MAX)
    stored = turn_lineage.encode(TurnLineage(1, written_ids=ids, placement=placement))
    (kept,) = turn_lineage.decode_rounds(stored)
    assert len(stored) <= LINEAGE_BYTES_MAX
    assert len(kept.written_ids) >= LINEAGE_BYTES_MAX / 4
    assert kept.written_ids == ids[: len(kept.written_ids)]
    assert kept.placement == placement

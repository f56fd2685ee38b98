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
    *[st.integers(0, 2**62), st.integers(0, 2**32 - 1)],
)


@given(LINEAGES)
def test_lineage_is_read_as_it_was_written(lineage: TurnLineage) -> None:
    assert turn_lineage.decode(turn_lineage.encode(lineage)) == lineage


@given(st.binary(max_size=40))
def test_any_bytes_are_a_lineage_or_none(stored: bytes) -> None:
    found = turn_lineage.decode(stored)
    assert found is None or isinstance(found, TurnLineage)


@pytest.mark.parametrize("stored", [b"", b"\x2a\x05\xff\xff\xff\xff\x0f", b"\x0a"])
def test_nothing_ids_out_of_range_and_cut_bytes_are_no_lineage(stored: bytes) -> None:
    assert turn_lineage.decode(stored) is None


@pytest.mark.parametrize("placement", [b"", b"p" * 256])
def test_of_an_output_that_is_too_long_the_first_ids_are_kept(placement: bytes) -> None:
    ids = array("i", [2**21 - 1, 7] * LINEAGE_BYTES_MAX)
    stored = turn_lineage.encode(TurnLineage(1, written_ids=ids, placement=placement))
    kept = turn_lineage.decode(stored)
    assert kept is not None
    assert len(stored) <= LINEAGE_BYTES_MAX
    assert len(kept.written_ids) >= LINEAGE_BYTES_MAX / 4
    assert kept.written_ids == ids[: len(kept.written_ids)]
    assert kept.placement == placement

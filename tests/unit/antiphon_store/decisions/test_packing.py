from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.jsons import dumps, join_arrays
from antiphon_store.decisions import packing

arrays = st.lists(st.fixed_dictionaries({"id": st.text("a,[]", max_size=3)}), max_size=3).map(dumps)


@given(arrays, arrays)
def test_unpacking_restores_packed_arrays(first: bytes, second: bytes) -> None:
    items, input_bytes = packing.pack(first, second)
    assert packing.unpack(items, input_bytes) == (first, second)


@given(st.lists(st.tuples(arrays, arrays)))
def test_joining_packs_joins_their_arrays(turns: list[tuple[bytes, bytes]]) -> None:
    packed = [packing.pack(first, second)[0] for first, second in turns]
    assert packing.join(packed) == join_arrays(array for turn in turns for array in turn)


@pytest.mark.parametrize(
    ("first", "second", "packed"),
    [(b"[]", b"[]", (b"", 0)), (b"[1]", b"[]", (b"1", 1)), (b"[]", b"[2]", (b"2", 0)), (b"[1]", b"[2]", (b"1,2", 1))],
)
def test_the_packed_form_is_stored_and_must_not_change(first: bytes, second: bytes, packed: tuple[bytes, int]) -> None:
    assert packing.pack(first, second) == packed


def test_checksums_differ_when_any_part_differs() -> None:
    checksums = {
        packing.checksum("resp_a", 1, b"1,2"),
        packing.checksum("resp_b", 1, b"1,2"),
        packing.checksum("resp_a", 3, b"1,2"),
        packing.checksum("resp_a", 1, b"1,3"),
    }
    assert len(checksums) == 4
    assert len({packing.body_checksum(each, b"{}") for each in checksums}) == 4
    assert packing.body_checksum(1, b"{}") != packing.body_checksum(1, b"[]")

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_store.backends.places import DEPTH_MAX, branch_of, depth_of, place_of

branches = st.integers(1, 2**38)
depths = st.integers(0, DEPTH_MAX)


@given(branches, depths)
def test_a_place_is_a_branch_and_a_depth(branch: int, depth: int) -> None:
    place = place_of(branch, depth)
    assert (branch_of(place), depth_of(place)) == (branch, depth)
    assert 0 < place < 2**63


@given(branches, depths, branches, depths)
def test_places_are_ordered_by_branch_then_depth(branch: int, depth: int, branch2: int, depth2: int) -> None:
    assert (place_of(branch, depth) < place_of(branch2, depth2)) == ((branch, depth) < (branch2, depth2))

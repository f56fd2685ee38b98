"""The ids of index entries."""

from __future__ import annotations

from antiphon_store.rows.model import made_id, named_node


def test_entries_of_one_millisecond_are_ordered_by_depth_and_name_their_node() -> None:
    ids = [made_id(9, "resp_b"), made_id(10, "resp_a")]
    assert ids == sorted(ids)
    assert [named_node(each) for each in ids] == ["resp_b", "resp_a"]
    assert named_node("resp_a") == "resp_a"

"""Guards and values, case by case. tests/contract/store/test_rows.py tests programs."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_store.rows.model import Add, Condition, Guard, Kind, Now, Ref, Row, changed, holds, made_id, named_node

REF = Ref(Kind.SESSION, "s")
ROW = Row({"v": 3, "head": "a", "until": 100, "gone": None})
GUARDS = [
    # condition, field, value, result with the row, result without a row
    (Condition.ABSENT, "", None, False, True),
    (Condition.PRESENT, "", None, True, False),
    (Condition.IS, "head", "a", True, False),
    (Condition.IS, "head", "b", False, False),
    (Condition.IS, "unheard", None, True, True),
    (Condition.IN, "head", ["a", "b"], True, False),
    (Condition.IN, "gone", ["a", None], True, True),
    (Condition.NOT_IN, "head", ["a", "b"], False, True),
    (Condition.NOT_IN, "head", ["b"], True, True),
    (Condition.AHEAD, "gone", None, True, True),
    (Condition.BEHIND, "gone", None, True, True),
]


@pytest.mark.parametrize(("test", "field", "value", "of_row", "of_none"), GUARDS)
def test_each_condition_is_evaluated_with_and_without_a_row(
    test: Condition, field: str, value: Any, of_row: bool, of_none: bool
) -> None:
    guard = Guard(REF, test, field, value)
    assert holds(guard, ROW, 0) is of_row
    assert holds(guard, None, 0) is of_none


@pytest.mark.parametrize(("now_ms", "ahead"), [(99, True), (100, False), (101, False)])
def test_a_time_equal_to_now_is_behind(now_ms: int, ahead: bool) -> None:
    assert holds(Guard(REF, Condition.AHEAD, "until"), ROW, now_ms) is ahead
    assert holds(Guard(REF, Condition.BEHIND, "until"), ROW, now_ms) is not ahead


def test_a_change_resolves_values_keeps_other_fields_and_counts() -> None:
    new = changed(Row({"v": 3, "fence": 4, "kept": "k"}), {"fence": Add(2), "until": Now(50), "head": None}, 100)
    assert new == {"v": 4, "fence": 6, "kept": "k", "until": 150, "head": None}


def test_an_addition_to_a_missing_row_starts_at_zero() -> None:
    assert changed(None, {"fence": Add(1)}, 100) == {"fence": 1, "v": 1}


def test_entries_of_one_millisecond_are_ordered_by_depth_and_name_their_node() -> None:
    ids = [made_id(9, "resp_b"), made_id(10, "resp_a")]
    assert ids == sorted(ids)
    assert [named_node(each) for each in ids] == ["resp_b", "resp_a"]
    assert named_node("resp_a") == "resp_a"

"""The answers of a view about known and unknown rows, and the program of the view."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_store.rows.model import Chain, Condition, Fewer, Get, Guard, Index, Kind, Payload, Ref, Row
from antiphon_store.rows.view import UnknownRow, View, holds
from tests.support.rows import row, view_of

SESSION = (Kind.SESSION, "s")
REF = Ref(*SESSION)
KNOWN = {SESSION: row(head="a", until=1_000)}


def test_a_condition_on_an_unknown_row_is_assumed_true_and_guarded() -> None:
    view = View({})
    assert view.test(*SESSION, Condition.IS, "head", "b")
    assert view.assumed_refs == {REF}
    assert view.program().guards == [Guard(REF, Condition.IS, "head", "b")]


def test_a_condition_on_a_known_row_is_evaluated_and_the_row_is_pinned_once() -> None:
    view = view_of(KNOWN)
    assert not view.test(*SESSION, Condition.IS, "head", "b")
    assert view.test(*SESSION, Condition.IS, "head", "a")
    assert not view.assumed_refs
    assert view.program().guards == [Guard(REF, Condition.IS, "v", 1)]


def test_a_row_that_is_known_to_be_missing_is_pinned_as_absent() -> None:
    view = view_of({SESSION: None})
    assert not view.test(*SESSION, Condition.PRESENT)
    assert view.need(*SESSION) is None
    assert view.program().guards == [Guard(REF, Condition.ABSENT)]


def test_a_time_condition_uses_the_time_of_the_last_attempt() -> None:
    assert view_of(KNOWN, now_ms=999).test(*SESSION, Condition.AHEAD, "until")
    assert not view_of(KNOWN, now_ms=1_000).test(*SESSION, Condition.AHEAD, "until")


@pytest.mark.parametrize(("test", "now_ms"), [(Condition.AHEAD, 999), (Condition.BEHIND, 999)])
def test_a_future_time_is_guarded_to_be_still_in_the_future(test: Condition, now_ms: int) -> None:
    view = view_of(KNOWN, now_ms=now_ms)
    view.test(*SESSION, test, "until")
    assert Guard(REF, Condition.AHEAD, "until") in view.program().guards


def test_past_and_missing_times_need_no_guard() -> None:
    view = view_of(KNOWN, now_ms=1_000)
    view.test(*SESSION, Condition.BEHIND, "until")
    view.test(*SESSION, Condition.AHEAD, "missing")
    assert view.program().guards == [Guard(REF, Condition.IS, "v", 1)]


def test_unknown_rows_are_requested_together() -> None:
    with pytest.raises(UnknownRow) as caught:
        view_of(KNOWN).need_all(SESSION, (Kind.NODE, "a"), (Kind.NODE, "b"))
    assert caught.value.refs == (Ref(Kind.NODE, "a"), Ref(Kind.NODE, "b"))
    with pytest.raises(UnknownRow) as caught:
        view_of(KNOWN).need(Kind.NODE, "a")
    assert caught.value.refs == (Ref(Kind.NODE, "a"),)


def test_peeking_at_a_row_pins_nothing() -> None:
    view = view_of(KNOWN)
    assert view.peek(*SESSION) is not None
    assert view.peek(Kind.NODE, "a") is None
    assert view.program().guards == []


def test_answers_of_reads_are_passed_in_order() -> None:
    view = View({})
    assert not view.has_effects
    finish = view.answer_from(lambda row, chain: (row, chain), Get(REF), Chain("s", Payload.ITEMS, 1, 1))
    assert finish([1, 2]) == (1, 2)
    assert view.has_effects


def test_a_count_becomes_a_guard_and_a_crowded_result_is_visible() -> None:
    view = view_of(crowded=True)
    view.fewer(Index.MADE, "s", 3)
    assert view.is_crowded
    assert view.program().guards == [Fewer(Index.MADE, "s", 3)]


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

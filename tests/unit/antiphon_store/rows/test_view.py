"""The answers of a view about known and unknown rows, and the program that it makes."""

from __future__ import annotations

import pytest

from antiphon_store.rows.model import Chain, Condition, Fewer, Get, Guard, Index, Kind, Payload, Ref
from antiphon_store.rows.view import UnknownRow, View
from tests.support.rows import row, view_of

SESSION = (Kind.SESSION, "s")
REF = Ref(*SESSION)
KNOWN = {SESSION: row(head="a", until=1_000)}


def test_the_usual_answer_is_assumed_of_an_unknown_row_and_guarded() -> None:
    view = View({})
    assert view.test(*SESSION, Condition.IS, "head", "b")
    assert view.assumed == {REF}
    assert view.program().guards == [Guard(REF, Condition.IS, "head", "b")]


def test_a_known_row_answers_for_itself_and_is_pinned_once() -> None:
    view = view_of(KNOWN)
    assert not view.test(*SESSION, Condition.IS, "head", "b")
    assert view.test(*SESSION, Condition.IS, "head", "a")
    assert not view.assumed
    assert view.program().guards == [Guard(REF, Condition.IS, "v", 1)]


def test_a_row_that_is_known_to_be_missing_is_pinned_as_absent() -> None:
    view = view_of({SESSION: None})
    assert not view.test(*SESSION, Condition.PRESENT)
    assert view.need(*SESSION) is None
    assert view.program().guards == [Guard(REF, Condition.ABSENT)]


def test_time_is_that_of_the_last_attempt() -> None:
    assert view_of(KNOWN, now_ms=999).test(*SESSION, Condition.AHEAD, "until")
    assert not view_of(KNOWN, now_ms=1_000).test(*SESSION, Condition.AHEAD, "until")


@pytest.mark.parametrize(("test", "now_ms"), [(Condition.AHEAD, 999), (Condition.BEHIND, 999)])
def test_a_time_to_come_must_be_still_to_come_when_the_program_is_applied(test: Condition, now_ms: int) -> None:
    view = view_of(KNOWN, now_ms=now_ms)
    view.test(*SESSION, test, "until")
    assert Guard(REF, Condition.AHEAD, "until") in view.program().guards


def test_a_time_that_is_over_stays_over_and_for_ever_needs_no_guard() -> None:
    view = view_of(KNOWN, now_ms=1_000)
    view.test(*SESSION, Condition.BEHIND, "until")
    view.test(*SESSION, Condition.AHEAD, "missing")
    assert view.program().guards == [Guard(REF, Condition.IS, "v", 1)]


def test_unknown_rows_are_asked_for_together() -> None:
    with pytest.raises(UnknownRow) as caught:
        view_of(KNOWN).need_all(SESSION, (Kind.NODE, "a"), (Kind.NODE, "b"))
    assert caught.value.refs == (Ref(Kind.NODE, "a"), Ref(Kind.NODE, "b"))
    with pytest.raises(UnknownRow) as caught:
        view_of(KNOWN).need(Kind.NODE, "a")
    assert caught.value.refs == (Ref(Kind.NODE, "a"),)


def test_a_glance_pins_nothing() -> None:
    view = view_of(KNOWN)
    assert view.peek(*SESSION) is not None
    assert view.peek(Kind.NODE, "a") is None
    assert view.program().guards == []


def test_reads_are_answered_by_place() -> None:
    view = View({})
    assert not view.has_effects
    finish = view.answer_from(lambda row, chain: (row, chain), Get(REF), Chain("s", Payload.ITEMS, 1, 1))
    assert finish([1, 2]) == (1, 2)
    assert view.has_effects


def test_a_count_is_a_guard_and_the_last_one_is_told() -> None:
    view = view_of(crowded=True)
    view.fewer(Index.MADE, "s", 3)
    assert view.is_crowded
    assert view.program().guards == [Fewer(Index.MADE, "s", 3)]

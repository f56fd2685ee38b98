"""The entries of open approvals, and when one is free again. Their suite is `antiphon_store.testing.approvals`."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import ApprovalAlreadyUsed, ApprovalNotFound
from antiphon_core.ports.store import ApprovalAnswer, TurnRequest
from antiphon_store.decisions import approvals
from antiphon_store.rows.model import Delete, File, Guard, Index, Kind, Ref, Row, Set, Unfile
from antiphon_store.testing.approvals import new_id
from antiphon_store.testing.subject import draft
from tests.support.rows import NOW_MS, decided, node, row, view_of

ASKER, USER = draft(), draft()
ID = new_id(ASKER)
NAME = (Kind.APPROVAL, ID)
REQUEST = TurnRequest(response_id=USER.id, consumes=[ApprovalAnswer(ID, is_approved=True)])


def approval(**fields: Any) -> Row:
    members: dict[str, Any] = {"response": ASKER.id, "created": 5}
    members |= {"expires": None, "used_by": None, "taken_until": None}
    return row(body=b"{}", **members | fields)


def take(row_of_approval: Row | None) -> list[object]:
    decision = partial(approvals.begin_alone, request=REQUEST)
    return list(decided(decision, {NAME: row_of_approval}).changes)


def test_an_approval_leaves_the_list_of_open_ones_when_it_is_held() -> None:
    (changed,) = take(approval())
    assert isinstance(changed, Set)
    assert changed.fields["used_by"] == USER.id
    hold = partial(approvals.hold, approval_ids=[ID], response_id=USER.id)
    taken = approval(used_by=USER.id, taken_until=NOW_MS)
    assert Unfile(Index.ASKED, "", ID) in decided(hold, {NAME: taken}).changes


@pytest.mark.parametrize(("taken_until", "is_free"), [(None, False), (NOW_MS + 1, False), (NOW_MS, True)])
def test_an_approval_of_another_response_is_free_when_that_did_not_hold_it(
    taken_until: int | None, is_free: bool
) -> None:
    taken = approval(used_by="resp_other", taken_until=taken_until)
    if is_free:
        assert take(taken)
    else:
        with pytest.raises(ApprovalAlreadyUsed):
            take(taken)


def test_an_expired_approval_is_not_found() -> None:
    for missing in (None, approval(expires=NOW_MS)):
        with pytest.raises(ApprovalNotFound):
            take(missing)


def test_a_returned_approval_keeps_its_place_in_the_list() -> None:
    give_back = partial(approvals.give_back, approval_ids=[ID], response_id=USER.id)
    assert File(Index.ASKED, "", ID, 5) in decided(give_back, {NAME: approval(used_by=USER.id)}).changes
    assert not decided(give_back, {NAME: approval(used_by="resp_other")}).changes


def test_a_held_approval_is_not_written_again() -> None:
    hold = partial(approvals.hold, approval_ids=[ID], response_id=USER.id)
    assert not decided(hold, {NAME: approval(used_by=USER.id)}).changes
    assert decided(hold, {NAME: approval(used_by=USER.id, taken_until=NOW_MS)}).changes


def test_approvals_end_with_the_node_that_names_them() -> None:
    view = view_of()
    approvals.end_of(view, node(ASKER))
    assert not view.program().changes
    approvals.end_of(view, node(ASKER, approvals=[ID]))
    assert view.program().changes == [Delete(Ref(*NAME)), Unfile(Index.ASKED, "", ID)]


def test_no_guard_tests_the_content_of_an_approval() -> None:
    decision = partial(approvals.begin_alone, request=REQUEST)
    guards = decided(decision, {NAME: approval()}).guards
    assert {each.field for each in guards if isinstance(each, Guard)} <= {"v", "", "expires"}

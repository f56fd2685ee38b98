"""The bounds of a turn's history, and its removed items. `antiphon_store.testing.turns` tests turns through a store."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import ChainTooLong
from antiphon_core.ports.store import TurnRequest
from antiphon_store.decisions import turns
from antiphon_store.rows.model import Chain, Kind
from antiphon_store.testing.conversations import array, names_in
from antiphon_store.testing.subject import draft, turn_in
from tests.support.rows import NOW_MS, decided, node, row, view_of

PARENT = draft(output_items=array("b"), input_items=array("a"))
LEASED = row(head=PARENT.id, fence=7, holder="holder-a", lease_until=NOW_MS + 100)
BEHIND = TurnRequest(previous_response_id=PARENT.id, max_depth=5, max_bytes=500)
PARENT_REF, SESSION = (Kind.NODE, PARENT.id), (Kind.SESSION, "s")


def begin(request: TurnRequest, **options: Any) -> Any:
    if request.previous_response_id is not None:
        return partial(turns.begin_behind, response_id=request.previous_response_id, request=request)
    assert request.session_id is not None
    return partial(turns.begin_in_session, session_id=request.session_id, request=request, **options)


def test_removed_items_are_found_without_a_search_for_each_item() -> None:
    class Searched(list[str]):
        def __contains__(self, item: object) -> bool:
            raise AssertionError("the search of a list takes time for each of its elements")

    assert names_in(turns.without(array("a", "b", "c"), Searched(["b", "z"]))) == ["a", "c"]
    assert turns.without(array("a"), Searched()) == array("a")


def test_history_without_removed_items_is_the_stored_bytes() -> None:
    odd = b'[ {"id" : "a"} ]'
    assert turns.without(odd, []) is odd
    assert names_in(turns.without(array("a", "b", "c"), ["b", "z"])) == ["a", "c"]


@pytest.mark.parametrize(("bound", "limit"), [("depth", "5 responses"), ("bytes", "500 bytes")])
def test_a_chain_over_a_bound_is_rejected_with_its_limit_and_head(bound: str, limit: str) -> None:
    for request, rows in (
        (BEHIND, {PARENT_REF: node(PARENT)}),
        (turn_in("s", max_depth=5, max_bytes=500), {SESSION: LEASED}),
    ):
        with pytest.raises(ChainTooLong) as caught:
            decided(begin(request), rows, too_long=bound)
        assert limit in caught.value.message
        assert PARENT.id in caught.value.message


def test_an_edited_context_over_its_bytes_is_measured_before_rejection() -> None:
    session = LEASED._replace(fields={**LEASED.fields, "removed": ["a"]})
    request = turn_in("s", max_depth=5, max_bytes=1)
    with pytest.raises(turns.EditedContext):
        decided(begin(request), {SESSION: session}, too_long="bytes")
    for options, bound in (({"was_measured": True}, "bytes"), ({}, "depth")):
        with pytest.raises(ChainTooLong):
            decided(begin(request, **options), {SESSION: session}, too_long=bound)
    (_, chain) = decided(begin(request, was_measured=True), {SESSION: session}).reads
    assert isinstance(chain, Chain)
    assert chain.max_bytes > 1


def test_an_error_names_the_head_or_else_the_session_of_a_history() -> None:
    named = [turns.head_of(view_of({(Kind.SESSION, "s"): there}), "s") for there in (LEASED, row(), None)]
    assert named == [PARENT.id, "s", "s"]

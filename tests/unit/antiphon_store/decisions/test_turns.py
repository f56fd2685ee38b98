"""The program of a turn's begin and of its commit, and decisions about known rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import (
    ChainTooLong,
    PreviousResponseNotFound,
    PreviousResponseNotReady,
    SessionLocked,
    StaleFence,
)
from antiphon_core.ports.store import Fence, History, Precondition, Status, TurnRequest
from antiphon_store.decisions import records, turns
from antiphon_store.decisions.records import Write
from antiphon_store.rows.model import Add, Chain, Condition, Get, Index, Kind, Now, Payload, Ref, Row
from antiphon_store.rows.view import View
from antiphon_store.testing.conversations import array, names_in
from antiphon_store.testing.subject import draft, turn_in
from tests.support.rows import (
    NOW_MS,
    answered,
    chain_rows,
    decided,
    fields_of,
    guards_on,
    node,
    pins,
    row,
    shown,
    view_of,
    with_status,
)

PARENT = draft(output_items=array("b"), input_items=array("a"))
RECORD = draft(PARENT, session_id="s")
FENCE = Fence("s", 7)
LEASED = row(head=PARENT.id, fence=7, holder="holder-a", lease_until=NOW_MS + 100)
BEHIND = TurnRequest(previous_response_id=PARENT.id, max_depth=5, max_bytes=500)
PARENT_REF, SESSION = (Kind.NODE, PARENT.id), (Kind.SESSION, "s")


def begin(request: TurnRequest, **options: Any) -> Any:
    return partial(turns.begin, request=request, **options)


def commit(fence: Fence | None = FENCE, record: Any = RECORD) -> Any:
    return partial(records.put, write=Write(record), fence=fence)


# ---- Begin ----


def test_a_turn_without_history_reads_no_rows() -> None:
    view = View({})
    start, _removed = turns.begin(view, TurnRequest())(())
    assert start.history == History()
    assert not view.has_effects


def test_a_turn_behind_a_response_is_one_program() -> None:
    program = decided(begin(BEHIND))
    assert guards_on(program, Kind.NODE) == [
        (Condition.IS, "deleted", 0),
        (Condition.AHEAD, "expires", None),
        (Condition.NOT_IN, "status", ["in_progress", "queued"]),
    ]
    assert not program.changes
    assert program.reads == [Chain(PARENT.id, Payload.ITEMS, 5, 500)]


def test_a_turn_in_a_session_is_one_program() -> None:
    program = decided(begin(turn_in("s", lease_ttl_ms=50, max_depth=5, max_bytes=500)))
    assert guards_on(program, Kind.SESSION) == [(Condition.BEHIND, "lease_until", None)]
    assert fields_of(program, Kind.SESSION) == {
        "fence": Add(1),
        "holder": "holder-a",
        "lease_until": Now(50),
        "stamp": Now(),
    }
    assert program.reads == [Get(Ref(*SESSION)), Chain("s", Payload.ITEMS, 5, 500, starts_at_head=True)]


def test_removed_items_are_found_without_a_search_for_each_item() -> None:
    class Searched(list[str]):
        def __contains__(self, item: object) -> bool:
            raise AssertionError("the search of a list takes time for each of its elements")

    assert names_in(turns.without(array("a", "b", "c"), Searched(["b", "z"]))) == ["a", "c"]
    assert turns.without(array("a"), Searched()) == array("a")


def test_removed_items_are_named_with_the_history() -> None:
    chain = chain_rows([(PARENT.id, node(PARENT))])
    for stored in (None, ["b", "z"]):
        session = LEASED._replace(fields={**LEASED.fields, "removed": stored})
        start, removed = turns.begin(View({}), turn_in("s"))([session, chain])
        assert (names_in(start.history.items), removed) == (["a", "b"], stored or ())
        assert (start.history.depth, start.history.head_id) == (1, PARENT.id)
        assert start.lease is not None
        assert start.lease.fence == FENCE


def test_history_without_removed_items_is_the_stored_bytes() -> None:
    odd = b'[ {"id" : "a"} ]'
    assert turns.without(odd, []) is odd
    assert names_in(turns.without(array("a", "b", "c"), ["b", "z"])) == ["a", "c"]


UNREADABLE = [None, node(PARENT, deleted=1), node(PARENT, expires=NOW_MS)]


@pytest.mark.parametrize("parent", UNREADABLE)
def test_an_unreadable_response_is_not_continued(parent: Row | None) -> None:
    with pytest.raises(PreviousResponseNotFound):
        decided(begin(BEHIND), {PARENT_REF: parent})


@pytest.mark.parametrize("running", [Status.QUEUED, Status.IN_PROGRESS])
def test_an_unfinished_response_is_not_continued(running: Status) -> None:
    with pytest.raises(PreviousResponseNotReady) as caught:
        decided(begin(BEHIND), {PARENT_REF: node(replace(PARENT, status=running))})
    assert caught.value.message.startswith(f"Response with id '{PARENT.id}' is still {running}.")
    assert caught.value.field == "previous_response_id"


@pytest.mark.parametrize("ended", [Status.COMPLETED, Status.INCOMPLETE, Status.FAILED, Status.CANCELLED])
def test_a_response_with_any_terminal_status_is_continued(ended: Status) -> None:
    assert decided(begin(BEHIND), {PARENT_REF: node(replace(PARENT, status=ended))}).reads


def test_a_session_that_another_holds_is_locked() -> None:
    with pytest.raises(SessionLocked):
        decided(begin(turn_in("s", holder="b")), {SESSION: LEASED})


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


# ---- Commit ----


def test_a_commit_is_one_program_with_record_head_and_lease() -> None:
    program = decided(commit())
    assert guards_on(program, Kind.SESSION) == [
        (Condition.IS, "fence", 7),
        (Condition.AHEAD, "lease_until", None),
        (Condition.IS, "head", PARENT.id),
    ]
    assert shown(program) == [("grow", RECORD.id, PARENT.id), ("set", *SESSION)]
    assert fields_of(program, Kind.SESSION) == {"holder": "", "lease_until": 0, "head": RECORD.id}


def test_a_commit_without_a_session_touches_none() -> None:
    program = decided(commit(None, replace(RECORD, session_id=None)))
    assert not guards_on(program, Kind.SESSION)
    assert shown(program) == [("grow", RECORD.id, PARENT.id)]


def test_a_commit_without_its_lease_is_refused() -> None:
    for session in (None, row(fence=8, lease_until=NOW_MS + 1), row(fence=7, lease_until=NOW_MS)):
        with pytest.raises(StaleFence):
            decided(commit(), {SESSION: session})


@pytest.mark.parametrize(
    ("head", "is_named"), [("another", True), (PARENT.id, False), (None, False)], ids=["another", "the parent", "none"]
)
def test_a_head_that_is_not_the_parent_becomes_a_candidate_at_commit(head: str | None, is_named: bool) -> None:
    session = LEASED._replace(fields={**LEASED.fields, "head": head})
    changes = shown(decided(commit(), {SESSION: session}))
    assert (("file", Index.ENDS, "", f"node/{head}") in changes) is is_named
    assert [each for each in changes if each[0] == "file"] == changes[1:-1]


def test_a_commit_that_is_repeated_changes_nothing_and_needs_no_lease() -> None:
    stored = {(Kind.NODE, RECORD.id): node(RECORD)}
    over = row(head=RECORD.id, fence=7, holder="", lease_until=0)
    assert answered(commit(), {**stored, SESSION: over}).version == 1


def test_committing_an_already_stored_record_moves_the_head() -> None:
    stored = {(Kind.NODE, RECORD.id): node(RECORD)}
    program = decided(commit(), {**stored, SESSION: LEASED})
    assert fields_of(program, Kind.SESSION)["head"] == RECORD.id


def test_a_commit_with_a_status_precondition_replaces_the_record_it_read() -> None:
    write = Write(RECORD, Precondition(statuses=frozenset({Status.IN_PROGRESS})))
    running = node(with_status(RECORD, Status.IN_PROGRESS))
    program = decided(partial(records.put, write=write, fence=FENCE), {(Kind.NODE, RECORD.id): running})
    changes = [each for each in shown(program) if each[0] == "set"]
    assert changes == [("set", Kind.NODE, RECORD.id), ("set", *SESSION)]
    assert (Kind.NODE, RECORD.id) in pins(program)


def test_an_error_names_the_head_or_else_the_session_of_a_history() -> None:
    named = [turns.head_of(view_of({(Kind.SESSION, "s"): there}), "s") for there in (LEASED, row(), None)]
    assert named == [PARENT.id, "s", "s"]

"""The rules of forks, and their program. `antiphon_store.testing.lineage_forks` tests forks through a store."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    PreviousResponseNotReady,
    ResponseNotFound,
    SessionLocked,
)
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.ports.store import Fence, Lease, Session, Status
from antiphon_store.decisions import forks, leases
from antiphon_store.rows.model import Condition, Kind, Row
from antiphon_store.rows.view import UnknownRow
from antiphon_store.testing.subject import draft, new_session_id
from tests.support.rows import NOW_MS, answered, decided, fields_of, guards_on, node, row, shown

RECORD = draft(session_id="s")
OTHER = draft(RECORD)
NODE, NEW, SOURCE = (Kind.NODE, RECORD.id), (Kind.SESSION, "new"), (Kind.SESSION, "s")
MADE = Fork("new", RECORD.id)


def fork(session_id: str | None, response_id: str | None, new: str = "new") -> Any:
    return partial(forks.fork, source=ForkSource(session_id, response_id), new_session_id=new)


def test_a_fork_of_a_response_is_one_program() -> None:
    program = decided(fork(None, RECORD.id))
    assert guards_on(program, Kind.SESSION) == [(Condition.IS, "head", None), (Condition.BEHIND, "lease_until", None)]
    assert guards_on(program, Kind.NODE) == [
        (Condition.IS, "deleted", 0),
        (Condition.AHEAD, "expires", None),
        (Condition.NOT_IN, "status", ["in_progress", "queued"]),
    ]
    assert shown(program) == [("set", *NEW)]
    assert fields_of(program, Kind.SESSION) == {"head": RECORD.id, "source": [None, RECORD.id, RECORD.id]}


def test_a_fork_of_a_response_in_its_session_is_one_program() -> None:
    program = decided(fork("s", RECORD.id))
    assert (Condition.IS, "session", "s") in guards_on(program, Kind.NODE)


def test_a_session_is_forked_at_its_head_unless_the_head_expired() -> None:
    with pytest.raises(UnknownRow):
        decided(fork("s", None))
    for head in (node(RECORD), node(RECORD, deleted=1)):
        program = decided(fork("s", None), {SOURCE: row(head=RECORD.id), NODE: head})
        assert fields_of(program, Kind.SESSION)["head"] == RECORD.id
    gone: list[tuple[Row | None, Row | None]] = [
        (None, None),
        (row(head=None), None),
        (row(head=RECORD.id), node(RECORD, expires=NOW_MS)),
    ]
    for session, over in gone:
        with pytest.raises(NotFound):
            decided(fork("s", None), {SOURCE: session, NODE: over})


@pytest.mark.parametrize("existing", [None, node(RECORD, deleted=1), node(RECORD, expires=NOW_MS)])
def test_a_response_that_cannot_be_read_is_not_forked(existing: Row | None) -> None:
    with pytest.raises(ResponseNotFound):
        decided(fork(None, RECORD.id), {NODE: existing})


def test_forking_an_unfinished_response_is_rejected() -> None:
    with pytest.raises(PreviousResponseNotReady) as caught:
        decided(fork(None, RECORD.id), {NODE: node(replace(RECORD, status=Status.IN_PROGRESS))})
    assert caught.value.field == "up_to_response_id"


def test_a_fork_requires_a_response_of_the_named_session() -> None:
    rows = {NODE: node(RECORD), (Kind.SESSION, "another"): row(head=RECORD.id)}
    assert decided(fork("another", RECORD.id), rows).changes  # the response is the head of the session
    with pytest.raises(InvalidRequest):
        decided(fork("another", RECORD.id), {**rows, (Kind.SESSION, "another"): row(head=None)})


def test_a_new_session_id_with_the_tag_of_another_tree_is_rejected() -> None:
    assert decided(fork(None, RECORD.id, "conv_" + RECORD.id.removeprefix("resp_"))).changes
    with pytest.raises(InvalidRequest):
        decided(fork(None, RECORD.id, "conv_" + "0" * 48))


def test_a_session_in_use_is_not_forked_into() -> None:
    rows = {NODE: node(RECORD), (Kind.NODE, OTHER.id): node(OTHER)}
    with pytest.raises(AlreadyExists):
        decided(fork(None, RECORD.id), {**rows, NEW: row(head=OTHER.id)})
    with pytest.raises(SessionLocked):
        decided(fork(None, RECORD.id), {**rows, NEW: row(head=None, lease_until=NOW_MS + 1)})


def test_a_session_with_an_expired_head_can_be_forked_into() -> None:
    rows = {NODE: node(RECORD), (Kind.NODE, OTHER.id): node(OTHER, expires=NOW_MS), NEW: row(head=OTHER.id)}
    assert fields_of(decided(fork(None, RECORD.id), rows), Kind.SESSION)["head"] == RECORD.id


def test_a_repeated_fork_is_answered_after_its_session_moved_on() -> None:
    moved_on = row(head=OTHER.id, source=[None, RECORD.id, RECORD.id])
    rows = {NEW: moved_on, NODE: None, (Kind.NODE, OTHER.id): node(OTHER)}
    assert answered(fork(None, RECORD.id), rows) == MADE
    with pytest.raises(ResponseNotFound):  # a sweep may have deleted the session
        decided(fork(None, RECORD.id), {**rows, (Kind.NODE, OTHER.id): None})


def test_a_fork_into_a_session_that_has_the_head_already_changes_nothing() -> None:
    assert answered(fork(None, RECORD.id), {NEW: row(head=RECORD.id), NODE: node(RECORD)}) == MADE


def test_a_session_name_with_a_readable_head_or_a_lease_is_in_use() -> None:
    unused = partial(forks.require_unused, session_id="s")
    for free in (None, row(head=None), row(head=RECORD.id)):
        decided(unused, {SOURCE: free, NODE: None})
    with pytest.raises(AlreadyExists):
        decided(unused, {SOURCE: row(head=RECORD.id), NODE: node(RECORD)})
    with pytest.raises(SessionLocked):
        decided(unused, {SOURCE: row(lease_until=NOW_MS + 1)})


def test_a_fork_into_another_tree_is_rejected_only_if_its_source_exists() -> None:
    elsewhere = new_session_id()
    refused = partial(forks.fork, source=ForkSource(None, RECORD.id), new_session_id=elsewhere)
    with pytest.raises(ResponseNotFound):
        decided(refused, {NODE: None, (Kind.SESSION, elsewhere): None})
    with pytest.raises(InvalidRequest) as caught:
        decided(refused, {NODE: node(RECORD), (Kind.SESSION, elsewhere): None})
    assert caught.value.field == "new_session_id"


DESCRIBED = [
    (None, Session("s", None, 0, None)),
    (row(head=RECORD.id, fence=7, holder="", lease_until=0), Session("s", RECORD.id, 7, None)),
    (row(fence=7, holder="a", lease_until=NOW_MS), Session("s", None, 7, None)),
    (row(fence=NOW_MS, is_over=False), Session("s", None, 0, None)),  # a conversation that was never used
    (row(fence=7, is_over=True, stamp=NOW_MS - leases.FENCE_KEPT_MS + 1), Session("s", None, 7, None)),
    (
        row(fence=7, is_over=True, stamp=NOW_MS - leases.FENCE_KEPT_MS),
        Session("s", None, 0, None),
    ),  # a sweep may have deleted it
    (
        row(fence=7, holder="a", lease_until=NOW_MS + 1),
        Session("s", None, 7, Lease(Fence("s", 7), "a", NOW_MS + 1)),
    ),
]


@pytest.mark.parametrize(("session", "expected"), DESCRIBED)
def test_a_session_is_described_without_an_expired_lease(session: Row | None, expected: Session) -> None:
    assert answered(partial(forks.describe, session_id="s"), {SOURCE: session, NODE: node(RECORD)}) == expected

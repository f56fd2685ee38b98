"""Repeated forks, and names in use. `antiphon_store.testing.lineage_forks` tests forks through a store."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import AlreadyExists, ResponseNotFound, SessionLocked
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.ports.store import Fence, Lease, Session
from antiphon_store.decisions import forks, leases
from antiphon_store.rows.model import Kind, Row
from antiphon_store.testing.subject import draft
from tests.support.rows import NOW_MS, answered, decided, node, row

RECORD = draft(session_id="s")
OTHER = draft(RECORD)
NODE, NEW, SOURCE = (Kind.NODE, RECORD.id), (Kind.SESSION, "new"), (Kind.SESSION, "s")
MADE = Fork("new", RECORD.id)


def fork(session_id: str | None, response_id: str | None, new: str = "new") -> Any:
    return partial(forks.fork, source=ForkSource(session_id, response_id), new_session_id=new)


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

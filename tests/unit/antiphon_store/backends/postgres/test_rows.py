from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import ChainTooLong, InternalError
from antiphon_core.ports.store import Fence, Precondition, Record, Session, Status
from antiphon_store.backends.base import Write
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.postgres import rows
from antiphon_store.testing.lineage import joined
from antiphon_store.testing.subject import draft

PLACE = 7 << 24


def row_of(record: Record, place: int = PLACE) -> list[Any]:
    """The record as `read_node` would give it."""
    given = rows.write_parameters(Write(record))
    head = [record.id, record.parent_id, record.session_id, record.status.value, 1, place, 10, 11, None]
    return head + [given[name] for name in ("items_crc", "body_crc", "input_bytes", "items", "body")]


def bounds(record: Record) -> ChainBounds:
    return ChainBounds(record.id, 10, 10_000)


def test_a_chain_is_sorted_root_first() -> None:
    root = draft()
    child = draft(root)
    found = rows.chain_of([[2, 99, *row_of(child, PLACE + 1)], [2, 99, *row_of(root)]], bounds(child))
    assert [each.id for each in found] == [root.id, child.id]
    assert rows.chain_of([], bounds(child)) == []


@pytest.mark.parametrize(("depth", "size_bytes"), [(11, 0), (3, 10_001)])
def test_a_chain_over_the_limits_is_refused(depth: int, size_bytes: int) -> None:
    with pytest.raises(ChainTooLong):
        rows.chain_of([[depth, size_bytes, *[None] * 14]], bounds(draft()))
    with pytest.raises(ChainTooLong):
        rows.history_of([[depth, size_bytes, *[None] * 5]], bounds(draft()))


def test_a_history_is_joined_root_first() -> None:
    root = draft()
    child = draft(root)
    turns: list[list[Any]] = []
    for place, record in ((PLACE + 1, child), (PLACE, root)):
        given = rows.write_parameters(Write(record))
        turns.append([2, 99, place, record.id, given["items_crc"], given["input_bytes"], given["items"]])
    history = rows.history_of(turns, bounds(child))
    assert history is not None
    assert (history.items, history.depth, history.head_id) == (joined([root, child]), 2, child.id)
    assert rows.history_of([], bounds(child)) is None
    turns[0][-1] += b" "
    with pytest.raises(InternalError, match=child.id):
        rows.history_of(turns, bounds(child))


def test_only_a_living_lease_is_shown() -> None:
    assert rows.session_of([None, 4, False, b"", 0], "s") == Session("s", None, 4, None)
    session = rows.session_of(["head", 4, True, "ü\0".encode(), 99], "s")
    assert session.lease == rows.lease_of(Fence("s", 4), "ü\0".encode(), 99)
    assert session.lease is not None
    assert session.lease.holder == "ü\0"


def test_conditions_are_parameters() -> None:
    condition = Precondition(2, frozenset({Status.QUEUED, Status.FAILED}), fence=Fence("s", 5))
    assert rows.precondition_parameters(condition) == {
        "expected_version": 2,
        "statuses": ["failed", "queued"],
        "unless_statuses": [],
        "fence_session": "s",
        "fence_token": 5,
    }

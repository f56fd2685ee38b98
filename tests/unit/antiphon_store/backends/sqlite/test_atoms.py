"""Atoms leave nothing half done in rows. What they mean: `antiphon_store.testing`."""

from __future__ import annotations

import sqlite3

import pytest

from antiphon_core.errors import ChainTooLong, ResponseNotFound, StaleFence
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Precondition
from antiphon_store.backends.base import Write
from antiphon_store.backends.sqlite import atoms
from antiphon_store.testing.subject import draft, turn_in

NOW_MS = 1000


def dump(connection: sqlite3.Connection) -> list[str]:
    return list(connection.iterdump())


def test_a_refused_write_changes_no_row(connection: sqlite3.Connection) -> None:
    """Refusals come before the first change, so even without the savepoint nothing would be left behind."""
    root = draft(session_id="s")
    lease = atoms.acquire_lease(connection, "t", "s", holder="a", ttl_ms=100, now_ms=NOW_MS)
    atoms.put(connection, "t", Write(root), NOW_MS)
    before = dump(connection)
    orphan = draft(draft(), session_id="s")
    with pytest.raises(ResponseNotFound):
        atoms.commit_turn(connection, "t", Write(orphan), lease.fence, NOW_MS)
    with pytest.raises(StaleFence):
        atoms.commit_turn(connection, "t", Write(draft(session_id="s")), Fence("s", 9), NOW_MS)
    with pytest.raises(StaleFence):
        condition = Precondition(fence=Fence("s", 9))
        atoms.remove(connection, "t", root.id, condition, NOW_MS)
    assert dump(connection) == before


def test_reading_changes_no_row(connection: sqlite3.Connection) -> None:
    root = draft()
    atoms.put(connection, "t", Write(root), NOW_MS)
    before = connection.total_changes
    atoms.fetch(connection, "t", root.id, NOW_MS)
    atoms.describe_session(connection, "t", "s", NOW_MS)
    atoms.begin_after(connection, "t", turn_in("s"), NOW_MS)
    assert connection.total_changes == before


def count_nodes(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM node").fetchone()
    return int(count)


def test_what_nothing_refers_to_leaves_no_row(connection: sqlite3.Connection) -> None:
    root = draft()
    child = draft(root)
    for record in (root, child):
        atoms.put(connection, "t", Write(record), NOW_MS)
    for record, left in ((root, 2), (child, 0)):
        atoms.remove(connection, "t", record.id, NO_PRECONDITION, NOW_MS)
        assert count_nodes(connection) == left


def test_a_deleted_head_goes_when_the_session_moves_on(connection: sqlite3.Connection) -> None:
    for number in range(2):
        lease = atoms.acquire_lease(connection, "t", "s", holder="a", ttl_ms=100, now_ms=NOW_MS)
        record = draft(session_id="s")
        atoms.commit_turn(connection, "t", Write(record), lease.fence, NOW_MS)
        assert count_nodes(connection) == 1, number
        atoms.remove(connection, "t", record.id, NO_PRECONDITION, NOW_MS)
        assert count_nodes(connection) == 1


def test_a_turn_in_a_session_needs_its_savepoint(connection: sqlite3.Connection) -> None:
    """The lease is taken before the history is read; a history that is too long rolls it back."""
    lease = atoms.acquire_lease(connection, "t", "s", holder="a", ttl_ms=100, now_ms=NOW_MS)
    atoms.commit_turn(connection, "t", Write(draft(session_id="s")), lease.fence, NOW_MS)
    before = dump(connection)
    connection.execute("SAVEPOINT atom")
    with pytest.raises(ChainTooLong):
        atoms.begin_in_session(connection, "t", "s", turn_in("s", max_bytes=1), NOW_MS)
    connection.execute("ROLLBACK TO atom")
    connection.execute("RELEASE atom")
    assert dump(connection) == before

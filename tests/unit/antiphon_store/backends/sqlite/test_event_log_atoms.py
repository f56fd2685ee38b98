"""Atoms leave nothing half done in rows. What they mean: `antiphon_store.testing.event_logs`."""

from __future__ import annotations

import sqlite3

import pytest

from antiphon_core.errors import PositionMismatch, StaleFence
from antiphon_core.ports.store import Fence
from antiphon_store.backends.sqlite import event_log_atoms as atoms
from antiphon_store.testing.event_logs import append_at, new_id


def test_a_repeated_or_refused_append_changes_no_row(connection: sqlite3.Connection) -> None:
    response_id = new_id()
    append = append_at(response_id, 0, 2)
    atoms.append(connection, "t", append, None, ttl_ms=100, now_ms=0)
    before = list(connection.iterdump())
    assert atoms.append(connection, "t", append, Fence("s", 1), ttl_ms=100, now_ms=50) == 2
    with pytest.raises(PositionMismatch):
        atoms.append(connection, "t", append_at(response_id, 1), None, ttl_ms=100, now_ms=50)
    with pytest.raises(StaleFence):
        atoms.append(connection, "t", append_at(response_id, 2), Fence("s", 1), ttl_ms=100, now_ms=50)
    assert list(connection.iterdump()) == before


def test_a_log_that_begins_anew_leaves_no_row_of_the_old_one(connection: sqlite3.Connection) -> None:
    response_id = new_id()
    for now_ms in (0, 100):
        atoms.append(connection, "t", append_at(response_id, 0), None, ttl_ms=100, now_ms=now_ms)
        assert connection.execute("SELECT count(*) FROM event_batch").fetchone() == (1,)


def test_a_page_ends_when_it_is_full(connection: sqlite3.Connection) -> None:
    response_id = new_id()
    for position in range(4):
        atoms.append(connection, "t", append_at(response_id, position), None, ttl_ms=100, now_ms=0)
    size_bytes = len(append_at(response_id, 0).frames)
    for max_bytes, count in ((1, 1), (size_bytes, 1), (size_bytes + 1, 2), (9999, 3)):
        page = atoms.read(connection, "t", response_id, position=1, max_bytes=max_bytes, now_ms=0)
        assert [batch.first_sequence for batch in page.batches] == list(range(1, 1 + count))
        assert (page.next_position, page.closed) == (4, False)

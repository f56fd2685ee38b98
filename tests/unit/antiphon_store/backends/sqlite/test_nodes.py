from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace

import pytest

from antiphon_core.errors import InternalError
from antiphon_core.ports.store import Record, Status
from antiphon_store.backends.places import place_of
from antiphon_store.backends.sqlite import nodes
from antiphon_store.testing.subject import draft

NOW_MS = 1000
PLACE = place_of(1, 2)


@pytest.fixture
def record(connection: sqlite3.Connection) -> Record:
    """A stored record of depth 2."""
    record = replace(
        draft(session_id="s"), version=1, depth=2, created_at_ms=1, updated_at_ms=2, expires_at_ms=NOW_MS + 1
    )
    nodes.insert(connection, "t", PLACE, record)
    return record


def test_an_inserted_record_is_read_in_full(connection: sqlite3.Connection, record: Record) -> None:
    assert nodes.read(connection, "t", record.id, NOW_MS) == record


def test_a_record_can_be_seen_until_its_time_is_over(connection: sqlite3.Connection, record: Record) -> None:
    assert nodes.read(connection, "t", record.id, NOW_MS + 1) is None
    node = nodes.find(connection, "t", record.id)
    assert node is not None
    assert node.place == PLACE
    assert node.is_readable(NOW_MS)
    assert node.is_expired(NOW_MS + 1)
    assert not node.is_readable(NOW_MS + 1)


def test_a_deleted_record_is_found_and_not_read(connection: sqlite3.Connection, record: Record) -> None:
    nodes.mark_deleted(connection, PLACE)
    assert nodes.read(connection, "t", record.id, NOW_MS) is None
    node = nodes.find(connection, "t", record.id)
    assert node is not None
    assert not node.is_readable(NOW_MS)


def test_an_overwritten_record_stays_in_its_place(connection: sqlite3.Connection, record: Record) -> None:
    changed = replace(
        record,
        status=Status.FAILED,
        body=b"{}",
        input_items=b"[]",
        output_items=b'[{"id":"z"}]',
        session_id=None,
        version=2,
        updated_at_ms=9,
        expires_at_ms=None,
    )
    nodes.overwrite(connection, "t", changed)
    assert nodes.read(connection, "t", record.id, NOW_MS) == changed


def test_another_tenants_record_is_not_there(connection: sqlite3.Connection, record: Record) -> None:
    assert nodes.read(connection, "other", record.id, NOW_MS) is None
    assert nodes.find(connection, "other", record.id) is None


@pytest.mark.parametrize("damage", ["items = x'00'", "body = x'7b7d'", "input_bytes = 1", "id = 'resp_other'"])
def test_damaged_bytes_are_noticed_and_named(
    connection: sqlite3.Connection, record: Record, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    connection.execute(f"UPDATE node SET {damage}")
    response_id = "resp_other" if damage.startswith("id") else record.id
    with caplog.at_level(logging.ERROR), pytest.raises(InternalError) as caught:
        nodes.read(connection, "t", response_id, NOW_MS)
    assert caught.value.facts["id"] == response_id
    assert response_id in caplog.text

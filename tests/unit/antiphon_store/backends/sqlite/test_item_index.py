"""The rows of the item index. What can be found by it: `antiphon_store.testing.lineage_records`."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_core.errors import InternalError
from antiphon_core.ports.store import Record
from antiphon_store.backends.base import Durability
from antiphon_store.backends.places import place_of
from antiphon_store.backends.sqlite import connection as connections
from antiphon_store.backends.sqlite import item_index, lineage, nodes
from antiphon_store.testing.subject import draft

NOW_MS = 1000
BYTES = 10_000


def insert(connection: sqlite3.Connection, branch: int, *item_ids: str) -> Record:
    items = ",".join(f'{{"id":"{item_id}"}}' for item_id in item_ids)
    record = replace(draft(input_items=b"[]", output_items=f"[{items}]".encode()), version=1, created_at_ms=branch)
    connection.execute("INSERT INTO branch (id) VALUES (?)", (branch,))
    nodes.insert(connection, "t", place_of(branch, 0), record)
    return record


def found(connection: sqlite3.Connection, *item_ids: str) -> list[tuple[str, str]]:
    items = item_index.find(connection, "t", item_ids, NOW_MS, max_bytes=BYTES)
    return [(item.id, item.response_id) for item in items]


def test_rows_go_with_the_response(connection: sqlite3.Connection) -> None:
    insert(connection, 1, "a", "b")
    item_index.write(connection, "t", place_of(1, 0), ["a", "b"])
    nodes.mark_deleted(connection, place_of(1, 0))
    lineage.reclaim(connection, place_of(1, 0), NOW_MS)
    assert connection.execute("SELECT * FROM item").fetchall() == []


def test_rewriting_leaves_only_the_new_ones(connection: sqlite3.Connection) -> None:
    insert(connection, 1, "a", "b")
    item_index.write(connection, "t", place_of(1, 0), ["a", "b"])
    item_index.rewrite(connection, "t", place_of(1, 0), ["b", "c"])
    assert connection.execute("SELECT id FROM item ORDER BY id").fetchall() == [("b",), ("c",)]


def test_the_oldest_response_counts(connection: sqlite3.Connection) -> None:
    records = [insert(connection, branch, "a") for branch in (2, 1)]
    for branch in (1, 2):
        item_index.write(connection, "t", place_of(branch, 0), ["a"])
    assert found(connection, "a", "b") == [("a", records[1].id)]


def test_damage_is_noticed(connection: sqlite3.Connection, caplog: pytest.LogCaptureFixture) -> None:
    insert(connection, 1, "a")
    item_index.write(connection, "t", place_of(1, 0), ["a"])
    connection.execute("UPDATE node SET items = x'7b7d'")
    with caplog.at_level(logging.ERROR), pytest.raises(InternalError):
        found(connection, "a")


def test_what_was_stored_before_the_index_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connections.connect(tmp_path / "old.db", Durability.PROCESS)
    scripts = connections._migrations()
    before = next(number for number, script in enumerate(scripts) if "CREATE TABLE item " in script)
    with monkeypatch.context() as patch:
        patch.setattr(connections, "_migrations", lambda: scripts[:before])
        connections.migrate(connection)
    record, empty = insert(connection, 1, "a", "ü", "a"), insert(connection, 2)
    connections.migrate(connection)
    assert found(connection, "a", "ü", "b") == [("a", record.id), ("ü", record.id)]
    assert nodes.read(connection, "t", empty.id, NOW_MS) == empty
    connection.close()

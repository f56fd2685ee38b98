from __future__ import annotations

import sqlite3
from dataclasses import replace

from antiphon_store.backends.conversations import Founding, founded
from antiphon_store.backends.places import place_of
from antiphon_store.backends.sqlite import conversation_rows, nodes
from antiphon_store.testing.conversations import new_id
from antiphon_store.testing.subject import content, draft

ID = new_id()
STORED = founded(Founding(ID, b"{}", origin="o", incarnation="i", ttl_ms=10), 100)


def test_a_conversation_is_written_and_overwritten(connection: sqlite3.Connection) -> None:
    assert conversation_rows.read(connection, "t", ID) is None
    revised = replace(STORED, conversation=replace(STORED.conversation, metadata=b'{"a":"1"}', version=2))
    for stored in (STORED, revised):
        conversation_rows.write(connection, "t", stored)
        assert conversation_rows.read(connection, "t", ID) == stored
    assert conversation_rows.read(connection, "other", ID) is None


def test_removed_items_go_with_their_conversation(connection: sqlite3.Connection) -> None:
    conversation_rows.write(connection, "t", STORED)
    for item_id in ("a", "b", "a"):
        conversation_rows.remove_item(connection, "t", ID, item_id)
    conversation_rows.remove_item(connection, "other", ID, "c")
    assert conversation_rows.removed_items(connection, "t", ID) == {"a", "b"}
    conversation_rows.drop(connection, "t", ID)
    assert conversation_rows.read(connection, "t", ID) is None
    assert conversation_rows.removed_items(connection, "t", ID) == frozenset()
    assert conversation_rows.removed_items(connection, "other", ID) == {"c"}


def test_a_stored_node_is_read_although_it_is_deleted(connection: sqlite3.Connection) -> None:
    record = replace(draft(), version=1)
    nodes.insert(connection, "t", place_of(1, 0), record)
    nodes.mark_deleted(connection, place_of(1, 0))
    assert nodes.read(connection, "t", record.id, 0) is None
    found = conversation_rows.read_stored_node(connection, "t", record.id)
    assert found is not None
    assert content(found) == content(record)

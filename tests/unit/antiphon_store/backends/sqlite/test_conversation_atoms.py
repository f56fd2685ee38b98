"""What only these atoms do; all else is the kit's: tests/contract/store/test_suites.py."""

from __future__ import annotations

import sqlite3

import pytest

from antiphon_core.errors import ConversationNotFound
from antiphon_store.backends.conversations import Addition, Founding
from antiphon_store.backends.sqlite import conversation_atoms
from antiphon_store.testing.conversations import array, new_id

ID = new_id()
FOUNDING = Founding(ID, b"{}", origin="o", incarnation="i", first=Addition(array("a"), "d", "s"))


def test_reading_leaves_no_transaction_open(connection: sqlite3.Connection) -> None:
    conversation_atoms.create(connection, "t", FOUNDING, 0)
    assert conversation_atoms.items(connection, "t", ID, 1) == array("a")
    with pytest.raises(ConversationNotFound):
        conversation_atoms.items(connection, "other", ID, 1)
    assert not connection.in_transaction


def test_a_removed_conversation_leaves_no_rows(connection: sqlite3.Connection) -> None:
    conversation_atoms.create(connection, "t", FOUNDING, 0)
    conversation_atoms.remove_item(connection, "t", ID, "a", 1)
    conversation_atoms.remove(connection, "t", ID, 2)
    for table in ("node", "branch", "conversation", "removed_item"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table

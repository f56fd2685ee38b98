"""Rows of conversations and of the items taken out of them. Tables and columns: migrations/*_conversations.sql.

Functions here are parts of atoms: they run inside the transaction of their caller.
"""

from __future__ import annotations

import sqlite3
from importlib.resources import files

from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.store import Record
from antiphon_store.backends import named_queries, node_rows
from antiphon_store.backends.conversations import StoredConversation

_QUERIES = named_queries.parse(
    (files("antiphon_store.backends.sqlite") / "conversations.sql").read_text(encoding="utf-8")
)
_READ = _QUERIES["read_conversation"]
_WRITE = _QUERIES["write_conversation"]
_DROP = _QUERIES["drop_conversation"]
_REMOVED_ITEMS = _QUERIES["removed_items"]
_REMOVE_ITEM = _QUERIES["remove_item"]
_RESTORE_ITEMS = _QUERIES["restore_items"]
_READ_STORED_NODE = _QUERIES["read_stored_node"]


def read(connection: sqlite3.Connection, tenant: str, conversation_id: str) -> StoredConversation | None:
    """A conversation that is stored, expired or not."""
    row = connection.execute(_READ, {"tenant": tenant, "id": conversation_id}).fetchone()
    if row is None:
        return None
    metadata, version, created_at_ms, expires_at_ms, origin, incarnation = row
    conversation = Conversation(conversation_id, metadata, created_at_ms, version)
    return StoredConversation(conversation, origin, incarnation, expires_at_ms)


def write(connection: sqlite3.Connection, tenant: str, stored: StoredConversation) -> None:
    """Inserts or replaces a conversation."""
    conversation = stored.conversation
    columns = {
        "id": conversation.id,
        "metadata": conversation.metadata,
        "version": conversation.version,
        "created_at_ms": conversation.created_at_ms,
        "expires_at_ms": stored.expires_at_ms,
        "origin": stored.origin,
        "incarnation": stored.incarnation,
    }
    connection.execute(_WRITE, {"tenant": tenant, **columns})


def drop(connection: sqlite3.Connection, tenant: str, conversation_id: str) -> None:
    """Removes a conversation and its marks of removed items."""
    key = {"tenant": tenant, "id": conversation_id}
    connection.execute(_DROP, key)
    connection.execute(_RESTORE_ITEMS, key)


def removed_items(connection: sqlite3.Connection, tenant: str, conversation_id: str) -> frozenset[str]:
    """The ids of the items that were taken out."""
    rows = connection.execute(_REMOVED_ITEMS, {"tenant": tenant, "id": conversation_id})
    return frozenset(item_id for (item_id,) in rows)


def remove_item(connection: sqlite3.Connection, tenant: str, conversation_id: str, item_id: str) -> None:
    connection.execute(_REMOVE_ITEM, {"tenant": tenant, "id": conversation_id, "item_id": item_id})


def read_stored_node(connection: sqlite3.Connection, tenant: str, response_id: str) -> Record | None:
    """The record of a node that is stored, readable or not."""
    row = connection.execute(_READ_STORED_NODE, {"tenant": tenant, "id": response_id}).fetchone()
    return node_rows.to_record(row) if row else None

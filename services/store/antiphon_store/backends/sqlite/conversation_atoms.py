"""The atoms of `roles.conversations.ConversationAtoms` as functions of a connection and the time.

Those that write run inside a transaction of the writer. `conversation_items` only reads, with several statements: its
own transaction makes them see one moment.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_core.errors import ConversationNotFound, ItemNotFound
from antiphon_core.ports.conversations import Conversation
from antiphon_store.backends import conversations, leases
from antiphon_store.backends.conversations import Addition, Founding, StoredConversation
from antiphon_store.backends.sqlite import atoms, conversation_rows, sessions

_Connection = sqlite3.Connection


def create(connection: _Connection, tenant: str, founding: Founding, now_ms: int) -> Conversation:
    existing = conversation_rows.read(connection, tenant, founding.conversation_id)
    if existing is not None and not existing.is_expired(now_ms):
        conversations.require_same_origin(existing, founding)
        return existing.conversation
    if existing is not None:
        end(connection, tenant, founding.conversation_id, now_ms)
    stored = conversations.founded(founding, now_ms)
    if founding.first is not None:
        _append(connection, tenant, stored, founding.first, now_ms)
    conversation_rows.write(connection, tenant, stored)
    return stored.conversation


def fetch(connection: _Connection, tenant: str, conversation_id: str, now_ms: int) -> StoredConversation:
    stored = conversation_rows.read(connection, tenant, conversation_id)
    if stored is None or stored.is_expired(now_ms):
        raise ConversationNotFound.of(conversation_id)
    return stored


def update(
    connection: _Connection,
    tenant: str,
    conversation_id: str,
    metadata: bytes,
    expected_version: int | None,
    now_ms: int,
) -> Conversation:
    stored = fetch(connection, tenant, conversation_id, now_ms)
    revised = conversations.revised(stored, metadata, expected_version)
    if revised is not stored:
        conversation_rows.write(connection, tenant, revised)
    return revised.conversation


def remove(connection: _Connection, tenant: str, conversation_id: str, now_ms: int) -> None:
    fetch(connection, tenant, conversation_id, now_ms)
    conversations.require_free(sessions.read(connection, tenant, conversation_id), conversation_id, None, now_ms)
    end(connection, tenant, conversation_id, now_ms)


def end(connection: _Connection, tenant: str, conversation_id: str, now_ms: int) -> None:
    """Lets go of a conversation that is stored, expired or not, and of what it kept."""
    state = sessions.read(connection, tenant, conversation_id)
    conversation_rows.drop(connection, tenant, conversation_id)
    atoms.move_head(connection, tenant, conversation_id, leases.released(state), None, now_ms)


def add_items(connection: _Connection, tenant: str, conversation_id: str, addition: Addition, now_ms: int) -> bytes:
    stored = fetch(connection, tenant, conversation_id, now_ms)
    existing = conversation_rows.read_stored_node(connection, tenant, conversations.node_id(stored, addition))
    if existing is not None:
        return conversations.answer_again(existing, addition)
    _append(connection, tenant, stored, addition, now_ms)
    return addition.items


def items(connection: _Connection, tenant: str, conversation_id: str, now_ms: int) -> bytes:
    with _one_moment(connection):
        fetch(connection, tenant, conversation_id, now_ms)
        return _context(connection, tenant, conversation_id, now_ms)


def remove_item(connection: _Connection, tenant: str, conversation_id: str, item_id: str, now_ms: int) -> Conversation:
    stored = fetch(connection, tenant, conversation_id, now_ms)
    if item_id not in conversation_rows.removed_items(connection, tenant, conversation_id):
        if conversations.find(_context(connection, tenant, conversation_id, now_ms), item_id) is None:
            raise ItemNotFound.of(item_id)
        conversation_rows.remove_item(connection, tenant, conversation_id, item_id)
    return stored.conversation


def _context(connection: _Connection, tenant: str, conversation_id: str, now_ms: int) -> bytes:
    bounds = conversations.whole_context(conversation_id)
    return atoms.context(connection, tenant, conversation_id, bounds, now_ms).items


def _append(connection: _Connection, tenant: str, stored: StoredConversation, addition: Addition, now_ms: int) -> None:
    """A node of these items at the head of the session."""
    session_id = stored.conversation.id
    state = sessions.read_current(connection, tenant, session_id, now_ms)
    conversations.require_free(state, session_id, addition.fence, now_ms)
    write = conversations.write_of(stored, addition, parent_id=state.head_id, now_ms=now_ms)
    atoms.append_hidden(connection, tenant, session_id, write, now_ms)


@contextmanager
def _one_moment(connection: _Connection) -> Iterator[None]:
    """What is read inside is of the same moment of the database."""
    if connection.in_transaction:  # a reader's
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")

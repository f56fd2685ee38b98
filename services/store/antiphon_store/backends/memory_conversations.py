"""The conversations of the memory engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon_core.errors import ConversationNotFound, ItemNotFound
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.store import History, Record
from antiphon_store.backends import conversations, leases
from antiphon_store.backends.base import Write
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.conversations import Addition, Founding, StoredConversation
from antiphon_store.backends.leases import SessionState

_Key = tuple[str, str]  # tenant, id


class MemoryConversations:
    """Implements `roles.conversations.ConversationAtoms` for MemoryBackend, whose parts it uses."""

    _conversations: dict[_Key, StoredConversation]
    _removed_items: dict[_Key, set[str]]

    if TYPE_CHECKING:

        def _now_ms(self) -> int: ...

        def _session(self, tenant: str, session_id: str) -> SessionState: ...

        def _head_id(self, tenant: str, session_id: str, now_ms: int) -> str | None: ...

        def _stored(self, tenant: str, response_id: str) -> Record | None: ...

        def _context(self, tenant: str, session_id: str, bounds: ChainBounds, now_ms: int) -> History: ...

        def _append_hidden(self, tenant: str, session_id: str, write: Write, now_ms: int) -> None: ...

        def _move_head(
            self, tenant: str, session_id: str, state: SessionState, head_id: str | None, now_ms: int
        ) -> None: ...

    async def create_conversation(self, tenant: str, founding: Founding) -> Conversation:
        now_ms = self._now_ms()
        key = (tenant, founding.conversation_id)
        existing = self._conversations.get(key)
        if existing is not None and not existing.is_expired(now_ms):
            conversations.require_same_origin(existing, founding)
            return existing.conversation
        if existing is not None:
            self._end_conversation(tenant, founding.conversation_id, now_ms)
        stored = conversations.founded(founding, now_ms)
        if founding.first is not None:
            self._append_items(tenant, stored, founding.first, now_ms)
        self._conversations[key] = stored
        return stored.conversation

    async def fetch_conversation(self, tenant: str, conversation_id: str) -> Conversation:
        return self._require_conversation(tenant, conversation_id, self._now_ms()).conversation

    async def update_conversation(
        self, tenant: str, conversation_id: str, metadata: bytes, expected_version: int | None
    ) -> Conversation:
        stored = self._require_conversation(tenant, conversation_id, self._now_ms())
        stored = conversations.revised(stored, metadata, expected_version)
        self._conversations[tenant, conversation_id] = stored
        return stored.conversation

    async def remove_conversation(self, tenant: str, conversation_id: str) -> None:
        now_ms = self._now_ms()
        self._require_conversation(tenant, conversation_id, now_ms)
        conversations.require_free(self._session(tenant, conversation_id), conversation_id, None, now_ms)
        self._end_conversation(tenant, conversation_id, now_ms)

    async def add_items(self, tenant: str, conversation_id: str, addition: Addition) -> bytes:
        now_ms = self._now_ms()
        stored = self._require_conversation(tenant, conversation_id, now_ms)
        existing = self._stored(tenant, conversations.node_id(stored, addition))
        if existing is not None:
            return conversations.answer_again(existing, addition)
        self._append_items(tenant, stored, addition, now_ms)
        return addition.items

    async def conversation_items(self, tenant: str, conversation_id: str) -> bytes:
        now_ms = self._now_ms()
        self._require_conversation(tenant, conversation_id, now_ms)
        return self._context(tenant, conversation_id, conversations.whole_context(conversation_id), now_ms).items

    async def remove_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        now_ms = self._now_ms()
        stored = self._require_conversation(tenant, conversation_id, now_ms)
        removed = self._removed_items.get((tenant, conversation_id), set())
        if item_id not in removed:
            context = self._context(tenant, conversation_id, conversations.whole_context(conversation_id), now_ms)
            if conversations.find(context.items, item_id) is None:
                raise ItemNotFound.of(item_id)
            self._removed_items[tenant, conversation_id] = removed | {item_id}
        return stored.conversation

    def _require_conversation(self, tenant: str, conversation_id: str, now_ms: int) -> StoredConversation:
        stored = self._conversations.get((tenant, conversation_id))
        if stored is None or stored.is_expired(now_ms):
            raise ConversationNotFound.of(conversation_id)
        return stored

    def _append_items(self, tenant: str, stored: StoredConversation, addition: Addition, now_ms: int) -> None:
        """A node of these items at the head of the session."""
        session_id = stored.conversation.id
        conversations.require_free(self._session(tenant, session_id), session_id, addition.fence, now_ms)
        parent_id = self._head_id(tenant, session_id, now_ms)
        write = conversations.write_of(stored, addition, parent_id=parent_id, now_ms=now_ms)
        self._append_hidden(tenant, session_id, write, now_ms)

    def _end_conversation(self, tenant: str, conversation_id: str, now_ms: int) -> None:
        state = self._session(tenant, conversation_id)
        del self._conversations[tenant, conversation_id]
        self._removed_items.pop((tenant, conversation_id), None)
        self._move_head(tenant, conversation_id, leases.released(state), None, now_ms)

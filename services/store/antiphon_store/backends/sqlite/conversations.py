"""The conversations of the SQLite engine: each atom on the writer or on a reader."""

from __future__ import annotations

from antiphon_core.ports.conversations import Conversation
from antiphon_store.backends.conversations import Addition, Founding
from antiphon_store.backends.sqlite import conversation_atoms as atoms
from antiphon_store.backends.sqlite.threads import Threads


class SqliteConversations:
    """Implements `roles.conversations.ConversationAtoms` for SqliteBackend."""

    async def create_conversation(self: Threads, tenant: str, founding: Founding) -> Conversation:
        return await self._writes.run(lambda connection: atoms.create(connection, tenant, founding, self._now_ms()))

    async def fetch_conversation(self: Threads, tenant: str, conversation_id: str) -> Conversation:
        return await self._reads.run(
            lambda connection: atoms.fetch(connection, tenant, conversation_id, self._now_ms()).conversation
        )

    async def update_conversation(
        self: Threads, tenant: str, conversation_id: str, metadata: bytes, expected_version: int | None
    ) -> Conversation:
        return await self._writes.run(
            lambda connection: atoms.update(
                connection, tenant, conversation_id, metadata, expected_version, self._now_ms()
            )
        )

    async def remove_conversation(self: Threads, tenant: str, conversation_id: str) -> None:
        await self._writes.run(lambda connection: atoms.remove(connection, tenant, conversation_id, self._now_ms()))

    async def add_items(self: Threads, tenant: str, conversation_id: str, addition: Addition) -> bytes:
        return await self._writes.run(
            lambda connection: atoms.add_items(connection, tenant, conversation_id, addition, self._now_ms())
        )

    async def conversation_items(self: Threads, tenant: str, conversation_id: str) -> bytes:
        return await self._reads.run(
            lambda connection: atoms.items(connection, tenant, conversation_id, self._now_ms())
        )

    async def remove_item(self: Threads, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        return await self._writes.run(
            lambda connection: atoms.remove_item(connection, tenant, conversation_id, item_id, self._now_ms())
        )

"""Operations on conversations: checks of metadata and items, and the ids of items."""

from __future__ import annotations

from functools import partial
from hashlib import sha256

from antiphon_core import offload
from antiphon_core.errors import ItemNotFound
from antiphon_core.ids import UNIQUE_DIGITS, new_conversation_id
from antiphon_core.jsons import Object, dumps, work_bytes
from antiphon_core.ports.checks import invalid
from antiphon_core.ports.conversations import Conversation, ConversationStore
from antiphon_core.ports.store import Fence, ItemPage, Order
from antiphon_store.calls import implements
from antiphon_store.decisions import conversations
from antiphon_store.decisions.conversations import Addition, Items
from antiphon_store.rules import contents
from antiphon_store.topics.item_lookups import ItemLookups
from antiphon_store.topics.records import item_page
from antiphon_store.topics.topic import of_id, one_step
from antiphon_store.topics.writes import lifetime_ms

OF_CONVERSATION = of_id("conversation_id")
_FIRST = "first"  # the salt of the items that a conversation is created with


class ConversationOperations(ItemLookups):
    """The operations of `antiphon_core.ports.conversations.ConversationStore`."""

    get_conversation = one_step(ConversationStore.get_conversation, conversations.get, OF_CONVERSATION, only_reads=True)
    update_conversation = one_step(ConversationStore.update_conversation, conversations.update, OF_CONVERSATION)

    @implements(ConversationStore.create_conversation)
    async def create_conversation(
        self, tenant: str, *, conversation_id: str | None, metadata: bytes, items: bytes, ttl_ms: int | None
    ) -> Conversation:
        chosen_id = new_conversation_id(self._ids) if conversation_id is None else conversation_id
        kept_ms = lifetime_ms(ttl_ms, self._settings.max_ttl_s, self._settings.max_ttl_s)
        kept_metadata = contents.parse_metadata(metadata)

        def read() -> tuple[str, Addition | None]:
            entries = contents.parse_items(items)
            origin = sha256(kept_metadata + dumps(entries)).hexdigest()
            return origin, self._addition(chosen_id, entries, _FIRST) if entries else None

        origin, first = await offload.run(read, size_bytes=work_bytes(items))
        founding = partial(conversations.create, metadata=kept_metadata, origin=origin, first=first, ttl_ms=kept_ms)
        return await self._trees.change(founding, tenant, chosen_id, incarnation=self._ids.hex(UNIQUE_DIGITS))

    @implements(ConversationStore.delete_conversation)
    async def delete_conversation(self, tenant: str, conversation_id: str) -> None:
        ttl_ms = lifetime_ms(None, self._settings.default_ttl_s, None)
        await self._trees.change(conversations.delete, tenant, conversation_id, responses_ttl_ms=ttl_ms)

    @implements(ConversationStore.add_conversation_items)
    async def add_conversation_items(
        self, tenant: str, conversation_id: str, items: bytes, *, fence: Fence | None, idempotency_key: str | None
    ) -> bytes:
        if fence is not None and fence.session_id != conversation_id:
            raise invalid("fence.session_id", "Items are added under the fence of the conversation itself.")

        def read() -> Addition:
            entries = contents.parse_items(items)
            if not entries:
                raise invalid("items", "'items' must not be empty.")
            salt = self._salt(entries, idempotency_key)
            return self._addition(conversation_id, entries, salt, fence, idempotency_key)

        addition = await offload.run(read, size_bytes=work_bytes(items))
        return await self._trees.change(conversations.add_items, tenant, conversation_id, addition)

    @implements(ConversationStore.list_conversation_items)
    async def list_conversation_items(
        self, tenant: str, conversation_id: str, *, after: str | None, limit: int, order: Order
    ) -> ItemPage:
        items, removed = await self._items(tenant, conversation_id)
        return await item_page(items, f"item of '{conversation_id}'", after, limit, order, removed=removed)

    @implements(ConversationStore.get_conversation_item)
    async def get_conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> bytes:
        item = await self._find(tenant, conversation_id, item_id)
        if item is None:
            raise ItemNotFound.of(item_id)
        return item

    @implements(ConversationStore.delete_conversation_item)
    async def delete_conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        is_there = await self._find(tenant, conversation_id, item_id) is not None
        return await self._trees.change(conversations.delete_item, tenant, conversation_id, item_id, is_there=is_there)

    async def _items(self, tenant: str, conversation_id: str) -> Items:
        """Reads all items. ConversationNotFound, ChainTooLong."""
        read = partial(conversations.read_items, conversation_id=conversation_id)
        return await self._trees.of_response(tenant, conversation_id, read, only_reads=True)

    async def _find(self, tenant: str, conversation_id: str, item_id: str) -> bytes | None:
        """Reads one item of a conversation, and only the response that has it. ConversationNotFound."""
        read = partial(conversations.read_outline, conversation_id=conversation_id)
        standing, removed = await self._trees.of_response(tenant, conversation_id, read, only_reads=True)
        return None if item_id in removed else await self._item_in(tenant, standing, item_id)

    def _addition(
        self,
        conversation_id: str,
        entries: list[Object],
        salt: str,
        fence: Fence | None = None,
        idempotency_key: str | None = None,
    ) -> Addition:
        return Addition(
            items=contents.with_ids(entries, self._ids, conversation_id),
            digest=sha256(dumps(entries)).hexdigest(),
            salt=salt,
            idempotency_key=idempotency_key,
            fence=fence,
        )

    def _salt(self, entries: list[Object], idempotency_key: str | None) -> str:
        """The identity by which a repeated addition is known: its key, else the ids of its items, else a new one."""
        if idempotency_key is not None:
            return f"key {idempotency_key}"
        given = contents.given_ids(entries)
        return f"ids {dumps(given).decode()}" if given is not None else f"new {self._ids.hex(UNIQUE_DIGITS)}"

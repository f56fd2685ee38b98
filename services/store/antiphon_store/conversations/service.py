"""Conversations over any backend: what a user can name is checked, ids are given, then one atom."""

from __future__ import annotations

from functools import partial
from hashlib import sha256

from antiphon_core import items as item_arrays
from antiphon_core import limits, offload
from antiphon_core.errors import InvalidRequest, ItemNotFound
from antiphon_core.ids import UNIQUE_DIGITS, Ids, new_conversation_id
from antiphon_core.jsons import Object, dumps, work_bytes
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.store import Fence, ItemPage, Order
from antiphon_store import rules
from antiphon_store.conversations import rules as conversation_rules
from antiphon_store.decisions.conversations import find
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.settings import StoreSettings
from antiphon_store.values import Addition, Founding

_FIRST = "first"  # the salt of the items that a conversation is made with


class ConversationOperations:
    """The part of StoreService that implements `antiphon_core.ports.conversations.ConversationStore`."""

    _backend: StoreEngine
    _settings: StoreSettings
    _ids: Ids

    async def create_conversation(
        self,
        tenant: str,
        *,
        conversation_id: str | None = None,
        metadata: bytes = b"{}",
        items: bytes = b"[]",
        ttl_ms: int | None = None,
    ) -> Conversation:
        rules.check_tenant(tenant)
        if conversation_id is None:
            conversation_id = new_conversation_id(self._ids)
        conversation_rules.check_conversation_id(conversation_id, "id")
        lifetime_ms = self._conversation_lifetime_ms(ttl_ms)
        kept_metadata = conversation_rules.parse_metadata(metadata)

        def found() -> Founding:
            entries = conversation_rules.parse_items(items)
            return Founding(
                conversation_id=conversation_id,
                metadata=kept_metadata,
                origin=sha256(kept_metadata + dumps(entries)).hexdigest(),
                incarnation=self._ids.hex(UNIQUE_DIGITS),
                first=self._addition(entries, _FIRST) if entries else None,
                ttl_ms=lifetime_ms,
            )

        founding = await offload.run(found, size_bytes=work_bytes(items))
        return await self._backend.create_conversation(tenant, founding)

    async def get_conversation(self, tenant: str, conversation_id: str) -> Conversation:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "id")
        return await self._backend.fetch_conversation(tenant, conversation_id)

    async def update_conversation(
        self, tenant: str, conversation_id: str, metadata: bytes, *, expected_version: int | None = None
    ) -> Conversation:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "id")
        conversation_rules.check_version(expected_version)
        kept_metadata = conversation_rules.parse_metadata(metadata)
        return await self._backend.update_conversation(tenant, conversation_id, kept_metadata, expected_version)

    async def delete_conversation(self, tenant: str, conversation_id: str) -> None:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "id")
        default_s = self._settings.default_ttl_s
        ttl_ms = None if default_s is None else default_s * 1000
        await self._backend.remove_conversation(tenant, conversation_id, responses_ttl_ms=ttl_ms)

    async def add_conversation_items(
        self,
        tenant: str,
        conversation_id: str,
        items: bytes,
        *,
        fence: Fence | None = None,
        idempotency_key: str | None = None,
    ) -> bytes:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "conversation_id")
        conversation_rules.check_fence(fence, conversation_id)
        rules.check_key(idempotency_key)

        def read() -> Addition:
            entries = conversation_rules.parse_items(items)
            if not entries:
                raise InvalidRequest("'items' must not be empty.", field="items", code="invalid_value")
            return self._addition(entries, self._salt(entries, idempotency_key), fence, idempotency_key)

        addition = await offload.run(read, size_bytes=work_bytes(items))
        return await self._backend.add_items(tenant, conversation_id, addition)

    async def list_conversation_items(
        self,
        tenant: str,
        conversation_id: str,
        *,
        after: str | None = None,
        limit: int = limits.PAGE_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> ItemPage:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "conversation_id")
        rules.check_page_limit(limit)
        rules.check_after(after)
        context = await self._backend.conversation_items(tenant, conversation_id)
        cut = partial(item_arrays.page, context, after=after, limit=limit, order=order)
        page = await offload.run(cut, size_bytes=len(context))
        if page is None:
            raise InvalidRequest(f"'after' names no item of '{conversation_id}'.", field="after", code="invalid_value")
        return page

    async def get_conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> bytes:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "conversation_id")
        conversation_rules.check_item_id(item_id)
        context = await self._backend.conversation_items(tenant, conversation_id)
        item = await offload.run(partial(find, context, item_id), size_bytes=len(context))
        if item is None:
            raise ItemNotFound.of(item_id)
        return dumps(item)

    async def delete_conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "conversation_id")
        conversation_rules.check_item_id(item_id)
        return await self._backend.remove_item(tenant, conversation_id, item_id)

    def _addition(
        self, entries: list[Object], salt: str, fence: Fence | None = None, idempotency_key: str | None = None
    ) -> Addition:
        return Addition(
            items=conversation_rules.with_ids(entries, self._ids),
            digest=sha256(dumps(entries)).hexdigest(),
            salt=salt,
            idempotency_key=idempotency_key,
            fence=fence,
        )

    def _salt(self, entries: list[Object], idempotency_key: str | None) -> str:
        """The identity of an addition, which a repeated one has too: its key, else the ids of its items, else none."""
        if idempotency_key is not None:
            return f"key {idempotency_key}"
        given = conversation_rules.given_ids(entries)
        return f"ids {dumps(given).decode()}" if given is not None else f"new {self._ids.hex(UNIQUE_DIGITS)}"

    def _conversation_lifetime_ms(self, ttl_ms: int | None) -> int | None:
        """Conversations outlive responses: without a wish only the policy's longest lifetime ends them."""
        rules.check_ttl(ttl_ms)
        most_ms = self._settings.max_ttl_s * 1000 if self._settings.max_ttl_s is not None else None
        if ttl_ms is None or most_ms is None:
            return most_ms if ttl_ms is None else ttl_ms
        rules.check_range(ttl_ms, 1, most_ms, "ttl_ms")
        return ttl_ms

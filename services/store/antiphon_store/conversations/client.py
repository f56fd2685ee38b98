"""The operations of conversations from afar: a part of StoreClient."""

from __future__ import annotations

from typing import Any

from antiphon_core import limits
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.store import Fence, ItemPage, Order
from antiphon_protos.antiphon.store import v1
from antiphon_store import rules, wire
from antiphon_store.conversations import rules as conversation_rules
from antiphon_store.conversations.wire import from_conversation, from_item_page


class ConversationCalls:
    """Implements `antiphon_core.ports.conversations.ConversationStore`."""

    async def _call(self, name: str, tenant: str, request: Any) -> Any:
        raise NotImplementedError

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
        if conversation_id is not None:
            conversation_rules.check_conversation_id(conversation_id, "id")
        rules.check_ttl(ttl_ms)
        conversation_rules.check_size(items)
        conversation_rules.check_given(metadata, "metadata")
        conversation_rules.check_given(items, "items")
        request = v1.CreateConversationRequest(
            id=conversation_id or "", metadata=metadata, items=items, ttl_ms=ttl_ms or 0
        )
        answer: v1.CreateConversationResponse = await self._call("CreateConversation", tenant, request)
        return from_conversation(wire.given(answer.conversation, "conversation"))

    async def get_conversation(self, tenant: str, conversation_id: str) -> Conversation:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "id")
        request = v1.GetConversationRequest(id=conversation_id)
        answer: v1.GetConversationResponse = await self._call("GetConversation", tenant, request)
        return from_conversation(wire.given(answer.conversation, "conversation"))

    async def update_conversation(
        self, tenant: str, conversation_id: str, metadata: bytes, *, expected_version: int | None = None
    ) -> Conversation:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "id")
        conversation_rules.check_version(expected_version)
        request = v1.UpdateConversationRequest(id=conversation_id, metadata=metadata, expected_version=expected_version)
        answer: v1.UpdateConversationResponse = await self._call("UpdateConversation", tenant, request)
        return from_conversation(wire.given(answer.conversation, "conversation"))

    async def delete_conversation(self, tenant: str, conversation_id: str) -> None:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "id")
        await self._call("DeleteConversation", tenant, v1.DeleteConversationRequest(id=conversation_id))

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
        conversation_rules.check_size(items)
        request = v1.AddConversationItemsRequest(
            conversation_id=conversation_id,
            items=items,
            fence=wire.to_fence(fence),
            idempotency_key=idempotency_key or "",
        )
        answer: v1.AddConversationItemsResponse = await self._call("AddConversationItems", tenant, request)
        return answer.items

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
        request = v1.ListConversationItemsRequest(
            conversation_id=conversation_id, after=after or "", limit=limit, order=wire.to_order(order)
        )
        return from_item_page(await self._call("ListConversationItems", tenant, request))

    async def get_conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> bytes:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "conversation_id")
        conversation_rules.check_item_id(item_id)
        request = v1.GetConversationItemRequest(conversation_id=conversation_id, item_id=item_id)
        answer: v1.GetConversationItemResponse = await self._call("GetConversationItem", tenant, request)
        return answer.item

    async def delete_conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        rules.check_tenant(tenant)
        conversation_rules.check_conversation_id(conversation_id, "conversation_id")
        conversation_rules.check_item_id(item_id)
        request = v1.DeleteConversationItemRequest(conversation_id=conversation_id, item_id=item_id)
        answer: v1.DeleteConversationItemResponse = await self._call("DeleteConversationItem", tenant, request)
        return from_conversation(wire.given(answer.conversation, "conversation"))

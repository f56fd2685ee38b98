"""gRPC to the operations of conversations, one to one."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon_core import limits
from antiphon_core.ports.conversations import ConversationStore
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.store import v1
from antiphon_store import wire
from antiphon_store.conversations.wire import to_conversation, to_item_page


def handlers(service: ConversationStore) -> Mapping[str, Handler]:
    """The RPCs of this topic."""
    rpcs = _Rpcs(service)
    return {
        "CreateConversation": rpcs.create,
        "GetConversation": rpcs.get,
        "UpdateConversation": rpcs.update,
        "DeleteConversation": rpcs.delete,
        "AddConversationItems": rpcs.add_items,
        "ListConversationItems": rpcs.list_items,
        "GetConversationItem": rpcs.get_item,
        "DeleteConversationItem": rpcs.delete_item,
    }


class _Rpcs:
    def __init__(self, service: ConversationStore) -> None:
        self._service = service

    async def create(self, request: v1.CreateConversationRequest, call: Call) -> v1.CreateConversationResponse:
        conversation = await self._service.create_conversation(
            call.tenant,
            conversation_id=request.id or None,
            metadata=request.metadata or b"{}",
            items=request.items or b"[]",
            ttl_ms=request.ttl_ms or None,
        )
        return v1.CreateConversationResponse(conversation=to_conversation(conversation))

    async def get(self, request: v1.GetConversationRequest, call: Call) -> v1.GetConversationResponse:
        conversation = await self._service.get_conversation(call.tenant, request.id)
        return v1.GetConversationResponse(conversation=to_conversation(conversation))

    async def update(self, request: v1.UpdateConversationRequest, call: Call) -> v1.UpdateConversationResponse:
        conversation = await self._service.update_conversation(
            call.tenant, request.id, request.metadata, expected_version=request.expected_version
        )
        return v1.UpdateConversationResponse(conversation=to_conversation(conversation))

    async def delete(self, request: v1.DeleteConversationRequest, call: Call) -> v1.DeleteConversationResponse:
        await self._service.delete_conversation(call.tenant, request.id)
        return v1.DeleteConversationResponse()

    async def add_items(self, request: v1.AddConversationItemsRequest, call: Call) -> v1.AddConversationItemsResponse:
        items = await self._service.add_conversation_items(
            call.tenant,
            request.conversation_id,
            request.items,
            fence=wire.from_fence(request.fence) if request.fence is not None else None,
            idempotency_key=request.idempotency_key or None,
        )
        return v1.AddConversationItemsResponse(items=items)

    async def list_items(
        self, request: v1.ListConversationItemsRequest, call: Call
    ) -> v1.ListConversationItemsResponse:
        page = await self._service.list_conversation_items(
            call.tenant,
            request.conversation_id,
            after=request.after or None,
            limit=request.limit or limits.PAGE_ITEMS_DEFAULT,
            order=wire.from_order(request.order),
        )
        return to_item_page(page)

    async def get_item(self, request: v1.GetConversationItemRequest, call: Call) -> v1.GetConversationItemResponse:
        item = await self._service.get_conversation_item(call.tenant, request.conversation_id, request.item_id)
        return v1.GetConversationItemResponse(item=item)

    async def delete_item(
        self, request: v1.DeleteConversationItemRequest, call: Call
    ) -> v1.DeleteConversationItemResponse:
        conversation = await self._service.delete_conversation_item(
            call.tenant, request.conversation_id, request.item_id
        )
        return v1.DeleteConversationItemResponse(conversation=to_conversation(conversation))

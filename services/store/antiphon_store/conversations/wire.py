"""Messages of conversations to values and back, as in `antiphon_store.wire`."""

from __future__ import annotations

from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.store import ItemPage
from antiphon_protos.antiphon.store import v1


def to_conversation(conversation: Conversation) -> v1.Conversation:
    return v1.Conversation(
        id=conversation.id,
        metadata=conversation.metadata,
        created_at_ms=conversation.created_at_ms,
        version=conversation.version,
    )


def from_conversation(message: v1.Conversation) -> Conversation:
    return Conversation(
        id=message.id, metadata=message.metadata, created_at_ms=message.created_at_ms, version=message.version
    )


def to_item_page(page: ItemPage) -> v1.ListConversationItemsResponse:
    return v1.ListConversationItemsResponse(
        items=page.items, first_id=page.first_id or "", last_id=page.last_id or "", has_more=page.has_more
    )


def from_item_page(message: v1.ListConversationItemsResponse) -> ItemPage:
    return ItemPage(
        items=message.items,
        first_id=message.first_id or None,
        last_id=message.last_id or None,
        has_more=message.has_more,
    )

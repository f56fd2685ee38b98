"""The port of conversations: sessions with metadata, whose context is one ordered list of items.

The list has the items of turns and the items that clients added by `add_conversation_items`, in the order in which they
came. The next turn gets the items in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from antiphon_core import limits
from antiphon_core.ports.checks import (
    ConversationId,
    IdempotencyKey,
    ItemId,
    Json,
    PageLimit,
    Tenant,
    TtlMs,
    Version,
)
from antiphon_core.ports.store import Fence, ItemPage, Order

ADDED_ITEMS = "conversation.items"
"""The `object` of a record that holds items which a client added to a conversation. It is part of chains, but it is no
response, and no id finds it."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """`metadata` is a JSON object of strings; `version` begins at 1 and counts its changes."""

    id: str
    metadata: bytes
    created_at_ms: int
    version: int


class ConversationStore(Protocol):
    """Operations on conversations.

    All of them raise ConversationNotFound for a conversation that never existed, was deleted, has expired or is another
    tenant's, and InvalidRequest or TooLarge, with the field's name, for invalid arguments."""

    async def create_conversation(
        self,
        tenant: Tenant,
        *,
        conversation_id: ConversationId | None = None,
        metadata: Json = b"{}",
        items: Json = b"[]",
        ttl_ms: TtlMs | None = None,
    ) -> Conversation:
        """Creates a conversation, with its first items. Without an id the store chooses one; with an id the call is
        idempotent. Without `ttl_ms` the conversation lives as long as the store's policy allows, or for ever.

        AlreadyExists: a conversation with this id was created from other metadata or items. SessionLocked: a holder has
        the lease of this session, and `items` are given or an expired conversation has this id."""

    async def get_conversation(self, tenant: Tenant, conversation_id: ConversationId) -> Conversation:
        """The current state of a conversation."""

    async def update_conversation(
        self,
        tenant: Tenant,
        conversation_id: ConversationId,
        metadata: Json,
        *,
        expected_version: Version | None = None,
    ) -> Conversation:
        """Replaces all metadata. Idempotent. VersionMismatch: the version is not `expected_version`."""

    async def delete_conversation(self, tenant: Tenant, conversation_id: ConversationId) -> None:
        """Deletes a conversation and its context, but not the responses that were made in it. SessionLocked: a turn is
        running in it."""

    async def add_conversation_items(
        self,
        tenant: Tenant,
        conversation_id: ConversationId,
        items: Json,
        *,
        fence: Fence | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> bytes:
        """Appends a JSON array of items, all or none, and returns them as stored, each with an id. The call is
        idempotent with an `idempotency_key`, or if all items have ids: then it adds them once, and does not add again
        items that were deleted meanwhile. Otherwise each call adds new items.

        SessionLocked: a turn is running, and no `fence` is given. StaleFence: `fence` is not that of the running turn.
        IdempotencyMismatch: the key was used for other items. AlreadyExists: an id was used for another item."""

    async def list_conversation_items(
        self,
        tenant: Tenant,
        conversation_id: ConversationId,
        *,
        after: ItemId | None = None,
        limit: PageLimit = limits.PAGE_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> ItemPage:
        """One page of the items, behind the item with the id `after`. ChainTooLong."""

    async def get_conversation_item(self, tenant: Tenant, conversation_id: ConversationId, item_id: ItemId) -> bytes:
        """One item as a JSON object. ItemNotFound, ChainTooLong."""

    async def delete_conversation_item(
        self, tenant: Tenant, conversation_id: ConversationId, item_id: ItemId
    ) -> Conversation:
        """Removes an item from this conversation's context, but not from responses and forks that have it. Idempotent.
        ItemNotFound, ChainTooLong."""

"""Conversations as their callers see them: sessions with metadata, whose context is one ordered list of items.

What a turn in the session adds and what is added by hand stand in the same order, in which a next turn gets them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from antiphon_core import limits
from antiphon_core.ports.store import Fence, ItemPage, Order

ADDED_ITEMS = "conversation.items"
"""The `object` of what stands in a chain for items that were added by hand: no response, and found by no id."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """`metadata` is a JSON object of strings; `version` begins at 1 and counts its changes."""

    id: str
    metadata: bytes
    created_at_ms: int
    version: int


class ConversationStore(Protocol):
    """Every call raises ConversationNotFound for an id that was never made, was deleted, has expired or is another
    tenant's; InvalidRequest or TooLarge, with the field's name, for what may not be asked."""

    async def create_conversation(
        self,
        tenant: str,
        *,
        conversation_id: str | None = None,
        metadata: bytes = b"{}",
        items: bytes = b"[]",
        ttl_ms: int | None = None,
    ) -> Conversation:
        """Makes a conversation, with its first items. Without an id the store chooses one; with an id the same call
        again gives the same answer. None as `ttl_ms` means as long as the store's policy allows, else for ever.

        AlreadyExists: there is one of that id, made from other metadata or items. SessionLocked: there are first items,
        and somebody holds the lease of that session already."""

    async def get_conversation(self, tenant: str, conversation_id: str) -> Conversation:
        """The conversation as it is now."""

    async def update_conversation(
        self, tenant: str, conversation_id: str, metadata: bytes, *, expected_version: int | None = None
    ) -> Conversation:
        """Replaces all metadata. The same update again changes nothing. VersionMismatch."""

    async def delete_conversation(self, tenant: str, conversation_id: str) -> None:
        """Ends the conversation and its context; not the responses that were made in it. SessionLocked: a turn runs in
        it."""

    async def add_conversation_items(
        self,
        tenant: str,
        conversation_id: str,
        items: bytes,
        *,
        fence: Fence | None = None,
        idempotency_key: str | None = None,
    ) -> bytes:
        """Appends a JSON array of items, all or none, and gives them as stored: each with an id. The same items again
        under the same key, or all with the same ids, are added once and get the same answer; items that were taken out
        stay out. Items without ids and without a key are new ones each time.

        SessionLocked: a turn runs in it, and `fence` is not given. StaleFence: it is not that turn's.
        IdempotencyMismatch: the key was used for other items. AlreadyExists: the ids were."""

    async def list_conversation_items(
        self,
        tenant: str,
        conversation_id: str,
        *,
        after: str | None = None,
        limit: int = limits.PAGE_ITEMS_DEFAULT,
        order: Order = Order.DESCENDING,
    ) -> ItemPage:
        """A page of the context, by item ids. ChainTooLong."""

    async def get_conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> bytes:
        """One item of the context as a JSON object. ItemNotFound, ChainTooLong."""

    async def delete_conversation_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        """Takes an item out of this conversation's context; responses and forks keep theirs. A second time it changes
        nothing. ItemNotFound, ChainTooLong."""

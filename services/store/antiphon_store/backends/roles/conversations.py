"""The operations of conversations (`decisions.conversations`).

Beyond these, `begin_turn` in the session of a conversation leaves out the items that were taken out of it, and bounds
by `max_bytes` what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.store import Fence


@dataclass(frozen=True, slots=True)
class Addition:
    """Items to be appended. `salt` is the same exactly when the addition is; `digest` is that of the items as given."""

    items: bytes
    digest: str
    salt: str
    idempotency_key: str | None = None
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class Founding:
    """A conversation to be made. `origin` is the digest of what was asked for, `incarnation` unlike any other."""

    conversation_id: str
    metadata: bytes
    origin: str
    incarnation: str
    first: Addition | None = None
    ttl_ms: int | None = None


class ConversationAtoms(Protocol):
    """ConversationNotFound: the id was never made, was removed, or its time is over."""

    async def create_conversation(self, tenant: str, founding: Founding) -> Conversation:
        """The conversation and its first items, in one step. An expired one of that id is ended first. The context of a
        session that was used before stays. The same founding again gives the same answer.

        AlreadyExists, SessionLocked."""

    async def fetch_conversation(self, tenant: str, conversation_id: str) -> Conversation:
        """A living conversation."""

    async def update_conversation(
        self, tenant: str, conversation_id: str, metadata: bytes, expected_version: int | None
    ) -> Conversation:
        """Compares the version and replaces the metadata in one step. VersionMismatch."""

    async def remove_conversation(
        self, tenant: str, conversation_id: str, *, responses_ttl_ms: int | None = None
    ) -> None:
        """In one step: that nobody holds the lease; conversation, head and the marks of removed items. Reclaims what
        the head kept. The fencing token stays used. Responses without an end stay readable for `responses_ttl_ms`: a
        sweep sets it. SessionLocked."""

    async def add_items(self, tenant: str, conversation_id: str, addition: Addition) -> bytes:
        """In one step: that the addition was not made before, that the lease is free or the fence's, the node behind
        the session's head, the new head. The lease stays as it is. The items as stored.

        SessionLocked, StaleFence, IdempotencyMismatch, AlreadyExists."""

    async def conversation_items(self, tenant: str, conversation_id: str) -> bytes:
        """The context of a living conversation as one JSON array, as of one moment. ChainTooLong."""

    async def remove_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        """Marks an item of the context as taken out; a second time it changes nothing. ItemNotFound, ChainTooLong."""

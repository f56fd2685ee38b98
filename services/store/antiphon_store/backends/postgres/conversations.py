"""The atoms of `roles.conversations`.

Those that depend on what only parsing or a checksum can tell read it first; the database refuses them when it has
changed since, and they read again.
"""

from __future__ import annotations

from typing import NamedTuple

from antiphon_core.errors import (
    AlreadyExists,
    ConversationNotFound,
    InternalError,
    ItemNotFound,
    LimitExceeded,
    SessionLocked,
    StaleFence,
    VersionMismatch,
)
from antiphon_core.ports.conversations import Conversation
from antiphon_store.backends import conversations, node_rows
from antiphon_store.backends.conversations import Addition, Founding, StoredConversation
from antiphon_store.backends.places import DEPTH_MAX
from antiphon_store.backends.postgres import rows
from antiphon_store.backends.postgres.asking import Asking
from antiphon_store.backends.postgres.contexts import context_of, removed_of
from antiphon_store.backends.postgres.lineage import digest_of, digests_of

_NO_DRAFT: dict[str, object] = dict.fromkeys(
    (
        *("id", "parent_id", "session_id", "status", "items_crc", "body_crc", "input_bytes", "items", "body"),
        *("ttl_ms", "digests"),
    )
)


class _Context(NamedTuple):
    """What a conversation was at one moment."""

    conversation: Conversation
    head_id: str | None
    removed: frozenset[str]
    items: bytes


class PostgresConversations(Asking):
    """Implements `roles.conversations.ConversationAtoms`."""

    async def create_conversation(self, tenant: str, founding: Founding) -> Conversation:
        conversation_id, first = founding.conversation_id, founding.first
        parameters = {
            "tenant": tenant,
            "conversation_id": conversation_id,
            "metadata": founding.metadata,
            "origin": founding.origin,
            "incarnation": founding.incarnation,
            "conversation_ttl_ms": founding.ttl_ms,
            **(_NO_DRAFT if first is None else _draft(conversations.founded(founding, now_ms=0), first)),
        }
        ((outcome, *columns),) = await self._run("create_conversation", parameters)
        match outcome:
            case "made" | "found":
                return _conversation_of(conversation_id, columns)
            case "exists":
                raise AlreadyExists.of(conversation_id)
            case _:
                raise _refusal(outcome, conversation_id)

    async def fetch_conversation(self, tenant: str, conversation_id: str) -> Conversation:
        return (await self._stored_conversation(tenant, conversation_id)).conversation

    async def update_conversation(
        self, tenant: str, conversation_id: str, metadata: bytes, expected_version: int | None
    ) -> Conversation:
        parameters = {
            "tenant": tenant,
            "conversation_id": conversation_id,
            "metadata": metadata,
            "expected_version": expected_version,
        }
        for outcome, *columns in await self._run("update_conversation", parameters):
            conversation = _conversation_of(conversation_id, columns)
            if outcome == "other_version":
                raise VersionMismatch.of(conversation_id, expected=expected_version or 0, actual=conversation.version)
            return conversation
        raise ConversationNotFound.of(conversation_id)

    async def remove_conversation(self, tenant: str, conversation_id: str) -> None:
        parameters = {"tenant": tenant, "conversation_id": conversation_id}
        match await self._run("remove_conversation", parameters):
            case [("removed",)]:
                return
            case [("missing",)]:
                raise ConversationNotFound.of(conversation_id)
            case [(outcome,)]:
                raise _refusal(outcome, conversation_id)

    async def add_items(self, tenant: str, conversation_id: str, addition: Addition) -> bytes:
        while True:
            stored = await self._stored_conversation(tenant, conversation_id)
            parameters = {
                "tenant": tenant,
                "conversation_id": conversation_id,
                "incarnation": stored.incarnation,
                **_draft(stored, addition),
                "fence_token": addition.fence.token if addition.fence else None,
            }
            ((outcome, *node),) = await self._run("add_items", parameters)
            match outcome:
                case "stored":
                    return addition.items
                case "known":
                    return conversations.answer_again(node_rows.to_record(node), addition)
                case "missing" | "exists":  # changed since it was read
                    continue
                case "stale_fence" if addition.fence is not None:
                    raise StaleFence.of(addition.fence.session_id, token=addition.fence.token)
                case _:
                    raise _refusal(outcome, conversation_id)

    async def conversation_items(self, tenant: str, conversation_id: str) -> bytes:
        return (await self._context(tenant, conversation_id)).items

    async def remove_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        while True:
            context = await self._context(tenant, conversation_id)
            if item_id in context.removed:
                return context.conversation
            if conversations.find(context.items, item_id) is None:
                raise ItemNotFound.of(item_id)
            parameters = {
                "tenant": tenant,
                "conversation_id": conversation_id,
                "seen_head": context.head_id,
                "digest": digest_of(item_id),
                "item_id": item_id.encode(),
            }
            ((is_marked,),) = await self._run("remove_item", parameters)
            if is_marked:
                return context.conversation

    async def _stored_conversation(self, tenant: str, conversation_id: str) -> StoredConversation:
        parameters = {"tenant": tenant, "conversation_id": conversation_id}
        for *columns, origin, incarnation, expires_at_ms in await self._run("read_conversation", parameters):
            return StoredConversation(_conversation_of(conversation_id, columns), origin, incarnation, expires_at_ms)
        raise ConversationNotFound.of(conversation_id)

    async def _context(self, tenant: str, conversation_id: str) -> _Context:
        """ConversationNotFound, ChainTooLong."""
        bounds = conversations.whole_context(conversation_id)
        parameters = {
            "tenant": tenant,
            "conversation_id": conversation_id,
            "max_depth": bounds.max_depth,
            "max_bytes": bounds.max_bytes,
        }
        found = await self._run("read_context", parameters)
        if not found:
            raise ConversationNotFound.of(conversation_id)
        *turns, last = found
        outcome, head_id, item_ids = last[:3]
        removed = removed_of(item_ids)
        history = context_of(
            [turn[6:] for turn in ([last] if outcome == "too_long" else turns)], head_id or "", removed, bounds
        )
        return _Context(_conversation_of(conversation_id, last[3:6]), head_id, removed, history.items)


def _conversation_of(conversation_id: str, columns: node_rows.Row) -> Conversation:
    metadata, version, created_at_ms = columns
    return Conversation(conversation_id, metadata, created_at_ms, version)


def _draft(stored: StoredConversation, addition: Addition) -> dict[str, object]:
    """The node that an addition becomes; its parent and its end are the database's to say."""
    write = conversations.write_of(stored, addition, parent_id=None, now_ms=0)
    return rows.draft_parameters(write) | {"digests": digests_of(write.item_ids)}


def _refusal(outcome: str, conversation_id: str) -> Exception:
    match outcome:
        case "locked":
            return SessionLocked.of(conversation_id)
        case "too_deep":
            return LimitExceeded(f"A chain of {DEPTH_MAX} responses cannot be continued.")
    return InternalError(f"The database gave an outcome that is none: {outcome}.")

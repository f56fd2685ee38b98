"""The conversations of the Redis engine. How they lie in their keys, lua/parts/conversations.lua says.

Two atoms need what no script can work out: the id of an addition's node, a hash of the conversation's incarnation, and
whether an item is in the context. They read first, and the script that writes refuses to go by what is no longer so;
then they read again.
"""

# ruff: noqa: SLF001 - the functions below are parts of the engine, too

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon_core.errors import ItemNotFound, SessionLocked
from antiphon_core.ports.conversations import Conversation
from antiphon_store.backends import conversations
from antiphon_store.backends.conversations import Addition, Founding, StoredConversation
from antiphon_store.backends.redis import answers, scripts
from antiphon_store.backends.redis.calls import NONE, Argument, write_arguments
from antiphon_store.backends.redis.contexts import LOOKS_MAX, Look, context_arguments, look
from antiphon_store.backends.redis.engine import Engine
from antiphon_store.backends.redis.scripts import Script


class RedisConversations:
    """Implements `roles.conversations.ConversationAtoms` for RedisBackend."""

    async def create_conversation(self: Engine, tenant: str, founding: Founding) -> Conversation:
        conversation_id = founding.conversation_id
        first: list[Argument] = []
        if founding.first is not None:
            first = addition_arguments(conversation_id, founding.incarnation, founding.first)
        arguments = [
            *first,
            conversation_id,
            founding.metadata,
            founding.origin,
            founding.incarnation,
            NONE if founding.ttl_ms is None else founding.ttl_ms,
        ]
        answer = await _ask(self, scripts.CREATE_CONVERSATION, tenant, conversation_id, arguments)
        return _conversation(conversation_id, answer)

    async def fetch_conversation(self: Engine, tenant: str, conversation_id: str) -> Conversation:
        answer = await _ask(self, scripts.FETCH_CONVERSATION, tenant, conversation_id, [conversation_id])
        return _conversation(conversation_id, answer[:3])

    async def update_conversation(
        self: Engine, tenant: str, conversation_id: str, metadata: bytes, expected_version: int | None
    ) -> Conversation:
        arguments = [conversation_id, metadata, NONE if expected_version is None else expected_version]
        answer = await _ask(self, scripts.UPDATE_CONVERSATION, tenant, conversation_id, arguments)
        return _conversation(conversation_id, answer)

    async def remove_conversation(self: Engine, tenant: str, conversation_id: str) -> None:
        await _ask(self, scripts.REMOVE_CONVERSATION, tenant, conversation_id, [conversation_id])

    async def add_items(self: Engine, tenant: str, conversation_id: str, addition: Addition) -> bytes:
        token = NONE if addition.fence is None else addition.fence.token
        with self._opened.atom():
            for _ in range(LOOKS_MAX):
                known = await _ask(self, scripts.FETCH_CONVERSATION, tenant, conversation_id, [conversation_id])
                incarnation = known[3].decode()
                write = addition_arguments(conversation_id, incarnation, addition)
                arguments = [*write, conversation_id, incarnation, token]
                outcome, *facts = await _ask(self, scripts.ADD_ITEMS, tenant, conversation_id, arguments)
                if outcome == b"added":
                    return addition.items
                if outcome == b"again":
                    return conversations.answer_again(answers.record(facts), addition)
        raise SessionLocked.of(conversation_id)

    async def conversation_items(self: Engine, tenant: str, conversation_id: str) -> bytes:
        bounds = conversations.whole_context(conversation_id)
        arguments = [conversation_id, *context_arguments(bounds, Look())]
        _look, *facts = await _ask(self, scripts.CONVERSATION_ITEMS, tenant, conversation_id, arguments)
        return look(facts, bounds).history.items

    async def remove_item(self: Engine, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        bounds, seen = conversations.whole_context(conversation_id), Look()
        with self._opened.atom():
            for _ in range(LOOKS_MAX):
                arguments = [conversation_id, *context_arguments(bounds, seen), item_id]
                outcome, *facts = await _ask(self, scripts.REMOVE_ITEM, tenant, conversation_id, arguments)
                if outcome == b"done":
                    return _conversation(conversation_id, facts)
                seen = look(facts, bounds)
                if conversations.find(seen.history.items, item_id) is None:
                    raise ItemNotFound.of(item_id)
        raise SessionLocked.of(conversation_id)


async def _ask(
    engine: Engine, script: Script, tenant: str, conversation_id: str, arguments: Sequence[Argument]
) -> Sequence[Any]:
    keys = engine._keys.conversation_keys(tenant, conversation_id)
    return await engine._run(script, tenant, keys, arguments, session_id=conversation_id)


def addition_arguments(conversation_id: str, incarnation: str, addition: Addition) -> list[Argument]:
    """The node that an addition becomes. What it continues and how long it lives, the script decides."""
    conversation = Conversation(conversation_id, b"", created_at_ms=0, version=0)
    stored = StoredConversation(conversation, "", incarnation, expires_at_ms=None)
    return write_arguments(conversations.write_of(stored, addition, parent_id=None, now_ms=0))


def _conversation(conversation_id: str, answer: Sequence[Any]) -> Conversation:
    metadata, version, created_at_ms = answer
    return Conversation(conversation_id, metadata, created_at_ms, version)

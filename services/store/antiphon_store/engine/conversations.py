"""Sessions with metadata, and items that are added to them by hand.

`begin_turn` in the session of a conversation leaves out the items that were taken out of it.
"""

from __future__ import annotations

from functools import partial

from antiphon_core.ports.conversations import Conversation
from antiphon_store.decisions import conversations
from antiphon_store.engine.operations import Operations, on_response
from antiphon_store.values import Founding


class ConversationOperations(Operations):
    """ConversationNotFound: the id was never made, was removed, or its time is over."""

    fetch_conversation = on_response(conversations.fetch, only_reads=True)
    update_conversation = on_response(conversations.update)
    remove_conversation = on_response(conversations.remove)
    add_items = on_response(conversations.add_items)
    conversation_items = on_response(conversations.read_items, only_reads=True)
    _mark_removed = on_response(conversations.remove_item)

    async def create_conversation(self, tenant: str, founding: Founding) -> Conversation:
        """The conversation and its first items, in one step. The same founding again gives the same answer.
        AlreadyExists, SessionLocked."""
        decision = partial(conversations.create, founding=founding)
        return await self._trees.of_response(tenant, founding.conversation_id, decision)

    async def remove_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        """Marks an item of the context as taken out; a second time it changes nothing. ItemNotFound, ChainTooLong."""
        items = await self.conversation_items(tenant, conversation_id)
        is_there = conversations.find(items, item_id) is not None
        return await self._mark_removed(tenant, conversation_id, item_id, is_there=is_there)

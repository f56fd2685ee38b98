"""All operations of the store over one row backend: what a StoreService runs on.

Rules that hold for every operation:

    Whole           It happens entirely or not at all. What lies in one tree changes in one step; what points there from
                    elsewhere (keys, tickets, items by id) is written before or after, and verified at what it names.
    Durable         A write returns after it is safe at the `durability`, never before.
    Repeatable      The same write again changes nothing and gives the same answer.
    Time            Each database has one clock. It alone decides what is expired and which lease lives; reclaiming
                    space never changes an answer.
    Tenancy         A key of another tenant does not exist.
    Errors          Only classes of `antiphon_core.errors` leave an operation. The database's own are logged and
                    mapped: StoreUnavailable when trying again may help, InternalError when it will not.

Arguments were checked by the service (`antiphon_store.rules`); an operation may rely on their shape, and on item arrays
being tight: no white space around their brackets or right inside them.
"""

from __future__ import annotations

from functools import partial

from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import conversations, logs
from antiphon_store.engine.jobs import JobOperations
from antiphon_store.engine.lineage import LineageOperations
from antiphon_store.engine.operations import on_response
from antiphon_store.engine.prompts import PromptOperations
from antiphon_store.engine.quotas import QuotaOperations
from antiphon_store.rows.backend import Durability


class StoreEngine(LineageOperations, JobOperations, PromptOperations, QuotaOperations):
    """The operations of all topics. `open` comes first and `close` last; in between they may run concurrently."""

    create_conversation = on_response(conversations.create)
    fetch_conversation = on_response(conversations.fetch, only_reads=True)
    update_conversation = on_response(conversations.update)
    remove_conversation = on_response(conversations.remove)
    add_items = on_response(conversations.add_items)
    conversation_items = on_response(conversations.read_items, only_reads=True)
    _mark_removed = on_response(conversations.remove_item)
    read_log = on_response(logs.read, only_reads=True)

    async def remove_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        """Marks an item of the context as taken out; a second time it changes nothing. ItemNotFound, ChainTooLong."""
        items = await self.conversation_items(tenant, conversation_id)
        is_there = conversations.find(items, item_id) is not None
        return await self._mark_removed(tenant, conversation_id, item_id, is_there=is_there)

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> int:
        """Appends one batch: the next position. In one step: whether the batch is there already (then nothing changes),
        the fence (a job's when there is a job of its `session_id`, else a session's), the end of the log, the new
        batch, the log's new end and that it expires in `ttl_ms`.

        An expired log is none: the next append begins anew at 0. PositionMismatch, LogClosed, StaleFence."""
        decision = partial(logs.append, append=append, fence=fence, ttl_ms=ttl_ms)
        sessions = [(fence.session_id, "fence.session_id")] if fence is not None else []
        return await self._trees.of_record(tenant, append.response_id, sessions, decision)

    @property
    def durability(self) -> Durability:
        return self._rows.durability

    async def open(self) -> None:
        """Connects and brings the schema up to date. StoreUnavailable: with what is wrong, for an operator."""
        await self._rows.open()

    async def close(self) -> None:
        """Lets running operations end. Every one after it raises StoreUnavailable; a second close does nothing."""
        await self._rows.close()

    async def ready(self) -> None:
        """Returns when operations would succeed now; raises StoreUnavailable with the reason otherwise."""
        await self._rows.ready()

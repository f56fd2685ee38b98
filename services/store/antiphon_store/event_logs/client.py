"""Event logs from afar; see `antiphon_store.client`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from antiphon_core.ports.event_logs import EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_core.rpc.client import RpcClient
from antiphon_protos.antiphon.store import v1
from antiphon_store import rules as store_rules
from antiphon_store.event_logs import rules, wire
from antiphon_store.event_logs.append_queue import AppendQueue


class EventLogCalls:
    """The part of StoreClient that implements `antiphon_core.ports.event_logs.EventLogs`."""

    _rpc: RpcClient
    _appends: AppendQueue

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None = None) -> int:
        store_rules.check_tenant(tenant)
        rules.check_append(append)
        if fence is not None:
            store_rules.check_fence(fence)
        return await self._appends.append(tenant, wire.to_append(append, fence))

    async def read_events(
        self, tenant: str, response_id: str, *, after: int | None = None, follow: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        store_rules.check_tenant(tenant)
        store_rules.check_response_id(response_id, "response_id")
        rules.check_after(after)
        request = v1.ReadEventsRequest(response_id=response_id, after=after, follow=follow)
        reading = self._rpc.stream("ReadEvents", request, tenant=tenant)
        async with aclosing(reading) as batches:
            async for message in batches:
                yield wire.from_batch(message)

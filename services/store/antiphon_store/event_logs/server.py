"""gRPC to event logs, one to one; see `antiphon_store.server`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from antiphon_core.ports.event_logs import EventLogs
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.store import v1
from antiphon_store.event_logs import wire


def handlers(service: EventLogs) -> Mapping[str, Handler]:
    rpcs = _Rpcs(service)
    return {"AppendEvents": rpcs.append_events, "ReadEvents": rpcs.read_events}


class _Rpcs:
    def __init__(self, service: EventLogs) -> None:
        self._service = service

    async def append_events(self, request: Any, call: Call) -> v1.AppendEventsResponse:
        position = await self._service.append_events(
            call.tenant, wire.from_append(request), fence=wire.from_append_fence(request)
        )
        return v1.AppendEventsResponse(next_position=position)

    async def read_events(self, request: v1.ReadEventsRequest, call: Call) -> AsyncGenerator[Any, None]:
        reading = self._service.read_events(
            call.tenant, request.response_id, after=request.after, follow=request.follow
        )
        async with aclosing(reading) as batches:
            async for batch in batches:
                yield wire.to_batch(batch)

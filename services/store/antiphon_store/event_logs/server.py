"""gRPC to event logs, one to one; see `antiphon_store.server`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from antiphon_core.errors import AntiphonError
from antiphon_core.ports.event_logs import EventLogs
from antiphon_core.rpc.server import Call, Handler, known
from antiphon_protos.antiphon.store import v1
from antiphon_store.event_logs import rules, wire


def handlers(service: EventLogs) -> Mapping[str, Handler]:
    rpcs = _Rpcs(service)
    return {
        "AppendEvents": rpcs.append_events,
        "AppendToLogs": rpcs.append_to_logs,
        "ReadEvents": rpcs.read_events,
    }


class _Rpcs:
    def __init__(self, service: EventLogs) -> None:
        self._service = service

    async def append_events(self, request: Any, call: Call) -> v1.AppendEventsResponse:
        return v1.AppendEventsResponse(next_position=await self._append(call.tenant, request))

    async def append_to_logs(self, request: Any, call: Call) -> Any:
        rules.check_appends(len(request.appends))
        outcomes = [self._outcome(call.tenant, append) for append in request.appends]
        return wire.to_outcomes(await asyncio.gather(*outcomes))

    async def _outcome(self, tenant: str, request: Any) -> int | AntiphonError:
        try:
            return await self._append(tenant, request)
        except Exception as error:  # noqa: BLE001 - a boundary: the other appends of the request go on
            return known(error, f"an append to the log of {request.response_id}")

    async def _append(self, tenant: str, request: Any) -> int:
        fence = wire.from_append_fence(request)
        return await self._service.append_events(tenant, wire.from_append(request), fence=fence)

    async def read_events(self, request: v1.ReadEventsRequest, call: Call) -> AsyncGenerator[Any, None]:
        reading = self._service.read_events(
            call.tenant, request.response_id, after=request.after, follow=request.follow
        )
        async with aclosing(reading) as batches:
            async for batch in batches:
                yield wire.to_batch(batch)

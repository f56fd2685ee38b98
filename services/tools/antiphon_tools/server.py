"""The tools service on gRPC. A call belongs to the ledger: an RPC begins it or attaches to it, and may end earlier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from antiphon_core.errors import NotFound
from antiphon_core.ports.tools import Progress
from antiphon_core.rpc.server import Call, Handler
from antiphon_protos.antiphon.tools import v1
from antiphon_tools import wire
from antiphon_tools.ledger import Entry
from antiphon_tools.service import ToolService

LISTING_S = 30.0
"""The time of a listing or a search whose request names none."""


def handlers(service: ToolService) -> Mapping[str, Handler]:
    """The handlers of the RPCs of ToolService."""

    async def list_tools(request: Any, call: Call) -> Any:
        listing = await service.list_tools(
            call.tenant,
            wire.server_value(request.server),
            wire.credentials_value(request.credentials),
            timeout_s=request.timeout_ms / 1_000 or LISTING_S,
        )
        return wire.listing_message(listing)

    async def call_tool(request: Any, call: Call) -> AsyncGenerator[Any, None]:
        if request.attach:
            entry = _require_known(service.find_call(call.tenant, request.id), request.id)
        else:
            entry = service.begin_call(call.tenant, wire.call_value(request))
        async with aclosing(_follow(entry)) as answers:
            async for answer in answers:
                yield answer

    async def cancel_call(request: Any, call: Call) -> Any:
        _require_known(service.find_call(call.tenant, request.id), request.id).task.cancel()
        return v1.CancelCallResponse()

    async def search(request: Any, call: Call) -> Any:
        query = wire.search_value(request)
        return wire.hits_message(
            await service.search(call.tenant, query, timeout_s=request.timeout_ms / 1_000 or LISTING_S)
        )

    return {"ListTools": list_tools, "CallTool": call_tool, "CancelCall": cancel_call, "Search": search}


def _require_known(entry: Entry | None, call_id: str) -> Entry:
    if entry is None:
        raise NotFound(f"No call with the id '{call_id}' is known here.", id=call_id)
    return entry


async def _follow(entry: Entry) -> AsyncGenerator[Any, None]:
    """Yields that a call is known, its progress from now on, and its result. Closing it does not end the call."""
    yield v1.CallToolResponse()
    reports = _Reports()
    waiting = asyncio.ensure_future(entry.result(reports.put))
    waiting.add_done_callback(lambda _: reports.end())
    try:
        while (progress := await reports.take()) is not None:
            yield wire.progress_message(progress)
        yield wire.result_message(waiting.result())
    finally:
        waiting.cancel()


class _Reports:
    """The latest progress of a call. A reader that is slow misses the ones before it."""

    def __init__(self) -> None:
        self._latest: Progress | None = None
        self._has_ended = False
        self._changed = asyncio.Event()

    def put(self, progress: Progress) -> None:
        self._latest = progress
        self._changed.set()

    def end(self) -> None:
        self._has_ended = True
        self._changed.set()

    async def take(self) -> Progress | None:
        """Waits for progress; None: the call has ended."""
        while self._latest is None and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        latest, self._latest = self._latest, None
        return latest

"""A client of the tools service over gRPC.

A call is begun once. If its stream breaks after the request may have been read, the client only attaches to the call,
which begins nothing (docs/adr/0200-calls-of-tools-are-not-repeated.md). A cancelled call is looked for at one replica
after the other, over the connections that calls have, until one knows it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from antiphon_core.errors import AntiphonError, NotFound, Timeout, ToolsUnavailable, Unavailable
from antiphon_core.ports.tools import (
    NO_CREDENTIALS,
    CallError,
    Credentials,
    Listing,
    OnProgress,
    Outcome,
    ToolCall,
    ToolResult,
    ToolServer,
    ignore_progress,
)
from antiphon_core.ports.web_search import SearchHit, SearchQuery
from antiphon_core.retrying import ATTACH, CALL, PACING, Attempts, Pacing, Retrier
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.lean_streams import LeanStreams
from antiphon_core.rpc.methods import TOOLS
from antiphon_protos.antiphon.tools import v1
from antiphon_tools import wire

GRACE_S = 5.0
"""The time after a call's timeout in which the service has to say how it ended."""
CANCEL_S = 12.0
"""The time for the requests to cancel one call, of which a replica that is frozen takes 5 s."""
CANCELS_ITEMS_MAX = 32
"""The requests to cancel one call, each to the next replica. Requests of other calls come in between."""
_LOST = ToolResult(
    Outcome.UNKNOWN,
    error=CallError(-32_001, "The service that runs tools was lost while the call ran."),
)


class ToolsClient:
    """The port of a tools service in another process. Create, use and close it inside one event loop; `endpoint` is
    host:port or dns:///host:port. This class owns the retries of the hop: of listings, and of attaching to a call."""

    def __init__(self, endpoint: str, *, credentials: ClientCredentials = ANONYMOUS, pacing: Pacing = PACING) -> None:
        """SettingsError: the endpoint or a file of `credentials` is unusable."""
        self._retrier = Retrier(ToolsUnavailable, pacing)
        self._rpc = RpcClient(endpoint, TOOLS, unavailable=ToolsUnavailable, credentials=credentials)
        self._streams = LeanStreams(endpoint, TOOLS, unavailable=ToolsUnavailable, credentials=credentials)
        self._cancelling: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        await asyncio.gather(*self._cancelling, return_exceptions=True)
        await self._streams.close()
        await self._rpc.close()

    async def ready(self) -> None:
        await self._rpc.ready()

    async def list_tools(
        self,
        tenant: str,
        server: ToolServer,
        credentials: Credentials = NO_CREDENTIALS,
        *,
        timeout_s: float = 30.0,
    ) -> Listing:
        request = v1.ListToolsRequest(
            server=wire.server_message(server),
            credentials=wire.credentials_message(credentials),
            timeout_ms=round(timeout_s * 1_000),
        )
        answer = await self._retrier.run(partial(self._rpc.call, "ListTools", request, tenant=tenant), CALL)
        return wire.listing_value(answer)

    async def call_tool(self, tenant: str, call: ToolCall, on_progress: OnProgress = ignore_progress) -> ToolResult:
        reading = _Reading(on_progress)
        try:
            async with asyncio.timeout(call.timeout_s + GRACE_S):
                return await self._run(tenant, call, reading)
        except TimeoutError:
            return _LOST
        except asyncio.CancelledError:
            self._cancel(tenant, call.id)
            raise

    async def search(self, tenant: str, query: SearchQuery, *, timeout_s: float = 30.0) -> tuple[SearchHit, ...]:
        request = wire.search_message(query, timeout_s)
        answer = await self._retrier.run(partial(self._rpc.call, "Search", request, tenant=tenant), CALL)
        return wire.hits_value(answer)

    async def _run(self, tenant: str, call: ToolCall, reading: _Reading) -> ToolResult:
        attempts = Attempts(self._retrier, ATTACH)
        attach = False
        while True:
            fault: AntiphonError = ToolsUnavailable("The tools service ended the stream without a result.", away=True)
            try:
                request = wire.call_message(call, attach=attach)
                await self._streams.run("CallTool", request, reading.take, tenant=tenant)
                if reading.result is not None:
                    return reading.result
            except NotFound:
                return _LOST
            except AntiphonError as error:
                if not (attach or reading.is_known or _may_have_begun(error)):
                    raise
                fault = error
            attach = True
            if not await attempts.paused_after(fault):
                return _LOST

    def _cancel(self, tenant: str, call_id: str) -> None:
        """Cancels a call whose caller is cancelled, and cannot wait for it."""
        task = asyncio.create_task(self._cancel_where_known(tenant, call_id), name="cancel a tool call")
        self._cancelling.add(task)
        task.add_done_callback(self._forget)

    async def _cancel_where_known(self, tenant: str, call_id: str) -> None:
        request = v1.CancelCallRequest(id=call_id)
        async with asyncio.timeout(CANCEL_S):
            for _ in range(CANCELS_ITEMS_MAX):
                with suppress(NotFound, ToolsUnavailable, Timeout):
                    await self._streams.run("CancelCall", request, lambda _: None, tenant=tenant)
                    return

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._cancelling.discard(task)
        if not task.cancelled():
            task.exception()  # a service that is away has lost the call anyway


class _Reading:
    """The progress and the result of a call, over all streams that were attached to it."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.is_known = False
        """Whether the service has said that it knows the call."""
        self.result: ToolResult | None = None
        self._on_progress = on_progress

    def take(self, message: Any) -> None:
        self.is_known = True
        if message.result is not None:
            self.result = wire.result_value(message.result)
        elif message.progress is not None:
            self._on_progress(wire.progress_value(message.progress))


def _may_have_begun(fault: AntiphonError) -> bool:
    """Whether the service may have begun a call of which it has said nothing. An error that it answers with means that
    it has not."""
    return isinstance(fault, Unavailable) and fault.is_away and not fault.is_unprocessed

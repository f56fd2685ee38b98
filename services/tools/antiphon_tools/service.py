"""The port of tools in this process: looks up the server, lists, checks the tool, and calls it once.

A call is refused unless its tool was listed a short time ago, is permitted, pinned if there are pins, and is the one
that the caller saw (`ToolCall.digest`). If no listing is known, the tools are listed first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from time import perf_counter
from weakref import WeakValueDictionary

from antiphon_core import jsons
from antiphon_core.clock import Clock, SystemClock
from antiphon_core.errors import ToolServerFault
from antiphon_core.ports.checks import check_of
from antiphon_core.ports.tools import (
    NO_CREDENTIALS,
    CallError,
    Credentials,
    Listing,
    OnProgress,
    Outcome,
    Tool,
    ToolCall,
    ToolResult,
    ToolServer,
    ignore_progress,
)
from antiphon_core.ports.web_search import SearchHit, SearchQuery
from antiphon_core.telemetry import metrics, remedies, spans, tracing
from antiphon_tools.connections import Connections
from antiphon_tools.ledger import Entry, Ledger
from antiphon_tools.listings import Key, Listings, is_usable, listing_of
from antiphon_tools.mcp.client import Sending
from antiphon_tools.mcp.faults import AnswerLost, Code, HttpFault, McpFault, NotSent
from antiphon_tools.mcp.results import read_result
from antiphon_tools.settings import ToolsSettings
from antiphon_tools.targets import Target, Targets, client_rules
from antiphon_tools.web import web_search
from antiphon_tools.web.web_search import ConfiguredSearch

log = logging.getLogger(__name__)

_check_server, _check_call, _check_query = check_of(ToolServer), check_of(ToolCall), check_of(SearchQuery)
_TIMEOUT = "The tool server did not answer in time."
_CANCELLED = "The call was cancelled before its answer came."


@dataclass(frozen=True, slots=True)
class _Planned:
    """A call whose server and arguments were checked."""

    tenant: str
    call: ToolCall
    target: Target
    arguments: jsons.Object


class ToolService:
    """Create, use and close it inside one event loop. SettingsError: the file of servers or the search is unusable."""

    def __init__(self, settings: ToolsSettings, *, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._settings = settings
        self._targets = Targets(settings)
        rules = client_rules(settings)
        self._connections = Connections(
            rules.permits if rules is not None else lambda _: False, wire_bytes=settings.wire_bytes, clock=clock
        )
        self._listings = Listings(ttl_s=settings.listing_ttl_s, clock=clock)
        self._ledger = Ledger(clock)
        self._search = ConfiguredSearch(settings, self._connections)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @property
    def running(self) -> int:
        """The number of calls that run."""
        return self._ledger.running

    async def ready(self) -> None:
        """Always: whether a tool server can be reached is known when it is called."""

    async def close(self) -> None:
        await self._ledger.close()
        await self._connections.close()

    # ---- Listing ----

    async def list_tools(
        self,
        tenant: str,
        server: ToolServer,
        credentials: Credentials = NO_CREDENTIALS,
        *,
        timeout_s: float = 30.0,
    ) -> Listing:
        if _check_server is not None:
            _check_server(server, "")
        target = self._targets.find(tenant, server, credentials)
        key = _key(tenant, target)
        began_s = perf_counter()
        tools = self._listings.fresh(key)
        is_cached = tools is not None
        if tools is None:
            try:
                async with asyncio.timeout(timeout_s), self._share(tenant):
                    tools = await self._list(tenant, target, key)
            except TimeoutError as error:
                raise ToolServerFault(_TIMEOUT, field="tools") from error
            except McpFault as fault:
                raise ToolServerFault(fault.message, field="tools", status=fault.code) from fault
        duration = perf_counter() - began_s
        metrics.TOOL_LISTING_DURATION.of(target.metric_name, str(is_cached).lower()).observe(duration)
        return listing_of(target, tools)

    async def _list(self, tenant: str, target: Target, key: Key) -> Mapping[str, Tool]:
        async with self._connections.client(tenant, target) as client:
            pages = await client.list_tools(target.permits)
        changed = self._listings.put(key, pages)
        if changed:
            metrics.TOOL_DEFINITION_CHANGES.of(target.metric_name).add(changed)
            log.warning("the tool server %s has changed the definition of %d tools", target.metric_name, changed)
        return {tool.name: tool for tool in pages.tools}

    # ---- Calls ----

    async def call_tool(self, tenant: str, call: ToolCall, on_progress: OnProgress = ignore_progress) -> ToolResult:
        entry = self.begin_call(tenant, call)
        try:
            return await entry.result(on_progress)
        except asyncio.CancelledError:
            entry.task.cancel()
            raise

    def begin_call(self, tenant: str, call: ToolCall) -> Entry:
        """Begins a call, or finds it running or ended. InvalidRequest."""
        planned = self._plan(tenant, call)
        return self._ledger.begin(tenant, call, lambda on_progress: self._run(planned, on_progress))

    def find_call(self, tenant: str, call_id: str) -> Entry | None:
        """A call that was begun in this process a short time ago."""
        return self._ledger.find(tenant, call_id)

    def _plan(self, tenant: str, call: ToolCall) -> _Planned:
        if _check_call is not None:
            _check_call(call, "")
        target = self._targets.find(tenant, call.server, call.credentials)
        return _Planned(tenant, call, target, jsons.parse_object(call.arguments or b"{}", field="arguments"))

    async def _run(self, planned: _Planned, on_progress: OnProgress) -> ToolResult:
        """Runs a call to its end, which is always a result: the caller may have gone."""
        sending, began_s = Sending(), perf_counter()
        facts = {spans.OPERATION: spans.EXECUTE_TOOL, spans.TOOL_SERVER: planned.target.metric_name}
        with tracing.span(spans.EXECUTE_TOOL, spans.SpanKind.CLIENT, facts) as span:
            result = await self._ended(self._call(planned, sending, on_progress), planned, sending)
            span.note({spans.TOOL_OUTCOME: result.outcome.value})
            if planned.target.operator is not None and result.outcome is not Outcome.REFUSED:  # it is a known name
                span.rename(spans.execute_tool(planned.call.tool))
                span.note({spans.TOOL_NAME: planned.call.tool})
        _record(planned.target.metric_name, result, perf_counter() - began_s)
        return result

    async def _ended(self, running: Awaitable[ToolResult], planned: _Planned, sending: Sending) -> ToolResult:
        timeout_s = planned.call.timeout_s
        operator = planned.target.operator
        timeout_s = min(timeout_s, (operator.timeout_s if operator is not None else 0) or self._settings.call_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await running
        except TimeoutError:
            return _unanswered(sending, _TIMEOUT)
        except asyncio.CancelledError:  # of this task, which belongs to the ledger: its end is a result
            return _unanswered(sending, _CANCELLED)
        except McpFault as fault:
            return _failed(fault)
        except Exception:
            log.exception("a call of a tool failed", extra=remedies.REPORT)
            return _unanswered(sending, "The call failed in the service of tools. Its log says why.")

    async def _call(self, planned: _Planned, sending: Sending, on_progress: OnProgress) -> ToolResult:
        tenant, call, target = planned.tenant, planned.call, planned.target
        async with self._share(tenant):
            tool = await self._tool(planned)
            if tool is None:
                return _refused("The tool does not exist, or is not permitted here.")
            if call.digest and call.digest != tool.digest:
                return _refused("The tool server has changed the definition of the tool.")
            async with self._connections.client(tenant, target) as client:
                result = await client.call_tool(
                    tool.name,
                    planned.arguments,
                    jsons.loads(tool.input_schema),
                    call_id=call.id,
                    sending=sending,
                    on_progress=on_progress,
                )
        return read_result(result, self._settings.text_bytes)

    async def _tool(self, planned: _Planned) -> Tool | None:
        """The definition of the called tool, None if it may not be called. Lists the tools if they are not known."""
        key = _key(planned.tenant, planned.target)
        tools = self._listings.known(key)
        if tools is None or planned.call.tool not in tools:
            try:
                tools = await self._list(planned.tenant, planned.target, key)
            except AnswerLost as fault:  # of the listing: the tool was not called
                raise NotSent(fault.code, fault.message) from fault
        tool = tools.get(planned.call.tool)
        return tool if tool is not None and is_usable(planned.target, tool) else None

    # ---- Searches ----

    async def search(self, tenant: str, query: SearchQuery, *, timeout_s: float = 30.0) -> tuple[SearchHit, ...]:
        if _check_query is not None:
            _check_query(query, "")
        server = self._search.server
        try:
            async with asyncio.timeout(timeout_s):
                if server:
                    return await self._search_by_tool(tenant, server, query)
                async with self._share(tenant):
                    return await self._search.ask_provider(query)
        except TimeoutError as error:
            raise ToolServerFault("The search did not answer in time.", field="tools") from error

    async def _search_by_tool(self, tenant: str, server: str, query: SearchQuery) -> tuple[SearchHit, ...]:
        """Searches by the only tool of the operator's server. ToolServerFault: it has none or several, or fails."""
        named = ToolServer(server)
        tools = (await self.list_tools(tenant, named)).tools
        if len(tools) != 1:
            raise ToolServerFault(f"The tool server '{server}' has {len(tools)} tools, and not one that searches.")
        call_id = f"search/{secrets.token_hex(16)}"
        arguments = jsons.dumps(web_search.tool_arguments(tools[0], query))
        result = await self.call_tool(tenant, ToolCall(call_id, named, tools[0].name, arguments, tools[0].digest))
        if result.outcome is not Outcome.OK:
            raise ToolServerFault(result.error.message if result.error is not None else result.text)
        return web_search.tool_hits(result.text, result.structured, query)

    def _share(self, tenant: str) -> asyncio.Semaphore:
        return self._shares.setdefault(tenant, asyncio.Semaphore(self._settings.calls_per_tenant))


def _key(tenant: str, target: Target) -> Key:
    return (tenant, target.identity, target.credential_digest)


def _record(server: str, result: ToolResult, duration_s: float) -> None:
    metrics.TOOL_CALLS.of(server, result.outcome.value).add()
    metrics.TOOL_CALL_DURATION.of(server).observe(duration_s)
    metrics.TOOL_RESULT_BYTES.of(server).add(len(result.text) + sum(map(len, result.images)))
    if result.outcome is Outcome.UNKNOWN:
        log.warning("the outcome of a call of a tool of the server %s is unknown", server)


def _failed(fault: McpFault) -> ToolResult:
    outcome = Outcome.PROTOCOL_ERROR
    if isinstance(fault, NotSent):
        outcome = Outcome.NOT_SENT
    elif isinstance(fault, AnswerLost):
        outcome = Outcome.UNKNOWN
    elif isinstance(fault, HttpFault):
        outcome = Outcome.HTTP_ERROR
    return ToolResult(outcome, error=CallError(fault.code, fault.message))


def _unanswered(sending: Sending, why: str) -> ToolResult:
    if sending.is_connected:
        return ToolResult(Outcome.UNKNOWN, error=CallError(Code.UNKNOWN_OUTCOME, why))
    return ToolResult(Outcome.NOT_SENT, error=CallError(Code.SERVER, f"{why} It was not sent."))


def _refused(why: str) -> ToolResult:
    return ToolResult(Outcome.REFUSED, error=CallError(Code.METHOD_NOT_FOUND, why))

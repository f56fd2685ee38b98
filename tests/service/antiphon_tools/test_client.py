"""The tools client when its streams break. The calls themselves are tested in tests/contract/tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import AlreadyExists, NotFound, StoreUnavailable, ToolsUnavailable
from antiphon_core.ports.tools import Outcome, Progress, ToolCall, ToolResult, ToolServer
from antiphon_core.rpc.methods import TOOLS
from antiphon_core.rpc.server import RpcServer
from antiphon_protos.antiphon.tools import v1
from antiphon_tools import wire
from antiphon_tools.client import ToolsClient
from antiphon_tools.server import handlers
from antiphon_tools.service import ToolService
from antiphon_tools.settings import ToolsSettings
from tests.support.manual_pacing import ManualPacing
from tests.support.ports import free_ports
from tests.support.raw_mcp_server import Asked, raw_server, stateless
from tests.support.waiting import until

CALL = ToolCall("resp_1/call_1", ToolServer("calc"), "add", b"{}")
DONE = wire.result_message(ToolResult(Outcome.OK, "done"))
HERE = ToolsSettings(client_hosts=("*",), client_http=True, client_private_addresses=True)
Play = Callable[[Any], AsyncIterator[Any]]


@dataclass
class Scripted:
    """A client of a tools service that plays one part for each stream, and the requests that the service got."""

    client: ToolsClient
    requests: list[Any]
    cancelled: list[str]


@pytest.fixture
def manual() -> ManualPacing:
    return ManualPacing()


@pytest.fixture
async def start(manual: ManualPacing) -> AsyncIterator[Callable[..., Any]]:
    servers: list[RpcServer] = []
    clients: list[ToolsClient] = []

    async def begin(*plays: Play) -> Scripted:
        requests: list[Any] = []
        cancelled: list[str] = []
        parts = iter(plays)

        async def call_tool(request: Any, _call: Any) -> AsyncIterator[Any]:
            requests.append(request)
            async for answer in next(parts)(request):
                yield answer

        async def cancel_call(request: Any, _call: Any) -> Any:
            cancelled.append(request.id)
            return v1.CancelCallResponse()

        async def ready() -> None: ...

        server = RpcServer()
        server.add(TOOLS, {"CallTool": call_tool, "CancelCall": cancel_call}, ready=ready)  # type: ignore[dict-item]
        servers.append(server)
        client = ToolsClient(f"127.0.0.1:{await server.start('127.0.0.1', 0)}", pacing=manual.pacing)
        clients.append(client)
        return Scripted(client, requests, cancelled)

    yield begin
    for client in clients:
        await client.close()
    for server in servers:
        await server.drain(0)


@asynccontextmanager
async def listening(service: ToolService) -> AsyncIterator[int]:
    """Serves a service. Gives its port."""
    server = RpcServer()
    server.add(TOOLS, handlers(service), ready=service.ready)
    try:
        yield await server.start("127.0.0.1", 0)
    finally:
        await server.drain(0)
        await service.close()


async def breaks(_request: Any) -> AsyncIterator[Any]:
    yield v1.CallToolResponse()
    yield wire.progress_message(Progress(1.0))
    raise ToolsUnavailable("The stream broke.")


async def ends(_request: Any) -> AsyncIterator[Any]:
    yield v1.CallToolResponse()


async def answers(_request: Any) -> AsyncIterator[Any]:
    yield v1.CallToolResponse()
    yield wire.progress_message(Progress(2.0))
    yield DONE


async def knows_none(request: Any) -> AsyncIterator[Any]:
    raise NotFound(f"No call {request.id}.")
    yield


@pytest.mark.parametrize("first", [breaks, ends])
async def test_a_stream_that_breaks_is_attached_to_again(start: Any, first: Play) -> None:
    served = await start(first, first, answers)
    seen: list[Progress] = []
    assert await served.client.call_tool("acme", CALL, seen.append) == ToolResult(Outcome.OK, "done")
    assert [request.attach for request in served.requests] == [False, True, True]
    assert seen[-1] == Progress(2.0)


@pytest.mark.parametrize("rest", [[knows_none], [breaks, breaks, breaks]])
async def test_a_call_that_no_service_knows_any_more_is_unknown(start: Any, rest: list[Play]) -> None:
    served = await start(breaks, *rest)
    result = await served.client.call_tool("acme", CALL)
    assert (result.outcome, result.error.code) == (Outcome.UNKNOWN, -32_001)
    assert [request.attach for request in served.requests] == [False, *[True] * len(rest)]


@pytest.mark.parametrize("error", [AlreadyExists.of("x"), ToolsUnavailable("full"), StoreUnavailable("?")])
async def test_a_call_that_the_service_rejects_was_not_begun(start: Any, error: Exception) -> None:
    async def reject(_request: Any) -> AsyncIterator[Any]:
        raise error
        yield

    served = await start(reject)
    with pytest.raises(type(error)):
        await served.client.call_tool("acme", CALL)
    assert len(served.requests) == 1


async def test_a_service_that_cannot_be_reached_has_not_begun_the_call(manual: ManualPacing) -> None:
    (port,) = free_ports(1)
    client = ToolsClient(f"127.0.0.1:{port}", pacing=manual.pacing)
    with pytest.raises(ToolsUnavailable):
        await client.call_tool("acme", CALL)
    assert manual.pauses_s == []
    with pytest.raises(ToolsUnavailable):
        await client.list_tools("acme", ToolServer("calc"))
    assert manual.pauses_s  # a listing has no effect, and is asked for again
    await client.close()


async def test_a_cancelled_call_is_cancelled_at_the_replica_that_runs_it() -> None:
    async def hang(asked: Asked) -> None:
        await asked.is_closed.wait()

    def is_sent(count: int) -> bool:
        return len(tool_server.named("tools/call")) == count

    tools = [{"name": "add", "inputSchema": {"type": "object"}}]
    async with raw_server(stateless(tools, hang)) as tool_server, AsyncExitStack() as stack:
        here = ToolServer("calc", tool_server.url)
        services = [ToolService(HERE), ToolService(HERE)]
        ports = [await stack.enter_async_context(listening(service)) for service in services]
        endpoint = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
        client = ToolsClient(endpoint)
        stack.push_async_callback(client.close)
        for number in range(4):
            for _ in range(number):  # other calls come in between
                await client.list_tools("acme", here)
            call = replace(CALL, id=f"c{number}", server=here)
            running = asyncio.create_task(client.call_tool("acme", call))
            await until(partial(is_sent, number + 1), "the call is sent")
            running.cancel()
            await asyncio.wait([running])
            await until(tool_server.named("tools/call")[-1].is_closed.is_set, "the call is cancelled")
        await until(lambda: not any(service.running for service in services), "no call runs")


async def test_a_caller_that_is_cancelled_cancels_the_call(start: Any) -> None:
    async def hangs(_request: Any) -> AsyncIterator[Any]:
        yield v1.CallToolResponse()
        await asyncio.Event().wait()

    served = await start(hangs)
    running = asyncio.create_task(served.client.call_tool("acme", CALL))
    await until(lambda: bool(served.requests), "the call begins")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: served.cancelled == [CALL.id], "the call is cancelled")

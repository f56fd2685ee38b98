"""The MCP client against real servers, of both eras and with every way to answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.jsons import Object
from antiphon_core.ports.tools import Outcome, Progress, ToolResult
from antiphon_tools.mcp.client import McpClient, Sending
from antiphon_tools.mcp.faults import ProtocolFault
from antiphon_tools.mcp.results import read_result
from tests.support.mcp_clients import mcp_client
from tests.support.mcp_servers import SERVERS, RealServer, everything_server, python_server


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RealServer]:
    async with python_server(request.param, tmp_path) as running:
        yield running


async def call(client: McpClient, name: str, arguments: Object, **options: Any) -> ToolResult:
    options.setdefault("call_id", "resp_1/call_1")
    return read_result(await client.call_tool(name, arguments, {}, sending=Sending(), **options), 64 * 2**10)


async def test_a_server_of_the_python_sdk(server: RealServer, request: pytest.FixtureRequest) -> None:
    progress: list[Progress] = []
    async with mcp_client(server.url) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["add", "bump", "count", "fail", "large"]
        assert tools["add"].description == "Adds two numbers."
        assert b"true" in tools["add"].annotations
        assert (await call(client, "add", {"a": 1, "b": 2})).text == "3"
        counted = await call(client, "count", {"steps": 3}, on_progress=progress.append)
        assert counted.text == "counted to 3"
        failed = await call(client, "fail", {})
        assert failed.outcome is Outcome.TOOL_ERROR
        assert failed.text.startswith("Error executing tool fail")
        assert (await call(client, "none", {})).outcome is Outcome.TOOL_ERROR
        for number in range(3):
            await call(client, "bump", {}, call_id=f"resp_1/call_{number}")
        with pytest.raises(ProtocolFault, match="tools.wire_bytes"):
            await call(client, "large", {"size": 2 * 2**20})
    assert server.calls() == ["resp_1/call_0", "resp_1/call_1", "resp_1/call_2"]
    shows_progress = "JSON" not in request.node.name and "1.30 stateless" not in request.node.name
    assert [each.value for each in progress] == ([1.0, 2.0, 3.0] if shows_progress else [])


async def test_server_everything(tmp_path: Path) -> None:
    progress: list[Progress] = []
    async with everything_server(tmp_path) as server, mcp_client(server.url) as client:
        assert "echo" in {tool.name for tool in (await client.list_tools()).tools}
        assert (await call(client, "echo", {"message": "hi"})).text == "Echo: hi"
        image = await call(client, "get-tiny-image", {})
        assert [url[:22] for url in image.images] == ["data:image/png;base64,"]
        links = await call(client, "get-resource-links", {"count": 2})
        assert links.text.count("[link to a resource:") == 2
        structured = await call(client, "get-structured-content", {"location": "New York"})
        assert structured.structured == structured.text.encode()
        await call(client, "trigger-long-running-operation", {"duration": 0.1, "steps": 2}, on_progress=progress.append)
    assert [each.value for each in progress] == [1.0, 2.0]

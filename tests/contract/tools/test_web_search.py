"""The port of web search, in this process and over gRPC."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.errors import InvalidRequest, ToolServerFault
from antiphon_core.ports.web_search import SearchHit, SearchQuery, WebSearch
from antiphon_core.rpc.methods import TOOLS
from antiphon_core.rpc.server import RpcServer
from antiphon_tools.client import ToolsClient
from antiphon_tools.server import handlers
from antiphon_tools.service import ToolService
from antiphon_tools.settings import ToolsSettings
from tests.support.raw_mcp_server import Asked, raw_server, stateless

HIT = {"url": "https://a.example/", "title": "Tea", "content": "About tea."}
FOUND = (SearchHit("https://a.example/", "Tea", "About tea."),)
QUERY = SearchQuery("tea", count=3, domains=("a.example",), country="FR")


@pytest.fixture(params=["local", "remote"])
def is_remote(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "remote")


@asynccontextmanager
async def search(is_remote: bool, **settings: Any) -> AsyncIterator[WebSearch]:
    service = ToolService(replace(ToolsSettings(), **settings))
    server = RpcServer()
    server.add(TOOLS, handlers(service), ready=service.ready)
    client = ToolsClient(f"127.0.0.1:{await server.start('127.0.0.1', 0)}")
    try:
        yield client if is_remote else service
    finally:
        await client.close()
        await server.drain(0)
        await service.close()


@pytest.mark.parametrize("provider", ["searxng", "tavily"])
async def test_a_provider_is_asked_and_its_key_is_not_shown(
    is_remote: bool, provider: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "key").write_text("canary-key\n")
    (tmp_path / "key").chmod(0o600)

    async def serve(asked: Asked) -> None:
        await asked.reply(200, json.dumps({"results": [HIT, HIT | {"url": "https://b.example/"}]}).encode())

    async with raw_server(serve) as server:
        named = {"web_search": provider, "web_search_url": server.url, "web_search_secret_file": tmp_path / "key"}
        async with search(is_remote, **named) as searching:
            assert await searching.search("acme", QUERY) == FOUND
    (asked,) = server.asked
    assert asked.headers.get("authorization") == ("Bearer canary-key" if provider == "tavily" else None)
    assert "canary" not in caplog.text


async def test_a_tool_server_searches_by_its_only_tool(is_remote: bool, tmp_path: Path) -> None:
    schema = {"properties": {"query": {"type": "string"}, "max_results": {"type": "integer"}}}

    async def call(asked: Asked) -> None:
        assert asked.message["params"]["arguments"] == {"query": "tea", "max_results": 3}
        await asked.result({"content": [{"type": "text", "text": json.dumps([HIT])}]})

    async with raw_server(stateless([{"name": "find", "inputSchema": schema}], call)) as server:
        (tmp_path / "mcp.toml").write_text(f'[servers.web]\nurl = "{server.url}"\n')
        async with search(is_remote, servers=tmp_path / "mcp.toml", web_search="mcp:web") as searching:
            assert await searching.search("acme", QUERY) == FOUND
            assert await searching.search("acme", QUERY) == FOUND  # a search is asked for anew
    assert server.rpcs().count("tools/call") == 2


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (429, b"canary", "HTTP status 429"),
        (302, b"", "HTTP status 302"),
        (200, b"<html>canary", "cannot be read as JSON"),
        (200, b'{"error": "canary"}', "without results"),
        (200, b"[" + b"1," * 600_000 + b"1]", "tools.wire_bytes"),
    ],
)
async def test_a_search_that_fails_is_no_empty_result(is_remote: bool, status: int, body: bytes, why: str) -> None:
    async def serve(asked: Asked) -> None:
        await asked.reply(status, body, Location="http://169.254.169.254/")

    async with (
        raw_server(serve) as server,
        search(is_remote, web_search="searxng", web_search_url=server.url) as searching,
    ):
        with pytest.raises(ToolServerFault, match=why) as caught:
            await searching.search("acme", QUERY)
    assert "canary" not in str(caught.value)
    assert len(server.asked) == 1


async def test_without_a_provider_no_search_runs(is_remote: bool) -> None:
    async with search(is_remote) as searching:
        with pytest.raises(InvalidRequest, match="does not search the web"):
            await searching.search("acme", QUERY)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"web_search": "bing"}, "must be one of searxng, brave, tavily, exa"),
        ({"web_search": "searxng"}, "the URL must begin with"),
        ({"web_search": "brave"}, "needs a key"),
        ({"web_search": "exa", "web_search_url": "ftp://x"}, "the URL must begin with"),
    ],
)
async def test_a_search_that_cannot_work_stops_the_start(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        ToolService(replace(ToolsSettings(), **settings))

"""An MCP client of the tools service, for tests: connected to one server on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from antiphon_core.egress.guarded_session import guarded_session
from antiphon_core.egress.resolver import Resolver
from antiphon_tools.mcp.client import McpClient, connection_notes


@asynccontextmanager
async def mcp_client(url: str, **options: Any) -> AsyncIterator[McpClient]:
    resolver = Resolver(2)
    session = guarded_session(
        lambda _: True,
        resolver,
        headers={"User-Agent": "antiphon", "Accept-Encoding": "identity"},
        chunk_bytes=4,
        connections_max=8,
        keepalive_s=4.0,
        traces=[connection_notes()],
    )
    client = McpClient(session, url, options.pop("headers", {}), **{"wire_bytes": 2**20} | options)
    try:
        yield client
        await client.close()
    finally:
        await session.close()
        await resolver.close()

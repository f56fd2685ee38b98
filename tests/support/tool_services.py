"""A tool service, reached in this process or over gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

from antiphon_core.ports.tools import Tools
from antiphon_core.rpc.methods import TOOLS
from antiphon_core.rpc.server import RpcServer
from antiphon_tools.client import ToolsClient
from antiphon_tools.server import handlers
from antiphon_tools.service import ToolService
from antiphon_tools.settings import ToolsSettings

Reach = Callable[[ToolService], AbstractAsyncContextManager[Tools]]
"""How a test reaches a service."""


@asynccontextmanager
async def _here(service: ToolService) -> AsyncIterator[Tools]:
    yield service


@asynccontextmanager
async def _over_grpc(service: ToolService) -> AsyncIterator[Tools]:
    server = RpcServer()
    server.add(TOOLS, handlers(service), ready=service.ready)
    client = ToolsClient(f"127.0.0.1:{await server.start('127.0.0.1', 0)}")
    try:
        yield client
    finally:
        await client.close()
        await server.drain(0)


REACHES: dict[str, Reach] = {"local": _here, "remote": _over_grpc}


@asynccontextmanager
async def tool_service(reach: Reach, **settings: Any) -> AsyncIterator[Tools]:
    """Runs a tool service with these settings."""
    service = ToolService(replace(ToolsSettings(), **settings))
    try:
        async with reach(service) as tools:
            yield tools
    finally:
        await service.close()

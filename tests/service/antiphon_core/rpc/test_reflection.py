from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from antiphon_core.rpc.authentication import Guard
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import RpcServer

TOKEN = "token-0123456789abcdef"


async def ready() -> None:
    pass


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[str]:
    """A server that requires tokens."""
    path = tmp_path / "credentials"
    path.write_text(f"billing {TOKEN} acme reader\n")
    server = RpcServer(ServerSecurity(Guard(path)))
    server.add(STORE, {}, ready=ready)
    yield f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await server.drain(0)


async def services(endpoint: str, *metadata: tuple[str, str]) -> set[str]:
    async with grpc.aio.insecure_channel(endpoint) as opened:
        channel: Any = opened
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
        (listed,) = [answer async for answer in stub.ServerReflectionInfo(iter(asked), metadata=metadata)]
        return {service.name for service in listed.list_services_response.service}


async def test_reflection_is_served_with_a_token_of_any_tenant(endpoint: str) -> None:
    assert STORE.name in await services(endpoint, ("authorization", f"Bearer {TOKEN}"))


@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer wrong"),)], ids=["none", "wrong"])
async def test_reflection_without_a_valid_token_is_unauthenticated(
    endpoint: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    """Sends only headers: the server rejects them before it reads a message, so writing a message may fail."""
    async with grpc.aio.insecure_channel(endpoint) as opened:
        channel: Any = opened
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        assert await stub.ServerReflectionInfo(metadata=metadata).code() is grpc.StatusCode.UNAUTHENTICATED

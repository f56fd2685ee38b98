from __future__ import annotations

from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from antiphon_core.rpc.health import LIMITS, Health

Answer = health_pb2.HealthCheckResponse


async def unchanged(_service: str) -> None:
    """Leaves the reported health unchanged."""


class Context:
    """A call of the health service, with the one message that it carries."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.status: grpc.Status | None = None

    def peer(self) -> str:
        return "ipv4:127.0.0.1:4711"

    async def read(self) -> Any:
        return self.data

    async def abort_with_status(self, status: grpc.Status) -> None:
        self.status = status
        raise grpc.aio.AbortError

    async def abort(self, code: grpc.StatusCode) -> None:
        raise grpc.aio.AbortError(code)


async def check(health: Health, context: Context) -> Any:
    details: Any = type("Details", (), {"method": "/grpc.health.v1.Health/Check"})
    handler: Any = health.handler().service(details)
    return Answer.FromString(await handler.stream_unary(None, context)).status


async def test_a_health_check_answers_the_reported_health() -> None:
    health, asked = Health(unchanged), health_pb2.HealthCheckRequest(service="a").SerializeToString()
    await health.report("a", is_serving=True)
    assert await check(health, Context(asked)) == Answer.SERVING
    await health.report("a", is_serving=False)
    assert await check(health, Context(asked)) == Answer.NOT_SERVING


async def test_a_health_check_refreshes_the_health_before_it_answers() -> None:
    async def report(service: str) -> None:
        await health.report(service, is_serving=True)

    health, asked = Health(report), health_pb2.HealthCheckRequest(service="a").SerializeToString()
    await health.report("a", is_serving=False)
    assert await check(health, Context(asked)) == Answer.SERVING


async def test_a_draining_server_is_not_serving() -> None:
    health = Health(unchanged)
    await health.drain()
    assert await check(health, Context(b"")) == Answer.NOT_SERVING


@pytest.mark.parametrize("data", [b"\xff", b"x" * (LIMITS.caller_bytes_max + 1), grpc.aio.EOF])
async def test_an_invalid_health_request_is_rejected(data: Any) -> None:
    context = Context(data)
    with pytest.raises(grpc.aio.AbortError):
        await check(Health(unchanged), context)
    assert context.status is not None

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from antiphon_core.errors import StoreUnavailable, Unavailable
from antiphon_core.rpc import health as health_module
from antiphon_core.rpc.health import LIMITS, Health, fault_in
from antiphon_core.rpc.intake import IntakeLimits

Answer = health_pb2.HealthCheckResponse


async def unchanged(_service: str) -> None:
    """Leaves the reported health unchanged."""


ASKED = health_pb2.HealthCheckRequest(service="a").SerializeToString()
FAULT = Unavailable("The database is lost.")


class Context:
    """A call of the health service, with the one message that it carries. With `reads` it receives what is sent."""

    def __init__(self, data: Any, *, reads: bool = True) -> None:
        self.data = data
        self.reads = reads
        self.status: grpc.Status | None = None
        self.trailing: dict[str, str | bytes] = {}
        self.sent: list[int] = []

    def peer(self) -> str:
        return "ipv4:127.0.0.1:4711"

    async def read(self) -> Any:
        return self.data

    async def write(self, data: bytes) -> None:
        if not self.reads:
            await asyncio.Event().wait()
        self.sent.append(Answer.FromString(data).status)

    def set_trailing_metadata(self, metadata: tuple[tuple[str, str | bytes], ...]) -> None:
        self.trailing = dict(metadata)

    async def abort_with_status(self, status: grpc.Status) -> None:
        self.status = status
        raise grpc.aio.AbortError

    async def abort(self, code: grpc.StatusCode) -> None:
        raise grpc.aio.AbortError(code)


async def settled() -> None:
    """Lets the tasks of the test run until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def check(health: Health, context: Context) -> Any:
    details: Any = type("Details", (), {"method": "/grpc.health.v1.Health/Check"})
    handler: Any = health.handler().service(details)
    return Answer.FromString(await handler.stream_unary(None, context)).status


async def watch(health: Health, context: Context) -> None:
    details: Any = type("Details", (), {"method": "/grpc.health.v1.Health/Watch"})
    handler: Any = health.handler().service(details)
    await handler.stream_stream(None, context)


async def test_a_health_check_answers_the_reported_health_and_its_fault() -> None:
    health = Health(unchanged)
    health.report("a", None)
    serving = Context(ASKED)
    assert (await check(health, serving), serving.trailing) == (Answer.SERVING, {})
    for fault in (StoreUnavailable("The disk is full.", full=True), StoreUnavailable("The database is lost.")):
        health.report("a", fault)
        context = Context(ASKED)
        assert await check(health, context) == Answer.NOT_SERVING
        found = fault_in(grpc.aio.Metadata(*context.trailing.items()), StoreUnavailable)
        assert isinstance(found, StoreUnavailable)
        assert (found.message, found.is_full) == (fault.message, fault.is_full)


async def test_a_health_check_refreshes_the_health_before_it_answers() -> None:
    async def report(service: str) -> None:
        health.report(service, None)

    health = Health(report)
    health.report("a", FAULT)
    assert await check(health, Context(ASKED)) == Answer.SERVING


async def test_a_draining_server_is_not_serving_and_counts_as_away() -> None:
    health, context = Health(unchanged), Context(b"")
    await health.drain()
    assert await check(health, context) == Answer.NOT_SERVING
    found = fault_in(grpc.aio.Metadata(*context.trailing.items()), StoreUnavailable)
    assert isinstance(found, Unavailable)
    assert found.is_away


async def test_a_watch_sends_each_change_once_and_ends_with_the_server() -> None:
    health, context = Health(unchanged), Context(ASKED)
    watching = asyncio.create_task(watch(health, context))
    for fault in (FAULT, FAULT, None):
        await settled()
        health.report("a", fault)
    await settled()
    await health.drain()
    await watching
    states = [Answer.SERVICE_UNKNOWN, Answer.NOT_SERVING, Answer.SERVING, Answer.NOT_SERVING]
    assert context.sent == states


async def test_a_client_that_does_not_read_stops_no_other_watch() -> None:
    health, reader, blocked = Health(unchanged), Context(ASKED), Context(ASKED, reads=False)
    watching = [asyncio.create_task(watch(health, each)) for each in (blocked, reader)]
    await settled()
    health.report("a", None)
    await settled()
    assert reader.sent == [Answer.SERVICE_UNKNOWN, Answer.SERVING]
    for each in watching:
        each.cancel()
    await asyncio.wait(watching)


async def test_the_watches_of_one_host_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "_WATCHES", IntakeLimits(caller_calls_max=1))
    health, one_more = Health(unchanged), Context(ASKED)
    watching = asyncio.create_task(watch(health, Context(ASKED)))
    await settled()
    with pytest.raises(grpc.aio.AbortError):
        await watch(health, one_more)
    assert one_more.status is not None
    watching.cancel()
    await asyncio.wait([watching])
    last = asyncio.create_task(watch(health, one_more))  # there is room again
    await settled()
    assert one_more.sent
    last.cancel()
    await asyncio.wait([last])


@pytest.mark.parametrize("data", [b"\xff", b"x" * (LIMITS.caller_bytes_max + 1), grpc.aio.EOF])
async def test_an_invalid_health_request_is_rejected(data: Any) -> None:
    context = Context(data)
    with pytest.raises(grpc.aio.AbortError):
        await check(Health(unchanged), context)
    assert context.status is not None

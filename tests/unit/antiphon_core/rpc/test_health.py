from __future__ import annotations

import asyncio
import base64

import pytest
from grpc_health.v1 import health_pb2

from antiphon_core.errors import AntiphonError, StoreUnavailable, Unavailable
from antiphon_core.rpc import health as health_module
from antiphon_core.rpc.health import LIMITS, Health, fault_in
from antiphon_core.rpc.intake import IntakeLimits
from antiphon_http2.statuses import INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE
from tests.support.fake_call import FakeCall

Answer = health_pb2.HealthCheckResponse


async def unchanged(_service: str) -> None:
    """Leaves the reported health unchanged."""


ASKED = health_pb2.HealthCheckRequest(service="a").SerializeToString()
FAULT = Unavailable("The database is lost.")


async def settled() -> None:
    """Lets the tasks of the test run until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


def states(call: FakeCall) -> list[int]:
    return [Answer.FromString(data).status for data in call.sent]


async def health_check(health: Health, call: FakeCall) -> None:
    await health.methods()["/grpc.health.v1.Health/Check"](call.call)


async def check(health: Health, call: FakeCall) -> int:
    await health_check(health, call)
    return states(call)[0]


async def watch(health: Health, call: FakeCall) -> None:
    await health.methods()["/grpc.health.v1.Health/Watch"](call.call)


def fault_of(call: FakeCall) -> AntiphonError | None:
    assert call.status is not None
    trailers = {
        name.encode(): base64.b64encode(value) for name, value in call.status.metadata if isinstance(value, bytes)
    }
    return fault_in(trailers, StoreUnavailable)


async def test_a_health_check_answers_the_reported_health_and_its_fault() -> None:
    health = Health(unchanged)
    health.report("a", None)
    serving = FakeCall(ASKED)
    assert await check(health, serving) == Answer.SERVING
    assert fault_of(serving) is None
    for fault in (StoreUnavailable("The disk is full.", full=True), StoreUnavailable("The database is lost.")):
        health.report("a", fault)
        call = FakeCall(ASKED)
        assert await check(health, call) == Answer.NOT_SERVING
        found = fault_of(call)
        assert isinstance(found, StoreUnavailable)
        assert (found.message, found.is_full) == (fault.message, fault.is_full)


async def test_a_health_check_refreshes_the_health_before_it_answers() -> None:
    async def report(service: str) -> None:
        health.report(service, None)

    health = Health(report)
    health.report("a", FAULT)
    assert await check(health, FakeCall(ASKED)) == Answer.SERVING


async def test_a_draining_server_is_not_serving_and_counts_as_away() -> None:
    health, call = Health(unchanged), FakeCall(b"")
    await health.drain()
    assert await check(health, call) == Answer.NOT_SERVING
    found = fault_of(call)
    assert isinstance(found, Unavailable)
    assert found.is_away


async def test_a_watch_sends_each_change_once_and_ends_with_the_server() -> None:
    health, call = Health(unchanged), FakeCall(ASKED)
    watching = asyncio.create_task(watch(health, call))
    for fault in (FAULT, FAULT, None):
        await settled()
        health.report("a", fault)
    await settled()
    await health.drain()
    await watching
    assert states(call) == [Answer.SERVICE_UNKNOWN, Answer.NOT_SERVING, Answer.SERVING, Answer.NOT_SERVING]


async def test_a_client_that_does_not_read_stops_no_other_watch() -> None:
    health, reader, blocked = Health(unchanged), FakeCall(ASKED), FakeCall(ASKED, reads=False)
    watching = [asyncio.create_task(watch(health, each)) for each in (blocked, reader)]
    await settled()
    health.report("a", None)
    await settled()
    assert states(reader) == [Answer.SERVICE_UNKNOWN, Answer.SERVING]
    for each in watching:
        each.cancel()
    await asyncio.wait(watching)


@pytest.mark.parametrize("limits", ["_WATCHES", "_CONNECTION_WATCHES"])
async def test_the_watches_of_one_host_and_of_one_connection_are_limited(
    limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_module, limits, IntakeLimits(caller_calls_max=1))
    health, one_more, last = Health(unchanged), FakeCall(ASKED), FakeCall(ASKED)
    watching = asyncio.create_task(watch(health, FakeCall(ASKED)))
    await settled()
    await watch(health, one_more)
    assert one_more.status is not None
    assert (one_more.status.code, one_more.sent) == (UNAVAILABLE, [])
    watching.cancel()
    await asyncio.wait([watching])
    watching = asyncio.create_task(watch(health, last))  # there is room again
    await settled()
    assert states(last) == [Answer.SERVICE_UNKNOWN]
    watching.cancel()
    await asyncio.wait([watching])


async def test_an_unknown_service_is_not_found() -> None:
    call = FakeCall(ASKED)
    await health_check(Health(unchanged), call)
    assert call.status is not None
    assert (call.status.code, call.sent) == (NOT_FOUND, [])


@pytest.mark.parametrize("requests", [[b"\xff"], [b"x" * (LIMITS.caller_bytes_max + 1)], []])
async def test_an_invalid_health_request_is_rejected(requests: list[bytes]) -> None:
    call = FakeCall(*requests)
    await health_check(Health(unchanged), call)
    assert call.status is not None
    assert (call.status.code in (INVALID_ARGUMENT, UNAVAILABLE), call.sent) == (True, [])

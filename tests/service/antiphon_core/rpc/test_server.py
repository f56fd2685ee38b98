from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from antiphon_core.errors import ResponseNotFound, StoreUnavailable, Unavailable
from antiphon_core.rpc import server as server_module
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import OPTIONS, Call, RpcServer
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_protos.antiphon.store import v1
from antiphon_protos.antiphon.store.internal import v1 as internal
from tests.support.waiting import WAIT_MAX_S, until

Request = v1.GetResponseRecordRequest
READ_EVENTS_RESPONSE = STORE.methods["ReadEvents"].response.message


class Fixture:
    """A server with handlers that the test can steer, and a raw channel to it."""

    def __init__(self) -> None:
        self.port = 0
        self.fault: Unavailable | None = None
        self.calls: list[Call] = []
        self.made_for: list[Correlation] = []
        self.closed = asyncio.Event()
        self.release = asyncio.Event()

    async def ready(self) -> None:
        if self.fault:
            raise self.fault

    async def get(self, request: Any, call: Call) -> Any:
        self.calls.append(call)
        self.made_for.append(correlation.current())
        if request.id == "bug":
            raise ZeroDivisionError("secret detail")
        if request.id == "slow":
            await self.release.wait()
        if request.id == "missing":
            raise ResponseNotFound.of("missing")
        return v1.GetResponseRecordResponse(record=v1.ResponseRecord(id=request.id))

    async def read_events(self, request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        try:
            for number in range(1_000_000):
                yield READ_EVENTS_RESPONSE(first_sequence=number, frames=b"x")
                await asyncio.sleep(0.001)
        finally:
            self.closed.set()


@pytest.fixture
async def fixture(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Fixture, RpcServer, grpc.aio.Channel]]:
    """A server that polls readiness at the interval of the parameter; without a parameter, only once."""
    monkeypatch.setattr(server_module, "READY_POLL_S", getattr(request, "param", 3600.0))
    state, server = Fixture(), RpcServer()
    server.add(STORE, {"GetResponseRecord": state.get, "ReadEvents": state.read_events}, ready=state.ready)
    port = state.port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield state, server, channel
    await server.drain(0)


Setup = tuple[Fixture, RpcServer, grpc.aio.Channel]


async def call(channel: grpc.aio.Channel, name: str, data: bytes, **options: Any) -> bytes:
    rpc: Any = channel.unary_unary(STORE.methods[name].path)
    answer: bytes = await rpc(data, **options)
    return answer


async def test_a_handler_sees_request_tenant_request_id_and_deadline(fixture: Setup) -> None:
    state, _, channel = fixture
    metadata = (("antiphon-tenant", "acme"), ("x-request-id", "req_1"))
    answer = await call(channel, "GetResponseRecord", bytes(Request(id="resp_1")), metadata=metadata, timeout=5)
    assert v1.GetResponseRecordResponse.parse(answer).record == v1.ResponseRecord(id="resp_1")
    (seen,) = state.calls
    assert (seen.tenant, state.made_for) == ("acme", [Correlation(request_id="req_1")])
    assert seen.time_remaining_s is not None
    assert 0 < seen.time_remaining_s < 6  # gRPC rounds what it sends


async def test_a_call_without_a_tenant_gets_the_default_tenant(fixture: Setup) -> None:
    state, _, channel = fixture
    await call(channel, "GetResponseRecord", bytes(Request(id="x")))
    assert state.calls[0].tenant == "default"


@pytest.mark.parametrize(
    ("name", "data", "code", "says"),
    [
        (
            "GetResponseRecord",
            bytes(Request(id="missing")),
            grpc.StatusCode.NOT_FOUND,
            "'missing' not found",
        ),
        ("GetResponseRecord", b"\xff\xff", grpc.StatusCode.INVALID_ARGUMENT, "Not a valid GetResponseRecordRequest"),
        (
            "GetResponseRecord",
            bytes(Request(id="bug")),
            grpc.StatusCode.INTERNAL,
            "failed to handle this call",
        ),
        ("Fork", b"", grpc.StatusCode.UNIMPLEMENTED, "antiphon.store.v1.Trees.Fork"),
    ],
)
async def test_errors_of_handlers_become_grpc_statuses(
    fixture: Setup, name: str, data: bytes, code: grpc.StatusCode, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(fixture[2], name, data)
    assert caught.value.code() is code
    details = caught.value.details() or ""
    assert says in details
    assert "secret" not in details
    assert ("secret detail" in caplog.text) == (code is grpc.StatusCode.INTERNAL)


async def test_a_cancelled_stream_closes_its_handler(fixture: Setup) -> None:
    state, _, channel = fixture
    rpc: Any = channel.unary_stream(STORE.methods["ReadEvents"].path)
    stream = rpc(b"")
    assert READ_EVENTS_RESPONSE.FromString(await stream.read()).frames == b"x"
    stream.cancel()
    await asyncio.wait_for(state.closed.wait(), WAIT_MAX_S)


@pytest.mark.parametrize("fixture", [0.02], indirect=True)
async def test_health_follows_readiness_and_liveness_does_not(fixture: Setup) -> None:
    state, _, channel = fixture
    health: Any = health_pb2_grpc.HealthStub(channel)

    async def status(service: str) -> int:
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
        return int(answer.status)

    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    assert (await status(STORE.name), await status("")) == (serving, serving)
    state.fault = Unavailable("the disk is gone")
    async with asyncio.timeout(WAIT_MAX_S):
        while await status(STORE.name) == serving:
            await asyncio.sleep(0.05)
    assert (await status(STORE.name), await status("")) == (not_serving, serving)


@pytest.mark.parametrize("fixture", [0.02], indirect=True)
async def test_readiness_reports_a_full_store_and_is_refreshed_at_once(
    fixture: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = fixture[0]
    endpoint = f"127.0.0.1:{state.port}"
    async with RpcClient(endpoint, STORE, unavailable=StoreUnavailable) as client:
        await client.ready()
        state.fault = StoreUnavailable("the disk is full", full=True)
        fault = None
        async with asyncio.timeout(WAIT_MAX_S):
            while fault is None:
                try:
                    await client.ready()
                except StoreUnavailable as error:
                    fault = error
        assert fault.is_full
        monkeypatch.setattr(server_module, "READY_POLL_S", 3600.0)
        await asyncio.sleep(0.1)  # the last of the frequent polls
        state.fault = None
        await client.ready()


async def test_reflection_lists_the_services_and_gives_their_files(fixture: Setup) -> None:
    channel: Any = fixture[2]
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    everything = [reflection_pb2.ServerReflectionRequest(list_services="")]
    (listed,) = [answer async for answer in stub.ServerReflectionInfo(iter(everything))]
    names = {service.name for service in listed.list_services_response.service}
    own = {service.full_name for service in STORE.services}
    assert names == own | {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
    symbols = [reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in names]
    async for answer in stub.ServerReflectionInfo(iter(symbols)):
        assert answer.file_descriptor_response.file_descriptor_proto


async def outcome(channel: grpc.aio.Channel) -> grpc.StatusCode:
    """The status of one more call. A call that arrives at the moment of the stop is cancelled instead of rejected, or
    gets no answer until the drain is over."""
    try:
        async with asyncio.timeout(1):
            await call(channel, "GetResponseRecord", bytes(Request(id="x")))
    except grpc.aio.AioRpcError as error:
        return error.code()
    except TimeoutError:
        return grpc.StatusCode.DEADLINE_EXCEEDED
    return grpc.StatusCode.OK


async def test_a_drain_lets_running_calls_end_and_refuses_new_ones(fixture: Setup) -> None:
    state, server, channel = fixture
    running = asyncio.ensure_future(call(channel, "GetResponseRecord", bytes(Request(id="slow"))))
    await until(lambda: bool(state.calls), "the call")
    draining = asyncio.create_task(server.drain(2 * WAIT_MAX_S))
    async with asyncio.timeout(WAIT_MAX_S):
        while await outcome(channel) is not grpc.StatusCode.UNAVAILABLE:
            await asyncio.sleep(0.01)
    state.release.set()
    assert v1.GetResponseRecordResponse.parse(await running).record == v1.ResponseRecord(id="slow")
    await asyncio.wait_for(draining, WAIT_MAX_S)


async def test_connections_are_renewed_and_no_call_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client looks its servers up again when a connection ends, and so finds new servers."""
    peers: set[str] = set()
    admit = server_module._Served.admit

    def note_peer(served: Any, rpc: Any) -> tuple[str, Call]:
        peers.add(rpc.peer)
        return admit(served, rpc)

    monkeypatch.setattr(server_module._Served, "admit", note_peer)
    state, server = Fixture(), RpcServer(options=replace(OPTIONS, age_s=0.05))
    server.add(STORE, {"GetResponseRecord": state.get, "ReadEvents": state.read_events}, ready=state.ready)
    port = await server.start("127.0.0.1", 0)
    async with RpcClient(f"127.0.0.1:{port}", STORE, unavailable=StoreUnavailable) as client:
        async with aclosing(client.stream("ReadEvents", internal.ReadEventsRequest())) as events:
            async with asyncio.timeout(WAIT_MAX_S):
                while len(peers) < 4:
                    await client.call("GetResponseRecord", Request(id="x"))
                    await asyncio.sleep(0)
            numbers = [(await anext(events)).first_sequence for _ in range(3)]
        assert numbers == [0, 1, 2]
    await server.drain(0)


async def test_a_port_that_another_process_listens_on_is_an_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=rf"Cannot listen on 127\.0\.0\.1:{port}: the port is in use"):
            await RpcServer().start("127.0.0.1", port)

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from antiphon_core.errors import ResponseNotFound, StoreUnavailable, Timeout, Unavailable, Unimplemented
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call, RpcServer
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_protos.antiphon.store import v1
from antiphon_protos.antiphon.store.internal import v1 as internal
from tests.support.waiting import WAIT_MAX_S

Request, ClaimRequest = v1.GetResponseRecordRequest, STORE.methods["ClaimJob"].request.message
QUOTA_REQUEST = STORE.methods["TakeQuota"].request.message
READ_EVENTS_RESPONSE = STORE.methods["ReadEvents"].response.message


class Service:
    """Handlers that the test can steer."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.slow_began = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.time_remaining_s: float | None = None
        self.fault: Unavailable | None = None

    async def ready(self) -> None:
        if self.fault:
            raise self.fault

    async def get(self, request: Any, call: Call) -> Any:
        if self.fault:
            raise self.fault
        if request.id == "missing":
            raise ResponseNotFound.of("missing")
        self.time_remaining_s = call.time_remaining_s
        if request.id == "slow":
            self.slow_began.set()
            try:
                await asyncio.sleep(WAIT_MAX_S)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        return v1.GetResponseRecordResponse(
            record=v1.ResponseRecord(id=f"{call.tenant}/{correlation.current().request_id}/{request.id}")
        )

    async def claim(self, _request: Any, _call: Call) -> Any:
        return internal.ClaimJobResponse(job=internal.Job(id="j"))

    async def read_events(self, request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        try:
            for number in range(3):
                yield READ_EVENTS_RESPONSE(first_sequence=number)
            if request.response_id == "breaks":
                raise StoreUnavailable("the disk is gone")
            if request.follow:
                await asyncio.Event().wait()
        finally:
            self.closed.set()


@pytest.fixture
async def served() -> AsyncIterator[tuple[Service, RpcServer, RpcClient]]:
    service, server = Service(), RpcServer()
    server.add(STORE, {"GetResponseRecord": service.get, "ReadEvents": service.read_events}, ready=service.ready)
    port = await server.start("127.0.0.1", 0)
    async with RpcClient(f"127.0.0.1:{port}", STORE, unavailable=StoreUnavailable) as client:
        yield service, server, client
    await server.drain(0)


Served = tuple[Service, RpcServer, RpcClient]


async def test_a_call_carries_tenant_and_request_id(served: Served) -> None:
    correlation.begin(Correlation(request_id="req_1"))
    answer = await served[2].call("GetResponseRecord", Request(id="r"), tenant="acme")
    assert answer.record.id == "acme/req_1/r"


async def test_errors_arrive_as_they_were_raised(served: Served) -> None:
    with pytest.raises(ResponseNotFound, match="'missing' not found") as caught:
        await served[2].call("GetResponseRecord", Request(id="missing"))
    assert caught.value.facts == {"id": "missing"}


async def test_an_rpc_that_is_not_served_is_named(served: Served) -> None:
    with pytest.raises(Unimplemented, match="Trees.ListTree is not implemented"):
        await served[2].call("ListTree", v1.ListTreeRequest())


async def test_a_call_over_its_deadline_times_out(served: Served) -> None:
    with pytest.raises(Timeout):
        await served[2].call("GetResponseRecord", Request(id="slow"), timeout_s=0.1)


async def test_a_call_over_its_deadline_cancels_the_handler(served: Served) -> None:
    service, _, client = served
    await client.call("GetResponseRecord", Request(id="r"))
    deadline_s = STORE.methods["GetResponseRecord"].deadline_s
    assert deadline_s is not None
    assert service.time_remaining_s is not None
    assert service.time_remaining_s <= deadline_s * 1.1  # gRPC rounds a timeout up on the wire
    with pytest.raises(Timeout):
        await client.call("GetResponseRecord", Request(id="slow"), timeout_s=0.1)
    async with asyncio.timeout(WAIT_MAX_S / 2):
        await service.cancelled.wait()


async def test_a_stream_is_read_to_its_end(served: Served) -> None:
    answers = [answer async for answer in served[2].stream("ReadEvents", internal.ReadEventsRequest())]
    assert [answer.first_sequence for answer in answers] == [0, 1, 2]


async def test_a_stream_that_breaks_raises_after_what_it_gave(served: Served) -> None:
    seen = []
    with pytest.raises(StoreUnavailable, match="the disk is gone"):
        async for answer in served[2].stream("ReadEvents", internal.ReadEventsRequest(response_id="breaks")):
            seen.append(answer.first_sequence)  # noqa: PERF401 - the answers before the error are kept
    assert seen == [0, 1, 2]


async def test_leaving_a_stream_cancels_it(served: Served) -> None:
    async with aclosing(served[2].stream("ReadEvents", internal.ReadEventsRequest(follow=True))) as answers:
        await anext(answers)
    await asyncio.wait_for(served[0].closed.wait(), WAIT_MAX_S)


async def test_closing_the_client_during_a_stream_is_unavailable_and_not_cancelled(served: Served) -> None:
    client = served[2]
    with pytest.raises(StoreUnavailable):
        async with aclosing(client.stream("ReadEvents", internal.ReadEventsRequest(follow=True))) as answers:
            for _ in range(3):
                await anext(answers)
            asyncio.get_running_loop().call_later(0.05, lambda: asyncio.ensure_future(client.close()))
            await anext(answers)


async def test_a_task_that_is_cancelled_stays_cancelled(served: Served) -> None:
    async def follow() -> None:
        async for _ in served[2].stream("ReadEvents", internal.ReadEventsRequest(follow=True)):
            pass

    task = asyncio.create_task(follow())
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_ready_fails_when_the_service_is_not_ready(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_core.rpc.client.READY_DEADLINE_S", WAIT_MAX_S)
    service, _, client = served
    await client.ready()
    service.fault = StoreUnavailable("its database is lost")
    with pytest.raises(StoreUnavailable, match="its database is lost"):
        async with asyncio.timeout(WAIT_MAX_S):
            while True:
                await client.ready()
                await asyncio.sleep(0.05)


@asynccontextmanager
async def two_servers() -> AsyncIterator[tuple[list[Service], RpcClient]]:
    """Two servers, and a client that spreads its calls over both."""
    services, servers, ports = [Service(), Service()], [RpcServer(), RpcServer()], []
    for service, server in zip(services, servers, strict=True):
        server.add(STORE, {"GetResponseRecord": service.get}, ready=service.ready)
        ports.append(await server.start("127.0.0.1", 0))
    endpoint = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    async with RpcClient(endpoint, STORE, unavailable=StoreUnavailable) as client:
        yield services, client
    for server in servers:
        await server.drain(0)


async def outcomes(client: RpcClient) -> set[str]:
    """The outcomes of twenty calls: "served", or the message of the error."""

    async def outcome() -> str:
        try:
            await client.call("GetResponseRecord", Request(id="r"))
        except StoreUnavailable as error:
            return error.message
        return "served"

    return {await outcome() for _ in range(20)}


async def readiness(client: RpcClient) -> set[tuple[str, bool]]:
    """The outcomes of ten readiness checks: the message of the error, and whether it is_full."""

    async def outcome() -> tuple[str, bool]:
        try:
            await client.ready()
        except StoreUnavailable as error:
            return error.message, error.is_full
        return "ready", False

    return {await outcome() for _ in range(10)}


LOST = StoreUnavailable("The store cannot be used: its database cannot be reached.")
FULL = StoreUnavailable("The store cannot be used: the disk is full.", full=True)


async def test_a_server_that_is_not_ready_gets_no_calls_while_another_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client took two checks, answered by different servers, for a full store."""
    monkeypatch.setattr("antiphon_core.rpc.client.READY_DEADLINE_S", WAIT_MAX_S)
    async with two_servers() as (services, client), asyncio.timeout(WAIT_MAX_S):
        services[0].fault = LOST
        while await outcomes(client) != {"served"} or await readiness(client) != {("ready", False)}:
            assert {is_full for _, is_full in await readiness(client)} == {False}
        services[0].fault = None
        services[1].fault = LOST
        while await outcomes(client) != {"served"} or await readiness(client) != {("ready", False)}:
            assert {is_full for _, is_full in await readiness(client)} == {False}


async def test_servers_that_are_all_unready_answer_with_their_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_core.rpc.client.READY_DEADLINE_S", WAIT_MAX_S)
    async with two_servers() as (services, client), asyncio.timeout(WAIT_MAX_S):
        for fault, calls in ((LOST, {LOST.message}), (FULL, {FULL.message}), (None, {"served"})):
            services[0].fault = services[1].fault = fault
            ready = (fault.message, fault.is_full) if fault is not None else ("ready", False)
            while await readiness(client) != {ready} or await outcomes(client) != calls:
                await asyncio.sleep(0.05)


async def test_a_call_to_an_unreachable_server_fails_at_once() -> None:
    async with RpcClient("127.0.0.1:1", STORE, unavailable=StoreUnavailable) as client:
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(
                client.call("GetResponseRecord", Request(id="r"), timeout_s=2 * WAIT_MAX_S),
                WAIT_MAX_S,
            )
        with pytest.raises(StoreUnavailable, match="Responses"):
            await client.ready()


TOKEN = ClientCredentials(token="token-0123456789abcdef")


@pytest.mark.parametrize(
    ("endpoint", "credentials", "warned"),
    [
        ("dns:///store.example:50051", TOKEN, True),
        ("dns:///store.example:50051", ANONYMOUS, False),
        ("127.0.0.1:50051", TOKEN, False),
    ],
)
async def test_a_token_that_leaves_the_machine_without_encryption_is_warned_of(
    endpoint: str, credentials: ClientCredentials, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with RpcClient(endpoint, STORE, unavailable=StoreUnavailable, credentials=credentials):
        pass
    assert ("sent without encryption" in caplog.text) is warned
    assert "token-0123456789abcdef" not in caplog.text


async def test_a_unary_call_over_a_closed_channel_is_unavailability_too(served: Served) -> None:
    service, _, client = served
    call = asyncio.create_task(client.call("GetResponseRecord", Request(id="slow")))
    await asyncio.wait_for(service.slow_began.wait(), WAIT_MAX_S)
    await client.close()
    await asyncio.wait([call], timeout=WAIT_MAX_S)
    assert not call.cancelled()
    assert isinstance(call.exception(), StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        await client.call("GetResponseRecord", Request(id="x"))
    with pytest.raises(StoreUnavailable):
        async with aclosing(client.stream("ReadEvents", internal.ReadEventsRequest(response_id="x"))) as answers:
            await anext(answers)


async def test_a_unary_call_that_is_cancelled_stays_cancelled(served: Served) -> None:
    service, _, client = served
    call = asyncio.create_task(client.call("GetResponseRecord", Request(id="slow")))
    await asyncio.wait_for(service.slow_began.wait(), WAIT_MAX_S)
    call.cancel()
    await asyncio.wait([call], timeout=WAIT_MAX_S)
    assert call.cancelled()
    await asyncio.wait_for(service.cancelled.wait(), WAIT_MAX_S)


async def test_readiness_tells_no_address() -> None:
    """The edge shows the message to everybody: its readiness needs no API key."""
    async with RpcClient("127.0.0.1:1", STORE, unavailable=StoreUnavailable) as client:
        with pytest.raises(StoreUnavailable) as caught:
            await client.ready()
    assert caught.value.message == "antiphon.store.v1.Responses: The store cannot be reached."
    assert caught.value.is_away

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.errors import (
    EngineFault,
    InternalError,
    StoreUnavailable,
    TranslatorUnavailable,
    Unauthenticated,
)
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.lean_streams import LeanStreams
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import OPEN, Call, RpcServer
from antiphon_core.rpc.settings import RpcServerSettings
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_protos.antiphon.store.internal import v1 as internal
from tests.support.certificates import authority, signed_by
from tests.support.waiting import until

MESSAGE = STORE.methods["ReadEvents"].response.message
TOKEN = "0123456789abcdef0123456789abcdef"


class Service:
    """A log whose reading the test steers by the id of the response."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.made_for: list[Correlation] = []
        self.closed = asyncio.Event()
        self.begun = asyncio.Event()

    async def read_events(self, request: Any, call: Call) -> AsyncGenerator[Any, None]:
        self.calls.append(call)
        self.made_for.append(correlation.current())
        self.begun.set()
        if request.response_id == "away":
            raise StoreUnavailable("the disk is gone", id="resp_1")
        try:
            for number in range(3):
                yield MESSAGE(first_sequence=number)
            if request.response_id == "breaks":
                raise StoreUnavailable("the disk is gone")
            if request.response_id == "fault":
                raise EngineFault("漢", field="input")
            if request.response_id == "bug":
                raise ZeroDivisionError
            if request.follow:
                await asyncio.Event().wait()
        finally:
            self.closed.set()

    async def ready(self) -> None:
        pass


class World:
    def __init__(self, service: Service, streams: LeanStreams) -> None:
        self.service = service
        self.streams = streams
        self.received: list[int] = []

    async def read(self, response_id: str = "r", *, follow: bool = False, **options: Any) -> list[int]:
        request = internal.ReadEventsRequest(response_id=response_id, follow=follow)
        await self.streams.run("ReadEvents", request, self.receive, **options)
        return self.received

    def receive(self, message: Any) -> None:
        self.received.append(message.first_sequence)


@asynccontextmanager
async def made(
    security: ServerSecurity = OPEN, credentials: ClientCredentials = ANONYMOUS, host: str = "127.0.0.1"
) -> AsyncIterator[World]:
    service, server = Service(), RpcServer(security)
    server.add(STORE, {"ReadEvents": service.read_events}, ready=service.ready)
    port = await server.start("127.0.0.1", 0)
    streams = LeanStreams(f"{host}:{port}", STORE, unavailable=StoreUnavailable, credentials=credentials)
    yield World(service, streams)
    await streams.close()
    await server.drain(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with made() as world:
        yield world


async def test_answers_are_received_in_order(world: World) -> None:
    assert await world.read() == [0, 1, 2]


async def test_a_call_carries_tenant_and_request_id(world: World) -> None:
    correlation.begin(Correlation(request_id="req_1"))
    await world.read(tenant="acme")
    assert [call.tenant for call in world.service.calls] == ["acme"]
    assert world.service.made_for == [Correlation(request_id="req_1")]


async def test_an_error_behind_answers_arrives_as_it_was_raised(world: World) -> None:
    with pytest.raises(EngineFault, match="漢") as caught:
        await world.read("fault")
    assert caught.value.field == "input"
    assert world.received == [0, 1, 2]


async def test_a_bug_of_the_server_is_an_internal_error(world: World) -> None:
    with pytest.raises(InternalError, match="log says why"):
        await world.read("bug")


@pytest.mark.parametrize("response_id", ["away", "breaks"])
async def test_a_call_that_fails_is_one_attempt(world: World, response_id: str) -> None:
    with pytest.raises(StoreUnavailable, match="the disk is gone"):
        await world.read(response_id)
    assert len(world.service.calls) == 1


async def test_cancelling_ends_the_rpc(world: World) -> None:
    reading = asyncio.create_task(world.read(follow=True))
    await until(lambda: len(world.received) >= 3, "three answers")
    reading.cancel()
    await world.service.closed.wait()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_an_exception_of_the_receiver_ends_the_rpc(world: World) -> None:
    def refuse(_message: Any) -> None:
        raise LookupError("full")

    request = internal.ReadEventsRequest(response_id="r", follow=True)
    with pytest.raises(LookupError, match="full"):
        await world.streams.run("ReadEvents", request, refuse)
    await world.service.closed.wait()


async def test_an_unreachable_server_is_unavailable_without_its_address() -> None:
    streams = LeanStreams("127.0.0.1:1", STORE, unavailable=TranslatorUnavailable)
    with pytest.raises(TranslatorUnavailable, match=r"^The translator cannot be reached\.$"):
        await streams.run("ReadEvents", internal.ReadEventsRequest(response_id="r"), print)
    await streams.close()


async def test_a_closed_client_ends_its_calls(world: World) -> None:
    reading = asyncio.create_task(world.read(follow=True))
    await until(lambda: len(world.received) >= 3, "three answers")
    await world.streams.close()
    with pytest.raises(StoreUnavailable):
        await reading


async def test_a_call_sends_its_token_and_is_unauthenticated_without_one(tmp_path: Path) -> None:
    known, own = tmp_path / "known", tmp_path / "own"
    known.write_text(f"edge {TOKEN} * gateway")
    own.write_text(TOKEN)
    security = ServerSecurity.of(RpcServerSettings(token_file=known))
    async with made(security, ClientCredentials(token_file=own)) as world:
        assert await world.read() == [0, 1, 2]
    async with made(security) as world:
        with pytest.raises(Unauthenticated, match="carries no token"):
            await world.read()


def test_a_unix_socket_endpoint_is_rejected() -> None:
    with pytest.raises(SettingsError, match="not an endpoint"):
        LeanStreams("unix:/tmp/x", STORE, unavailable=StoreUnavailable)


async def test_a_server_of_a_known_authority_is_read_over_tls(tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    server = signed_by(ca, tmp_path, "server")
    settings = RpcServerSettings(tls_cert_file=server.cert, tls_key_file=server.key)
    for host in ("127.0.0.1", "localhost"):
        async with made(ServerSecurity.of(settings), ClientCredentials(tls_ca_file=ca.cert), host) as world:
            assert await world.read() == [0, 1, 2]


async def test_a_server_certificate_of_another_authority_is_rejected(tmp_path: Path) -> None:
    ca, other = authority(tmp_path, "ca"), authority(tmp_path, "other")
    server = signed_by(other, tmp_path, "server")
    security = ServerSecurity.of(RpcServerSettings(tls_cert_file=server.cert, tls_key_file=server.key))
    async with made(security, ClientCredentials(tls_ca_file=ca.cert)) as world:
        with pytest.raises(StoreUnavailable):
            await world.read()
    assert not world.service.calls


async def test_a_client_certificate_is_sent_to_a_server_that_requires_one(tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    server, client = signed_by(ca, tmp_path, "server"), signed_by(ca, tmp_path, "client")
    settings = RpcServerSettings(tls_cert_file=server.cert, tls_key_file=server.key, tls_client_ca_file=ca.cert)
    shown = ClientCredentials(tls_ca_file=ca.cert, tls_cert_file=client.cert, tls_key_file=client.key)
    async with made(ServerSecurity.of(settings), shown) as world:
        assert await world.read() == [0, 1, 2]
    async with made(ServerSecurity.of(settings), ClientCredentials(tls_ca_file=ca.cert)) as world:
        with pytest.raises(StoreUnavailable):
            await world.read()

"""The client's own edges. That it does what the service does: tests/contract/store/test_suites.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from antiphon_core.errors import StoreUnavailable, Unimplemented
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call, Handler, Ready, RpcServer
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_protos.antiphon.store import v1
from antiphon_store.client import StoreClient
from antiphon_store.testing.subject import draft
from antiphon_store.wire import to_record

RECORD = draft()


class Seen:
    """A server of one RPC that remembers the calls it got."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.made_for: list[Correlation] = []
        self.endpoint = ""

    async def get(self, request: v1.GetRequest, call: Call) -> v1.GetResponse:
        self.calls.append(call)
        self.made_for.append(correlation.current())
        return v1.GetResponse(record=to_record(RECORD))


@pytest.fixture
async def seen() -> AsyncIterator[Seen]:
    seen = Seen()
    async with serving({"Get": seen.get}, ready=is_ready) as seen.endpoint:
        yield seen


@asynccontextmanager
async def serving(handlers: Mapping[str, Handler], *, ready: Ready) -> AsyncIterator[str]:
    """The endpoint of a server with these handlers."""
    server = RpcServer()
    server.add(STORE, handlers, ready=ready)
    yield f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await server.drain(0)


async def is_ready() -> None:
    pass


async def is_not_ready() -> None:
    raise StoreUnavailable("The disk is full.")


async def test_tenant_and_request_id_travel_along(seen: Seen) -> None:
    correlation.begin(Correlation(request_id="req_7"))
    async with StoreClient(seen.endpoint) as store:
        await store.get("blue", RECORD.id)
    (call,) = seen.calls
    assert (call.tenant, seen.made_for) == ("blue", [Correlation(request_id="req_7")])
    assert call.time_remaining_s is not None


async def test_a_store_that_cannot_be_reached_is_unavailable() -> None:
    async with StoreClient("127.0.0.1:1") as store:
        with pytest.raises(StoreUnavailable):
            await store.get("t", RECORD.id)
        with pytest.raises(StoreUnavailable):
            await store.ready()


async def test_ready_asks_the_server(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_core.rpc.client.READY_DEADLINE_S", 30.0)
    async with StoreClient(seen.endpoint) as store:
        await store.ready()
    async with serving({}, ready=is_not_ready) as endpoint, StoreClient(endpoint) as store:
        with pytest.raises(StoreUnavailable, match="not ready"):
            await store.ready()


async def test_an_rpc_that_the_server_lacks_is_named(seen: Seen) -> None:
    async with StoreClient(seen.endpoint) as store:
        with pytest.raises(Unimplemented, match="DescribeSession"):
            await store.describe_session("t", "s")


async def test_rpcs_of_later_releases_are_named_too(seen: Seen) -> None:
    client = RpcClient(seen.endpoint, STORE, unavailable=StoreUnavailable)
    with pytest.raises(Unimplemented, match=r"antiphon\.store\.v1\.ResponseStoreService\.Fork"):
        await client.call("Fork", v1.ForkRequest(session_id="s"))
    await client.close()

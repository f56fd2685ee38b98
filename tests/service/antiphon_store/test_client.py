"""Cases of the client only. tests/contract/store/test_suites.py tests all operations through the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest, StoreUnavailable, Unimplemented
from antiphon_core.ports.full_store import FullStore
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call, Handler, Ready, RpcServer
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_protos.antiphon.store import v1
from antiphon_store.calls import OPERATIONS
from antiphon_store.client import StoreClient
from antiphon_store.testing.subject import draft

RECORD = draft()


class Seen:
    """A server of one RPC that records its calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.made_for: list[Correlation] = []
        self.endpoint = ""

    async def get(self, _request: Any, call: Call) -> Any:
        self.calls.append(call)
        self.made_for.append(correlation.current())
        return OPERATIONS["GetResponseRecord"].answer.put(RECORD)


@pytest.fixture
async def seen() -> AsyncIterator[Seen]:
    seen = Seen()
    async with serving({"GetResponseRecord": seen.get}, ready=is_ready) as seen.endpoint:
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


async def test_readiness_is_that_of_the_server(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_core.rpc.client.READY_DEADLINE_S", 30.0)
    async with StoreClient(seen.endpoint) as store:
        await store.ready()
    async with serving({}, ready=is_not_ready) as endpoint, StoreClient(endpoint) as store:
        with pytest.raises(StoreUnavailable, match="The disk is full"):
            await store.ready()


async def test_an_rpc_that_the_server_lacks_is_named(seen: Seen) -> None:
    async with StoreClient(seen.endpoint) as store:
        with pytest.raises(Unimplemented, match="DescribeSession"):
            await store.describe_session("t", "s")


async def test_a_raw_call_of_an_unserved_rpc_is_unimplemented_by_its_full_path(seen: Seen) -> None:
    client = RpcClient(seen.endpoint, STORE, unavailable=StoreUnavailable)
    with pytest.raises(Unimplemented, match=r"antiphon\.store\.v1\.Trees\.Fork"):
        await client.call("Fork", v1.ForkRequest(session_id="s"))
    await client.close()


def test_the_client_has_every_method_of_the_ports() -> None:
    missing = [name for name in dir(FullStore) if not name.startswith("_") and not hasattr(StoreClient, name)]
    assert not missing


async def test_errors_name_paging_fields_as_the_port_does() -> None:
    async def refuse(_request: Any, _call: Call) -> Any:
        raise InvalidRequest("'page_token' must be a token.", field="page_token")

    async with serving({"ListLeaves": refuse}, ready=is_ready) as endpoint, StoreClient(endpoint) as store:
        with pytest.raises(InvalidRequest, match="'cursor' must be") as caught:
            await store.leaves("t", RECORD.id, cursor="garbled")
    assert caught.value.field == "cursor"

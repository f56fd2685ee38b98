from __future__ import annotations

import pytest

from antiphon_core.errors import ResponseNotFound
from antiphon_store_client import AsyncStoreClient, NotFound, StoreClient, v1
from antiphon_store_client.calls import Call
from tests.support.grpc_statuses import to_grpc_status
from tests.support.scripted_store import ScriptedStore


async def test_a_call_carries_tenant_token_and_the_deadline_of_its_method(store: ScriptedStore) -> None:
    store.answers = {"Trees/GetChain": [v1.GetChainResponse(records=[v1.ResponseRecord(id="resp_1")])]}
    async with AsyncStoreClient(store.address, token=lambda: "secret") as client:
        assert [record.id for record in await client.for_tenant("acme").chain("resp_1")] == ["resp_1"]
    (call,) = store.calls
    assert (call.metadata["antiphon-tenant"], call.metadata["authorization"]) == ("acme", "Bearer secret")
    assert call.time_remaining_s < 100


async def test_pages_are_read_when_their_members_are_asked_for(store: ScriptedStore) -> None:
    first = v1.ListLeavesResponse(nodes=[v1.Node(id="a")], next_page_token="more")
    store.answers = {"Trees/ListLeaves": [first, v1.ListLeavesResponse(nodes=[v1.Node(id="b")])]}
    async with AsyncStoreClient(store.address) as client:
        reading = client.leaves("resp_1")
        assert (await anext(reading)).id == "a"
        assert len(store.calls) == 1
        assert [node.id async for node in reading] == ["b"]


async def test_store_errors_are_raised_with_their_reason(store: ScriptedStore) -> None:
    store.answers = {"Responses/GetResponseRecord": [to_grpc_status(ResponseNotFound("Nobody knows it."))]}
    async with AsyncStoreClient(store.address) as client:
        with pytest.raises(NotFound, match="Nobody") as caught:
            await client.get("resp_1")
    assert caught.value.reason == "RESPONSE_NOT_FOUND"


async def test_a_call_that_was_made_elsewhere_can_be_sent(store: ScriptedStore) -> None:
    store.answers = {"Trees/GetChain": [v1.GetChainResponse()]}
    call = Call(v1.GetChainRequest(id="resp_1"), v1.GetChainResponse, lambda answer: len(answer.records))
    async with AsyncStoreClient(store.address) as client:
        assert await client.send(call) == 0


def test_the_async_client_has_the_methods_of_the_blocking_client() -> None:
    assert {name for name in dir(StoreClient) if not name.startswith("_")} == {
        name for name in dir(AsyncStoreClient) if not name.startswith("_")
    }

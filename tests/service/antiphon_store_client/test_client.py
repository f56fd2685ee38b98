from __future__ import annotations

import grpc
import pytest

from antiphon_core.errors import StaleFence, StoreUnavailable
from antiphon_store_client import Aborted, StoreClient, Unavailable, operations, v1
from tests.support.grpc_statuses import to_grpc_status
from tests.support.scripted_store import ScriptedStore
from tests.support.waiting import WAIT_MAX_S

STAMP = v1.PutResponseRecordResponse(stamp=v1.Stamp(version=3))
PUT = "Responses/PutResponseRecord"


def test_a_call_carries_tenant_token_and_the_deadline_of_its_method(store: ScriptedStore) -> None:
    store.answers = {PUT: [STAMP]}
    with StoreClient(store.address, tenant="acme", token="secret") as client:
        assert client.put(v1.ResponseRecord(id="resp_1")).version == 3
    (call,) = store.calls
    assert (call.metadata["antiphon-tenant"], call.metadata["authorization"]) == ("acme", "Bearer secret")
    assert v1.PutResponseRecordRequest.FromString(call.request).record.id == "resp_1"
    assert call.time_remaining_s < 10


def test_views_share_the_connection_and_differ_in_their_options(store: ScriptedStore) -> None:
    store.answers = {"Trees/GetChain": [v1.GetChainResponse()] * 3}
    with StoreClient(store.address) as client:
        client.for_tenant("acme").chain("resp_1")
        client.with_timeout(1000).chain("resp_1")
        client.chain("resp_1")
    assert [call.metadata["antiphon-tenant"] for call in store.calls] == ["acme", "default", "default"]
    assert [call.time_remaining_s > 100 for call in store.calls] == [False, True, False]


def test_pages_are_read_when_their_members_are_asked_for(store: ScriptedStore) -> None:
    first = v1.ListChildrenResponse(nodes=[v1.Node(id="a"), v1.Node(id="b")], next_page_token="more")
    store.answers = {"Trees/ListChildren": [first, v1.ListChildrenResponse(nodes=[v1.Node(id="c")])]}
    with StoreClient(store.address, timeout_s=WAIT_MAX_S) as client:
        reading = client.children("resp_1", page_size=2)
        assert [next(reading).id, next(reading).id] == ["a", "b"]
        assert len(store.calls) == 1
        assert [node.id for node in reading] == ["c"]
    assert v1.ListChildrenRequest.FromString(store.calls[1].request).page_token == "more"


def test_store_errors_are_raised_with_their_reason(store: ScriptedStore) -> None:
    store.answers = {PUT: [to_grpc_status(StaleFence("Too late."))]}
    with StoreClient(store.address, timeout_s=WAIT_MAX_S) as client, pytest.raises(Aborted, match="Too late") as caught:
        client.put(v1.ResponseRecord())
    assert caught.value.reason == "STALE_FENCE"
    assert isinstance(caught.value.__cause__, grpc.RpcError)


def test_only_repeatable_calls_are_retried(store: ScriptedStore) -> None:
    lost = to_grpc_status(StoreUnavailable("Gone for a moment."))
    added = "Conversations/AddConversationItems"
    store.answers = {PUT: [lost, STAMP], added: [lost]}
    with StoreClient(store.address, timeout_s=WAIT_MAX_S) as client:
        assert client.put(v1.ResponseRecord()).version == 3
        with pytest.raises(Unavailable, match="Gone"):
            client.add_conversation_items("conv_1", [])


def test_every_operation_has_a_method() -> None:
    names = {
        name for name, value in vars(operations).items() if getattr(value, "__module__", "") == operations.__name__
    }
    assert {name for name in names if not name.startswith("_")} <= set(dir(StoreClient))

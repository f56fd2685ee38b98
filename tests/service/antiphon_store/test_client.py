"""Cases of the client only. tests/contract/store/test_suites.py tests all operations through the client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon_core.clock import SystemClock
from antiphon_core.errors import InvalidRequest, StoreUnavailable, Unimplemented
from antiphon_core.ids import is_conversation_id, tree_tag
from antiphon_core.jsons import loads
from antiphon_core.ports.conversations import Conversation
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call, Handler, Ready, RpcServer
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_protos.antiphon.store import v1
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.calls import OPERATIONS
from antiphon_store.client import StoreClient
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
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


async def test_a_fork_is_sent_with_a_session_id() -> None:
    """The channel may send a call twice. Without an id, the second call would make another fork."""
    seen: list[str] = []

    async def fork(request: Any, _call: Call) -> Any:
        seen.append(request.new_session_id)
        return OPERATIONS["Fork"].answer.put(Fork(request.new_session_id, request.up_to_response_id))

    async with serving({"Fork": fork}, ready=is_ready) as endpoint, StoreClient(endpoint) as store:
        made = await store.fork("t", ForkSource(up_to_response_id=RECORD.id))
        named = await store.fork("t", ForkSource(up_to_response_id=RECORD.id), new_session_id="mine")
    assert seen == [made.session_id, "mine"]
    assert (tree_tag(made.session_id), named.session_id) == (tree_tag(RECORD.id), "mine")


async def test_a_conversation_has_its_id_before_it_is_sent() -> None:
    async def create(request: Any, _call: Call) -> Any:
        return OPERATIONS["CreateConversation"].answer.put(Conversation(request.id, b"{}", 1, 1))

    async with serving({"CreateConversation": create}, ready=is_ready) as endpoint, StoreClient(endpoint) as store:
        assert is_conversation_id((await store.create_conversation("t")).id)


async def test_errors_name_paging_fields_as_the_port_does() -> None:
    async def refuse(_request: Any, _call: Call) -> Any:
        raise InvalidRequest("'page_token' must be a token.", field="page_token")

    async with serving({"ListLeaves": refuse}, ready=is_ready) as endpoint, StoreClient(endpoint) as store:
        with pytest.raises(InvalidRequest, match="'cursor' must be") as caught:
            await store.leaves("t", RECORD.id, cursor="garbled")
    assert caught.value.field == "cursor"


@pytest.mark.parametrize("items", [b'[{"type":"message"}]', b'[{"id":"msg_1","type":"message"}]'], ids=["new", "named"])
async def test_an_addition_that_is_sent_twice_is_made_once(items: bytes) -> None:
    """The store stops after it has added the items and before it answers, as during a restart."""
    backend = MemoryRows(SystemClock())
    await backend.open()
    store, calls = StoreService(backend), 0
    conversation = await store.create_conversation("t")
    add_items = handlers(store)["AddConversationItems"]

    async def add(request: Any, call: Call) -> Any:
        nonlocal calls
        calls += 1
        answer: Any = await add_items(request, call)  # type: ignore[misc]
        if calls == 1:
            raise StoreUnavailable("The store is stopping.")
        return answer

    async with serving({"AddConversationItems": add}, ready=is_ready) as endpoint, StoreClient(endpoint) as client:
        added = await client.add_conversation_items("t", conversation.id, items)
        again = await client.add_conversation_items("t", conversation.id, items)
    assert calls == 3
    listed = await store.list_conversation_items("t", conversation.id)
    is_named = b"msg_1" in items
    assert (again == added) is is_named  # the client's own ids make the second call a repetition
    assert len(loads(listed.items)) == (1 if is_named else 2)

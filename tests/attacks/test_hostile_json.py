"""Attack 7: JSON that is cheap to send and expensive to parse. It is rejected before its values are made, outside the
event loop, so that requests of other tenants are answered meanwhile."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import grpc
import pytest

from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.limits import JSON_VALUES_MAX
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import RpcServer
from antiphon_edge.callers.authentication import TENANT_HEADER
from antiphon_store.server import handlers
from tests.support.edge import RunningEdge, running_edge
from tests.support.loop_watch import watched_loop

SIZE = 86 * 2**20 // 10
LOOP_CPU_S = 0.25
"""The CPU time of one callback on the loop's thread. The attack took 3.5 s; rejecting the body takes 0.02 s."""
ATTACKER, VICTIM = {TENANT_HEADER: "acme"}, {TENANT_HEADER: "globex"}
JSON: dict[str, bytes] = {
    "empty arrays": b"[" + b"[]," * (SIZE // 3) + b"[]]",
    "empty objects": b"[" + b"{}," * (SIZE // 3) + b"{}]",
    "nested arrays": b"[" * (SIZE // 2) + b"]" * (SIZE // 2),
    "nested to the parser's limit": b"[" * 1_000 + b"]" * 1_000,
    "members": b"{" + b",".join(b'"%d":0' % number for number in range(SIZE // 12)) + b"}",
    "most values that are parsed": b"[" + b"[]," * (JSON_VALUES_MAX // 2 - 10) + b"[]]",
    "one number": b"1" * SIZE,
}
PATHS = ("/v1/responses", "/v1/chat/completions", "/v1/conversations", "/v1/responses/compact")


@pytest.fixture(params=JSON)
def hostile(request: pytest.FixtureRequest) -> bytes:
    return JSON[request.param]


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge(tenants=True) as running:
        yield running


@pytest.fixture
async def store(edge: RunningEdge) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the store of the edge."""
    server, served = RpcServer(), edge.store
    server.add(STORE, handlers(served), ready=served.ready)
    port = await server.start("127.0.0.1", 0)
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        yield channel
    await server.drain(0)


async def test_hostile_json_body_is_rejected_without_blocking_the_event_loop(edge: RunningEdge, hostile: bytes) -> None:
    for path in PATHS:
        with watched_loop() as watch:
            body = BytesIO(b'{"model":"m","input":' + hostile + b"}")
            refused = await edge.ask("POST", path, body, headers=ATTACKER)
        assert (refused.status, refused.error["type"]) == (400, "invalid_request_error"), path
        assert watch.longest.cpu_s < LOOP_CPU_S, watch.report()
    served = await edge.ask("POST", "/v1/responses", {"model": "m", "input": "hi"}, headers=VICTIM)
    assert served.status == 200


async def test_hostile_websocket_json_is_rejected_without_blocking_the_event_loop(edge: RunningEdge) -> None:
    async with edge.http.session.ws_connect(edge.http.url + "/v1/responses", headers=ATTACKER) as socket:
        event = b'{"type":"response.create","model":"m","input":' + JSON["empty arrays"] + b"}"
        with watched_loop() as watch:
            await socket.send_str(event.decode())
            assert (await socket.receive_json())["status"] == 400
        assert watch.longest.cpu_s < LOOP_CPU_S, watch.report()


async def test_hostile_gzip_body_is_rejected_without_blocking_the_event_loop(edge: RunningEdge) -> None:
    packed = gzip.compress(b'{"model":"m","input":' + JSON["empty arrays"] + b"}")
    assert len(packed) < 2**16
    with watched_loop() as watch:
        headers = ATTACKER | {"Content-Encoding": "gzip"}
        refused = await edge.ask("POST", "/v1/responses", BytesIO(packed), headers=headers)
    assert refused.status == 400
    assert watch.longest.cpu_s < LOOP_CPU_S, watch.report()


@pytest.mark.parametrize("name", ["metadata", "items"])
async def test_store_rejects_hostile_json_without_blocking_the_event_loop(
    store: grpc.aio.Channel, hostile: bytes, name: str
) -> None:
    conversation = new_conversation_id(RandomIds())
    rpc, given = {
        "metadata": ("CreateConversation", {"id": conversation, "metadata": b'{"a":' + hostile + b"}"}),
        "items": ("AddConversationItems", {"conversation_id": conversation, "items": hostile}),
    }[name]
    method = STORE.methods[rpc]
    call: Any = store.unary_unary(method.path)
    with watched_loop() as watch, pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(method.request.strict(**given).SerializeToString(), timeout=60)
    assert caught.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert watch.longest.cpu_s < LOOP_CPU_S, watch.report()

"""The client's own edge. That it does what the service does: tests/contract/store/test_suites.py."""

from __future__ import annotations

from antiphon_core.ids import tree_tag
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call, RpcServer
from antiphon_protos.antiphon.store import v1
from antiphon_store.client import StoreClient
from antiphon_store.testing.subject import draft


async def test_a_fork_has_its_name_before_it_is_sent() -> None:
    """The channel may send a call twice; without a name, the second would be another fork."""
    seen: list[v1.ForkRequest] = []

    async def fork(request: v1.ForkRequest, _call: Call) -> v1.ForkResponse:
        seen.append(request)
        return v1.ForkResponse(session_id=request.new_session_id, head_response_id=request.up_to_response_id)

    async def ready() -> None:
        pass

    server, response_id = RpcServer(), draft().id
    server.add(STORE, {"Fork": fork}, ready=ready)
    async with StoreClient(f"127.0.0.1:{await server.start('127.0.0.1', 0)}") as store:
        made = await store.fork("t", ForkSource(up_to_response_id=response_id))
    await server.drain(0)
    (request,) = seen
    assert made.session_id == request.new_session_id
    assert tree_tag(made.session_id) == tree_tag(response_id)

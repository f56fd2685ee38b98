from __future__ import annotations

from antiphon_core.rpc.methods import STORE
from antiphon_store_client import v1
from antiphon_store_client.calls import PATHS, call, pages


def test_every_rpc_of_the_public_api_has_a_path() -> None:
    public = {method.path for method in STORE.methods.values() if method.service.startswith("antiphon.store.v1.")}
    assert set(PATHS.values()) == public


def test_a_call_goes_to_the_rpc_of_its_request() -> None:
    made = call(v1.GetChainRequest(id="resp_1"), v1.GetChainResponse, lambda answer: len(answer.records))
    assert made.path == "/antiphon.store.v1.Trees/GetChain"
    assert made.result(v1.GetChainResponse(records=[v1.ResponseRecord()])) == 1


def test_a_later_page_differs_in_its_token_only() -> None:
    listed = pages(v1.ListTreeRequest(id="resp_1", page_size=2), v1.ListTreeResponse, lambda answer: answer.nodes)
    later = listed.after("token")
    assert later.request == v1.ListTreeRequest(id="resp_1", page_size=2, page_token="token")
    assert listed.first.request == v1.ListTreeRequest(id="resp_1", page_size=2)
    nodes, token = later.result(v1.ListTreeResponse(nodes=[v1.Node(id="a")], next_page_token="more"))
    assert ([node.id for node in nodes], token) == (["a"], "more")

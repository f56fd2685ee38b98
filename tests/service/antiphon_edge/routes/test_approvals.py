"""The list of calls that wait for an approval. tests/integration/test_approvals.py answers them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon_core.jsons import dumps
from antiphon_core.ports.store import ApprovalDraft, TurnCommit
from antiphon_edge.callers.authentication import TENANT_HEADER
from antiphon_store.testing.approvals import new_id
from antiphon_store.testing.subject import draft
from tests.support.edge import RunningEdge, running_edge

CONTENT = dumps({"server_label": "s", "identity": "https://s", "name": "t", "digest": "d", "arguments": '{"a":1}'})


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge(tenants=True) as running:
        yield running


async def test_open_approvals_of_a_tenant_are_listed_page_by_page(edge: RunningEdge) -> None:
    records = [draft() for _ in range(3)]
    for each in records:
        await edge.store.commit_turn("acme", TurnCommit(each, approvals=[ApprovalDraft(new_id(each), CONTENT)]))
    mine = {TENANT_HEADER: "acme"}
    first = (await edge.ask("GET", "/v1/approvals?limit=2", headers=mine)).json
    assert (len(first["data"]), first["has_more"]) == (2, True)
    path = f"/v1/approvals?limit=2&cursor={first['next_cursor']}"
    rest = (await edge.ask("GET", path, headers=mine)).json
    assert (len(rest["data"]), rest["has_more"], rest["next_cursor"]) == (1, False, None)
    listed = [*first["data"], *rest["data"]]
    assert {each["response_id"] for each in listed} == {each.id for each in records}
    assert (listed[0]["server_label"], listed[0]["name"], listed[0]["arguments"]) == ("s", "t", '{"a":1}')
    damaged = draft()
    await edge.store.commit_turn("acme", TurnCommit(damaged, approvals=[ApprovalDraft(new_id(damaged), b"{}")]))
    whole = (await edge.ask("GET", "/v1/approvals", headers=mine)).json
    assert {each["id"] for each in whole["data"]} == {each["id"] for each in listed}
    other = await edge.ask("GET", "/v1/approvals", headers={TENANT_HEADER: "other"})
    assert other.json["data"] == []
    wrong = await edge.ask("GET", "/v1/approvals?cursor=x", headers=mine)
    assert wrong.status == 400

from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.ids import UNIQUE_DIGITS, RandomIds, new_response_id, session_tag
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import CHAIN_DEPTH_MAX
from antiphon_core.ports.store import Record, Status, TurnCommit, TurnRequest
from antiphon_edge.callers.authentication import TENANT_HEADER
from tests.support.edge import RunningEdge, running_edge

UNKNOWN = "resp_" + "0" * 48
LISTS = ["tree", "children", "siblings", "leaves"]


async def response(edge: RunningEdge, text: str, after: Object | None = None) -> Object:
    """Creates a response, as a child of `after` if it is given."""
    answer = await edge.create(input=text, previous_response_id=after["id"] if after else None)
    assert answer.status == 200
    made: Object = answer.json
    return made


async def ask(edge: RunningEdge, made: Object, what: str) -> Any:
    answer = await edge.ask("GET", f"/v1/responses/{made['id']}/{what}")
    assert answer.status == 200, answer.body
    return answer.json


async def ids(edge: RunningEdge, made: Object, what: str) -> list[str]:
    return [node["id"] for node in (await ask(edge, made, what))["data"]]


async def turn(edge: RunningEdge, session_id: str, *, tenant: str = "default") -> str:
    """One whole turn in a session."""
    start = await edge.store.begin_turn(tenant, TurnRequest(session_id=session_id, holder="turn"))
    assert start.lease is not None
    response_id = f"resp_{session_tag(tenant, session_id)}{RandomIds().hex(UNIQUE_DIGITS)}"
    record = Record(
        id=response_id,
        status=Status.COMPLETED,
        body=dumps({"id": response_id, "object": "response"}),
        input_items=dumps([{"id": f"in_{response_id}", "type": "message", "role": "user", "content": []}]),
        parent_id=start.history.head_id,
        session_id=session_id,
    )
    await edge.store.commit_turn(tenant, TurnCommit(record, start.lease.fence))
    return response_id


async def history_of(edge: RunningEdge, session_id: str) -> list[Object]:
    """The history that the next turn in the session would continue."""
    start = await edge.store.begin_turn("default", TurnRequest(session_id=session_id, holder="look"))
    assert start.lease is not None
    await edge.store.release_session("default", start.lease.fence)
    found: list[Object] = loads(start.history.items)
    return found


async def conversation(edge: RunningEdge, *texts: str, **more: Any) -> str:
    items = [{"role": "user", "content": text} for text in texts]
    return str((await edge.ask("POST", "/v1/conversations", {"items": items} | more)).json["id"])


async def fork(edge: RunningEdge, session_id: str, **body: str) -> Any:
    answer = await edge.ask("POST", f"/v1/sessions/{session_id}/fork", body)
    assert answer.status == 200, answer.body
    return answer.json


# ---- The shape of a tree ----


async def test_a_tree_is_shown_by_depth(edge: RunningEdge) -> None:
    root = await response(edge, "root")
    left, right = await response(edge, "left", root), await response(edge, "right", root)
    leaf = await response(edge, "leaf", left)
    page = await ask(edge, root, "tree")
    assert set(page) == {"object", "data", "next_cursor", "has_more"}
    assert (page["object"], page["next_cursor"], page["has_more"]) == ("list", None, False)
    assert page["data"][0] == {
        "id": root["id"],
        "object": "response.node",
        "parent_id": None,
        "status": "completed",
        "depth": 0,
        "child_count": 2,
        "created_at": page["data"][0]["created_at"],
    }
    assert 1_700_000_000 < page["data"][0]["created_at"] < 10_000_000_000
    assert {node["id"] for node in page["data"][1:3]} == {left["id"], right["id"]}
    assert (page["data"][3]["id"], page["data"][3]["parent_id"]) == (leaf["id"], left["id"])
    assert await ids(edge, left, "tree") == [left["id"], leaf["id"]]
    assert (await ask(edge, leaf, "tree?from_root=true"))["data"] == page["data"]


async def test_children_siblings_and_leaves_are_listed(edge: RunningEdge) -> None:
    root = await response(edge, "root")
    left, right = await response(edge, "left", root), await response(edge, "right", root)
    leaf = await response(edge, "leaf", left)
    assert set(await ids(edge, root, "children")) == {left["id"], right["id"]}
    assert await ids(edge, left, "siblings") == [right["id"]]
    assert await ids(edge, root, "siblings") == []
    assert set(await ids(edge, root, "leaves")) == {leaf["id"], right["id"]}
    assert await ids(edge, leaf, "leaves") == []


@pytest.mark.parametrize("what", LISTS)
async def test_lists_are_paged_to_their_end(edge: RunningEdge, what: str) -> None:
    root = await response(edge, "root")
    children = [await response(edge, str(number), root) for number in range(5)]
    asked = children[0] if what == "siblings" else root
    seen: list[str] = []
    query: str | None = "?limit=2"
    while query is not None:
        page = await ask(edge, asked, what + query)
        assert 0 < len(page["data"]) <= 2
        assert page["has_more"] is (page["next_cursor"] is not None)
        seen += [node["id"] for node in page["data"]]
        query = f"?limit=2&cursor={page['next_cursor']}" if page["has_more"] else None
    assert seen == await ids(edge, asked, what)
    assert len(seen) == {"tree": 6, "siblings": 4}.get(what, 5)


async def test_deleted_response_with_children_stays_in_the_tree(edge: RunningEdge) -> None:
    root = await response(edge, "root")
    middle = await response(edge, "middle", root)
    leaf = await response(edge, "leaf", middle)
    await edge.ask("DELETE", f"/v1/responses/{middle['id']}")
    nodes = (await ask(edge, root, "tree"))["data"]
    assert [(node["id"], node["status"]) for node in nodes] == [
        (root["id"], "completed"),
        (middle["id"], None),
        (leaf["id"], "completed"),
    ]
    assert nodes[0]["child_count"] == 0
    assert await ids(edge, root, "children") == []
    assert await ids(edge, root, "leaves") == [leaf["id"]]


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("children?limit=0", "limit", "integer_below_min_value"),
        ("children?limit=1001", "limit", "integer_above_max_value"),
        ("siblings?limit=x", "limit", "invalid_type"),
        ("tree?limit=10001", "limit", "integer_above_max_value"),
        ("tree?from_root=maybe", "from_root", "invalid_value"),
        ("tree?cursor=", "cursor", "invalid_value"),
        ("leaves?cursor=abc", "cursor", "invalid_value"),
    ],
)
async def test_bad_parameters_are_rejected_by_name(edge: RunningEdge, query: str, param: str, code: str) -> None:
    made = await response(edge, "root")
    answer = await edge.ask("GET", f"/v1/responses/{made['id']}/{query}")
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, code)


async def test_cursor_of_another_list_is_rejected(edge: RunningEdge) -> None:
    root = await response(edge, "root")
    for number in range(2):
        await response(edge, str(number), root)
    cursor = (await ask(edge, root, "children?limit=1"))["next_cursor"]
    answer = await edge.ask("GET", f"/v1/responses/{root['id']}/leaves?cursor={cursor}")
    assert (answer.status, answer.error["param"]) == (400, "cursor")


@pytest.mark.parametrize("what", [*LISTS, "chain"])
@pytest.mark.parametrize("response_id", [UNKNOWN, "nonsense", "conv_" + "0" * 48])
async def test_unknown_responses_are_not_found(edge: RunningEdge, what: str, response_id: str) -> None:
    answer = await edge.ask("GET", f"/v1/responses/{response_id}/{what}")
    assert answer.status == 404
    assert answer.error == {
        "message": f"Response with id '{response_id}' not found.",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


# ---- Chains ----


async def test_a_chain_is_whole_responses_from_the_root_on(edge: RunningEdge) -> None:
    root = await response(edge, "root")
    middle = await response(edge, "middle", root)
    leaf = await response(edge, "leaf", middle)
    await response(edge, "other", root)
    assert await ask(edge, leaf, "chain") == {
        "object": "list",
        "data": [root, middle, leaf],
        "next_cursor": None,
        "has_more": False,
    }
    assert (await ask(edge, root, "chain"))["data"] == [root]


async def test_deleted_response_is_in_a_chain_without_its_content(edge: RunningEdge) -> None:
    root = await response(edge, "secret")
    leaf = await response(edge, "leaf", root)
    await edge.ask("DELETE", f"/v1/responses/{root['id']}")
    chain = (await ask(edge, leaf, "chain"))["data"]
    assert chain == [{"id": root["id"], "object": "response", "deleted": True}, leaf]


async def test_items_added_by_hand_are_distinguished_from_responses(edge: RunningEdge) -> None:
    conversation_id = await conversation(edge, "secret")
    response_id = await turn(edge, conversation_id)
    answer = await edge.ask("GET", f"/v1/responses/{response_id}/chain")
    added, made = answer.json["data"]
    assert (set(added), added["object"]) == ({"id", "object"}, "conversation.items")
    assert (made["id"], made["object"], made["output"]) == (response_id, "response", [])
    assert b"secret" not in answer.body
    nodes = (await edge.ask("GET", f"/v1/responses/{response_id}/tree?from_root=true")).json["data"]
    assert [(node["id"], node["status"]) for node in nodes] == [(added["id"], None), (response_id, "completed")]


async def test_chain_over_the_limit_is_rejected_with_a_hint_to_the_tree(edge: RunningEdge) -> None:
    response_id = [await turn(edge, "plain") for _ in range(CHAIN_DEPTH_MAX)][-1]
    assert (await edge.ask("GET", f"/v1/responses/{response_id}/chain")).status == 200
    record = await edge.store.get("default", response_id)
    beyond = Record(
        id=new_response_id(RandomIds(), relative=record.id),
        status=Status.COMPLETED,
        body=b"{}",
        parent_id=record.id,
    )
    await edge.store.put("default", beyond)
    answer = await edge.ask("GET", f"/v1/responses/{beyond.id}/chain")
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "limit_exceeded", None)
    assert "over the limit of 1000 responses" in answer.error["message"]
    assert f"/v1/responses/{beyond.id}/tree?from_root=true" in answer.error["message"]
    named = (await edge.ask("GET", f"/v1/responses/{beyond.id}/tree?from_root=true&limit=10000")).json["data"]
    assert len(named) == CHAIN_DEPTH_MAX + 1


# ---- Forks ----


async def test_a_fork_of_a_conversation_is_a_conversation_with_its_history(edge: RunningEdge) -> None:
    conversation_id = await conversation(edge, "a", "b", metadata={"k": "v"})
    head_id = await turn(edge, conversation_id)
    made = await fork(edge, conversation_id)
    assert made == {"id": made["id"], "object": "session", "forked_from": conversation_id, "head_id": head_id}
    assert made["id"].startswith("conv_")
    forked = (await edge.ask("GET", f"/v1/conversations/{made['id']}")).json
    assert (forked["id"], forked["metadata"]) == (made["id"], {"k": "v"})
    original = await history_of(edge, conversation_id)
    assert len(original) == 3
    assert await history_of(edge, made["id"]) == original
    listed = (await edge.ask("GET", f"/v1/conversations/{made['id']}/items?order=asc")).json["data"]
    assert listed == original
    await turn(edge, made["id"])
    assert await history_of(edge, conversation_id) == original


async def test_a_fork_begins_from_the_response_that_is_named(edge: RunningEdge) -> None:
    conversation_id = await conversation(edge)
    first, second = await turn(edge, conversation_id), await turn(edge, conversation_id)
    made = await fork(edge, conversation_id, up_to_response_id=first)
    assert made["head_id"] == first
    assert [item["id"] for item in await history_of(edge, made["id"])] == [f"in_{first}"]
    assert (await fork(edge, conversation_id))["head_id"] == second


async def test_a_plain_session_is_forked_into_one_of_any_name(edge: RunningEdge) -> None:
    head_id = await turn(edge, "thread-1")
    made = await fork(edge, "thread-1", new_session_id="thread-2")
    assert (made["id"], made["head_id"]) == ("thread-2", head_id)
    assert (await fork(edge, "thread-1"))["id"].startswith("fork_")
    branched = await fork(edge, "thread-1", up_to_response_id=head_id)
    assert (await edge.ask("GET", f"/v1/conversations/{branched['id']}")).json["metadata"] == {}


async def test_repeated_fork_returns_the_first_fork(edge: RunningEdge) -> None:
    conversation_id = await conversation(edge, "a")
    new_id = conversation_id[:-4] + "beef"
    first = await fork(edge, conversation_id, new_session_id=new_id)
    await turn(edge, conversation_id)
    await turn(edge, new_id)
    await edge.ask("POST", f"/v1/conversations/{new_id}", {"metadata": {"own": "1"}})
    await edge.ask("POST", f"/v1/conversations/{conversation_id}", {"metadata": {"later": "1"}})
    assert await fork(edge, conversation_id, new_session_id=new_id) == first
    assert (await edge.ask("GET", f"/v1/conversations/{new_id}")).json["metadata"] == {"own": "1"}


async def test_a_fork_with_an_idempotency_key_is_rejected(edge: RunningEdge) -> None:
    answer = await edge.ask("POST", "/v1/sessions/thread/fork", headers={"Idempotency-Key": "k"})
    assert (answer.status, answer.json["error"]["param"]) == (400, "Idempotency-Key")
    assert "'new_session_id' can be repeated" in answer.json["error"]["message"]


async def test_a_fork_needs_no_body(edge: RunningEdge) -> None:
    await turn(edge, "thread")
    assert (await edge.ask("POST", "/v1/sessions/thread/fork")).status == 200


@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        (b"[]", 400, None, "invalid_type"),
        ({"name": "x"}, 400, "name", "unknown_parameter"),
        ({"new_session_id": 5}, 400, "new_session_id", "invalid_type"),
        ({"new_session_id": "no spaces"}, 400, "new_session_id", "invalid_value"),
        ({"new_session_id": "conv_" + "0" * 48}, 400, "new_session_id", "invalid_value"),
        ({"new_session_id": "taken"}, 409, None, "already_exists"),
        ({"up_to_response_id": UNKNOWN}, 404, None, None),
        ({"up_to_response_id": "nonsense"}, 404, None, None),
    ],
)
async def test_bad_forks_are_rejected(
    edge: RunningEdge, body: Any, status: int, param: str | None, code: str | None
) -> None:
    await turn(edge, "thread")
    await turn(edge, "taken")
    answer = await edge.ask("POST", "/v1/sessions/thread/fork", body)
    assert (answer.status, answer.error["param"], answer.error["code"]) == (status, param, code)


async def test_fork_at_a_response_of_another_session_is_rejected(edge: RunningEdge) -> None:
    await turn(edge, "thread")
    elsewhere = await turn(edge, "other")
    answer = await edge.ask("POST", "/v1/sessions/thread/fork", {"up_to_response_id": elsewhere})
    assert (answer.status, answer.error["param"]) == (400, "up_to_response_id")


@pytest.mark.parametrize("session_id", ["unused", "conv_" + "0" * 48, "no%20spaces", "%C3%BC"])
async def test_unknown_sessions_are_not_found(edge: RunningEdge, session_id: str) -> None:
    answer = await edge.ask("POST", f"/v1/sessions/{session_id}/fork", {})
    assert (answer.status, answer.error["type"], answer.error["code"]) == (404, "invalid_request_error", None)


async def test_a_session_in_which_a_turn_runs_cannot_become_a_fork(edge: RunningEdge) -> None:
    await turn(edge, "thread")
    await edge.store.acquire_session("default", "busy", holder="turn")
    answer = await edge.ask("POST", "/v1/sessions/thread/fork", {"new_session_id": "busy"})
    assert (answer.status, answer.error["code"]) == (400, "conversation_locked")


async def test_another_tenants_trees_and_sessions_are_not_found() -> None:
    async with running_edge(tenants=True) as edge:
        mine, foreign = {TENANT_HEADER: "mine"}, {TENANT_HEADER: "other"}
        created = (await edge.ask("POST", "/v1/conversations", {"metadata": {}}, headers=mine)).json
        response_id = await turn(edge, created["id"], tenant="mine")
        own_id = await turn(edge, "thread", tenant="other")
        for what in [*LISTS, "chain"]:
            path = f"/v1/responses/{response_id}/{what}"
            assert (await edge.ask("GET", path, headers=mine)).status == 200
            answer = await edge.ask("GET", path, headers=foreign)
            assert (answer.status, answer.error["message"]) == (404, f"Response with id '{response_id}' not found.")
        forks: list[tuple[str, Object]] = [
            (created["id"], {}),
            (created["id"], {"up_to_response_id": response_id}),
            (created["id"], {"up_to_response_id": own_id}),
            ("thread", {"up_to_response_id": response_id}),
        ]
        for session_id, body in forks:
            answer = await edge.ask("POST", f"/v1/sessions/{session_id}/fork", body, headers=foreign)
            assert (answer.status, answer.error["code"]) == (404, None)

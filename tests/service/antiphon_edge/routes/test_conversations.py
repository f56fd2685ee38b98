from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import CHAIN_DEPTH_MAX
from antiphon_core.ports.store import Record, Status, TurnCommit, TurnRequest
from antiphon_edge.callers.authentication import TENANT_HEADER
from tests.support.edge import RunningEdge, running_edge
from tests.support.http import Answer

ALL = "/v1/conversations"
UNKNOWN = "conv_" + "0" * 48
LOCKED = "Another process is currently operating on this conversation. Please retry in a few seconds."


def words(text: str, **more: Any) -> Object:
    return {"role": "user", "content": text} | more


def text_of(item: Object) -> str:
    return str(item["content"][0]["text"])


async def made(edge: RunningEdge, *texts: str, **more: Any) -> str:
    """The id of a new conversation that begins with these messages."""
    answer = await edge.ask("POST", ALL, {"items": [words(text) for text in texts]} | more)
    assert answer.status == 200, answer.body
    return str(answer.json["id"])


async def items_of(edge: RunningEdge, conversation_id: str, *, limit: int = 100) -> list[Object]:
    """All of a conversation's items, oldest first, page by page."""
    found: list[Object] = []
    query = f"?order=asc&limit={limit}"
    while True:
        page = (await edge.ask("GET", f"{ALL}/{conversation_id}/items{query}")).json
        found += page["data"]
        if not page["has_more"]:
            return found
        query = f"?order=asc&limit={limit}&after={page['last_id']}"


async def turn(edge: RunningEdge, conversation_id: str, *item_ids: str) -> str:
    """One whole turn in a conversation, with these items."""
    start = await edge.store.begin_turn("default", TurnRequest(session_id=conversation_id, holder="turn"))
    assert start.lease is not None
    record = Record(
        id=new_response_id(RandomIds(), relative=conversation_id),
        status=Status.COMPLETED,
        body=b'{"object":"response"}',
        input_items=dumps([words(item_id) | {"id": item_id} for item_id in item_ids]),
        parent_id=start.history.head_id,
        session_id=conversation_id,
    )
    await edge.store.commit_turn("default", TurnCommit(record, start.lease.fence))
    return record.id


async def test_a_conversation_is_made_read_changed_and_deleted(edge: RunningEdge) -> None:
    created = await edge.ask("POST", ALL, {"metadata": {"topic": "demo"}})
    assert created.status == 200
    conversation = created.json
    assert set(conversation) == {"id", "object", "created_at", "metadata"}
    assert conversation["id"].startswith("conv_")
    assert (conversation["object"], conversation["metadata"]) == ("conversation", {"topic": "demo"})
    assert 1_700_000_000 < conversation["created_at"] < 10_000_000_000

    one = f"{ALL}/{conversation['id']}"
    assert (await edge.ask("GET", one)).json == conversation
    changed = await edge.ask("POST", one, {"metadata": {"other": "ü"}})
    assert changed.json == conversation | {"metadata": {"other": "ü"}}
    assert (await edge.ask("GET", one)).json == changed.json
    assert (await edge.ask("POST", one, {"metadata": None})).json["metadata"] == {}

    deleted = await edge.ask("DELETE", one)
    assert (deleted.status, deleted.json) == (
        200,
        {"id": conversation["id"], "object": "conversation.deleted", "deleted": True},
    )
    assert (await edge.ask("GET", one)).status == 404


@pytest.mark.parametrize("body", [None, {}, {"items": None, "metadata": None}])
async def test_a_conversation_needs_nothing(edge: RunningEdge, body: Object | None) -> None:
    answer = await edge.ask("POST", ALL, body)
    assert (answer.status, answer.json["metadata"]) == (200, {})
    page = (await edge.ask("GET", f"{ALL}/{answer.json['id']}/items")).json
    assert page == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


async def test_the_first_items_are_all_kept_in_their_order(edge: RunningEdge) -> None:
    texts = [f"seed {number}" for number in range(20)]
    conversation_id = await made(edge, *texts)
    assert [text_of(item) for item in await items_of(edge, conversation_id)] == texts
    start = await edge.store.begin_turn("default", TurnRequest(session_id=conversation_id, holder="turn"))
    assert [text_of(item) for item in loads(start.history.items)] == texts


async def test_items_are_answered_as_they_are_stored(edge: RunningEdge) -> None:
    conversation_id = await made(edge, "before")
    given: list[Object] = [
        words("häßlich 🦜 \u2028"),
        {"role": "assistant", "content": "said"},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "1"},
    ]
    answer = await edge.ask(
        "POST", f"{ALL}/{conversation_id}/items?include[]=reasoning.encrypted_content", {"items": given}
    )
    assert answer.status == 200
    page = answer.json
    assert set(page) == {"object", "data", "first_id", "last_id", "has_more"}
    assert (page["object"], page["has_more"]) == ("list", False)
    assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
    message, reply, call, result = page["data"]
    assert message == {
        "id": message["id"],
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": "häßlich 🦜 \u2028"}],
    }
    assert reply["content"] == [{"type": "output_text", "text": "said", "annotations": [], "logprobs": []}]
    assert [item["id"].split("_")[0] for item in page["data"]] == ["msg", "msg", "fc", "fco"]
    assert (call["call_id"], result["call_id"]) == ("call_1", "call_1")
    assert (await items_of(edge, conversation_id))[1:] == page["data"]


async def test_items_are_named_here_whatever_their_names_were(edge: RunningEdge) -> None:
    conversation_id = await made(edge)
    items = f"{ALL}/{conversation_id}/items"
    added = [
        (await edge.ask("POST", items, {"items": given})).json["data"]
        for given in ([words("a", id="msg_mine")], [words("b", id="msg_mine"), words("c", id="msg_mine")])
    ]
    found = await items_of(edge, conversation_id, limit=1)
    assert found == [*added[0], *added[1]]
    assert len({item["id"] for item in found} | {"msg_mine"}) == 4


async def test_an_item_that_was_taken_out_can_be_put_back(edge: RunningEdge) -> None:
    conversation_id = await made(edge, "a", "b")
    items = f"{ALL}/{conversation_id}/items"
    first = (await items_of(edge, conversation_id))[0]
    left = await edge.ask("DELETE", f"{items}/{first['id']}")
    assert left.json == (await edge.ask("GET", f"{ALL}/{conversation_id}")).json
    assert [text_of(item) for item in await items_of(edge, conversation_id)] == ["b"]
    assert (await edge.ask("DELETE", f"{items}/{first['id']}")).status == 200
    await edge.ask("POST", items, {"items": [first]})
    assert [text_of(item) for item in await items_of(edge, conversation_id)] == ["b", "a"]


async def test_one_item_is_read_by_its_id(edge: RunningEdge) -> None:
    conversation_id = await made(edge, "a", "b")
    items = f"{ALL}/{conversation_id}/items"
    for item in await items_of(edge, conversation_id):
        assert (await edge.ask("GET", f"{items}/{item['id']}?include=message.output_text.logprobs")).json == item
    for item_id in ("msg_unknown", "%F0%9F%A6%9C", "%FF", "%ED%A0%80", "a%2Fb"):
        for method in ("GET", "DELETE"):
            answer = await edge.ask(method, f"{items}/{item_id}")
            assert (answer.status, answer.error["type"]) == (404, "invalid_request_error")


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 7, 100])
async def test_pages_follow_one_another_to_the_end(edge: RunningEdge, order: str, limit: int) -> None:
    conversation_id = await made(edge, *[f"seed {number}" for number in range(5)])
    items = f"{ALL}/{conversation_id}/items"
    await turn(edge, conversation_id, "in_1", "in_2")
    await edge.ask("POST", items, {"items": [words("late")]})
    await turn(edge, conversation_id, "in_1", "in_3")
    seen: list[Object] = []
    pages = 0
    after: str | None = ""
    while after is not None:
        page = (await edge.ask("GET", f"{items}?order={order}&limit={limit}{after}")).json
        seen += page["data"]
        pages += 1
        after = f"&after={page['last_id']}" if page["has_more"] else None
    assert pages == -(-10 // limit)
    whole = (await edge.ask("GET", f"{items}?order={order}&limit=100")).json["data"]
    assert seen == whole
    said = [item["content"] if item["id"].startswith("in_") else text_of(item) for item in whole]
    expected = [*[f"seed {number}" for number in range(5)], "in_1", "in_2", "late", "in_1", "in_3"]
    assert said == (expected if order == "asc" else expected[::-1])


async def test_a_page_holds_the_newest_twenty_unless_told(edge: RunningEdge) -> None:
    conversation_id = await made(edge, *[str(number) for number in range(20)])
    await edge.ask("POST", f"{ALL}/{conversation_id}/items", {"items": [words("20")]})
    page = (await edge.ask("GET", f"{ALL}/{conversation_id}/items")).json
    assert [text_of(item) for item in page["data"]] == [str(number) for number in range(20, 0, -1)]
    assert page["has_more"] is True


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("limit=0", "limit", "integer_below_min_value"),
        ("limit=101", "limit", "integer_above_max_value"),
        ("limit=x", "limit", "invalid_type"),
        ("order=up", "order", "invalid_value"),
        ("after=msg_other", "after", "invalid_value"),
        ("after=", "after", "invalid_value"),
        ("after=%ED%A0%80", "after", "invalid_value"),
        ("include=nothing", "include", "invalid_value"),
    ],
)
async def test_bad_page_parameters_are_named(edge: RunningEdge, query: str, param: str, code: str) -> None:
    conversation_id = await made(edge, "a")
    answer = await edge.ask("GET", f"{ALL}/{conversation_id}/items?{query}")
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, code)


@pytest.mark.parametrize(
    ("suffix", "body", "param", "code"),
    [
        ("", {"items": [words("x")] * 21}, "items", "array_above_max_length"),
        ("", {"items": [words("x"), {"type": "no_such"}]}, "items[1].type", "invalid_value"),
        ("", {"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ("", {"title": "x"}, "title", "unknown_parameter"),
        ("", b'{"metadata": {"a": "\\ud800"}}', None, None),
        ("", b"[]", None, "invalid_type"),
        ("", b"{", None, None),
        ("/{id}", {}, "metadata", "missing_required_parameter"),
        ("/{id}", b"", None, None),
        ("/{id}/items", {"items": [words("x")] * 21}, "items", "array_above_max_length"),
        ("/{id}/items", {"items": []}, "items", "array_below_min_length"),
        ("/{id}/items", {"items": [{"role": "user"}]}, "items[0].content", "missing_required_parameter"),
        ("/{id}/items", {"items": [words("x", id=5)]}, "items[0].id", "invalid_type"),
    ],
)
async def test_bad_bodies_are_named_and_change_nothing(
    edge: RunningEdge, suffix: str, body: Any, param: str | None, code: str | None
) -> None:
    conversation_id = await made(edge, "a", metadata={"k": "v"})
    answer = await edge.ask("POST", ALL + suffix.format(id=conversation_id), body)
    assert answer.status == 400
    assert set(answer.error) == {"message", "type", "param", "code"}
    assert (answer.error["type"], answer.error["param"], answer.error["code"]) == ("invalid_request_error", param, code)
    assert (await edge.ask("GET", f"{ALL}/{conversation_id}")).json["metadata"] == {"k": "v"}
    assert [text_of(item) for item in await items_of(edge, conversation_id)] == ["a"]


ROUTES: list[tuple[str, str, Object | None]] = [
    ("GET", "", None),
    ("POST", "", {"metadata": {}}),
    ("DELETE", "", None),
    ("POST", "/items", {"items": [words("x")]}),
    ("GET", "/items", None),
    ("GET", "/items/msg_1", None),
    ("DELETE", "/items/msg_1", None),
]


@pytest.mark.parametrize(("method", "suffix", "body"), ROUTES)
@pytest.mark.parametrize("conversation_id", [UNKNOWN, "nonsense", "resp_" + "0" * 48, UNKNOWN.upper(), "%00", "conv_ü"])
async def test_unknown_conversations_are_not_found(
    edge: RunningEdge, method: str, suffix: str, body: Object | None, conversation_id: str
) -> None:
    answer = await edge.ask(method, f"{ALL}/{conversation_id}{suffix}", body)
    shown = conversation_id.replace("%00", "\x00")
    assert answer.status == 404
    assert answer.error == {
        "message": f"Conversation with id '{shown}' not found.",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


async def test_another_tenants_conversation_is_not_found_on_any_route() -> None:
    async with running_edge(tenants=True) as edge:
        mine, foreign = {TENANT_HEADER: "mine"}, {TENANT_HEADER: "other"}
        created = (await edge.ask("POST", ALL, {"items": [words("secret")]}, headers=mine)).json
        one = f"{ALL}/{created['id']}"
        (item,) = (await edge.ask("GET", one + "/items", headers=mine)).json["data"]
        for method, suffix, body in ROUTES:
            path = one + suffix.replace("msg_1", item["id"])
            answer = await edge.ask(method, path, body, headers=foreign)
            assert (answer.status, answer.error["message"]) == (
                404,
                f"Conversation with id '{created['id']}' not found.",
            )
        assert (await edge.ask("GET", one, headers=mine)).json == created
        assert (await edge.ask("GET", one + "/items", headers=mine)).json["data"] == [item]


async def test_no_items_are_added_while_a_turn_runs(edge: RunningEdge) -> None:
    conversation_id = await made(edge, "a")
    items = f"{ALL}/{conversation_id}/items"
    start = await edge.store.begin_turn("default", TurnRequest(session_id=conversation_id, holder="turn"))
    assert start.lease is not None
    answers = await asyncio.gather(*[edge.ask("POST", items, {"items": [words("b")]}) for _ in range(8)])
    for answer in answers:
        assert answer.status == 400
        assert answer.error == {
            "message": LOCKED,
            "type": "invalid_request_error",
            "param": "conversation",
            "code": "conversation_locked",
        }
    assert len(await items_of(edge, conversation_id)) == 1
    await edge.store.release_session("default", start.lease.fence)
    assert (await edge.ask("POST", items, {"items": [words("b")]})).status == 200
    assert [text_of(item) for item in await items_of(edge, conversation_id)] == ["a", "b"]


async def test_items_of_many_at_once_stay_together(edge: RunningEdge) -> None:
    conversation_id = await made(edge)
    items = f"{ALL}/{conversation_id}/items"
    batches = [[words(f"{number} {part}") for part in "abc"] for number in range(16)]
    answers = await asyncio.gather(*[edge.ask("POST", items, {"items": batch}) for batch in batches])
    assert {answer.status for answer in answers} == {200}
    found = await items_of(edge, conversation_id)
    assert len(found) == 48
    for start in range(0, 48, 3):
        numbers, parts = zip(*[text_of(item).split() for item in found[start : start + 3]], strict=True)
        assert (len(set(numbers)), parts) == (1, ("a", "b", "c"))


async def test_a_request_sent_again_under_its_key_is_done_once(edge: RunningEdge) -> None:
    key = {"Idempotency-Key": "create 1"}
    body = {"items": [words("a")], "metadata": {"k": "v"}}
    first, second = [(await edge.ask("POST", ALL, body, headers=key)).json for _ in range(2)]
    assert first == second
    items = f"{ALL}/{first['id']}/items"
    added, again = [
        (await edge.ask("POST", items, {"items": [words("b")]}, headers=key | {"Idempotency-Key": "add"})).json
        for _ in range(2)
    ]
    assert added == again
    assert [text_of(item) for item in await items_of(edge, first["id"])] == ["a", "b"]
    other = await made(edge)
    same_key = await edge.ask(
        "POST", f"{ALL}/{other}/items", {"items": [words("b")]}, headers={"Idempotency-Key": "add"}
    )
    assert same_key.json["first_id"] != added["first_id"]


async def test_a_key_of_another_request_is_refused(edge: RunningEdge) -> None:
    key = {"Idempotency-Key": "k"}
    created = (await edge.ask("POST", ALL, {"metadata": {"a": "1"}}, headers=key)).json
    items = f"{ALL}/{created['id']}/items"
    await edge.ask("POST", items, {"items": [words("a")]}, headers=key)
    for path, body in ((ALL, {"metadata": {"a": "2"}}), (items, {"items": [words("b")]})):
        answer = await edge.ask("POST", path, body, headers=key)
        assert (answer.status, answer.error["code"]) == (409, "idempotency_key_reused")
    assert len(await items_of(edge, created["id"])) == 1


async def test_what_became_too_long_to_be_read_says_so(edge: RunningEdge) -> None:
    conversation_id = await made(edge)
    for number in range(CHAIN_DEPTH_MAX + 1):
        await edge.store.add_conversation_items("default", conversation_id, dumps([words("x", id=f"m{number}")]))
    items = f"{ALL}/{conversation_id}/items"
    for method, path in (("GET", items), ("GET", items + "/m1"), ("DELETE", items + "/m1")):
        answer = await edge.ask(method, path)
        assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "limit_exceeded", None)
        assert answer.error["message"].startswith("This conversation is over the limit of 1000 responses")


async def test_what_was_added_is_referred_to_as_long_as_it_stands_there(edge: RunningEdge) -> None:
    conversation_id = await made(edge, "seed")
    items = f"{ALL}/{conversation_id}/items"
    (added,) = (await edge.ask("POST", items, {"items": [words("later")]})).json["data"]
    (seed, _later) = await items_of(edge, conversation_id)

    async def refer(item: Object) -> Answer:
        return await edge.create(input=[{"type": "item_reference", "id": item["id"]}], store=False)

    for item in (seed, added):
        assert (await refer(item)).status == 200
        assert loads(edge.translator.turns[-1].input) == [item]
    other = await made(edge)
    copied = await edge.ask("POST", f"{ALL}/{other}/items", {"items": [{"type": "item_reference", "id": added["id"]}]})
    assert [text_of(item) for item in copied.json["data"]] == ["later"]
    assert (await edge.ask("DELETE", f"{items}/{added['id']}")).status == 200
    assert (await refer(added)).status == 404
    assert (await refer(copied.json["data"][0])).status == 200
    assert (await edge.ask("DELETE", f"{ALL}/{conversation_id}")).status == 200
    missing = await refer(seed)
    assert (missing.status, missing.error["param"]) == (404, "input")


@pytest.mark.parametrize("output_id", [{"id": "c"}, {"call_id": "c"}, {"id": "other", "call_id": "c"}])
async def test_the_output_of_a_local_shell_stays_that_of_its_call(edge: RunningEdge, output_id: Object) -> None:
    call = {"type": "local_shell_call", "id": "c", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}}
    items = [call, {"type": "local_shell_call_output", "output": "a.txt", **output_id}]
    created = await edge.ask("POST", "/v1/conversations", {"items": items})
    body = {"model": "m", "input": "And?"}
    for more in ({"conversation": created.json["id"]}, {"input": [*items, {"role": "user", "content": "And?"}]}):
        answered = await edge.ask("POST", "/v1/responses", body | more)
        assert answered.status == 200, answered.body


async def test_the_output_of_a_local_shell_needs_the_id_of_its_call(edge: RunningEdge) -> None:
    refused = await edge.ask(
        "POST", "/v1/conversations", {"items": [{"type": "local_shell_call_output", "output": "a.txt"}]}
    )
    assert (refused.status, refused.error["code"]) == (400, "missing_required_parameter")
    assert refused.error["param"] == "items[0]"

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.edge import RunningEdge, running_edge

SESSION = {"x-antiphon-session": "mine"}


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge() as running:
        yield running


async def made(edge: RunningEdge, **members: Any) -> str:
    headers = {} if "conversation" in members else SESSION
    answer = await edge.ask("POST", "/v1/responses", {"model": "m", "input": "hi"} | members, headers=headers)
    assert answer.status == 200, answer.body
    return str(answer.json["id"])


async def listed(edge: RunningEdge, query: str) -> Any:
    answer = await edge.ask("GET", f"/v1/responses?{query}")
    assert answer.status == 200, answer.body
    return answer.json


async def test_the_responses_of_a_session_are_listed_page_by_page(edge: RunningEdge) -> None:
    ids = [await made(edge) for _ in range(3)]
    first = await listed(edge, "session=mine&limit=2")
    assert ([each["id"] for each in first["data"]], first["has_more"]) == ([ids[2], ids[1]], True)
    rest = await listed(edge, f"session=mine&limit=2&cursor={first['next_cursor']}")
    assert ([each["id"] for each in rest["data"]], rest["next_cursor"], rest["has_more"]) == ([ids[0]], None, False)
    whole = (await edge.ask("GET", f"/v1/responses/{ids[0]}")).json
    assert rest["data"] == [whole]


async def test_a_conversation_lists_its_turns_and_not_items_added_by_hand(edge: RunningEdge) -> None:
    conversation = (await edge.ask("POST", "/v1/conversations", {"items": [{"role": "user", "content": "x"}]})).json
    ids = [await made(edge, conversation=conversation["id"]) for _ in range(2)]
    body = {"items": [{"role": "user", "content": "y"}]}
    assert (await edge.ask("POST", f"/v1/conversations/{conversation['id']}/items", body)).status == 200
    page = await listed(edge, f"conversation={conversation['id']}&order=asc")
    assert [each["id"] for each in page["data"]] == ids


async def test_deleted_responses_are_not_listed(edge: RunningEdge) -> None:
    ids = [await made(edge) for _ in range(2)]
    await edge.ask("DELETE", f"/v1/responses/{ids[0]}")
    assert [each["id"] for each in (await listed(edge, "session=mine"))["data"]] == ids[1:]


async def test_unknown_session_lists_nothing_and_unknown_conversation_is_not_found(edge: RunningEdge) -> None:
    assert (await listed(edge, "session=other"))["data"] == []
    answer = await edge.ask("GET", "/v1/responses?conversation=conv_" + "0" * 48)
    assert answer.status == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("session=a&conversation=conv_1", "conversation"),
        ("session=a&session=b", "conversation"),
        ("session=a%20b", "session"),
        ("conversation=mine", "conversation"),
        ("session=mine&limit=0", "limit"),
        ("session=mine&order=up", "order"),
    ],
)
async def test_invalid_list_request_is_rejected_by_name(edge: RunningEdge, query: str, field: str) -> None:
    answer = await edge.ask("GET", f"/v1/responses?{query}")
    assert (answer.status, answer.error["param"]) == (400, field)


async def test_wrong_cursor_is_rejected(edge: RunningEdge) -> None:
    answer = await edge.ask("GET", "/v1/responses?session=mine&cursor=x")
    assert answer.status == 400

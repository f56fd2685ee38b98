"""The headers that name a session or a conversation, and the key of a retry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict
from yarl import URL

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import RandomIds, new_conversation_id
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.translator import Turn
from antiphon_edge.operations.parameters import SESSION
from antiphon_edge.routes.turn_headers import session_id_of
from tests.support.edge import RunningEdge
from tests.support.http import Answer

UNKNOWN = new_conversation_id(RandomIds())


def with_headers(*headers: tuple[str, str]) -> web.Request:
    return make_mocked_request("POST", "/", headers=CIMultiDict(headers))


async def ask(edge: RunningEdge, session_id: str, *, key: str | None = None, **members: Any) -> Answer:
    headers = {SESSION.name: session_id} | ({} if key is None else {"Idempotency-Key": key})
    return await edge.ask("POST", "/v1/responses", {"model": "m", "input": "hi"} | members, headers=headers)


async def made(edge: RunningEdge) -> str:
    return str((await edge.ask("POST", "/v1/conversations", {})).json["id"])


def history(edge: RunningEdge) -> list[Object]:
    """The history that the last turn continued."""
    items: list[Object] = loads(edge.translator.turns[-1].history)
    return items


async def test_a_session_begins_with_its_first_turn_and_goes_on(edge: RunningEdge) -> None:
    first = (await ask(edge, "mine", input="one")).json
    assert "conversation" not in first
    await ask(edge, "mine", input="two")
    assert [item["content"][0]["text"] for item in history(edge)] == ["one", "Hello there"]


@pytest.mark.parametrize("members", [{}, {"stream": True}, {"background": True}])
async def test_turn_in_an_unknown_or_deleted_conversation_is_rejected(edge: RunningEdge, members: Object) -> None:
    deleted = await made(edge)
    await edge.ask("DELETE", f"/v1/conversations/{deleted}")
    for conversation_id in (UNKNOWN, deleted):
        answer = await ask(edge, conversation_id, **members)
        assert answer.status == 404
        assert answer.error["message"] == f"Conversation with id '{conversation_id}' not found."
    assert edge.translator.turns == []
    assert not edge.backend.stored()


async def test_conversation_is_continued_and_named_in_its_responses(edge: RunningEdge) -> None:
    conversation_id = await made(edge)
    first = (await ask(edge, conversation_id, input="one")).json
    assert first["conversation"] == {"id": conversation_id}
    assert (await edge.ask("GET", f"/v1/responses/{first['id']}")).json == first
    await edge.create(conversation=conversation_id)
    assert [item["content"][0]["text"] for item in history(edge)] == ["one", "Hello there"]
    queued = (await ask(edge, conversation_id, background=True)).json
    assert queued["conversation"] == {"id": conversation_id}


@pytest.mark.parametrize("shape", [str, lambda conversation_id: {"id": conversation_id}])
async def test_header_and_body_may_name_the_same_conversation(edge: RunningEdge, shape: Any) -> None:
    conversation_id = await made(edge)
    first = await ask(edge, conversation_id, key="k", conversation=shape(conversation_id))
    assert first.json["conversation"] == {"id": conversation_id}
    assert (await ask(edge, conversation_id, key="k")).json == first.json


@pytest.mark.parametrize("session_id", [UNKNOWN, "mine"], ids=["a conversation's", "a session's"])
async def test_header_and_body_that_differ_are_rejected(edge: RunningEdge, session_id: str) -> None:
    answer = await ask(edge, session_id, conversation=await made(edge))
    assert (answer.status, answer.error["code"]) == (400, "mutually_exclusive_parameters")
    assert (answer.error["param"], edge.translator.turns) == ("conversation", [])


@pytest.mark.parametrize("session_id", ["conversation", "mine"])
@pytest.mark.parametrize("whole", [False, True])
async def test_previous_response_beside_a_session_is_rejected(edge: RunningEdge, session_id: str, whole: bool) -> None:
    named = await made(edge) if session_id == "conversation" else session_id
    first = (await edge.create()).json
    previous: Object = {"previous_response": first} if whole else {"previous_response_id": first["id"]}
    answer = await ask(edge, named, **previous)
    assert (answer.status, answer.error["code"]) == (400, "mutually_exclusive_parameters")


@pytest.mark.parametrize("session_id", ["", "a b", "x" * 129])
async def test_invalid_session_name_is_rejected(edge: RunningEdge, session_id: str) -> None:
    answer = await ask(edge, session_id)
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, SESSION.name, "invalid_value")


def test_two_session_headers_are_rejected() -> None:
    """A proxy in front may have used the other header."""
    assert session_id_of(with_headers((SESSION.name, "a"))) == "a"
    with pytest.raises(InvalidRequest) as caught:
        session_id_of(with_headers((SESSION.name, "a"), (SESSION.name, "a")))
    assert (caught.value.field, caught.value.code) == (SESSION.name, "invalid_value")


@pytest.mark.parametrize("session_id", ["conversation", "mine"])
async def test_input_tokens_of_a_session_include_its_history(edge: RunningEdge, session_id: str) -> None:
    named = await made(edge) if session_id == "conversation" else session_id
    counted: list[bytes] = []

    async def count(turn: Turn) -> int:
        counted.append(turn.history)
        return 1

    edge.translator.count_tokens = count  # type: ignore[method-assign]
    await ask(edge, named, input="one")
    body, headers = {"model": "m", "input": "two"}, {SESSION.name: named}
    assert (await edge.ask("POST", "/v1/responses/input_tokens", body, headers=headers)).status == 200
    assert [item["content"][0]["text"] for item in loads(counted[-1])] == ["one", "Hello there"]


async def test_input_tokens_of_a_new_session_have_no_history(edge: RunningEdge) -> None:
    body, headers = {"model": "m", "input": "hi"}, {SESSION.name: "new"}
    assert (await edge.ask("POST", "/v1/responses/input_tokens", body, headers=headers)).status == 200


async def test_input_tokens_after_a_deleted_last_response_say_why_they_are_not_counted(edge: RunningEdge) -> None:
    body, headers = {"model": "m", "input": "hi"}, {SESSION.name: "mine"}
    last = (await ask(edge, "mine", input="one")).json
    await edge.ask("DELETE", f"/v1/responses/{last['id']}")
    answer = await edge.ask("POST", "/v1/responses/input_tokens", body, headers=headers)
    assert (answer.status, answer.error["param"]) == (400, None)
    assert answer.error["message"].startswith("The last response of the session 'mine' was deleted")
    await ask(edge, "mine", input="two")
    assert [item["content"][0]["text"] for item in history(edge)] == ["one", "Hello there"]
    assert (await edge.ask("POST", "/v1/responses/input_tokens", body, headers=headers)).status == 200


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/input_tokens"])
@pytest.mark.parametrize("name", ["previous_response", "previous_response_id"])
async def test_the_error_names_the_member_that_a_session_excludes(edge: RunningEdge, path: str, name: str) -> None:
    first = (await edge.create()).json
    body = {"model": "m", "input": "hi", name: first["id"] if name.endswith("id") else first}
    answer = await edge.ask("POST", path, body, headers={SESSION.name: "mine"})
    assert (answer.status, answer.error["param"]) == (400, name)
    assert answer.error["message"].startswith(f"'{name}' and a session exclude each other")


async def test_key_that_is_no_utf_8_is_rejected(edge: RunningEdge) -> None:
    lines = [b"POST /v1/conversations HTTP/1.1", b"Host: localhost", b"Idempotency-Key: \xff", b"Connection: close"]
    address = URL(edge.server.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"\r\n".join([*lines, b"Content-Length: 0", b"", b""]))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"param":"Idempotency-Key"' in answer


async def test_reused_key_is_rejected_with_the_name_of_the_header(edge: RunningEdge) -> None:
    headers = {"Idempotency-Key": "k"}
    requests: dict[str, tuple[Object, Object]] = {
        "/v1/responses": ({"model": "m", "input": "hi"}, {"model": "m", "input": "bye"}),
        "/v1/conversations": ({"metadata": {"a": "1"}}, {"metadata": {"a": "2"}}),
    }
    for path, (body, other) in requests.items():
        assert (await edge.ask("POST", path, body, headers=headers)).status == 200
        rejected = await edge.ask("POST", path, other, headers=headers)
        assert (rejected.status, rejected.error["param"]) == (409, "Idempotency-Key")

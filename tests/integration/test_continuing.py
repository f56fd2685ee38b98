"""Continuing a background response: rejected on every route until the response has ended, and then with its whole
answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_edge.operations.parameters import SESSION
from tests.support.http import Answer, Http
from tests.support.in_process import worker
from tests.support.thinking_edges import Edges, thinking_edges
from tests.support.waiting import WAIT_MAX_S

ANSWER = "Rome, it is."


@pytest.fixture
async def edges() -> AsyncIterator[Edges]:
    async with thinking_edges(ANSWER) as running:
        yield running


async def has_status(http: Http, response_id: str, status: str) -> None:
    async with asyncio.timeout(WAIT_MAX_S):
        while (await http.get(f"/v1/responses/{response_id}")).json["status"] != status:
            await asyncio.sleep(0.01)


def behind(response_id: str, **members: Any) -> Object:
    return {"model": "m", "input": "And of Italy?", "previous_response_id": response_id} | members


Ask = Callable[[Http, str], Awaitable[Answer]]
WAYS: dict[str, Ask] = {
    "JSON": lambda http, id_: http.create(**behind(id_)),
    "stream": lambda http, id_: http.create(**behind(id_, stream=True)),
    "background": lambda http, id_: http.create(**behind(id_, background=True)),
    "not stored": lambda http, id_: http.create(**behind(id_, store=False)),
    "key": lambda http, id_: http.ask("POST", "/v1/responses", behind(id_), headers={"Idempotency-Key": "k"}),
    "count": lambda http, id_: http.post("/v1/responses/input_tokens", behind(id_)),
    "compact": lambda http, id_: http.post("/v1/responses/compact", {"model": "m", "previous_response_id": id_}),
}


def require_refused(answer: Answer, response_id: str, status: str, param: str = "previous_response_id") -> None:
    assert answer.status == 400, answer.body
    assert answer.error == {
        "type": "invalid_request_error",
        "code": "previous_response_not_ready",
        "param": param,
        "message": f"Response with id '{response_id}' is still {status}. Wait until it has ended, or cancel it, and "
        "continue it then.",
    }


@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
async def test_a_background_response_can_be_continued_only_after_it_ended(edges: Edges, ask: Ask) -> None:
    first = (await edges.create(input="Capital of Italy?", background=True))["id"]
    require_refused(await ask(edges.http, first), first, "queued")
    edges.engine.pause_at = 1
    async with worker(edges):
        await has_status(edges.http, first, "in_progress")
        require_refused(await ask(edges.http, first), first, "in_progress")
        edges.engine.go.set()
        await has_status(edges.http, first, "completed")
    answer = await ask(edges.http, first)
    assert answer.status == 200, answer.body


async def test_a_turn_behind_a_background_response_reads_its_whole_answer(edges: Edges) -> None:
    first = (await edges.create(input="Capital of Italy?", background=True))["id"]
    async with worker(edges):
        await has_status(edges.http, first, "completed")
    assert (await edges.http.create(**behind(first))).status == 200
    assert edges.prompt.index("Capital of Italy?") < edges.prompt.index(ANSWER) < edges.prompt.index("And of Italy?")


async def test_continuing_a_queued_response_over_a_websocket_is_an_error_event(edges: Edges) -> None:
    first = (await edges.create(input="Capital of Italy?", background=True))["id"]
    async with edges.http.session.ws_connect(edges.http.url + "/v1/responses") as socket:

        async def event() -> Object:
            told: Object = await socket.receive_json(timeout=WAIT_MAX_S)
            return told

        await socket.send_json({"type": "response.create"} | behind(first))
        refusal = await event()
        assert (refusal["type"], refusal["status"]) == ("error", 400)
        error = refusal["error"]
        assert (error["code"], error["param"]) == ("previous_response_not_ready", "previous_response_id")
        async with worker(edges):
            await has_status(edges.http, first, "completed")
        await socket.send_json({"type": "response.create"} | behind(first))
        while (told := await event())["type"] not in events.TERMINAL:
            pass
        assert told["response"]["status"] == "completed"
    assert ANSWER in edges.prompt


async def test_a_cancelled_response_can_be_continued(edges: Edges) -> None:
    first = (await edges.create(input="Capital of Italy?", background=True))["id"]
    assert (await edges.http.post(f"/v1/responses/{first}/cancel", {})).json["status"] == "cancelled"
    assert (await edges.http.create(**behind(first))).status == 200
    assert "Capital of Italy?" in edges.prompt
    assert ANSWER not in edges.prompt


async def test_a_fork_of_an_unfinished_response_is_rejected(edges: Edges) -> None:
    headers = {SESSION.name: "talk"}
    asked: Object = {"model": "m", "input": "One.", "background": True}
    first = (await edges.http.ask("POST", "/v1/responses", asked, headers=headers)).json["id"]
    fork: Object = {"up_to_response_id": first}
    require_refused(await edges.http.post("/v1/sessions/talk/fork", fork), first, "queued", "up_to_response_id")
    async with worker(edges):
        await has_status(edges.http, first, "completed")
    assert (await edges.http.post("/v1/sessions/talk/fork", fork)).json["head_id"] == first


async def test_a_turn_in_the_session_of_a_queued_response_is_rejected_as_locked(edges: Edges) -> None:
    headers = {SESSION.name: "talk"}
    asked: Object = {"model": "m", "input": "One.", "background": True}
    assert (await edges.http.ask("POST", "/v1/responses", asked, headers=headers)).status == 200
    answer = await edges.http.ask("POST", "/v1/responses", asked, headers=headers)
    assert (answer.status, answer.error["code"]) == (400, "conversation_locked")
